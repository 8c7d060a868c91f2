// What happens behind the writers: scheduling, flush, compaction, obsolete files,
// and what is done about errors.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/compaction_parts.h"
#include "db/db_impl.h"
#include "db/file_names.h"
#include "db/filter_plan.h"
#include "table/merging_iterator.h"
#include "util/clock.h"
#include "util/epoch.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr uint64_t kResumeIntervalMicros = 200'000;
constexpr uint64_t kResumeSlackBytes = 1 << 20;

}  // namespace

// --- views and stalls

void DBImpl::InstallView() {
  std::vector<RefPtr<MemTable>> waiting;
  waiting.reserve(immutables_.size());
  for (auto it = immutables_.rbegin(); it != immutables_.rend(); ++it) {
    waiting.push_back(it->memtable);
  }
  ReadView* next =
      RefPtr<ReadView>::New(memtable_, std::move(waiting), versions_->current()).release();
  const ReadView* before = view_.exchange(next, std::memory_order_acq_rel);
  if (before != nullptr) replaced_views_.push_back(before);
}

void DBImpl::UpdateStall() {
  WritePressure pressure;
  pressure.immutable_memtables = static_cast<int>(immutables_.size());
  if (!options_.disable_auto_compaction) {
    const std::shared_ptr<const Version> version = versions_->current();
    pressure.level0_files = static_cast<int>(version->files(0).size());
    pressure.pending_compaction_bytes = PendingCompactionBytes(options_, *version);
  }
  if (options_.rate_limiter != nullptr) {
    options_.rate_limiter->SetDebt(this, BackgroundDebt(options_, pressure));
  }
  StallDecision next = DecideStall(options_, pressure);
  if (next.state != stall_.state) {
    if (next.state == StallState::kStopped) Count(statistics_, Counter::kStallStops);
    stall_events_.push_back({path_, stall_.state, next.state, next.reason});
  }
  stall_ = std::move(next);
  must_look_.store(stall_.state != StallState::kNone || !background_error_.ok() || closed_,
                   std::memory_order_release);
  changed_.SignalAll();
}

void DBImpl::FinishStateChange() {
  std::vector<StallEvent> events;
  std::vector<const ReadView*> views;
  {
    MutexLock lock(&mu_);
    events.swap(stall_events_);
    views.swap(replaced_views_);
  }
  for (const ReadView* view : views) view->RetireRef();
  for (const StallEvent& event : events) {
    static constexpr const char* kNames[] = {"run freely", "are delayed", "are stopped"};
    event_log_->Write(absl::StrFormat("writes %s%s%s", kNames[static_cast<int>(event.after)],
                                      event.reason.empty() ? "" : ": ", event.reason));
    Notify([&](EventListener* listener) { listener->OnStallChanged(event); });
  }
}

// --- scheduling

int DBImpl::MaxCompactions() const { return std::max(1, options_.max_background_jobs - 1); }

void DBImpl::Schedule(ThreadPool::Priority priority, void (DBImpl::*work)()) {
  ++scheduled_;
  options_.background_pool->Schedule(priority, [this, work] {
    (this->*work)();
    MutexLock lock(&mu_);
    --scheduled_;
    changed_.SignalAll();
  });
}

void DBImpl::MaybeSchedule() {
  if (read_only_ || shutting_down_.load() || !background_error_.ok()) return;
  if (!flush_scheduled_ && !immutables_.empty()) {
    flush_scheduled_ = true;
    Schedule(ThreadPool::Priority::kHigh, &DBImpl::BackgroundFlush);
  }
  if (options_.disable_auto_compaction || manual_waiting_ > 0) return;
  if (compaction_queued_ || compactions_running_ >= MaxCompactions()) return;
  if (!PickCompaction(options_, *versions_->current(), running_).has_value()) return;
  compaction_queued_ = true;
  Schedule(ThreadPool::Priority::kLow, &DBImpl::BackgroundCompaction);
}

JobContext DBImpl::MakeJobContext() const {
  JobContext context;
  context.options = &options_;
  context.order = order_;
  context.db_path = path_;
  context.db_id = versions_->db_id();
  context.hash_seed = hash_seed_;
  context.opener = opener_.get();
  context.statistics = statistics_;
  context.new_file_number = [this] { return versions_->NewFileNumber(); };
  context.cancel = &shutting_down_;
  context.pool = options_.background_pool.get();
  return context;
}

absl::Status DBImpl::ApplyEdit(VersionEdit* edit) {
  versions_->SetLastSequence(visible_sequence_.load(std::memory_order_acquire));
  SIEVEDB_RETURN_IF_ERROR(versions_->Apply(edit));
  uint64_t replaced = 0;
  {
    MutexLock lock(&mu_);
    const uint64_t now = versions_->manifest_file_number();
    if (now != manifest_in_use_) replaced = std::exchange(manifest_in_use_, now);
  }
  if (replaced != 0) {
    // One that stays is deleted when the database is opened next.
    file_system_->DeleteFile(ManifestFileName(path_, replaced)).IgnoreError();
  }
  return absl::OkStatus();
}

// --- flush

void DBImpl::BackgroundFlush() {
  const absl::Status status = FlushImmutables();
  if (!status.ok() && !shutting_down_.load()) {
    SetBackgroundError(status, "flushing a memtable", absl::IsResourceExhausted(status));
  }
  AuditFilters();
  FinishStateChange();
  // The new table may have been compacted away while the flush still held it.
  DeleteObsoleteTables();
  MutexLock lock(&mu_);
  flush_scheduled_ = false;
  MaybeSchedule();
  changed_.SignalAll();
}

absl::Status DBImpl::FlushImmutables() {
  std::vector<RefPtr<MemTable>> memtables;  // newest first
  uint64_t log_number = 0;
  {
    MutexLock lock(&mu_);
    if (immutables_.empty() || shutting_down_.load() || !background_error_.ok()) {
      return absl::OkStatus();
    }
    for (auto it = immutables_.rbegin(); it != immutables_.rend(); ++it) {
      memtables.push_back(it->memtable);
    }
    // All that wait are flushed, so the active memtable's WAL is the oldest that
    // is still needed then.
    log_number = memtable_first_wal_;
  }
  FlushEvent event;
  event.db_path = path_;
  for (const RefPtr<MemTable>& memtable : memtables) event.keys_in += memtable->entries();
  Notify([&](EventListener* listener) { listener->OnFlushBegin(event); });
  const uint64_t start_micros = NowMicros();
  event.status = WriteLevel0(memtables, log_number, &event);
  event.micros = NowMicros() - start_micros;
  if (event.status.ok()) {
    event_log_->Write(
        absl::StrFormat("flushed %d memtables, %d keys, into table %06d: %d bytes in %.3f s",
                        memtables.size(), event.keys_in, event.file_number, event.bytes_out,
                        static_cast<double>(event.micros) / 1e6));
  }
  Notify([&](EventListener* listener) { listener->OnFlushCompleted(event); });
  return event.status;
}

absl::Status DBImpl::WriteLevel0(const std::vector<RefPtr<MemTable>>& memtables,
                                 uint64_t log_number, FlushEvent* event) {
  const LatencyTimer timer(statistics_, Latency::kFlush, LatencyTimer::When::kAlways);
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (const RefPtr<MemTable>& memtable : memtables) children.push_back(memtable->NewIterator());
  const auto input = NewMergingIterator(order_, std::move(children));
  const std::vector<uint64_t> snapshots = snapshots_->Sequences();
  const auto tombstones = MergeRangeTombstones(order_, memtables, snapshots);
  uint64_t keys = 0;  // for the filter
  for (const RefPtr<MemTable>& memtable : memtables) {
    keys += memtable->entries() + memtable->prefixes();
  }
  const std::shared_ptr<const Version> version = versions_->current();
  SIEVEDB_ASSIGN_OR_RETURN(
      JobOutput output, RunJob(MakeJobContext(), input.get(), snapshots, /*plan=*/nullptr,
                               /*version=*/nullptr, PlanFilters(*version, /*plan=*/nullptr, keys),
                               /*part=*/{}, tombstones.get()));
  VersionEdit edit;
  edit.log_number = log_number;
  for (const auto& file : output.files) edit.added_files.emplace_back(0, file);
  SIEVEDB_RETURN_IF_ERROR(ApplyEdit(&edit));
  {
    MutexLock lock(&mu_);
    immutables_.erase(immutables_.begin(),
                      immutables_.begin() + static_cast<std::ptrdiff_t>(memtables.size()));
    InstallView();
    UpdateStall();
    MaybeSchedule();
  }
  wals_->RemoveBelow(log_number);
  event->bytes_out = output.bytes_written;
  Count(statistics_, Counter::kFlushes);
  Count(statistics_, Counter::kFlushBytes, output.bytes_written);
  Count(statistics_, Counter::kEntriesDroppedHidden, output.dropped_hidden);
  for (const auto& file : output.files) {
    event->file_number = file->number;
    Notify([&](EventListener* listener) {
      listener->OnTableFileCreated({path_, file->number, file->file_bytes});
    });
  }
  return absl::OkStatus();
}

// --- compaction

std::shared_ptr<const Version> DBImpl::Begin(const CompactionPlan& plan) {
  for (const FileRef& file : plan.inputs) running_.busy_files.insert(file->number);
  for (const FileRef& file : plan.output_inputs) running_.busy_files.insert(file->number);
  running_.ranges.push_back(
      {plan.input_level, plan.output_level, plan.smallest, plan.largest, plan.output_run});
  return versions_->current();
}

void DBImpl::End(const CompactionPlan& plan) {
  Forget(plan);
  InstallView();
  UpdateStall();
}

void DBImpl::Forget(const CompactionPlan& plan) {
  for (const FileRef& file : plan.inputs) running_.busy_files.erase(file->number);
  for (const FileRef& file : plan.output_inputs) running_.busy_files.erase(file->number);
  const auto range = std::find_if(
      running_.ranges.begin(), running_.ranges.end(), [&](const CompactionsInProgress::Range& r) {
        return r.input_level == plan.input_level && r.output_level == plan.output_level &&
               r.smallest == plan.smallest && r.largest == plan.largest &&
               r.output_run == plan.output_run;
      });
  assert(range != running_.ranges.end());
  running_.ranges.erase(range);
}

void DBImpl::BackgroundCompaction() {
  std::optional<CompactionPlan> plan;
  std::shared_ptr<const Version> version;
  {
    MutexLock lock(&mu_);
    compaction_queued_ = false;
    if (!shutting_down_.load() && background_error_.ok() && manual_waiting_ == 0) {
      plan = PickCompaction(options_, *versions_->current(), running_);
    }
    if (plan.has_value()) {
      version = Begin(*plan);
      ++compactions_running_;
      MaybeSchedule();  // another one may run beside it
    }
  }
  if (plan.has_value()) {
    const absl::Status status = RunCompaction(*plan, *version);
    if (!status.ok() && !shutting_down_.load()) {
      SetBackgroundError(status, "compacting", absl::IsResourceExhausted(status));
    }
    MutexLock lock(&mu_);
    --compactions_running_;
    End(*plan);
    MaybeSchedule();
  }
  // They hold the inputs, which are obsolete once nobody does.
  plan.reset();
  version.reset();
  AuditFilters();
  FinishStateChange();
  EpochSynchronize();
  DeleteObsoleteTables();
}

absl::Status DBImpl::RunCompaction(const CompactionPlan& plan, const Version& version) {
  const LatencyTimer timer(statistics_, Latency::kCompaction, LatencyTimer::When::kAlways);
  CompactionEvent event;
  event.db_path = path_;
  event.input_level = plan.input_level;
  event.output_level = plan.output_level;
  event.input_files = static_cast<int>(plan.inputs.size() + plan.output_inputs.size());
  event.bytes_in = plan.InputBytes();
  event.trivial_move = plan.trivial_move;
  Notify([&](EventListener* listener) { listener->OnCompactionBegin(event); });
  const uint64_t start_micros = NowMicros();
  event.status = plan.trivial_move ? MoveTables(plan) : MergeTables(plan, version, &event);
  event.micros = NowMicros() - start_micros;
  event_log_->Write(absl::StrFormat(
      "%s level %d to %d (%s): %d tables, %d bytes into %d tables, %d bytes; %d of %d entries "
      "kept; "
      "%.3f s%s%s",
      plan.trivial_move ? "moved" : "compacted", plan.input_level, plan.output_level, plan.reason,
      event.input_files, event.bytes_in, event.output_files, event.bytes_out, event.keys_out,
      event.keys_in, static_cast<double>(event.micros) / 1e6,
      event.status.ok() ? "" : "; failed: ", event.status.ok() ? "" : event.status.ToString()));
  Notify([&](EventListener* listener) { listener->OnCompactionCompleted(event); });
  return event.status;
}

absl::Status DBImpl::MoveTables(const CompactionPlan& plan) {
  VersionEdit edit;
  for (const FileRef& file : plan.inputs) {
    edit.removed_files.emplace_back(plan.input_level, file->number);
    // The table is the same one, open and all; its description does not change.
    edit.added_files.emplace_back(plan.output_level, std::const_pointer_cast<FileMeta>(file),
                                  plan.output_run);
  }
  SIEVEDB_RETURN_IF_ERROR(ApplyEdit(&edit));
  Count(statistics_, Counter::kTrivialMoves, plan.inputs.size());
  return absl::OkStatus();
}

absl::Status DBImpl::MergeTables(const CompactionPlan& plan, const Version& version,
                                 CompactionEvent* event) {
  const JobContext context = MakeJobContext();
  SIEVEDB_ASSIGN_OR_RETURN(
      JobOutput output,
      RunPlan(context, plan, version, snapshots_->Sequences(), PlanFilters(version, &plan, 0)));
  VersionEdit edit;
  for (const FileRef& file : plan.inputs) {
    edit.removed_files.emplace_back(plan.input_level, file->number);
  }
  for (const FileRef& file : plan.output_inputs) {
    edit.removed_files.emplace_back(plan.output_level, file->number);
  }
  for (const auto& file : output.files) {
    edit.added_files.emplace_back(plan.output_level, file, plan.output_run);
  }
  SIEVEDB_RETURN_IF_ERROR(ApplyEdit(&edit));
  event->output_files = static_cast<int>(output.files.size());
  event->bytes_out = output.bytes_written;
  event->keys_in = output.entries_in;
  event->keys_out = output.entries_out;
  Count(statistics_, Counter::kCompactions);
  Count(statistics_, Counter::kCompactionBytesRead, event->bytes_in);
  Count(statistics_, Counter::kCompactionBytesWritten, output.bytes_written);
  Count(statistics_, Counter::kEntriesDroppedHidden, output.dropped_hidden);
  Count(statistics_, Counter::kEntriesDroppedTombstone, output.dropped_tombstones);
  for (const auto& file : output.files) {
    Notify([&](EventListener* listener) {
      listener->OnTableFileCreated({path_, file->number, file->file_bytes});
    });
  }
  return absl::OkStatus();
}

void DBImpl::DeleteObsoleteTables() {
  for (const ObsoleteTables::Entry& table : versions_->obsolete_tables()->Take()) {
    const absl::Status status = file_system_->DeleteFile(TableFileName(path_, table.number));
    if (!status.ok()) {
      // It is tried again when the database is opened next.
      event_log_->Write(absl::StrFormat("table %06d stays: %s", table.number, status.ToString()));
      continue;
    }
    Notify([&](EventListener* listener) {
      listener->OnTableFileDeleted({path_, table.number, table.file_bytes});
    });
  }
}

// --- errors

absl::Status DBImpl::Refusal() const {
  if (closed_) return absl::FailedPreconditionError("the database is closed");
  if (background_error_.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: writes are stopped by an earlier error: %s", path_, background_error_.ToString()));
}

void DBImpl::SetBackgroundError(const absl::Status& error, std::string_view what, bool resumable) {
  const absl::Status named(error.code(), absl::StrFormat("%s: %s", what, error.message()));
  {
    MutexLock lock(&mu_);
    // The first one says what happened; but one that stays is not forgotten over one
    // that may pass.
    if (!background_error_.ok() && (resumable || !error_resumable_)) return;
    background_error_ = named;
    error_resumable_ = resumable;
    must_look_.store(true, std::memory_order_release);
    changed_.SignalAll();
  }
  event_log_->Write("writes are stopped: " + named.ToString());
  Notify([&](EventListener* listener) { listener->OnBackgroundError(named); });
  if (!resumable) return;
  // Only now, so that listeners hear of the error before they hear of its end.
  MutexLock lock(&mu_);
  if (background_error_.ok() || !error_resumable_ || resuming_ || shutting_down_.load()) return;
  if (resume_thread_.joinable()) resume_thread_.join();  // has ended: resuming_ is false
  resuming_ = true;
  resume_thread_ = std::thread([this] { ResumeLoop(); });
}

void DBImpl::ResumeLoop() {
  while (true) {
    uint64_t needed_bytes = kResumeSlackBytes;
    {
      MutexLock lock(&mu_);
      // Woken for many reasons, it waits on: where the file system is wrong about its
      // free space, one attempt would follow the other at once.
      const uint64_t until = NowMicros() + kResumeIntervalMicros;
      for (uint64_t now = NowMicros(); now < until && error_resumable_ && !shutting_down_.load();
           now = NowMicros()) {
        changed_.WaitFor(&mu_, static_cast<int64_t>(until - now));
      }
      if (shutting_down_.load() || !error_resumable_) {
        resuming_ = false;
        return;
      }
      for (const Immutable& immutable : immutables_) {
        needed_bytes += immutable.memtable->MemoryBytes();
      }
    }
    const absl::StatusOr<uint64_t> free_bytes = file_system_->FreeSpaceBytes(path_);
    if (!free_bytes.ok() || *free_bytes < needed_bytes) continue;
    event_log_->Write(absl::StrFormat("%d bytes are free: writes are taken again", *free_bytes));
    Notify([](EventListener* listener) { listener->OnResumed(); });
    {
      MutexLock lock(&mu_);
      if (error_resumable_) {  // else a lasting one has come meanwhile
        background_error_ = absl::OkStatus();
        UpdateStall();
        MaybeSchedule();
      }
    }
    FinishStateChange();
    MutexLock lock(&mu_);
    if (background_error_.ok() || !error_resumable_) {
      resuming_ = false;  // the last that this thread does with mu_: it is joined under it
      return;
    }
  }
}

}  // namespace sievedb
