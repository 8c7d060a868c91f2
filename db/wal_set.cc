#include "db/wal_set.h"

#include <utility>

#include "db/file_names.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Of one that waits to be used again: nobody who finds the directory without its MANIFEST
// takes it for one that is needed, and it is deleted when the database is opened.
std::string ReusableFileName(const std::string& db_path, uint64_t number) {
  return WalFileName(db_path, number) + ".tmp";
}

}  // namespace

WalSet::WalSet(FileSystem* file_system, std::string db_path, uint64_t preallocate_bytes)
    : file_system_(file_system),
      db_path_(std::move(db_path)),
      preallocate_bytes_(preallocate_bytes) {}

absl::StatusOr<std::unique_ptr<WritableFile>> WalSet::NewFile(uint64_t number) {
  const std::string path = WalFileName(db_path_, number);
  uint64_t reused = 0;
  {
    MutexLock lock(&mu_);
    if (!reusable_.empty()) {
      reused = reusable_.back();
      reusable_.pop_back();
    }
  }
  auto opened = reused == 0
                    ? file_system_->NewWritableFile(path)
                    : file_system_->ReuseWritableFile(path, ReusableFileName(db_path_, reused));
  // A file that cannot be reused is no loss: a new one is made, and the old one is
  // deleted when the database is opened next.
  if (!opened.ok() && reused != 0) opened = file_system_->NewWritableFile(path);
  SIEVEDB_ASSIGN_OR_RETURN(auto file, std::move(opened));
  // On a disk that has not so much room there may still be enough for what is
  // written, which may be deletions.
  const absl::Status reserved = file->Preallocate(preallocate_bytes_);
  if (!reserved.ok() && !absl::IsResourceExhausted(reserved)) return reserved;
  return file;
}

absl::Status WalSet::Switch(uint64_t number) {
  SIEVEDB_ASSIGN_OR_RETURN(auto file, NewFile(number));
  LogPredecessor predecessor = predecessor_;
  if (current_ != nullptr && current_->size() > kLogHeaderBytes) {
    predecessor = {current_->file_number(), current_->size()};
  }
  SIEVEDB_ASSIGN_OR_RETURN(auto next, LogWriter::Create(std::move(file), LogKind::kWal, number,
                                                        predecessor, file_system_->BootId()));
  if (current_ != nullptr) {
    MutexLock lock(&mu_);
    old_.push_back({current_->file_number(), std::move(current_)});
  }
  current_ = std::move(next);
  predecessor_ = predecessor;
  directory_synced_ = false;
  return absl::OkStatus();
}

absl::Status WalSet::Append(std::string_view record) { return current_->AddRecord(record); }

absl::Status WalSet::Sync() {
  {
    MutexLock lock(&mu_);
    for (Old& old : old_) {
      if (old.writer == nullptr) continue;
      SIEVEDB_RETURN_IF_ERROR(old.writer->Sync());
      SIEVEDB_RETURN_IF_ERROR(old.writer->Close());
      old.writer = nullptr;
    }
  }
  if (!directory_synced_) {
    SIEVEDB_RETURN_IF_ERROR(file_system_->SyncDirectory(db_path_));
    directory_synced_ = true;
  }
  return current_->Sync();
}

void WalSet::RemoveBelow(uint64_t number) {
  MutexLock lock(&mu_);
  size_t kept = 0;
  for (Old& old : old_) {
    if (old.number >= number) {
      old_[kept++] = std::move(old);
      continue;
    }
    const bool closed_now = old.writer != nullptr;
    // Its content is in tables already, so nothing hangs on this close.
    if (closed_now) old.writer->Close().IgnoreError();
    old.writer = nullptr;
    const std::string path = WalFileName(db_path_, old.number);
    if (closed_now && reusable_.size() < kMaxReusable &&
        file_system_->RenameFile(path, ReusableFileName(db_path_, old.number)).ok()) {
      reusable_.push_back(old.number);
    } else {
      // One that stays is deleted when the database is opened next.
      file_system_->DeleteFile(path).IgnoreError();
    }
  }
  old_.resize(kept);
}

absl::Status WalSet::Close(bool sync) {
  absl::Status status;
  if (current_ != nullptr) {
    if (sync) status = Sync();
    status.Update(current_->Close());
    current_ = nullptr;
  }
  MutexLock lock(&mu_);
  for (Old& old : old_) {
    if (old.writer != nullptr) status.Update(old.writer->Close());
  }
  old_.clear();
  for (const uint64_t number : reusable_) {
    file_system_->DeleteFile(ReusableFileName(db_path_, number)).IgnoreError();
  }
  reusable_.clear();
  return status;
}

}  // namespace sievedb
