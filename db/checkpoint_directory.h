#ifndef SIEVEDB_DB_CHECKPOINT_DIRECTORY_H_
#define SIEVEDB_DB_CHECKPOINT_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/version_edit.h"
#include "sievedb/file_system.h"

namespace sievedb {

// A directory that becomes a database all at once. Until Commit it has another name, of
// which nothing is left where it does not come to that; a crash may leave it, and the
// next one for the same directory takes its place.
//
// Threads: not safe for concurrent use. Of two for one directory, also in two processes,
// the second is refused.
class CheckpointDirectory {
 public:
  // Errors: kAlreadyExists where dir is there, or its temporary name leads to a directory
  // with something else in it; kFailedPrecondition where another one is being made.
  static absl::StatusOr<CheckpointDirectory> Begin(FileSystem* file_system, const std::string& dir);

  CheckpointDirectory(CheckpointDirectory&& other) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&&) = delete;
  ~CheckpointDirectory();

  // Where tables are to be put, synced, before Commit.
  const std::string& path() const { return temporary_; }

  // Adds a MANIFEST of the snapshot, which counts on from its next file number, and gives
  // the directory its name. On return it survives the death of the machine; after an error
  // it is there as a whole or not at all.
  absl::Status Commit(VersionEdit snapshot);

 private:
  CheckpointDirectory(FileSystem* file_system, std::string dir)
      : file_system_(file_system), dir_(std::move(dir)), temporary_(dir_ + ".tmp") {}
  absl::Status Lock();
  absl::Status Clear();
  void Remove();

  FileSystem* const file_system_;
  const std::string dir_;
  const std::string temporary_;
  std::unique_ptr<FileLock> lock_;  // null: nothing to remove
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_CHECKPOINT_DIRECTORY_H_
