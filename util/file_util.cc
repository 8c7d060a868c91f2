#include "util/file_util.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "util/epoch.h"
#include "util/mutex.h"
#include "util/status_macros.h"

namespace sievedb {

absl::StatusOr<std::string> ReadWholeFile(FileSystem* file_system, const std::string& path) {
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system->FileSize(path));
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file,
                           file_system->NewRandomAccessFile(path));
  std::string contents(bytes, '\0');
  // A read may be shorter than asked for only at the end of the file, and the file
  // may be shorter by now than its size was.
  std::string_view got;
  SIEVEDB_RETURN_IF_ERROR(file->Read(0, contents.size(), contents.data(), &got));
  if (got.data() != contents.data() && !got.empty()) {
    std::memcpy(contents.data(), got.data(), got.size());
  }
  contents.resize(got.size());
  return contents;
}

namespace {

absl::Status ForEachPiece(FileSystem* file_system, const std::string& path,
                          absl::FunctionRef<absl::Status(std::string_view piece)> fn) {
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t file_bytes, file_system->FileSize(path));
  SIEVEDB_ASSIGN_OR_RETURN(const auto file, file_system->NewRandomAccessFile(path));
  std::string scratch(std::min<uint64_t>(kFilePieceBytes, file_bytes), '\0');
  for (uint64_t at = 0; at < file_bytes;) {
    const size_t n = std::min<uint64_t>(scratch.size(), file_bytes - at);
    std::string_view piece;
    SIEVEDB_RETURN_IF_ERROR(file->Read(at, n, scratch.data(), &piece));
    if (piece.size() != n) {
      return absl::DataLossError(
          absl::StrFormat("%s, offset %d: expected %d bytes, found %d", path, at, n, piece.size()));
    }
    SIEVEDB_RETURN_IF_ERROR(fn(piece));
    at += n;
  }
  return absl::OkStatus();
}

absl::Status WriteSyncedFile(FileSystem* file_system, const std::string& path,
                             std::string_view contents) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                           file_system->NewWritableFile(path));
  SIEVEDB_RETURN_IF_ERROR(file->Append(contents));
  SIEVEDB_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

absl::Status WriteFileAtomically(FileSystem* file_system, const std::string& directory,
                                 const std::string& name, std::string_view contents) {
  SIEVEDB_RETURN_IF_ERROR(
      ReplaceFile(file_system, directory, name, contents, [] { return absl::OkStatus(); }));
  return file_system->SyncDirectory(directory);
}

absl::Status ReplaceFile(FileSystem* file_system, const std::string& directory,
                         const std::string& name, std::string_view contents,
                         absl::FunctionRef<absl::Status()> before_rename) {
  const std::string path = directory + "/" + name;
  const std::string temporary = path + ".tmp";
  absl::Status status = WriteSyncedFile(file_system, temporary, contents);
  if (status.ok()) status = before_rename();
  if (status.ok()) status = file_system->RenameFile(temporary, path);
  if (!status.ok()) {
    // It is of no use to anyone; the error that counts is the first.
    file_system->DeleteFile(temporary).IgnoreError();
  }
  return status;
}

std::string ParentDirectory(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return std::string(path.substr(0, std::max<size_t>(slash, 1)));
}

absl::Status CopyFile(FileSystem* file_system, const std::string& from, const std::string& to,
                      const CopyOptions& options) {
  return CopyFile(file_system, from, to, options, [](std::string_view) {});
}

absl::Status CopyFile(FileSystem* file_system, const std::string& from, const std::string& to,
                      const CopyOptions& options,
                      absl::FunctionRef<void(std::string_view piece)> observe) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto file, file_system->NewWritableFile(to));
  const auto add = [&](std::string_view piece) -> absl::Status {
    if (options.rate_limiter != nullptr) {
      options.rate_limiter->Request(static_cast<int64_t>(piece.size()),
                                    RateLimiter::Priority::kLow);
    }
    SIEVEDB_RETURN_IF_ERROR(file->Append(piece));
    if (options.start_writeback) file->StartWriteback();
    observe(piece);
    return absl::OkStatus();
  };
  SIEVEDB_RETURN_IF_ERROR(ForEachPiece(file_system, from, add));
  SIEVEDB_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::Status ReadFileInPieces(FileSystem* file_system, const std::string& path,
                              absl::FunctionRef<void(std::string_view piece)> observe) {
  return ForEachPiece(file_system, path, [&](std::string_view piece) {
    observe(piece);
    return absl::OkStatus();
  });
}

absl::Status LinkOrCopyFile(FileSystem* file_system, const std::string& from, const std::string& to,
                            const CopyOptions& options) {
  const absl::Status linked = file_system->LinkFile(from, to);
  return absl::IsUnimplemented(linked) ? CopyFile(file_system, from, to, options) : linked;
}

absl::StatusOr<bool> HaveSameContents(FileSystem* file_system, const std::string& a,
                                      const std::string& b) {
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system->FileSize(a));
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t other_bytes, file_system->FileSize(b));
  if (bytes != other_bytes) return false;
  SIEVEDB_ASSIGN_OR_RETURN(const auto file_a, file_system->NewRandomAccessFile(a));
  SIEVEDB_ASSIGN_OR_RETURN(const auto file_b, file_system->NewRandomAccessFile(b));
  std::string scratch_a(std::min<uint64_t>(kFilePieceBytes, bytes), '\0');
  std::string scratch_b = scratch_a;
  for (uint64_t at = 0; at < bytes; at += kFilePieceBytes) {
    std::string_view piece_a;
    std::string_view piece_b;
    SIEVEDB_RETURN_IF_ERROR(file_a->Read(at, scratch_a.size(), scratch_a.data(), &piece_a));
    SIEVEDB_RETURN_IF_ERROR(file_b->Read(at, scratch_b.size(), scratch_b.data(), &piece_b));
    if (piece_a != piece_b) return false;
  }
  return true;
}

// The files that are open, in a ring that a hand goes round (CLOCK): the first that
// was not read since the hand last passed it is closed.
struct OpenFileLimiter::Rep {
  std::shared_ptr<FileSystem> file_system;
  size_t limit = 0;  // 0: none
  bool mapped = false;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenNow(const std::string& path) const {
    return mapped ? file_system->NewMappedFile(path) : file_system->NewRandomAccessFile(path);
  }

  Mutex mu;
  std::vector<const LimitedFile*> ring ABSL_GUARDED_BY(mu);
  size_t hand ABSL_GUARDED_BY(mu) = 0;

  // Makes room for one more, and takes out the files that are to be closed.
  void MakeRoom(std::vector<RandomAccessFile*>* closed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Add(const LimitedFile* file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void RemoveAt(size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
};

// A file that is open, or would be. Reading an open one takes no lock: the pointer is
// read under an EpochGuard, and what is closed is retired.
class OpenFileLimiter::LimitedFile final : public RandomAccessFile {
 public:
  LimitedFile(Rep* rep, std::string path) : rep_(rep), path_(std::move(path)) {}

  // Requires: nobody reads it any more, as for every file.
  ~LimitedFile() override {
    std::unique_ptr<RandomAccessFile> file;
    const MutexLock lock(&rep_->mu);
    file.reset(open_.exchange(nullptr, std::memory_order_acquire));
    if (file != nullptr) rep_->RemoveAt(slot_);
  }

  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    const EpochGuard guard;
    // Acquire: the file was made before it was put here.
    RandomAccessFile* file = open_.load(std::memory_order_acquire);
    if (file == nullptr) [[unlikely]] {
      *result = {};
      SIEVEDB_ASSIGN_OR_RETURN(file, EnsureOpen());
    }
    // Written only where it changes, so that readers share the line.
    if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
    SIEVEDB_RETURN_IF_ERROR(file->Read(offset, n, scratch, result));
    // Memory of the file's own ends with the file, which may be closed after this.
    if (!result->empty() && result->data() != scratch) [[unlikely]] {
      std::memcpy(scratch, result->data(), result->size());
      *result = std::string_view(scratch, result->size());
    }
    return absl::OkStatus();
  }

  void Readahead(uint64_t offset, size_t n) const override {
    const EpochGuard guard;
    // Only a hint: a closed file is not opened for it.
    const RandomAccessFile* const file = open_.load(std::memory_order_acquire);
    if (file != nullptr) file->Readahead(offset, n);
  }

  // The file, open. It stays so while the caller's EpochGuard lives.
  absl::StatusOr<RandomAccessFile*> EnsureOpen() const;

 private:
  friend struct OpenFileLimiter::Rep;

  Rep* const rep_;
  const std::string path_;
  // Mutable: opening and closing it is not seen from outside.
  mutable std::atomic<RandomAccessFile*> open_{nullptr};  // owned; changed under rep_->mu
  mutable std::atomic<bool> used_{false};                 // since the hand passed
  mutable size_t slot_ = 0;                               // in the ring; under rep_->mu
};

absl::StatusOr<RandomAccessFile*> OpenFileLimiter::LimitedFile::EnsureOpen() const {
  // Opened outside the lock: a slow disk holds up the readers of this file alone.
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> opened, rep_->OpenNow(path_));
  std::vector<RandomAccessFile*> closed;
  RandomAccessFile* file;
  {
    const MutexLock lock(&rep_->mu);
    file = open_.load(std::memory_order_relaxed);
    if (file == nullptr) {
      rep_->MakeRoom(&closed);
      rep_->Add(this);
      file = opened.release();
      open_.store(file, std::memory_order_release);
    }  // else another reader was faster, and ours is closed below
  }
  // Without the lock: freeing what others retired may destroy limited files.
  for (RandomAccessFile* old : closed) {
    EpochRetire(old, [](void* object) { delete static_cast<RandomAccessFile*>(object); });
  }
  return file;
}

void OpenFileLimiter::Rep::MakeRoom(std::vector<RandomAccessFile*>* closed) {
  size_t passed = 0;
  while (ring.size() >= limit) {
    if (hand >= ring.size()) hand = 0;
    const LimitedFile* const file = ring[hand];
    // Readers may set the mark again and again, but one round clears all and the
    // next finds one that is clear, unless every file was read meanwhile: then any
    // will do, and the hand has moved on from the last one closed.
    if (file->used_.exchange(false, std::memory_order_relaxed) && ++passed <= 2 * ring.size()) {
      ++hand;
      continue;
    }
    closed->push_back(file->open_.exchange(nullptr, std::memory_order_acq_rel));
    RemoveAt(hand);
  }
}

void OpenFileLimiter::Rep::Add(const LimitedFile* file) {
  file->slot_ = ring.size();
  ring.push_back(file);
}

void OpenFileLimiter::Rep::RemoveAt(size_t slot) {
  ring[slot] = ring.back();
  ring[slot]->slot_ = slot;
  ring.pop_back();
}

OpenFileLimiter::OpenFileLimiter(std::shared_ptr<FileSystem> file_system, int limit, bool mapped)
    : rep_(std::make_unique<Rep>()) {
  rep_->file_system = std::move(file_system);
  rep_->limit = static_cast<size_t>(std::max(limit, 0));
  rep_->mapped = mapped;
}

OpenFileLimiter::~OpenFileLimiter() = default;

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenFileLimiter::Open(const std::string& path) {
  if (rep_->limit == 0) return rep_->OpenNow(path);
  auto file = std::make_unique<LimitedFile>(rep_.get(), path);
  // No guard: the pointer is not used, and what is closed for it can go at once.
  SIEVEDB_RETURN_IF_ERROR(file->EnsureOpen().status());
  return file;
}

}  // namespace sievedb
