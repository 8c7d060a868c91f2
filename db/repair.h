#ifndef SIEVEDB_DB_REPAIR_H_
#define SIEVEDB_DB_REPAIR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/compaction_job.h"
#include "db/file_names.h"
#include "db/memtable.h"
#include "db/version_set.h"
#include "sievedb/repair.h"
#include "util/event_log.h"

namespace sievedb {

// One repair of one database; how it goes is described in repair.cc.
//
// Threads: not safe for concurrent use.
class Repairer {
 public:
  Repairer(const Options& options, const std::string& path);
  Repairer(const Repairer&) = delete;
  Repairer& operator=(const Repairer&) = delete;

  // Requires: was not called yet. Errors: those of RepairDB.
  absl::StatusOr<RepairReport> Run();

 private:
  absl::Status LockDirectory();
  absl::Status CheckHealth();
  void Find(std::string finding);
  std::vector<uint64_t> Numbers(FileKind kind) const;  // ascending
  bool Exists(const std::string& path) const;          // when it began

  absl::Status FindManifest();
  absl::StatusOr<bool> HasLostItsEnd(const VersionSet& versions);
  absl::StatusOr<bool> MissesWals(uint64_t log_number);
  absl::Status ReadHints(uint64_t number);

  absl::Status CheckTable(const FileMeta& file, bool* only_filter);
  void Lose(uint64_t number, const absl::Status& why);
  absl::Status TakeListedTables();
  absl::StatusOr<std::shared_ptr<FileMeta>> OpenUnlisted(uint64_t number);
  absl::Status TakeAllTables();
  absl::Status FindSequence(FileMeta* file);
  void NoteOrigin(const FileMeta& file);

  absl::Status SalvageWals();
  absl::Status SalvageWal(uint64_t number);
  absl::Status FlushMemTable();

  absl::Status PlaceAllTables();
  absl::StatusOr<JobOutput> Merge(std::vector<std::shared_ptr<FileMeta>> tables);
  absl::Status SetAside();
  absl::Status Commit();
  void Clean();

  const Options options_;
  const std::string path_;
  const InternalKeyOrder order_;
  FileSystem* const file_system_;
  TableOpener opener_;  // outlives all tables
  JobContext context_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<EventLog> event_log_;
  std::vector<std::string> names_;  // of the directory when it began
  RepairReport report_;

  std::unique_ptr<VersionSet> versions_;  // of the MANIFEST that counts; null: none does
  std::map<uint64_t, std::shared_ptr<FileMeta>> external_hints_;  // of those that do not
  uint64_t next_number_ = 1;
  uint64_t last_sequence_ = 0;
  uint64_t log_number_ = 0;

  RefPtr<MemTable> memtable_;  // of WALs; null: nothing is in it
  uint64_t last_logged_ = 0;
  std::vector<std::shared_ptr<FileMeta>> unplaced_;  // where no MANIFEST counts
  std::vector<AddedFile> tables_;                    // of the result
  std::vector<std::string> lost_;                    // names that are to be set aside
  std::vector<std::string> obsolete_;                // names that are to be deleted then
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_REPAIR_H_
