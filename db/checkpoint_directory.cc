#include "db/checkpoint_directory.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "db/manifest_file.h"
#include "util/file_util.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

std::string WithoutSlash(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

}  // namespace

absl::StatusOr<CheckpointDirectory> CheckpointDirectory::Begin(FileSystem* file_system,
                                                               const std::string& dir) {
  CheckpointDirectory checkpoint(file_system, WithoutSlash(dir));
  SIEVEDB_RETURN_IF_ERROR(checkpoint.Lock());
  return checkpoint;
}

CheckpointDirectory::CheckpointDirectory(CheckpointDirectory&& other) noexcept
    : file_system_(other.file_system_),
      dir_(other.dir_),
      temporary_(other.temporary_),
      lock_(std::move(other.lock_)) {}

CheckpointDirectory::~CheckpointDirectory() {
  if (lock_ != nullptr) Remove();
}

absl::Status CheckpointDirectory::Lock() {
  SIEVEDB_RETURN_IF_ERROR(file_system_->CreateDirectory(temporary_));
  SIEVEDB_ASSIGN_OR_RETURN(lock_, file_system_->LockFile(LockFileName(temporary_)));
  // Behind the lock: whoever had it until now may just have made it.
  SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system_->FileExists(dir_));
  if (exists) return absl::AlreadyExistsError(dir_ + ": is there already");
  return Clear();
}

// Of one that a crash cut off.
absl::Status CheckpointDirectory::Clear() {
  SIEVEDB_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           file_system_->GetChildren(temporary_));
  for (const std::string& name : names) {
    if (!ParseFileName(name).has_value()) {
      lock_ = nullptr;
      return absl::AlreadyExistsError(
          absl::StrFormat("%s, where a checkpoint is made before it gets its name, is there "
                          "already, with %s in it",
                          temporary_, name));
    }
  }
  for (const std::string& name : names) {
    const std::string path = temporary_ + "/" + name;
    if (path != LockFileName(temporary_)) {
      SIEVEDB_RETURN_IF_ERROR(file_system_->DeleteFile(path));
    }
  }
  return absl::OkStatus();
}

// What stays is taken over by the next one for the same directory.
void CheckpointDirectory::Remove() {
  const absl::StatusOr<std::vector<std::string>> names = file_system_->GetChildren(temporary_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    // The lock last: until it is gone nobody else may begin.
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (parsed.has_value() && parsed->kind != FileKind::kLock) {
      file_system_->DeleteFile(temporary_ + "/" + name).IgnoreError();
    }
  }
  file_system_->DeleteFile(LockFileName(temporary_)).IgnoreError();
  file_system_->DeleteDirectory(temporary_).IgnoreError();
}

absl::Status CheckpointDirectory::Commit(VersionEdit snapshot) {
  const uint64_t manifest_number = snapshot.next_file_number.value_or(1);
  snapshot.next_file_number = manifest_number + 1;
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<LogWriter> manifest,
                           BeginManifest(file_system_, temporary_, manifest_number, snapshot));
  SIEVEDB_RETURN_IF_ERROR(manifest->Close());
  SIEVEDB_RETURN_IF_ERROR(file_system_->SyncDirectory(temporary_));
  SIEVEDB_RETURN_IF_ERROR(file_system_->RenameFile(temporary_, dir_));
  lock_ = nullptr;
  return file_system_->SyncDirectory(ParentDirectory(dir_));
}

}  // namespace sievedb
