#include "util/filter_tally.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "util/binomial.h"

namespace sievedb {
namespace {

TEST(BinomialTest, WilsonsIntervalHoldsItsPublishedValues) {
  // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
  const auto expect = [](double hits, double trials, double low, double high) {
    const ShareInterval interval = WilsonInterval(hits / trials, trials, 1.959964);
    EXPECT_NEAR(interval.low, low, 5e-5);
    EXPECT_NEAR(interval.high, high, 5e-5);
  };
  expect(81, 263, 0.2553, 0.3662);
  expect(15, 148, 0.0624, 0.1605);
  expect(0, 20, 0.0, 0.1611);
  expect(1, 29, 0.0061, 0.1718);
  EXPECT_EQ(WilsonInterval(0, 0, 1.96).low, 0);
  EXPECT_EQ(WilsonInterval(0, 0, 1.96).high, 1);
  EXPECT_EQ(WilsonInterval(1, 5, 1.96).high, 1);
}

TEST(FilterTallyTest, OneLookupInManyIsSampledAtNoFixedDistance) {
  constexpr int kLookups = 1'000'000;
  int sampled = 0;
  int in_step = 0;  // at an even place
  for (int i = 0; i < kLookups; ++i) {
    if (!FilterTally::Sample(ThisThreadEpochRecord())) continue;
    ++sampled;
    in_step += i % 2;
  }
  const double expected = static_cast<double>(kLookups) / FilterTally::kSampleEvery;
  EXPECT_NEAR(sampled, expected, 0.06 * expected);
  EXPECT_NEAR(in_step, expected / 2, 0.06 * expected);
}

TEST(FilterTallyTest, CountsAreSummedOverThreads) {
  FilterTally tally;
  EXPECT_EQ(tally.Sum().Absent(), 0);
  constexpr int kThreads = 70;  // more than have a cell of their own
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&tally, t] {
      for (uint64_t i = 0; i < 200; ++i) {
        tally.CountNo();
        if (i % 2 == 0) tally.CountPresent();
        tally.CountFalse(static_cast<uint64_t>(t) * 1000 + i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const FilterCounts sum = tally.Sum();
  EXPECT_EQ(sum.sampled_no, 200u * kThreads);
  EXPECT_EQ(sum.sampled_present, 100u * kThreads);
  EXPECT_EQ(sum.false_maybe, 200u * kThreads);
  EXPECT_EQ(sum.SaidNo(), 200.0 * kThreads * FilterTally::kSampleEvery);
}

TEST(FilterTallyTest, AKeyThatIsAskedForAgainCountsOnceAsAKey) {
  FilterTally tally;
  for (int i = 0; i < 1000; ++i) tally.CountFalse(42);
  EXPECT_EQ(tally.Sum().false_maybe, 1000u);
  EXPECT_EQ(tally.Sum().false_maybe_keys, 1u);
  for (uint64_t i = 1; i <= 1000; ++i) tally.CountFalse(i * 0x123456789ABCDEF);
  EXPECT_GE(tally.Sum().false_maybe_keys, 990u);
}

TEST(FilterTallyTest, ManyFalseAnswersAskForAnAudit) {
  FilterTally tally;
  std::vector<uint64_t> at;
  for (uint64_t i = 1; i <= 5 * FilterTally::kLookAgain; ++i) {
    if (tally.CountFalse(i)) at.push_back(i);
  }
  const uint64_t first = FilterTally::kLookAgain;
  EXPECT_EQ(at, (std::vector<uint64_t>{first, 2 * first, 4 * first}));
}

// Simulated: the interval holds the true rate as often as it says, though it is made of
// one exact and one sampled count.
TEST(FilterTallyTest, TheIntervalCoversTheTrueRate) {
  constexpr double kRate = 0.02;
  constexpr int kRuns = 400;
  int covered = 0;
  uint64_t random = 88172645463325252;
  const auto below_one = [&random] {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return static_cast<double>(random >> 11) * 0x1p-53;
  };
  for (int run = 0; run < kRuns; ++run) {
    FilterCounts counts;
    for (int i = 0; i < 20'000; ++i) {
      const bool sampled = FilterTally::Sample(ThisThreadEpochRecord());
      if (below_one() < kRate) {
        ++counts.false_maybe;
      } else if (sampled) {
        ++counts.sampled_no;
      }
    }
    const ObservedFpr observed = ObserveFpr(counts, counts.false_maybe, 1.96);
    EXPECT_NEAR(observed.share, kRate, 0.6 * kRate);
    if (observed.interval.low <= kRate && kRate <= observed.interval.high) ++covered;
  }
  EXPECT_GE(covered, kRuns * 92 / 100);
  EXPECT_LE(covered, kRuns);
}

TEST(FilterTallyTest, ExtremesHaveAnInterval) {
  FilterCounts counts;
  ObservedFpr observed = ObserveFpr(counts, 0, 1.96);
  EXPECT_EQ(observed.interval.low, 0);
  EXPECT_EQ(observed.interval.high, 1);
  counts.false_maybe = 10'000;  // never a no
  observed = ObserveFpr(counts, counts.false_maybe, 5);
  EXPECT_EQ(observed.share, 1);
  EXPECT_GT(observed.interval.low, 0.7);
  counts = {};
  counts.sampled_no = 1000;  // never a false maybe
  observed = ObserveFpr(counts, 0, 1.96);
  EXPECT_EQ(observed.share, 0);
  EXPECT_LT(observed.interval.high, 1e-4);
}

}  // namespace
}  // namespace sievedb
