#ifndef SIEVEDB_DB_DB_IMPL_H_
#define SIEVEDB_DB_DB_IMPL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "db/compaction_job.h"
#include "db/compaction_picker.h"
#include "db/db_iterator.h"
#include "db/external_tables.h"
#include "db/filter_plan.h"
#include "db/log_writer.h"
#include "db/memtable.h"
#include "db/prefix_scope.h"
#include "db/read_view.h"
#include "db/snapshot_list.h"
#include "db/table_opener.h"
#include "db/version_set.h"
#include "db/wal_set.h"
#include "db/write_controller.h"
#include "db/write_queue.h"
#include "sievedb/db.h"
#include "util/event_log.h"
#include "util/mutex.h"

namespace sievedb {

// options with a file system, a block cache and a pool in place of null.
Options SanitizeOptions(const Options& options);

// The implementation behind DB::Open. One file a concern:
//   db_open.cc        open, recovery from WALs, close, destroy
//   db_read.cc        Get, MultiGet, MayContain, iterators, snapshots
//   db_write.cc       Put … Write, the commit of a group, memtable switch, stalls
//   db_ingest.cc      IngestExternalFiles
//   db_checkpoint.cc  CreateCheckpoint, what backups are made from
//   db_background.cc  scheduling, flush, compaction, obsolete files, errors
//   db_compact.cc     Flush, CompactRange, WaitForBackgroundWork, VerifyChecksums
//   db_properties.cc  GetProperty, GetApproximateSizes
//   db_filters.cc     what filters did: their properties, their audit
//
// Locks, in the order in which they are taken:
//   the front of write_queue_ (not a mutex: one group commits at a time)
//   WalSet's, VersionSet's       see there
//   mu_                          held for moments, never during I/O
class DBImpl final : public DB {
 public:
  static absl::StatusOr<std::unique_ptr<DB>> OpenImpl(const Options& options,
                                                      const std::string& path, bool read_only);
  ~DBImpl() override;

  absl::Status Put(const WriteOptions& options, std::string_view key,
                   std::string_view value) override;
  absl::Status Delete(const WriteOptions& options, std::string_view key) override;
  absl::Status DeleteRange(const WriteOptions& options, std::string_view begin,
                           std::string_view end) override;
  absl::Status Write(const WriteOptions& options, WriteBatch* batch) override;
  absl::Status IngestExternalFiles(const std::vector<std::string>& files,
                                   const IngestOptions& options) override;
  absl::Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  absl::Status Get(const ReadOptions& options, std::string_view key, PinnedValue* value) override;
  void MultiGet(const ReadOptions& options, absl::Span<const std::string_view> keys,
                absl::Span<PinnedValue> values, absl::Span<absl::Status> statuses) override;
  bool MayContain(const ReadOptions& options, std::string_view key) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  std::shared_ptr<const Snapshot> GetSnapshot() override;
  absl::Status Flush(const FlushOptions& options) override;
  absl::Status CompactRange(const CompactRangeOptions& options, const std::string_view* begin,
                            const std::string_view* end) override;
  absl::Status WaitForBackgroundWork() override;
  std::optional<std::string> GetProperty(std::string_view name) override;
  std::vector<uint64_t> GetApproximateSizes(absl::Span<const KeyRange> ranges) override;
  absl::Status CreateCheckpoint(const std::string& dir) override;
  absl::Status VerifyChecksums() override;
  uint64_t LatestSequence() const override;
  absl::Status Close() override;

  // --- db_checkpoint.cc
  // All that was written until one moment, in tables, which stay on the disk until
  // Release.
  struct Frozen {
    std::shared_ptr<const Version> version;
    VersionEdit snapshot;  // of a MANIFEST that a copy of the tables begins with
  };
  // Flushes what is in memory; writers wait for the last bit of that.
  absl::StatusOr<Frozen> Freeze();
  void Release(Frozen frozen);
  absl::Status VerifyTable(const FileMeta& file);  // reads all of it
  const std::string& path() const { return path_; }

 private:
  // A memtable that takes no more writes, and where its log begins.
  struct Immutable {
    RefPtr<MemTable> memtable;
    uint64_t first_wal = 0;
  };

  DBImpl(const Options& sanitized, const std::string& path, bool read_only);

  // --- db_open.cc
  absl::Status Start();
  absl::StatusOr<bool> DatabaseExists() const;
  absl::Status OpenFiles();  // lock, MANIFEST, WALs
  void LogOpening();
  struct Replay;
  absl::Status ReplayWals(const std::vector<std::string>& names);
  absl::Status ReplayWal(uint64_t number, Replay* replay);
  absl::Status CheckWalsStayed(const Replay& replay) const;
  RefPtr<MemTable> NewMemTable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FlushReplayed(Replay* replay);
  void WriteOptionsFile();
  void NoteUnknownFiles(const std::vector<std::string>& names);
  void FinishOpening();
  absl::Status OpenAllTables();

  // --- db_read.cc
  // Requires: an EpochGuard. Null after Close.
  const ReadView* view() const { return view_.load(std::memory_order_acquire); }
  // What a read sees. Requires: an EpochGuard.
  struct Seen {
    const ReadView* view;  // null after Close
    uint64_t sequence;
  };
  Seen Look(const ReadOptions& options) const;
  static void PrefetchInMemtables(const ReadView& view, const Lookup& lookup);
  static void FindInMemtables(const ReadView& view, Lookup* lookup);
  absl::Status Find(const ReadView& view, Lookup* lookup);
  // At most Version::kMaxBatch keys.
  void GetBatch(const ReadView& view, uint64_t sequence, const ReadOptions& options,
                absl::Span<const std::string_view> keys, absl::Span<PinnedValue> values,
                absl::Span<absl::Status> statuses);
  template <typename Found>
  absl::Status GetWith(const ReadOptions& options, std::string_view key, Found found);
  absl::StatusOr<IteratorSource> MakeIteratorSource(const ReadOptions& options,
                                                    const PrefixScope* scope);

  // --- db_write.cc; all but Write run at the front of the queue
  absl::Status CommitGroup(absl::Span<PendingWrite* const> group);
  absl::Status MakeRoom(uint64_t bytes, bool no_slowdown);
  absl::Status WaitWhileStalled(uint64_t bytes, bool no_slowdown);
  absl::Status WaitForMemtableSlot(bool no_slowdown);
  absl::Status BeginMemtable();
  absl::Status SwitchMemtable(bool no_slowdown);
  absl::Status SwitchMemtableFromQueue();
  absl::Status SyncWal();
  absl::Status LogGroup(absl::Span<PendingWrite* const> group, uint64_t first_sequence);

  // --- db_ingest.cc
  // Id of the newest of the memtables, the active one among them or not, that holds a
  // key or range tombstone in the range of one of tables. 0: none does.
  uint64_t NewestOverlappingMemtable(const ExternalTables& tables, bool with_active);
  absl::Status FlushOverlapping(const ExternalTables& tables);
  // Those two run at the front of the queue.
  absl::Status Install(ExternalTables* tables, IngestEvent* event);
  absl::Status AddToVersion(ExternalTables* tables, IngestEvent* event);

  // --- db_checkpoint.cc; at the front of the queue
  absl::Status FreezeFromQueue(Frozen* frozen);

  // --- db_background.cc
  void InstallView() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UpdateStall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does what InstallView and UpdateStall left for when mu_ is released: tells
  // listeners, and retires views, whose last reference may free memtables and tables.
  void FinishStateChange();
  void MaybeSchedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Schedule(ThreadPool::Priority priority, void (DBImpl::*work)())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BackgroundFlush();
  void BackgroundCompaction();
  absl::Status FlushImmutables();
  absl::Status WriteLevel0(const std::vector<RefPtr<MemTable>>& memtables, uint64_t log_number,
                           FlushEvent* event);
  absl::Status RunCompaction(const CompactionPlan& plan, const Version& version);
  absl::Status MoveTables(const CompactionPlan& plan);
  absl::Status MergeTables(const CompactionPlan& plan, const Version& version,
                           CompactionEvent* event);
  absl::Status ApplyEdit(VersionEdit* edit);
  JobContext MakeJobContext() const;
  std::shared_ptr<const Version> Begin(const CompactionPlan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(const CompactionPlan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(const CompactionPlan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // of running_
  void DeleteObsoleteTables();
  int MaxCompactions() const;

  // Stops writes with error; where it is a full disk, ResumeLoop tries again.
  void SetBackgroundError(const absl::Status& error, std::string_view what, bool resumable);
  // OK, or why writes and maintenance are refused.
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ResumeLoop();
  template <typename Fn>
  void Notify(Fn fn) {
    for (const auto& listener : options_.listeners) fn(listener.get());
  }

  // --- db_compact.cc
  absl::Status CompactLevel(int input_level, int output_level, const std::string_view* begin,
                            const std::string_view* end);

  // --- db_properties.cc
  std::string StatsProperty();
  std::string LevelsProperty();
  std::string MemoryProperty();

  // --- db_filters.cc
  std::string FiltersProperty();
  std::string FilterTablesProperty();
  // For the tables of a job, after taking over what was counted until now. version must
  // outlive the result.
  JobFilters PlanFilters(const Version& version, const CompactionPlan* plan, uint64_t flushed_keys);
  // Tells of filters whose rate is above what they promise. Cost: a look at the tally
  // of each table.
  void AuditFilters();
  // From a read: has that done in the background.
  void WantAudit();
  void BackgroundAudit();

  const Options options_;  // sanitized: file_system, block_cache, background_pool not null
  const std::string path_;
  const bool read_only_;
  const InternalKeyOrder order_;
  FileSystem* const file_system_;
  StatisticsImpl* const statistics_;  // null: off
  uint64_t hash_seed_ = 0;            // the VersionSet's, from OpenFiles on
  const uint64_t opened_micros_;
  const std::shared_ptr<SnapshotList> snapshots_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<EventLog> event_log_;
  std::unique_ptr<TableOpener> opener_;
  std::unique_ptr<VersionSet> versions_;
  std::unique_ptr<WalSet> wals_;
  // Of Start, for FinishOpening: files that nothing refers to.
  std::vector<std::string> unknown_files_;

  // What readers see. view_ is exchanged under mu_ and read under an EpochGuard;
  // the sequence is released after a group's last entry is in the memtable, so
  // that who acquires it sees all of them. A read loads view_ first: what a flush
  // dropped as hidden was hidden by entries published before that view was. And it
  // looks at view_ again behind the sequence: an ingestion publishes a view, and then
  // the sequence of what only that view has.
  std::atomic<ReadView*> view_{nullptr};
  std::atomic<uint64_t> visible_sequence_{0};

  // --- the commit path's, owned by the front of write_queue_
  WriteQueue write_queue_;
  uint64_t last_sequence_ = 0;
  MemTable* active_ = nullptr;  // memtable_, read without mu_
  bool wal_broken_ = false;     // an append failed: the next group needs a new WAL
  DelayClock delay_clock_;
  std::string group_buffer_;

  // --- background
  Mutex filter_heat_mu_;  // UpdateFilterHeat is running; none is taken under it
  mutable Mutex mu_;
  CondVar changed_;  // flush or compaction finished, stall or error changed
  RefPtr<MemTable> memtable_ ABSL_GUARDED_BY(mu_);
  uint64_t memtable_first_wal_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t next_memtable_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::deque<Immutable> immutables_ ABSL_GUARDED_BY(mu_);  // oldest first
  CompactionsInProgress running_ ABSL_GUARDED_BY(mu_);
  int scheduled_ ABSL_GUARDED_BY(mu_) = 0;  // pieces of work handed to the pool
  bool flush_scheduled_ ABSL_GUARDED_BY(mu_) = false;
  bool compaction_queued_ ABSL_GUARDED_BY(mu_) = false;  // handed to the pool, not begun
  int compactions_running_ ABSL_GUARDED_BY(mu_) = 0;     // automatic ones
  uint64_t manifest_in_use_ ABSL_GUARDED_BY(mu_) = 0;
  bool audit_scheduled_ ABSL_GUARDED_BY(mu_) = false;
  int manual_waiting_ ABSL_GUARDED_BY(mu_) = 0;  // automatic ones step back
  StallDecision stall_ ABSL_GUARDED_BY(mu_);
  std::vector<StallEvent> stall_events_ ABSL_GUARDED_BY(mu_);         // not yet told
  std::vector<const ReadView*> replaced_views_ ABSL_GUARDED_BY(mu_);  // not yet retired
  absl::Status background_error_ ABSL_GUARDED_BY(mu_);
  bool error_resumable_ ABSL_GUARDED_BY(mu_) = false;
  bool resuming_ ABSL_GUARDED_BY(mu_) = false;
  std::thread resume_thread_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status close_status_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> shutting_down_{false};  // jobs stop soon
  // Copies of the above for the commit path to look at without mu_: hints, taken
  // again under mu_ before anything is done about them.
  std::atomic<bool> must_look_{false};        // stalled or stopped by an error
  std::atomic<bool> unlogged_writes_{false};  // the memtable has disable_wal writes
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_DB_IMPL_H_
