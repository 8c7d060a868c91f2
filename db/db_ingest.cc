// Tables that were made outside of the database and become a part of it.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/db_impl.h"
#include "util/clock.h"
#include "util/epoch.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Whether memtable has a key, or a range tombstone, in the range of one of tables.
bool HasKeyIn(const MemTable& memtable, const KeyOrder& order, const ExternalTables& tables) {
  if (memtable.empty()) return false;
  {
    const EpochGuard guard;
    const RefPtr<const RangeTombstones> tombstones = memtable.range_tombstones();
    for (const ExternalTables::Table& table : tables.tables()) {
      if (tombstones &&
          tombstones->Overlaps(UserKey(table.file->smallest), UserKey(table.file->largest))) {
        return true;
      }
    }
  }
  const auto it = memtable.NewIterator();
  std::string target;
  for (const ExternalTables::Table& table : tables.tables()) {
    target.clear();
    AppendInternalKey(&target, UserKey(table.file->smallest), SeekTag(kMaxSequence));
    it->Seek(target);
    if (!it->Valid()) return false;  // the tables to come lie behind it
    if (order.Compare(UserKey(it->key()), UserKey(table.file->largest)) <= 0) return true;
  }
  return false;
}

}  // namespace

absl::Status DBImpl::IngestExternalFiles(const std::vector<std::string>& files,
                                         const IngestOptions& options) {
  if (read_only_) return absl::FailedPreconditionError("the database is open read-only");
  {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(Refusal());
  }
  const uint64_t start_micros = NowMicros();
  IngestEvent event;
  event.db_path = path_;
  ExternalTables tables(options_, path_, opener_.get());
  event.status = tables.BringIn(files, options, [this] { return versions_->NewFileNumber(); });
  // Now, while others may write: what is left for when they wait is then mostly little.
  if (event.status.ok() && NewestOverlappingMemtable(tables, /*with_active=*/true) != 0) {
    event.status = Flush(FlushOptions());
  }
  if (event.status.ok()) {
    const auto install = [&] { return Install(&tables, &event); };
    const absl::FunctionRef<absl::Status()> work = install;
    PendingWrite write;
    write.work = &work;
    event.status = write_queue_.Write(
        &write, [this](absl::Span<PendingWrite* const> group) { return CommitGroup(group); });
  }
  FinishStateChange();
  event.micros = NowMicros() - start_micros;
  if (event.status.ok()) {
    std::string text;
    uint64_t bytes = 0;
    for (const IngestEvent::Table& table : event.tables) {
      absl::StrAppendFormat(&text, "%s%s as table %06d in level %d, %d entries",
                            text.empty() ? "" : "; ", table.external_path, table.file_number,
                            table.level, table.entries);
      bytes += table.file_bytes;
      Notify([&](EventListener* listener) {
        listener->OnTableFileCreated({path_, table.file_number, table.file_bytes});
      });
    }
    event_log_->Write(absl::StrFormat("ingested %d tables, %d bytes, at sequence %d in %.3f s: %s",
                                      event.tables.size(), bytes, event.sequence,
                                      static_cast<double>(event.micros) / 1e6, text));
    Count(statistics_, Counter::kTablesIngested, event.tables.size());
    Count(statistics_, Counter::kIngestedBytes, bytes);
  } else {
    event_log_->Write("ingesting failed: " + event.status.ToString());
  }
  Notify([&](EventListener* listener) { listener->OnIngestCompleted(event); });
  return event.status;
}

uint64_t DBImpl::NewestOverlappingMemtable(const ExternalTables& tables, bool with_active) {
  std::vector<RefPtr<MemTable>> memtables;  // newest first
  {
    MutexLock lock(&mu_);
    if (with_active) memtables.push_back(memtable_);
    for (auto it = immutables_.rbegin(); it != immutables_.rend(); ++it) {
      memtables.push_back(it->memtable);
    }
  }
  for (const RefPtr<MemTable>& memtable : memtables) {
    if (HasKeyIn(*memtable, order_.user(), tables)) return memtable->id();
  }
  return 0;
}

// What the memtables have in the tables' ranges is older than the tables, so it must be
// below them.
absl::Status DBImpl::FlushOverlapping(const ExternalTables& tables) {
  if (HasKeyIn(*active_, order_.user(), tables)) {
    SIEVEDB_RETURN_IF_ERROR(SwitchMemtable(/*no_slowdown=*/false));
  }
  const uint64_t newest = NewestOverlappingMemtable(tables, /*with_active=*/false);
  MutexLock lock(&mu_);
  while (!immutables_.empty() && immutables_.front().memtable->id() <= newest) {
    SIEVEDB_RETURN_IF_ERROR(Refusal());
    changed_.Wait(&mu_);
  }
  return absl::OkStatus();
}

absl::Status DBImpl::Install(ExternalTables* tables, IngestEvent* event) {
  SIEVEDB_RETURN_IF_ERROR(WaitWhileStalled(/*bytes=*/0, /*no_slowdown=*/false));
  if (wal_broken_) SIEVEDB_RETURN_IF_ERROR(SwitchMemtable(/*no_slowdown=*/false));
  SIEVEDB_RETURN_IF_ERROR(FlushOverlapping(*tables));
  // The MANIFEST is about to be synced with the tables: a crash must not keep them and
  // lose what was written before them.
  SIEVEDB_RETURN_IF_ERROR(SyncWal());
  return AddToVersion(tables, event);
}

absl::Status DBImpl::AddToVersion(ExternalTables* tables, IngestEvent* event) {
  const uint64_t sequence = ++last_sequence_;
  tables->SetSequence(sequence);
  event->sequence = sequence;
  VersionEdit edit;
  std::vector<CompactionPlan> places;
  {
    MutexLock lock(&mu_);
    const std::shared_ptr<const Version> version = versions_->current();
    for (const ExternalTables::Table& table : tables->tables()) {
      CompactionPlan place;
      place.smallest = std::string(UserKey(table.file->smallest));
      place.largest = std::string(UserKey(table.file->largest));
      place.output_level =
          PickLevelForNewest(options_, *version, running_, place.smallest, place.largest);
      // It overlaps nothing of the level, and may be a part of any run.
      place.output_run = version->OldestRun(place.output_level);
      place.input_level = place.output_level;
      place.inputs.push_back(table.file);
      edit.added_files.emplace_back(place.output_level, table.file, place.output_run);
      event->tables.push_back({table.external_path, table.file->number, place.output_level,
                               table.file->file_bytes, table.file->entries});
      places.push_back(std::move(place));
    }
    // As one that runs, until readers see the sequence: no compaction writes where the
    // tables will be, and none drops what they hide, while there may be readers who do
    // not see them yet.
    for (const CompactionPlan& place : places) Begin(place);
  }
  const absl::Status status = ApplyEdit(&edit);
  // Where it failed, what the MANIFEST says is not known.
  tables->Release();
  {
    MutexLock lock(&mu_);
    for (const CompactionPlan& place : places) Forget(place);
    InstallView();
    UpdateStall();
    // Behind the view that has them: DBImpl::Look relies on it.
    if (status.ok()) visible_sequence_.store(sequence, std::memory_order_release);
    MaybeSchedule();
  }
  if (!status.ok()) {
    event->tables.clear();
    SetBackgroundError(status, "ingesting tables", absl::IsResourceExhausted(status));
  }
  return status;
}

}  // namespace sievedb
