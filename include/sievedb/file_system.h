#ifndef SIEVEDB_FILE_SYSTEM_H_
#define SIEVEDB_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/export.h"

namespace sievedb {

// The seam through which all I/O of a database goes. Users may wrap or replace
// it (Options::file_system).
//
// Errors everywhere: kNotFound where a file or directory is missing,
// kResourceExhausted where the disk (or quota) is full, kFailedPrecondition
// where a lock is held, otherwise kUnavailable (EIO, EMFILE, EAGAIN …),
// kInternal or kUnknown. Messages name the operation, the path and errno's text.

// A file that is read at any offset. Threads: safe.
class SIEVEDB_EXPORT RandomAccessFile {
 public:
  virtual ~RandomAccessFile();

  // Reads up to n bytes at offset. *result is what was read, shorter than n only
  // at the end of the file; it points into scratch (n bytes, the caller's) or
  // into memory that lives as long as the file.
  virtual absl::Status Read(uint64_t offset, size_t n, char* scratch,
                            std::string_view* result) const = 0;

  // Tells the kernel that [offset, offset + n) will be read soon. May do nothing.
  virtual void Readahead(uint64_t offset, size_t n) const;
};

// A file that is appended to. Threads: not safe for concurrent use.
class SIEVEDB_EXPORT WritableFile {
 public:
  virtual ~WritableFile();  // closes; an error is then lost

  // Hands data to the operating system: it survives the death of the process,
  // not that of the machine. Unbuffered: callers gather small pieces.
  virtual absl::Status Append(std::string_view data) = 0;

  // Makes all that was appended survive the death of the machine. After an error
  // nothing more can be known of the file; it must be given up.
  virtual absl::Status Sync() = 0;

  // Starts writing appended bytes back without waiting (sync_file_range). May do
  // nothing; errors show at Sync.
  virtual void StartWriteback();

  // Reserves disk space for bytes from the file's start and prepares for many small
  // appends to them; those need no system call then, where the file system can do
  // it. Until Close, and for good where the process dies before, the file may be as
  // long as that, with zeros (or what was there) behind what was appended: its
  // reader must tell the end by itself. kResourceExhausted where there is no space;
  // OK where the file system has no such thing.
  virtual absl::Status Preallocate(uint64_t bytes);

  // Idempotent; cuts the file behind what was appended.
  virtual absl::Status Close() = 0;
};

// A lock on a file, held until destroyed.
class SIEVEDB_EXPORT FileLock {
 public:
  virtual ~FileLock();
};

// Threads: safe.
class SIEVEDB_EXPORT FileSystem {
 public:
  virtual ~FileSystem();

  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) = 0;

  // The same, where it can be, mapped into memory: a read makes no system call and
  // copies nothing. Where the disk fails to give what is mapped, or somebody cuts the
  // file short, the process gets a SIGBUS instead of an error. The default is
  // NewRandomAccessFile.
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewMappedFile(const std::string& path);

  // Creates path, or truncates it.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(
      const std::string& path) = 0;

  // Renames old_path to path and opens it for writing from its start without
  // truncating it: what is not overwritten still holds old bytes, and its blocks
  // stay allocated. Readers must tell old bytes from new.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(
      const std::string& path, const std::string& old_path) = 0;

  virtual absl::StatusOr<std::vector<std::string>> GetChildren(
      const std::string& directory) = 0;  // names, unsorted, without . and ..
  virtual absl::StatusOr<bool> FileExists(const std::string& path) = 0;
  virtual absl::StatusOr<uint64_t> FileSize(const std::string& path) = 0;
  virtual absl::Status CreateDirectory(const std::string& path) = 0;  // OK where it exists
  virtual absl::Status DeleteDirectory(const std::string& path) = 0;  // must be empty
  virtual absl::Status DeleteFile(const std::string& path) = 0;
  virtual absl::Status RenameFile(const std::string& from, const std::string& to) = 0;
  // Gives the file from a second name, to, which must not exist, and makes its bytes
  // survive the death of the machine; the name does so after SyncDirectory. An error
  // has done nothing: kUnimplemented where the file system can't, or the two lie on
  // different ones.
  virtual absl::Status LinkFile(const std::string& from, const std::string& to);
  // Makes creations, renames and deletions in directory survive the death of the
  // machine.
  virtual absl::Status SyncDirectory(const std::string& directory) = 0;

  // Creates path where missing and locks it against other processes and other
  // opens of this one. kFailedPrecondition where it is held; the message names
  // the path and the holder's pid where known.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) = 0;

  virtual absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) = 0;

  // A number that is another one each time the machine was started, so that
  // recovery can tell what a crash of the machine leaves from damage. 0: not known;
  // bytes that are missing then count as damage.
  virtual uint64_t BootId();

  // A number that nobody can guess. A new database takes the seed of its filters'
  // hashes from it, so that no keys can be chosen to collide there. One that returns a
  // constant makes databases the same from run to run, for tests.
  virtual uint64_t RandomSeed();
};

// The operating system's files.
SIEVEDB_EXPORT std::shared_ptr<FileSystem> PosixFileSystem();

// A file system that lives in memory and dies with its last reference. Its RandomSeed
// is a constant.
SIEVEDB_EXPORT std::shared_ptr<FileSystem> NewMemoryFileSystem();

}  // namespace sievedb

#endif  // SIEVEDB_FILE_SYSTEM_H_
