#ifndef SIEVEDB_DB_WAL_SET_H_
#define SIEVEDB_DB_WAL_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/log_writer.h"
#include "sievedb/file_system.h"
#include "util/mutex.h"

namespace sievedb {

// The WALs of a database: the one that is written, and older ones that are still
// needed because their memtables are not flushed yet.
//
// A WAL that is no longer needed is kept, a few of them, and renamed to become the
// next one (until then its name ends in .tmp): its disk space is allocated already. That is safe
// because records are seeded by the file's number, and because it happens only after the MANIFEST
// that makes it unneeded is synced and its handle is closed.
//
// Threads: Append, Sync and Switch from the commit path, one at a time; the rest
//          from anywhere.
// Invariant: a record is synced only after everything before it, in older WALs
//            too, so that a crash leaves a prefix.
class WalSet {
 public:
  WalSet(FileSystem* file_system, std::string db_path, uint64_t preallocate_bytes);

  // What the next WAL continues. Requires: none was begun yet.
  void Continue(const LogPredecessor& predecessor) { predecessor_ = predecessor; }

  // Begins WAL number, which continues the last one with records.
  absl::Status Switch(uint64_t number);

  // Errors: those of the file. The WAL must then be switched before the next Append.
  absl::Status Append(std::string_view record);

  // Syncs older WALs that were not, then this one; before it the directory where it is
  // new, and with it the name of a MANIFEST that Open began. After an error nothing may be synced
  // again: the database must stop.
  absl::Status Sync();

  // Deletes, or keeps for reuse, the WALs below number.
  void RemoveBelow(uint64_t number);

  // Requires: no other call is running.
  absl::Status Close(bool sync);

  // Of the commit path.
  uint64_t current_number() const { return current_ == nullptr ? 0 : current_->file_number(); }

 private:
  absl::StatusOr<std::unique_ptr<WritableFile>> NewFile(uint64_t number);

  struct Old {
    uint64_t number = 0;
    std::unique_ptr<LogWriter> writer;  // null: closed, and synced as far as it will be
  };
  static constexpr size_t kMaxReusable = 1;

  FileSystem* const file_system_;
  const std::string db_path_;
  const uint64_t preallocate_bytes_;

  // The commit path's own.
  std::unique_ptr<LogWriter> current_;
  LogPredecessor predecessor_;  // the last WAL with records that is not current_
  bool directory_synced_ = false;

  mutable Mutex mu_;  // held while older WALs are synced or files are deleted
  std::vector<Old> old_ ABSL_GUARDED_BY(mu_);  // ascending
  std::vector<uint64_t> reusable_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_WAL_SET_H_
