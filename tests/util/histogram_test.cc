#include "util/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace sievedb {
namespace {

TEST(HistogramTest, BucketsCoverAllNumbersInOrder) {
  uint64_t next = 0;
  for (size_t i = 0; i < HistogramBuckets::kCount; ++i) {
    ASSERT_EQ(HistogramBuckets::LowerBound(i), next) << i;
    const uint64_t last = next + (HistogramBuckets::Width(i) - 1);
    ASSERT_EQ(HistogramBuckets::IndexOf(next), i);
    ASSERT_EQ(HistogramBuckets::IndexOf(last), i);
    // No wider than a sixteenth of the values in it.
    ASSERT_LE(HistogramBuckets::Width(i), std::max<uint64_t>(next / 16, 1));
    next = last + 1;
  }
  EXPECT_EQ(next, 0u);  // the last bucket ends with the largest number
}

TEST(HistogramTest, EmptyIsAllZero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.Average(), 0);
  EXPECT_EQ(h.StandardDeviation(), 0);
  EXPECT_EQ(h.Min(), 0u);
  EXPECT_EQ(h.Max(), 0u);
  EXPECT_EQ(h.Percentile(50), 0);
}

TEST(HistogramTest, OneValueIsEveryPercentile) {
  for (const uint64_t v :
       {uint64_t{0}, uint64_t{1}, uint64_t{123456789}, std::numeric_limits<uint64_t>::max()}) {
    Histogram h;
    h.Add(v);
    EXPECT_EQ(h.Min(), v);
    EXPECT_EQ(h.Max(), v);
    for (const double p : {-1.0, 0.0, 50.0, 99.9, 100.0, 200.0, std::nan("")}) {
      EXPECT_EQ(h.Percentile(p), static_cast<double>(v)) << p;
    }
    EXPECT_EQ(h.StandardDeviation(), 0);
  }
}

double ExactPercentile(const std::vector<uint64_t>& sorted, double p) {
  const double rank = std::ceil(p / 100 * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1]);
}

TEST(HistogramTest, PercentilesAreWithinASixteenth) {
  std::mt19937_64 random(21);
  std::lognormal_distribution<double> latency(10, 2);
  Histogram h;
  std::vector<uint64_t> values;
  for (int i = 0; i < 50000; ++i) {
    values.push_back(static_cast<uint64_t>(latency(random)));
    h.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double p : {1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99}) {
    const double exact = ExactPercentile(values, p);
    EXPECT_NEAR(h.Percentile(p), exact, exact / 16 + 1) << p;
  }
  EXPECT_EQ(h.Percentile(0), static_cast<double>(values.front()));
  EXPECT_EQ(h.Percentile(100), static_cast<double>(values.back()));
  double before = 0;
  for (double p = 0; p <= 100; p += 0.5) {
    EXPECT_GE(h.Percentile(p), before);
    before = h.Percentile(p);
  }
}

TEST(HistogramTest, MomentsAreExact) {
  Histogram h;
  // Large and alike: a sum of squares would lose the deviation.
  for (const uint64_t v : {4, 7, 13, 16}) h.Add(uint64_t{1000000000000} + v);
  EXPECT_DOUBLE_EQ(h.Average(), 1000000000010.0);
  EXPECT_NEAR(h.StandardDeviation(), std::sqrt(22.5), 1e-6);
  EXPECT_EQ(h.Min(), 1000000000004u);
  EXPECT_EQ(h.Max(), 1000000000016u);
}

TEST(HistogramTest, MergeIsTheSameAsAddingAll) {
  std::mt19937_64 random(8);
  Histogram all;
  Histogram merged;
  merged.Merge(Histogram());
  EXPECT_EQ(merged.count(), 0u);
  for (int part = 0; part < 5; ++part) {
    Histogram h;
    for (int i = 0; i < 1000; ++i) {
      const uint64_t v = random() % (uint64_t{1000} << (4 * part));
      h.Add(v);
      all.Add(v);
    }
    merged.Merge(h);
  }
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.Min(), all.Min());
  EXPECT_EQ(merged.Max(), all.Max());
  EXPECT_NEAR(merged.Average(), all.Average(), all.Average() * 1e-12);
  EXPECT_NEAR(merged.StandardDeviation(), all.StandardDeviation(), all.Average() * 1e-9);
  for (const double p : {5.0, 50.0, 99.0}) EXPECT_EQ(merged.Percentile(p), all.Percentile(p));
  merged.Clear();
  EXPECT_EQ(merged.count(), 0u);
  EXPECT_EQ(merged.Percentile(50), 0);
}

TEST(HistogramTest, ToStringIsOneLine) {
  Histogram h;
  h.Add(2000);
  EXPECT_EQ(h.ToString(),
            "count 1 average 2.000 us stddev 0.000 min 2.000 p50 2.000 p95 2.000 p99 2.000 "
            "p99.9 2.000 max 2.000");
}

}  // namespace
}  // namespace sievedb
