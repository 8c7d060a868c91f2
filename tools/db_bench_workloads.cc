#include "tools/db_bench_workloads.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "tools/db_bench_report.h"
#include "tools/external_table_files.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// How many entries fillsync writes for each that the other fills write: a write
// that waits for the disk takes about a thousand times as long.
constexpr uint64_t kEntriesPerSync = 1000;
// How many entries of --num make one measured Open.
constexpr uint64_t kEntriesPerOpen = 10'000;
// readhot asks for one key in this many.
constexpr uint64_t kHotPart = 100;
constexpr uint64_t kUsualFillBatch = 1000;
constexpr uint64_t kUsualMultiGet = 32;

}  // namespace

DbBench::Share DbBench::ShareOf(const BenchThread& thread, uint64_t entries) {
  const uint64_t index = static_cast<uint64_t>(thread.index);
  const uint64_t count = static_cast<uint64_t>(thread.count);
  const uint64_t each = entries / count;
  const uint64_t longer = entries % count;  // the first of them take one entry more
  const uint64_t begin = index * each + std::min(index, longer);
  return Share{begin, begin + each + (index < longer ? 1 : 0)};
}

absl::Status DbBench::WriteEntries(BenchThread* thread, Order order, uint64_t entries,
                                   uint64_t batch_size, bool sync) {
  WriteOptions options;
  options.sync = sync;
  options.disable_wal = settings_.disable_wal;
  const Share share = ShareOf(*thread, entries);
  // Random writes may go on for as long as they are asked to.
  const bool endless = order == Order::kRandom && settings_.duration_seconds > 0;
  const uint64_t operations = endless ? ~uint64_t{0} : share.end - share.begin;
  // Values differ from workload to workload, so that an overwrite changes them.
  const uint64_t value_base = workloads_begun_ << 48;
  std::string key;
  WriteBatch batch;
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  uint64_t next = share.begin;
  while (meter.Continue()) {
    const uint64_t count = meter.Left(batch_size);
    batch.Clear();
    for (uint64_t i = 0; i < count; ++i, ++next) {
      const uint64_t entry =
          order == Order::kSequential ? next : thread->random.Uniform(settings_.num);
      keys_.Format(2 * entry, &key);
      const std::string_view value = values_.ValueOf(value_base + next);
      if (batch_size == 1) {
        SIEVEDB_RETURN_IF_ERROR(db_->Put(options, key, value));
      } else {
        batch.Put(key, value);
      }
    }
    if (batch_size != 1) SIEVEDB_RETURN_IF_ERROR(db_->Write(options, &batch));
    meter.Done(count, count * (settings_.key_bytes + settings_.value_bytes));
  }
  return absl::OkStatus();
}

absl::Status DbBench::FillSequential(BenchThread* thread) {
  return WriteEntries(thread, Order::kSequential, settings_.num, settings_.BatchSize(1),
                      settings_.sync);
}

absl::Status DbBench::FillRandom(BenchThread* thread) {
  return WriteEntries(thread, Order::kRandom, settings_.num, settings_.BatchSize(1),
                      settings_.sync);
}

absl::Status DbBench::FillBatch(BenchThread* thread) {
  return WriteEntries(thread, Order::kSequential, settings_.num,
                      settings_.BatchSize(kUsualFillBatch), settings_.sync);
}

absl::Status DbBench::FillSync(BenchThread* thread) {
  return WriteEntries(thread, Order::kRandom,
                      std::max<uint64_t>(1, settings_.num / kEntriesPerSync),
                      settings_.BatchSize(1), /*sync=*/true);
}

// Each thread makes the tables of its stretch of keys, and adds them to the database at
// once. What it takes to add them counts.
absl::Status DbBench::Ingest(BenchThread* thread) {
  const Share share = ShareOf(*thread, settings_.num);
  if (share.begin == share.end) {
    // A thread without a share still has a beginning and an end.
    const OperationMeter meter(0, 0, &thread->figures, progress_);
    return absl::OkStatus();
  }
  const uint64_t value_base = workloads_begun_ << 48;
  ExternalTableFiles files(options_, settings_.db, thread->index);
  std::string key;
  OperationMeter meter(share.end - share.begin, 0, &thread->figures, progress_);
  for (uint64_t next = share.begin; meter.Continue(); ++next) {
    keys_.Format(2 * next, &key);
    SIEVEDB_RETURN_IF_ERROR(files.Put(key, values_.ValueOf(value_base + next)));
    meter.Done(1, settings_.key_bytes + settings_.value_bytes);
  }
  return files.Ingest(db_.get());
}

absl::Status DbBench::DeleteEntries(BenchThread* thread, Order order) {
  WriteOptions options;
  options.sync = settings_.sync;
  options.disable_wal = settings_.disable_wal;
  const uint64_t batch_size = settings_.BatchSize(1);
  const Share share = ShareOf(*thread, settings_.num);
  const bool endless = order == Order::kRandom && settings_.duration_seconds > 0;
  const uint64_t operations = endless ? ~uint64_t{0} : share.end - share.begin;
  std::string key;
  WriteBatch batch;
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  uint64_t next = share.begin;
  while (meter.Continue()) {
    const uint64_t count = meter.Left(batch_size);
    batch.Clear();
    for (uint64_t i = 0; i < count; ++i, ++next) {
      const uint64_t entry =
          order == Order::kSequential ? next : thread->random.Uniform(settings_.num);
      keys_.Format(2 * entry, &key);
      if (batch_size == 1) {
        SIEVEDB_RETURN_IF_ERROR(db_->Delete(options, key));
      } else {
        batch.Delete(key);
      }
    }
    if (batch_size != 1) SIEVEDB_RETURN_IF_ERROR(db_->Write(options, &batch));
    meter.Done(count, 0);
  }
  return absl::OkStatus();
}

absl::Status DbBench::DeleteSequential(BenchThread* thread) {
  return DeleteEntries(thread, Order::kSequential);
}

absl::Status DbBench::DeleteRandom(BenchThread* thread) {
  return DeleteEntries(thread, Order::kRandom);
}

// Asks for the keys of the numbers that next_number() returns.
template <typename NextNumber>
absl::Status DbBench::GetEach(BenchThread* thread, NextNumber next_number) {
  const ReadOptions options;
  const uint64_t operations = settings_.duration_seconds > 0 ? ~uint64_t{0} : settings_.Reads();
  std::string key;
  PinnedValue value;
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  while (meter.Continue()) {
    keys_.Format(next_number(), &key);
    uint64_t bytes = 0;
    const absl::Status status = db_->Get(options, key, &value);
    if (status.ok()) {
      ++thread->figures.found;
      bytes = key.size() + value.size();
    } else if (!absl::IsNotFound(status)) {
      return status;
    }
    meter.Done(1, bytes);
  }
  return absl::OkStatus();
}

absl::Status DbBench::ReadRandom(BenchThread* thread) {
  return GetEach(thread, [&] { return 2 * thread->random.Uniform(settings_.num); });
}

absl::Status DbBench::ReadMissing(BenchThread* thread) {
  const uint64_t gaps = std::max<uint64_t>(1, last_entry_ - first_entry_);
  return GetEach(thread, [&] { return 2 * (first_entry_ + thread->random.Uniform(gaps)) + 1; });
}

absl::Status DbBench::ReadHot(BenchThread* thread) {
  const uint64_t hot = (settings_.num + kHotPart - 1) / kHotPart;
  return GetEach(thread, [&] { return 2 * thread->random.Uniform(hot); });
}

absl::Status DbBench::Scan(BenchThread* thread, bool forward) {
  const bool timed = settings_.duration_seconds > 0;
  const uint64_t operations = timed ? ~uint64_t{0} : settings_.Reads();
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  const std::unique_ptr<Iterator> iterator = db_->NewIterator(ReadOptions());
  // A timed scan begins anew at the end, unless there is nothing to read.
  do {
    const uint64_t before = thread->figures.operations;
    if (forward) {
      iterator->SeekToFirst();
    } else {
      iterator->SeekToLast();
    }
    while (iterator->Valid() && meter.Continue()) {
      meter.Done(1, iterator->key().size() + iterator->value().size());
      if (forward) {
        iterator->Next();
      } else {
        iterator->Prev();
      }
    }
    SIEVEDB_RETURN_IF_ERROR(iterator->status());
    if (thread->figures.operations == before) break;
  } while (timed && meter.Continue());
  return absl::OkStatus();
}

absl::Status DbBench::ReadSequential(BenchThread* thread) { return Scan(thread, true); }

absl::Status DbBench::ReadReverse(BenchThread* thread) { return Scan(thread, false); }

absl::Status DbBench::SeekRandom(BenchThread* thread) { return SeekEach(thread, 0); }

absl::Status DbBench::SeekMissing(BenchThread* thread) { return SeekEach(thread, 1); }

// Keys that are there are even numbers.
absl::Status DbBench::SeekEach(BenchThread* thread, uint64_t odd) {
  ReadOptions options;
  options.prefix_same_as_start = settings_.prefix_bytes > 0;
  const uint64_t operations = settings_.duration_seconds > 0 ? ~uint64_t{0} : settings_.Reads();
  std::string key;
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  while (meter.Continue()) {
    keys_.Format(2 * thread->random.Uniform(settings_.num) + odd, &key);
    const std::unique_ptr<Iterator> iterator = db_->NewIterator(options);
    iterator->Seek(key);
    if (iterator->Valid() && iterator->key() == key) ++thread->figures.found;
    uint64_t bytes = 0;
    for (int i = 0; i < settings_.seek_nexts && iterator->Valid(); ++i) {
      bytes += iterator->key().size() + iterator->value().size();
      iterator->Next();
    }
    SIEVEDB_RETURN_IF_ERROR(iterator->status());
    meter.Done(1, bytes);
  }
  return absl::OkStatus();
}

absl::Status DbBench::MultiReadRandom(BenchThread* thread) {
  ReadOptions options;
  options.async_io = settings_.async_io;
  const uint64_t batch_size = settings_.BatchSize(kUsualMultiGet);
  const uint64_t operations = settings_.duration_seconds > 0 ? ~uint64_t{0} : settings_.Reads();
  std::vector<std::string> keys(batch_size);
  std::vector<std::string_view> views(batch_size);
  std::vector<PinnedValue> values(batch_size);
  std::vector<absl::Status> statuses(batch_size);
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  while (meter.Continue()) {
    const uint64_t count = meter.Left(batch_size);
    for (uint64_t i = 0; i < count; ++i) {
      keys_.Format(2 * thread->random.Uniform(settings_.num), &keys[i]);
      views[i] = keys[i];
    }
    db_->MultiGet(options, absl::MakeConstSpan(views).first(count),
                  absl::MakeSpan(values).first(count), absl::MakeSpan(statuses).first(count));
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (statuses[i].ok()) {
        ++thread->figures.found;
        bytes += keys[i].size() + values[i].size();
      } else if (!absl::IsNotFound(statuses[i])) {
        return statuses[i];
      }
    }
    meter.Done(count, bytes);
  }
  return absl::OkStatus();
}

// What the additional thread of readwhilewriting does. Its figures don't count.
absl::Status DbBench::OverwriteUntilReadersEnd(BenchThread* thread,
                                               const std::atomic<int>* readers) {
  WriteOptions options;
  options.sync = settings_.sync;
  options.disable_wal = settings_.disable_wal;
  std::string key;
  uint64_t written = 0;
  // Relaxed: the writer may see the end of the last reader a little late.
  while (readers->load(std::memory_order_relaxed) > 0) {
    keys_.Format(2 * thread->random.Uniform(settings_.num), &key);
    SIEVEDB_RETURN_IF_ERROR(db_->Put(options, key, values_.ValueOf(written++)));
  }
  return absl::OkStatus();
}

absl::Status DbBench::Compact(BenchThread* thread) {
  OperationMeter meter(1, 0, &thread->figures, progress_);
  SIEVEDB_RETURN_IF_ERROR(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr));
  meter.Done(1, 0);
  return absl::OkStatus();
}

absl::Status DbBench::FlushMemtable(BenchThread* thread) {
  OperationMeter meter(1, 0, &thread->figures, progress_);
  SIEVEDB_RETURN_IF_ERROR(db_->Flush(FlushOptions()));
  meter.Done(1, 0);
  return absl::OkStatus();
}

absl::Status DbBench::Reopen(BenchThread* thread) {
  const uint64_t operations = settings_.duration_seconds > 0
                                  ? ~uint64_t{0}
                                  : std::max<uint64_t>(1, settings_.num / kEntriesPerOpen);
  OperationMeter meter(operations, settings_.duration_seconds, &thread->figures, progress_);
  while (meter.Continue()) {
    SIEVEDB_RETURN_IF_ERROR(Close());
    SIEVEDB_RETURN_IF_ERROR(Open());
    meter.Done(1, 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DbBench::Property(std::string_view name) {
  std::optional<std::string> text = db_->GetProperty(name);
  if (!text.has_value()) {
    return absl::InternalError(absl::StrFormat("the database does not know %s", name));
  }
  if (!text->empty() && text->back() != '\n') *text += '\n';
  return *std::move(text);
}

absl::StatusOr<std::string> DbBench::PrintStats() { return Property("sievedb.stats"); }
absl::StatusOr<std::string> DbBench::PrintLevelStats() { return Property("sievedb.levels"); }
absl::StatusOr<std::string> DbBench::PrintFilterStats() {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string levels, Property("sievedb.filters"));
  SIEVEDB_ASSIGN_OR_RETURN(const std::string tables, Property("sievedb.filter-tables"));
  return levels + "\n" + tables;
}

}  // namespace sievedb
