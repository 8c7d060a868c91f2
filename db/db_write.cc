// Writes: from Put to a published sequence. All functions but the public ones run
// at the front of the write queue, one at a time.

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/db_impl.h"
#include "db/write_batch_internal.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Batches and group buffers that grew beyond this give their memory back.
constexpr size_t kMaxKeptBufferBytes = 1 << 20;

// The one-change batches of Put and Delete are built in memory that the thread
// keeps.
WriteBatch* ThreadBatch() {
  thread_local WriteBatch batch;
  if (batch.ByteSize() > kMaxKeptBufferBytes) batch = WriteBatch();
  batch.Clear();
  return &batch;
}

}  // namespace

absl::Status DBImpl::Put(const WriteOptions& options, std::string_view key,
                         std::string_view value) {
  WriteBatch* batch = ThreadBatch();
  batch->Put(key, value);
  return Write(options, batch);
}

absl::Status DBImpl::Delete(const WriteOptions& options, std::string_view key) {
  WriteBatch* batch = ThreadBatch();
  batch->Delete(key);
  return Write(options, batch);
}

absl::Status DBImpl::DeleteRange(const WriteOptions& options, std::string_view begin,
                                 std::string_view end) {
  WriteBatch* batch = ThreadBatch();
  // An empty range leaves an empty batch: what there is to sync is synced.
  if (!order_.user().Equal(begin, end)) batch->DeleteRange(begin, end);
  return Write(options, batch);
}

absl::Status DBImpl::Write(const WriteOptions& options, WriteBatch* batch) {
  if (read_only_) return absl::FailedPreconditionError("the database is open read-only");
  if (options.sync && options.disable_wal) {
    return absl::InvalidArgumentError("WriteOptions: sync and disable_wal contradict each other");
  }
  SIEVEDB_RETURN_IF_ERROR(WriteBatchInternal::Error(*batch));
  if (WriteBatchInternal::HasRanges(*batch)) [[unlikely]] {
    SIEVEDB_RETURN_IF_ERROR(WriteBatchInternal::CheckRanges(*batch, *options_.comparator));
  }
  if (batch->Count() == 0 && !options.sync) return absl::OkStatus();
  const LatencyTimer timer(statistics_, Latency::kWrite, LatencyTimer::When::kSampled);
  PendingWrite write;
  write.batch = batch;
  write.sync = options.sync;
  write.disable_wal = options.disable_wal;
  write.no_slowdown = options.no_slowdown;
  return write_queue_.Write(
      &write, [this](absl::Span<PendingWrite* const> group) { return CommitGroup(group); });
}

absl::Status DBImpl::CommitGroup(absl::Span<PendingWrite* const> group) {
  if (group[0]->batch == nullptr) {
    return group[0]->work != nullptr ? (*group[0]->work)() : SwitchMemtableFromQueue();
  }
  uint64_t bytes = 0;
  uint64_t count = 0;
  for (const PendingWrite* write : group) {
    bytes += write->batch->ByteSize();
    count += write->batch->Count();
  }
  SIEVEDB_RETURN_IF_ERROR(MakeRoom(bytes, group[0]->no_slowdown));

  // A group that fails from here on has used its sequences up: its record may be
  // in the WAL, and no other may ever carry the same ones.
  uint64_t sequence = last_sequence_ + 1;
  last_sequence_ += count;
  if (group[0]->disable_wal) {
    unlogged_writes_.store(true, std::memory_order_relaxed);
  } else {
    SIEVEDB_RETURN_IF_ERROR(LogGroup(group, sequence));
  }
  for (const PendingWrite* write : group) {
    const absl::Status status = WriteBatchInternal::InsertInto(*write->batch, sequence, active_);
    if (!status.ok()) {
      // The memtable may hold half of a batch; nobody sees it before the sequence
      // moves on, which it no longer does.
      SetBackgroundError(status, "adding a batch to the memtable", /*resumable=*/false);
      return status;
    }
    sequence += write->batch->Count();
  }
  visible_sequence_.store(last_sequence_, std::memory_order_release);

  Count(statistics_, Counter::kWriteGroups);
  Count(statistics_, Counter::kKeysWritten, count);
  Count(statistics_, Counter::kBytesWritten, bytes);
  return absl::OkStatus();
}

absl::Status DBImpl::LogGroup(absl::Span<PendingWrite* const> group, uint64_t first_sequence) {
  std::string_view record;
  if (group.size() == 1) {
    WriteBatchInternal::SetSequence(group[0]->batch, first_sequence);
    record = WriteBatchInternal::Bytes(*group[0]->batch);
  } else {
    std::vector<const WriteBatch*> batches;
    batches.reserve(group.size());
    for (const PendingWrite* write : group) batches.push_back(write->batch);
    if (group_buffer_.capacity() > 2 * kMaxKeptBufferBytes) group_buffer_ = std::string();
    WriteBatchInternal::Concatenate(&group_buffer_, first_sequence, batches.data(), batches.size());
    record = group_buffer_;
  }
  absl::Status status = wals_->Append(record);
  if (!status.ok()) {
    if (status.code() == absl::StatusCode::kInvalidArgument) return status;  // too large
    wal_broken_ = true;
    SetBackgroundError(status, "appending to the WAL", absl::IsResourceExhausted(status));
    return status;
  }
  Count(statistics_, Counter::kWalBytes, record.size());
  const bool sync = std::any_of(group.begin(), group.end(),
                                [](const PendingWrite* write) { return write->sync; });
  return sync ? SyncWal() : status;
}

absl::Status DBImpl::SyncWal() {
  const LatencyTimer timer(statistics_, Latency::kWalSync, LatencyTimer::When::kAlways);
  const absl::Status status = wals_->Sync();
  // What a failed sync left on the disk is unknown, and trying again would not
  // tell: the kernel may have dropped the pages.
  if (!status.ok()) SetBackgroundError(status, "syncing the WAL", /*resumable=*/false);
  Count(statistics_, Counter::kWalSyncs);
  return status;
}

absl::Status DBImpl::MakeRoom(uint64_t bytes, bool no_slowdown) {
  if (must_look_.load(std::memory_order_acquire)) {
    SIEVEDB_RETURN_IF_ERROR(WaitWhileStalled(bytes, no_slowdown));
  }
  const bool full = active_->DataBytes() >= options_.write_buffer_bytes && !active_->empty();
  if (full || wal_broken_) return SwitchMemtable(no_slowdown);
  return absl::OkStatus();
}

absl::Status DBImpl::WaitWhileStalled(uint64_t bytes, bool no_slowdown) {
  const uint64_t start_micros = NowMicros();
  uint64_t delay_micros = 0;
  {
    MutexLock lock(&mu_);
    while (true) {
      SIEVEDB_RETURN_IF_ERROR(Refusal());
      if (stall_.state != StallState::kStopped) break;
      if (no_slowdown)
        return absl::AbortedError("no_slowdown: writes are stopped: " + stall_.reason);
      changed_.Wait(&mu_);
    }
    if (stall_.state == StallState::kDelayed) {
      if (no_slowdown) {
        return absl::AbortedError("no_slowdown: writes are delayed: " + stall_.reason);
      }
      delay_micros = delay_clock_.DelayMicros(NowMicros(), bytes, stall_.bytes_per_second);
    }
  }
  if (delay_micros > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_micros));
  Count(statistics_, Counter::kStallMicros, NowMicros() - start_micros);
  return absl::OkStatus();
}

absl::Status DBImpl::WaitForMemtableSlot(bool no_slowdown) {
  const uint64_t start_micros = NowMicros();
  {
    MutexLock lock(&mu_);
    // Those that wait, the active one that joins them, and a new one.
    while (immutables_.size() + 2 > static_cast<size_t>(options_.max_write_buffers)) {
      SIEVEDB_RETURN_IF_ERROR(Refusal());
      if (no_slowdown) {
        return absl::AbortedError("no_slowdown: all memtables wait for their flush");
      }
      changed_.Wait(&mu_);
    }
  }
  Count(statistics_, Counter::kStallMicros, NowMicros() - start_micros);
  return absl::OkStatus();
}

absl::Status DBImpl::SwitchMemtable(bool no_slowdown) {
  if (!active_->empty()) SIEVEDB_RETURN_IF_ERROR(WaitForMemtableSlot(no_slowdown));
  const absl::Status status = BeginMemtable();
  FinishStateChange();
  return status;
}

absl::Status DBImpl::BeginMemtable() {
  const uint64_t wal = versions_->NewFileNumber();
  const absl::Status status = wals_->Switch(wal);
  if (!status.ok()) {
    SetBackgroundError(status, "beginning a WAL", absl::IsResourceExhausted(status));
    return status;
  }
  wal_broken_ = false;
  MutexLock lock(&mu_);
  if (active_->empty()) {
    memtable_first_wal_ = wal;
    return absl::OkStatus();
  }
  immutables_.push_back({memtable_, memtable_first_wal_});
  memtable_ = NewMemTable();
  active_ = memtable_.get();
  memtable_first_wal_ = wal;
  InstallView();
  UpdateStall();
  MaybeSchedule();
  return absl::OkStatus();
}

absl::Status DBImpl::SwitchMemtableFromQueue() {
  {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(Refusal());
  }
  if (active_->empty()) return absl::OkStatus();
  return SwitchMemtable(/*no_slowdown=*/false);
}

}  // namespace sievedb
