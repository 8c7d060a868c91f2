#ifndef SIEVEDB_BACKUP_H_
#define SIEVEDB_BACKUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/export.h"
#include "sievedb/file_system.h"
#include "sievedb/rate_limiter.h"

namespace sievedb {

class DB;

struct BackupOptions {
  // Of the backups and of the databases; null: PosixFileSystem().
  std::shared_ptr<FileSystem> file_system;
  std::shared_ptr<RateLimiter> rate_limiter;  // of what is copied; null: no limit
};

struct BackupInfo {
  // OK, or what is damaged in its description: nothing else is then known but the id.
  absl::Status status;
  uint64_t id = 0;               // 1, 2 … in one directory, the newest highest
  uint64_t created_seconds = 0;  // since 1970
  uint64_t sequence = 0;         // of the last write that it has
  uint64_t tables = 0;
  uint64_t bytes = 0;      // of its tables
  uint64_t new_bytes = 0;  // of those that no backup before it had
};

// Backups of databases in one directory. A backup is a database as of one moment; its
// tables are copied once, whatever number of backups they are in. Each table is checked
// before it is copied, and its copy has a checksum, so that what is restored is what was
// in the database. A crash leaves a backup as a whole or not at all; what else it leaves
// is deleted at the next Open.
//
// Threads: not safe for concurrent use. One object at a time, in all processes, has the
// directory open.
class SIEVEDB_EXPORT BackupEngine {
 public:
  // Opens dir, creating it where missing.
  // Errors: kFailedPrecondition where it is open already; I/O.
  static absl::StatusOr<std::unique_ptr<BackupEngine>> Open(const BackupOptions& options,
                                                            const std::string& dir);
  ~BackupEngine();

  // Backs up all that was written to db until some moment of this call. db is one that
  // DB::Open returned, and lives on this object's file system.
  // Errors: kDataLoss where a table that is to be copied is damaged; kFailedPrecondition
  //         where db refuses writes or is read-only; kResourceExhausted; I/O. Nothing is
  //         added then.
  // Cost:   a flush, whose last bit writers wait for; reads tables that no backup has
  //         twice, and writes them once.
  absl::StatusOr<BackupInfo> Create(DB* db);

  // Oldest first.
  std::vector<BackupInfo> List() const;

  // Reads all tables of a backup and compares their checksums.
  // Errors: kNotFound, kDataLoss.
  absl::Status Verify(uint64_t id) const;

  // Deletes a backup, and those of its tables that no other one has; where the
  // description of one is damaged, its tables are not known, and all stay.
  // Errors: kNotFound.
  absl::Status Delete(uint64_t id);
  // Deletes all but the newest `keep` that are not damaged.
  absl::Status DeleteAllBut(uint64_t keep);

  // Makes a database of a backup in dir, which must not be there: all at once, when every
  // table is copied, synced and compared with its checksum.
  // Errors: kNotFound; kDataLoss; kAlreadyExists where dir is there. Nothing is left then.
  absl::Status Restore(uint64_t id, const std::string& dir) const;

 private:
  struct Rep;
  explicit BackupEngine(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace sievedb

#endif  // SIEVEDB_BACKUP_H_
