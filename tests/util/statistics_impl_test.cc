#include "util/statistics_impl.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sievedb {
namespace {

TEST(StatisticsTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Counter::kCount); ++i) {
    const std::string_view name = CounterName(static_cast<Counter>(i));
    EXPECT_TRUE(name.starts_with("sievedb.")) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  for (uint32_t i = 0; i < static_cast<uint32_t>(Latency::kCount); ++i) {
    const std::string_view name = LatencyName(static_cast<Latency>(i));
    EXPECT_TRUE(name.starts_with("sievedb.")) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  // Names and enums are in one order: a few from all over.
  EXPECT_STREQ(CounterName(Counter::kKeysWritten), "sievedb.write.keys");
  EXPECT_STREQ(CounterName(Counter::kGetHits), "sievedb.get.hits");
  EXPECT_STREQ(CounterName(Counter::kPrevs), "sievedb.iterator.prevs");
  EXPECT_STREQ(CounterName(Counter::kFlushBytes), "sievedb.flush.bytes");
  EXPECT_STREQ(CounterName(Counter::kFilterLoadErrors), "sievedb.filter.load.errors");
  EXPECT_STREQ(CounterName(Counter::kCount), "unknown");
  EXPECT_STREQ(LatencyName(Latency::kWrite), "sievedb.write.latency");
  EXPECT_STREQ(LatencyName(Latency::kBlockRead), "sievedb.block.read.latency");
  EXPECT_STREQ(LatencyName(Latency::kCount), "unknown");
}

TEST(StatisticsTest, CountsWhatIsAdded) {
  StatisticsImpl statistics;
  EXPECT_EQ(statistics.Get(Counter::kGets), 0u);
  EXPECT_EQ(statistics.ToString(), "");
  Count(&statistics, Counter::kGets);
  Count(&statistics, Counter::kGets, 4);
  Count(nullptr, Counter::kGets);  // off
  EXPECT_EQ(statistics.Get(Counter::kGets), 5u);
  EXPECT_EQ(statistics.Get(Counter::kGetHits), 0u);
  EXPECT_EQ(statistics.Get(Counter::kCount), 0u);
  EXPECT_EQ(statistics.ToString(), "sievedb.get.count COUNT : 5\n");
}

TEST(StatisticsTest, CountsFilterAnswersPerLevel) {
  StatisticsImpl statistics;
  for (int i = 0; i < 7; ++i) statistics.AddFilterAnswer(2, FilterAnswer::kNo);
  for (int i = 0; i < 3; ++i) statistics.AddFilterAnswer(2, FilterAnswer::kMaybePresent);
  statistics.AddFilterAnswer(2, FilterAnswer::kMaybeAbsent);
  statistics.AddFilterAnswer(6, FilterAnswer::kMaybeAbsent);
  const FilterLevelCounts counts = statistics.GetFilterCounts(2);
  EXPECT_EQ(counts.checked, 11u);
  EXPECT_EQ(counts.said_no, 7u);
  EXPECT_EQ(counts.maybe_present, 3u);
  EXPECT_EQ(counts.maybe_absent, 1u);
  EXPECT_EQ(statistics.GetFilterCounts(6).maybe_absent, 1u);
  EXPECT_EQ(statistics.GetFilterCounts(0).checked, 0u);
  EXPECT_EQ(statistics.GetFilterCounts(-1).checked, 0u);
  EXPECT_EQ(statistics.GetFilterCounts(7).checked, 0u);
  EXPECT_EQ(statistics.ToString(),
            "sievedb.filter.level2 CHECKED : 11 NO : 7 PRESENT : 3 FALSE : 1\n"
            "sievedb.filter.level6 CHECKED : 1 NO : 0 PRESENT : 0 FALSE : 1\n");
}

TEST(StatisticsTest, SummarizesLatencies) {
  StatisticsImpl statistics;
  EXPECT_EQ(statistics.GetLatency(Latency::kGet).count, 0u);
  for (uint64_t i = 1; i <= 1000; ++i) statistics.Record(Latency::kGet, i * 1000);
  const LatencySummary summary = statistics.GetLatency(Latency::kGet);
  EXPECT_EQ(summary.count, 1000u);
  EXPECT_DOUBLE_EQ(summary.average_nanos, 500500);
  EXPECT_NEAR(summary.p50_nanos, 500000, 500000 / 16);
  EXPECT_NEAR(summary.p95_nanos, 950000, 950000 / 16);
  EXPECT_NEAR(summary.p99_nanos, 990000, 990000 / 16);
  EXPECT_NEAR(summary.p999_nanos, 999000, 999000 / 16);
  EXPECT_EQ(summary.max_nanos, 1000000);
  EXPECT_LE(summary.p999_nanos, summary.max_nanos);
  EXPECT_EQ(statistics.GetLatency(Latency::kWrite).count, 0u);
  EXPECT_EQ(statistics.GetLatency(Latency::kCount).count, 0u);
  EXPECT_NE(statistics.ToString().find("sievedb.get.latency MICROS P50 : "), std::string::npos);
}

TEST(StatisticsTest, ResetStartsAnew) {
  StatisticsImpl statistics;
  statistics.Add(Counter::kFlushes, 3);
  statistics.AddFilterAnswer(0, FilterAnswer::kNo);
  statistics.Record(Latency::kFlush, 1000000);
  statistics.Reset();
  EXPECT_EQ(statistics.ToString(), "");
  statistics.Add(Counter::kFlushes, 2);
  statistics.AddFilterAnswer(0, FilterAnswer::kNo);
  statistics.Record(Latency::kFlush, 5);
  EXPECT_EQ(statistics.Get(Counter::kFlushes), 2u);
  EXPECT_EQ(statistics.GetFilterCounts(0).said_no, 1u);
  const LatencySummary summary = statistics.GetLatency(Latency::kFlush);
  EXPECT_EQ(summary.count, 1u);
  EXPECT_EQ(summary.average_nanos, 5);
  EXPECT_EQ(summary.max_nanos, 5);
  statistics.Reset();
  statistics.Reset();
  EXPECT_EQ(statistics.ToString(), "");
}

TEST(StatisticsTest, SamplesOneIn32) {
  StatisticsImpl statistics;
  int sampled = 0;
  for (int i = 0; i < 3200; ++i) sampled += statistics.Sample() ? 1 : 0;
  EXPECT_EQ(sampled, 100);
}

TEST(StatisticsTest, TimersRecord) {
  StatisticsImpl statistics;
  for (int i = 0; i < 64; ++i) {
    const LatencyTimer always(&statistics, Latency::kFlush, LatencyTimer::When::kAlways);
    const LatencyTimer sampled(&statistics, Latency::kGet, LatencyTimer::When::kSampled);
    const LatencyTimer off(nullptr, Latency::kSeek, LatencyTimer::When::kAlways);
  }
  EXPECT_EQ(statistics.GetLatency(Latency::kFlush).count, 64u);
  EXPECT_EQ(statistics.GetLatency(Latency::kGet).count, 2u);
  EXPECT_EQ(statistics.GetLatency(Latency::kSeek).count, 0u);
}

// More threads than there are shards, so that the shared one is used, while others
// read.
TEST(StatisticsTest, ManyThreadsLoseNothing) {
  StatisticsImpl statistics;
  constexpr int kThreads = 80;
  constexpr int kAdds = 2000;
  std::atomic<int> started = 0;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    uint64_t before = 0;
    while (!done) {
      const uint64_t now = statistics.Get(Counter::kGets);
      EXPECT_GE(now, before);
      before = now;
      EXPECT_LE(statistics.GetLatency(Latency::kGet).count, uint64_t{kThreads} * kAdds);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      started.fetch_add(1);
      ThreadIndex();
      while (started < kThreads) std::this_thread::yield();
      for (int i = 0; i < kAdds; ++i) {
        statistics.Add(Counter::kGets, 1);
        statistics.AddFilterAnswer(1, FilterAnswer::kNo);
        statistics.Record(Latency::kGet, static_cast<uint64_t>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  EXPECT_EQ(statistics.Get(Counter::kGets), uint64_t{kThreads} * kAdds);
  EXPECT_EQ(statistics.GetFilterCounts(1).said_no, uint64_t{kThreads} * kAdds);
  const LatencySummary summary = statistics.GetLatency(Latency::kGet);
  EXPECT_EQ(summary.count, uint64_t{kThreads} * kAdds);
  EXPECT_EQ(summary.max_nanos, kAdds - 1);
  EXPECT_DOUBLE_EQ(summary.average_nanos, (kAdds - 1) / 2.0);
}

TEST(StatisticsTest, ThePublicOne) {
  const std::shared_ptr<Statistics> statistics = NewStatistics();
  EXPECT_EQ(statistics->Get(Counter::kWalSyncs), 0u);
  EXPECT_EQ(statistics->ToString(), "");
}

}  // namespace
}  // namespace sievedb
