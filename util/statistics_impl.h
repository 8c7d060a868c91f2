#ifndef SIEVEDB_UTIL_STATISTICS_IMPL_H_
#define SIEVEDB_UTIL_STATISTICS_IMPL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sievedb/statistics.h"
#include "util/clock.h"
#include "util/epoch.h"
#include "util/histogram.h"
#include "util/mutex.h"

namespace sievedb {

enum class FilterAnswer : uint32_t { kNo, kMaybePresent, kMaybeAbsent, kCount };

// The implementation behind NewStatistics. Count and LatencyTimer take a null
// pointer for "off".
//
// What is counted is spread over shards, made when first needed:
//   1. A thread whose ThreadIndex is below kShards - 1 is the only writer of the
//      shard of that number, and adds without a locked instruction. The next thread
//      of that index comes after it (EpochRecord::in_use orders them).
//   2. All other threads share the last shard.
//   3. Counts in shards only grow. Reset notes their sums as what is to be subtracted,
//      so it never races with a writer.
class StatisticsImpl final : public Statistics {
 public:
  StatisticsImpl();
  ~StatisticsImpl() override;
  uint64_t Get(Counter counter) const override;
  FilterLevelCounts GetFilterCounts(int level) const override;
  LatencySummary GetLatency(Latency latency) const override;
  std::string ToString() const override;
  void Reset() override;

  void Add(Counter counter, uint64_t n) {
    Shard* const shard = MyShard();
    Increase(shard, &shard->counters[static_cast<size_t>(counter)], n);
  }
  // Requires: 0 <= level < kLevels.
  void AddFilterAnswer(int level, FilterAnswer answer) {
    Shard* const shard = MyShard();
    const size_t i = static_cast<size_t>(level) * kAnswers + static_cast<size_t>(answer);
    Increase(shard, &shard->filter_answers[i], 1);
  }
  void Record(Latency latency, uint64_t nanos);
  // True once in 32 calls of a thread.
  bool Sample() {
    Shard* const shard = MyShard();
    return Increase(shard, &shard->samples, 1) % kSampleEvery == 0;
  }

 private:
  static constexpr size_t kShards = 64;
  static constexpr uint64_t kSampleEvery = 32;
  static constexpr size_t kCounters = static_cast<size_t>(Counter::kCount);
  static constexpr size_t kLatencies = static_cast<size_t>(Latency::kCount);
  static constexpr size_t kAnswers = static_cast<size_t>(FilterAnswer::kCount);

  struct LatencyCounts {
    std::array<std::atomic<uint64_t>, HistogramBuckets::kCount> buckets = {};
    std::atomic<uint64_t> sum_nanos{0};
    std::atomic<uint64_t> max_nanos{0};
  };

  struct alignas(64) Shard {
    explicit Shard(bool is_shared) : shared(is_shared) {}

    const bool shared;  // written by more than one thread
    std::atomic<uint64_t> samples{0};
    std::array<std::atomic<uint64_t>, kLevels* kAnswers> filter_answers = {};
    std::array<std::atomic<uint64_t>, kCounters> counters = {};
    std::array<LatencyCounts, kLatencies> latencies = {};
  };

  // Sums over all shards.
  struct LatencyTotals {
    std::array<uint64_t, HistogramBuckets::kCount> buckets = {};
    uint64_t sum_nanos = 0;
  };
  struct Totals {
    std::array<uint64_t, kLevels* kAnswers> filter_answers = {};
    std::array<uint64_t, kCounters> counters = {};
    std::array<LatencyTotals, kLatencies> latencies = {};
  };

  // Adds n and returns what was there before. Relaxed: figures say nothing about other
  // memory.
  static uint64_t Increase(const Shard* shard, std::atomic<uint64_t>* figure, uint64_t n) {
    if (shard->shared) [[unlikely]]
      return figure->fetch_add(n, std::memory_order_relaxed);
    const uint64_t before = figure->load(std::memory_order_relaxed);
    figure->store(before + n, std::memory_order_relaxed);
    return before;
  }

  Shard* MyShard() {
    const size_t i = std::min<size_t>(ThreadIndex(), kShards - 1);
    // Acquire: the shard was made before it was put here.
    Shard* const shard = shards_[i].load(std::memory_order_acquire);
    if (shard != nullptr) [[likely]]
      return shard;
    return NewShard(i);
  }
  Shard* NewShard(size_t i);

  // Calls f(const Shard&) for each shard that there is.
  template <typename F>
  void ForEachShard(F f) const;
  LatencyTotals SumLatency(size_t latency) const;

  std::array<std::atomic<Shard*>, kShards> shards_ = {};  // owned

  mutable Mutex mu_;
  // What was counted before the last Reset; null before the first.
  std::unique_ptr<Totals> base_ ABSL_GUARDED_BY(mu_);
};

inline void Count(StatisticsImpl* statistics, Counter counter, uint64_t n = 1) {
  if (statistics != nullptr) statistics->Add(counter, n);
}

// Records the time from its creation to its end, where it is one that is sampled.
class LatencyTimer {
 public:
  enum class When { kAlways, kSampled };
  LatencyTimer(StatisticsImpl* statistics, Latency latency, When when)
      : statistics_(statistics != nullptr && (when == When::kAlways || statistics->Sample())
                        ? statistics
                        : nullptr),
        latency_(latency),
        start_nanos_(statistics_ != nullptr ? NowNanos() : 0) {}
  ~LatencyTimer() {
    if (statistics_ != nullptr) statistics_->Record(latency_, NowNanos() - start_nanos_);
  }
  LatencyTimer(const LatencyTimer&) = delete;
  LatencyTimer& operator=(const LatencyTimer&) = delete;

 private:
  StatisticsImpl* const statistics_;  // null: not recorded
  const Latency latency_;
  const uint64_t start_nanos_;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_STATISTICS_IMPL_H_
