#include "util/statistics_impl.h"

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

constexpr std::array<const char*, static_cast<size_t>(Counter::kCount)> kCounterNames = {
    "sievedb.write.keys",
    "sievedb.write.bytes",
    "sievedb.write.groups",
    "sievedb.wal.bytes",
    "sievedb.wal.syncs",
    "sievedb.stall.micros",
    "sievedb.stall.stops",
    "sievedb.get.count",
    "sievedb.get.hits",
    "sievedb.get.memtable.hits",
    "sievedb.multiget.keys",
    "sievedb.iterator.seeks",
    "sievedb.iterator.nexts",
    "sievedb.iterator.prevs",
    "sievedb.block.cache.hits",
    "sievedb.block.cache.misses",
    "sievedb.block.reads",
    "sievedb.block.read.bytes",
    "sievedb.flush.count",
    "sievedb.flush.bytes",
    "sievedb.compaction.count",
    "sievedb.compaction.trivial.moves",
    "sievedb.compaction.bytes.read",
    "sievedb.compaction.bytes.written",
    "sievedb.compaction.dropped.hidden",
    "sievedb.compaction.dropped.tombstone",
    "sievedb.ingest.tables",
    "sievedb.ingest.bytes",
    "sievedb.table.opened",
    "sievedb.filter.load.errors",
    "sievedb.prefix.checks",
    "sievedb.prefix.skips",
};

constexpr std::array<const char*, static_cast<size_t>(Latency::kCount)> kLatencyNames = {
    "sievedb.get.latency",        "sievedb.multiget.latency",   "sievedb.write.latency",
    "sievedb.seek.latency",       "sievedb.wal.sync.latency",   "sievedb.flush.latency",
    "sievedb.compaction.latency", "sievedb.block.read.latency",
};

// std::array fills missing names with null; the lists and the enums must not drift.
static_assert(kCounterNames.back() != nullptr);
static_assert(kLatencyNames.back() != nullptr);

}  // namespace

const char* CounterName(Counter counter) {
  const auto i = static_cast<size_t>(counter);
  return i < kCounterNames.size() ? kCounterNames[i] : "unknown";
}

const char* LatencyName(Latency latency) {
  const auto i = static_cast<size_t>(latency);
  return i < kLatencyNames.size() ? kLatencyNames[i] : "unknown";
}

std::shared_ptr<Statistics> NewStatistics() { return std::make_shared<StatisticsImpl>(); }

StatisticsImpl::StatisticsImpl() = default;

StatisticsImpl::~StatisticsImpl() {
  for (std::atomic<Shard*>& shard : shards_) {
    const std::unique_ptr<Shard> owned(shard.load(std::memory_order_acquire));
  }
}

StatisticsImpl::Shard* StatisticsImpl::NewShard(size_t i) {
  auto shard = std::make_unique<Shard>(/*is_shared=*/i == kShards - 1);
  Shard* existing = nullptr;
  // Only the shared one can have been made by another thread meanwhile.
  if (!shards_[i].compare_exchange_strong(existing, shard.get(), std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
    return existing;
  }
  return shard.release();
}

void StatisticsImpl::Record(Latency latency, uint64_t nanos) {
  Shard* const shard = MyShard();
  LatencyCounts& counts = shard->latencies[static_cast<size_t>(latency)];
  Increase(shard, &counts.buckets[HistogramBuckets::IndexOf(nanos)], 1);
  Increase(shard, &counts.sum_nanos, nanos);
  // Also in a shard of one's own: Reset lowers it.
  uint64_t max = counts.max_nanos.load(std::memory_order_relaxed);
  while (nanos > max &&
         !counts.max_nanos.compare_exchange_weak(max, nanos, std::memory_order_relaxed)) {
  }
}

template <typename F>
void StatisticsImpl::ForEachShard(F f) const {
  for (const std::atomic<Shard*>& slot : shards_) {
    const Shard* const shard = slot.load(std::memory_order_acquire);
    if (shard != nullptr) f(*shard);
  }
}

uint64_t StatisticsImpl::Get(Counter counter) const {
  const auto i = static_cast<size_t>(counter);
  if (i >= kCounters) return 0;
  const MutexLock lock(&mu_);
  uint64_t sum = 0;
  ForEachShard([&](const Shard& s) { sum += s.counters[i].load(std::memory_order_relaxed); });
  return base_ == nullptr ? sum : sum - base_->counters[i];
}

FilterLevelCounts StatisticsImpl::GetFilterCounts(int level) const {
  FilterLevelCounts counts;
  if (level < 0 || level >= kLevels) return counts;
  const MutexLock lock(&mu_);
  std::array<uint64_t, kAnswers> sums = {};
  for (size_t answer = 0; answer < kAnswers; ++answer) {
    const size_t i = static_cast<size_t>(level) * kAnswers + answer;
    ForEachShard([&](const Shard& s) {
      sums[answer] += s.filter_answers[i].load(std::memory_order_relaxed);
    });
    if (base_ != nullptr) sums[answer] -= base_->filter_answers[i];
  }
  counts.said_no = sums[static_cast<size_t>(FilterAnswer::kNo)];
  counts.maybe_present = sums[static_cast<size_t>(FilterAnswer::kMaybePresent)];
  counts.maybe_absent = sums[static_cast<size_t>(FilterAnswer::kMaybeAbsent)];
  counts.checked = counts.said_no + counts.maybe_present + counts.maybe_absent;
  return counts;
}

StatisticsImpl::LatencyTotals StatisticsImpl::SumLatency(size_t latency) const {
  LatencyTotals totals;
  ForEachShard([&](const Shard& s) {
    const LatencyCounts& counts = s.latencies[latency];
    for (size_t i = 0; i < totals.buckets.size(); ++i) {
      totals.buckets[i] += counts.buckets[i].load(std::memory_order_relaxed);
    }
    totals.sum_nanos += counts.sum_nanos.load(std::memory_order_relaxed);
  });
  return totals;
}

LatencySummary StatisticsImpl::GetLatency(Latency latency) const {
  LatencySummary summary;
  const auto which = static_cast<size_t>(latency);
  if (which >= kLatencies) return summary;
  const MutexLock lock(&mu_);
  LatencyTotals totals = SumLatency(which);
  if (base_ != nullptr) {
    const LatencyTotals& base = base_->latencies[which];
    for (size_t i = 0; i < totals.buckets.size(); ++i) totals.buckets[i] -= base.buckets[i];
    totals.sum_nanos -= base.sum_nanos;
  }
  for (const uint64_t count : totals.buckets) summary.count += count;
  if (summary.count == 0) return summary;
  uint64_t max = 0;
  ForEachShard([&](const Shard& s) {
    max = std::max(max, s.latencies[which].max_nanos.load(std::memory_order_relaxed));
  });
  summary.max_nanos = static_cast<double>(max);
  summary.average_nanos =
      static_cast<double>(totals.sum_nanos) / static_cast<double>(summary.count);
  const auto percentile = [&](double p) {
    return std::min(HistogramBuckets::Percentile(totals.buckets, p), summary.max_nanos);
  };
  summary.p50_nanos = percentile(50);
  summary.p95_nanos = percentile(95);
  summary.p99_nanos = percentile(99);
  summary.p999_nanos = percentile(99.9);
  return summary;
}

std::string StatisticsImpl::ToString() const {
  std::string text;
  for (size_t i = 0; i < kCounters; ++i) {
    const auto counter = static_cast<Counter>(i);
    const uint64_t count = Get(counter);
    if (count != 0) absl::StrAppendFormat(&text, "%s COUNT : %u\n", CounterName(counter), count);
  }
  for (int level = 0; level < kLevels; ++level) {
    const FilterLevelCounts c = GetFilterCounts(level);
    if (c.checked == 0) continue;
    absl::StrAppendFormat(&text,
                          "sievedb.filter.level%d CHECKED : %u NO : %u PRESENT : %u FALSE : %u\n",
                          level, c.checked, c.said_no, c.maybe_present, c.maybe_absent);
  }
  for (size_t i = 0; i < kLatencies; ++i) {
    const auto latency = static_cast<Latency>(i);
    const LatencySummary s = GetLatency(latency);
    if (s.count == 0) continue;
    absl::StrAppendFormat(&text,
                          "%s MICROS P50 : %.3f P95 : %.3f P99 : %.3f P99.9 : %.3f MAX : %.3f "
                          "AVERAGE : %.3f COUNT : %u\n",
                          LatencyName(latency), s.p50_nanos / 1000, s.p95_nanos / 1000,
                          s.p99_nanos / 1000, s.p999_nanos / 1000, s.max_nanos / 1000,
                          s.average_nanos / 1000, s.count);
  }
  return text;
}

void StatisticsImpl::Reset() {
  auto base = std::make_unique<Totals>();
  const MutexLock lock(&mu_);
  ForEachShard([&](const Shard& s) {
    for (size_t i = 0; i < kCounters; ++i) {
      base->counters[i] += s.counters[i].load(std::memory_order_relaxed);
    }
    for (size_t i = 0; i < base->filter_answers.size(); ++i) {
      base->filter_answers[i] += s.filter_answers[i].load(std::memory_order_relaxed);
    }
  });
  for (size_t i = 0; i < kLatencies; ++i) base->latencies[i] = SumLatency(i);
  // A maximum can't be subtracted from; the next samples set it anew.
  for (const std::atomic<Shard*>& slot : shards_) {
    Shard* const shard = slot.load(std::memory_order_acquire);
    if (shard == nullptr) continue;
    for (LatencyCounts& counts : shard->latencies) {
      counts.max_nanos.store(0, std::memory_order_relaxed);
    }
  }
  base_ = std::move(base);
}

}  // namespace sievedb
