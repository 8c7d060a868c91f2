#ifndef SIEVEDB_TESTS_FAULT_FILE_SYSTEM_H_
#define SIEVEDB_TESTS_FAULT_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/file_system.h"

namespace sievedb {

// The operations that are counted and can be made to fail.
enum class FileOp {
  kOpenForReading,
  kRead,
  kCreate,  // NewWritableFile
  kReuse,   // ReuseWritableFile; its path is the new one
  kAppend,
  kSync,
  kPreallocate,
  kClose,
  kGetChildren,
  kFileExists,
  kFileSize,
  kCreateDirectory,
  kDeleteDirectory,
  kDeleteFile,
  kRename,  // its path is the old one
  kLink,    // its path is the new one
  kSyncDirectory,
  kLock,
  kFreeSpace,
};
inline constexpr int kFileOps = 19;

// What a crash of the machine leaves of what was not synced.
enum class CrashMode {
  kLoseUnsynced,  // nothing: files and directories are as at their last sync
  kKeepUnsynced,  // everything: as after the death of the process
  kTornUnsynced,  // every name, and a random prefix of each file's unsynced bytes
  kHoles,         // every name, and of each file's unsynced bytes each 512 that begin
                  // at a multiple of it or not; the rest is what was there, or zeros
  kRandom,        // a random prefix of the unsynced names; of each file nothing, a
                  // prefix (perhaps with zeros up to its size), some of its sectors,
                  // or everything
};

// A file system that fails on demand, and that can say what a crash would leave.
//
// Everything goes on to a base. Beside it this keeps, of each file, the bytes as
// of its last Sync, and of the names, those as of the last SyncDirectory.
//
//  - A failing Append has written the first half of its data, as on a full disk.
//  - After a failing Sync what was unsynced then is never made safe by a later
//    one, though that succeeds: so do kernels.
//  - A failing Close has closed the file. All else that fails has done nothing.
//  - After PowerOff every operation fails and nothing changes any more.
//  - Readahead and StartWriteback never fail and are no operations.
//
// Threads: safe. Files may outlive it.
class FaultFileSystem : public FileSystem {
 public:
  // Above a new, empty memory file system.
  FaultFileSystem();
  // Above base; what lies in root (a directory of base) counts as synced. Only
  // what lies there can be used with CrashClone.
  FaultFileSystem(std::shared_ptr<FileSystem> base, const std::string& root);
  ~FaultFileSystem() override;

  // True where the operation shall fail. Called under a lock: it must not call the
  // file system.
  using Predicate = std::function<bool(FileOp op, std::string_view path)>;
  enum class Repeat { kOnce, kAlways };

  // The n-th operation from now (1 is the next) fails; with kAlways, and every
  // later one.
  void FailNth(uint64_t n, absl::Status status, Repeat repeat = Repeat::kOnce);
  void FailWhen(Predicate predicate, absl::Status status, Repeat repeat = Repeat::kOnce);
  // The next op on a path that contains part (every path where it is empty).
  void Fail(FileOp op, std::string_view part, absl::Status status, Repeat repeat = Repeat::kOnce);
  void ClearFaults();

  // The machine stops at the n-th operation from now (1 is the next), which is not
  // done. at_crash is called at that moment, under a lock: it must not call the
  // file system.
  void PowerOffAtNth(uint64_t n, std::function<void()> at_crash);
  bool is_off() const;

  uint64_t operations() const;  // so far
  uint64_t operations(FileOp op) const;
  uint64_t readaheads() const;
  uint64_t faults() const;  // operations that were made to fail

  // What a crash now would leave, as a new memory file system without locks. The
  // same state, mode and seed give the same clone.
  std::shared_ptr<FileSystem> CrashClone(CrashMode mode, uint64_t seed) const;

  // What the death of the process now would leave: all that was written, without
  // locks or faults. Unlike in a CrashClone, what is not synced yet can still be
  // lost by a crash of the machine.
  std::shared_ptr<FaultFileSystem> AfterProcessDeath() const;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(
      const std::string& path, const std::string& old_path) override;
  absl::StatusOr<std::vector<std::string>> GetChildren(const std::string& directory) override;
  absl::StatusOr<bool> FileExists(const std::string& path) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status DeleteDirectory(const std::string& path) override;
  absl::Status DeleteFile(const std::string& path) override;
  absl::Status RenameFile(const std::string& from, const std::string& to) override;
  absl::Status LinkFile(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& directory) override;
  absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) override;
  // The same after the death of the process, another one in a CrashClone.
  uint64_t BootId() override;
  // The base's, until another is set: 0 makes databases as they were before they had a
  // seed.
  uint64_t RandomSeed() override;
  void SetRandomSeed(uint64_t seed);

 private:
  class ReadFile;
  class WriteFile;
  struct State;
  std::shared_ptr<State> state_;  // shared with the files
};

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_FAULT_FILE_SYSTEM_H_
