#ifndef SIEVEDB_DB_VERSION_SET_H_
#define SIEVEDB_DB_VERSION_SET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/log_writer.h"
#include "db/version.h"
#include "db/version_edit.h"
#include "sievedb/options.h"
#include "util/event_log.h"
#include "util/mutex.h"

namespace sievedb {

// The current version and the MANIFEST that it is written to.
//
// Threads: safe.
// Invariants:
// 1. current() is what the synced MANIFEST says.
// 2. After an error of writing the MANIFEST what the disk holds of the last edit is
//    unknown. Only where the disk was full another edit is accepted; it begins a
//    new MANIFEST, so that the doubtful one is never read again.
// 3. A file that an edit names stays on the disk where its Apply failed.
class VersionSet {
 public:
  // All must outlive the set; options is sanitized (no null file_system).
  VersionSet(const Options& options, std::string db_path, TableOpener* opener, EventLog* event_log);
  ~VersionSet();

  // Starts a database: first MANIFEST and CURRENT.
  absl::Status Create();

  // Reads CURRENT and the MANIFEST. Writes nothing: the first Apply begins a new
  // MANIFEST. Where options.paranoid_checks, tables that are missing are found here
  // (one directory listing, or names: one that was made while
  // nobody else could change the directory).
  // Errors: kNotFound without CURRENT; kInvalidArgument for another comparator;
  // kDataLoss.
  absl::Status Recover(const std::vector<std::string>* names = nullptr);

  // The same from a MANIFEST that CURRENT need not name, whatever is missing of its tables.
  absl::Status RecoverFrom(uint64_t manifest_number);

  // Writes edit to the MANIFEST, syncs it, and makes the result current. Adds
  // next_file_number and last_sequence to it. New files and their directory must
  // be synced before. Callers take turns; edits must not contradict each other.
  // A MANIFEST that has grown too large is replaced by a new one.
  absl::Status Apply(VersionEdit* edit);

  // The first Apply after Recover, without its last wait. After a crash of the machine
  // the old MANIFEST may be what CURRENT names: until EnsureSynced, which the next
  // Apply begins with, nothing that the old one needs may be deleted, and
  // nothing synced that follows on what was recovered.
  absl::Status ApplyRecovered(VersionEdit* edit);
  absl::Status EnsureSynced();

  // Ends the MANIFEST. Nothing hangs on it but that damage to its last record is then
  // told from a torn tail. Requires: no Apply comes any more.
  void Close();

  std::shared_ptr<const Version> current() const;
  // version and all else that is known now, as one edit, which shares the version's tables.
  VersionEdit Snapshot(const Version& version) const;

  uint64_t NewFileNumber() { return next_file_number_.fetch_add(1); }
  // Never give out number or less.
  void ReserveFileNumber(uint64_t number);
  uint64_t manifest_file_number() const;
  uint64_t log_number() const;  // WALs below it are not needed
  uint64_t db_id() const { return db_id_; }
  // Of the hashes of user keys, in filters and in blocks. Drawn by Create.
  uint64_t hash_seed() const { return hash_seed_; }
  // The last sequence in tables or WALs that were recovered; the owner moves it on
  // before an Apply.
  uint64_t last_sequence() const { return last_sequence_.load(); }
  void SetLastSequence(uint64_t sequence) { last_sequence_.store(sequence); }
  const std::shared_ptr<ObsoleteTables>& obsolete_tables() const { return obsolete_tables_; }

 private:
  // What a MANIFEST says when it has been read to its end.
  struct Recovered;
  absl::Status ReadManifest(uint64_t number, Recovered* to);
  absl::Status CheckComparator(const VersionEdit& edit, const std::string& path) const;
  absl::Status CheckTableFiles(const Version& version, const std::vector<std::string>& names) const;

  // Begins a MANIFEST with the present version, then edit (may be null), and makes
  // CURRENT name it.
  absl::Status RollManifest(const Version& version, const VersionEdit* edit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mu_);
  absl::Status WriteEdit(const VersionEdit& edit, const Version& next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mu_);
  absl::Status ApplyLocked(VersionEdit* edit, bool sync_current)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mu_);
  absl::Status SyncCurrent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mu_);
  absl::Status CheckUsable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mu_);
  absl::Status NoteError(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(apply_mu_);

  const Options& options_;
  const std::string db_path_;
  TableOpener* const opener_;
  EventLog* const event_log_;
  const std::shared_ptr<ObsoleteTables> obsolete_tables_;
  std::atomic<uint64_t> next_file_number_{1};
  std::atomic<uint64_t> last_sequence_{0};
  uint64_t db_id_ = 0;
  uint64_t hash_seed_ = 0;  // constant once Create or Recover has returned

  Mutex apply_mu_;  // held while an edit is written; taken before mu_
  // Null until the first edit after Recover, and after an error.
  std::unique_ptr<LogWriter> manifest_ ABSL_GUARDED_BY(apply_mu_);
  uint64_t manifest_snapshot_bytes_ ABSL_GUARDED_BY(apply_mu_) = 0;
  bool current_synced_ ABSL_GUARDED_BY(apply_mu_) = true;  // the directory, since CURRENT changed
  absl::Status manifest_error_ ABSL_GUARDED_BY(apply_mu_);

  mutable Mutex mu_;  // held for a moment
  std::shared_ptr<const Version> current_ ABSL_GUARDED_BY(mu_);
  uint64_t log_number_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t manifest_file_number_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_VERSION_SET_H_
