#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "sievedb/filter.h"

namespace sievedb {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(FilterSizingTest, OptimalBitsIsTheFormula) {
  EXPECT_EQ(FilterSizing::OptimalBits(1'000'000, 0.01), 9585059u);
  EXPECT_EQ(FilterSizing::OptimalBits(1, 0.5), 2u);  // 1.44
  EXPECT_EQ(FilterSizing::OptimalBits(0, 0.01), 0u);
}

TEST(FilterSizingTest, OptimalBitsClampsTheRate) {
  EXPECT_EQ(FilterSizing::OptimalBits(1000, 1), 0u);
  EXPECT_EQ(FilterSizing::OptimalBits(1000, 7), 0u);
  EXPECT_EQ(FilterSizing::OptimalBits(1000, kNan), 0u);
  EXPECT_EQ(FilterSizing::OptimalBits(1000, 0), FilterSizing::OptimalBits(1000, -3));
  EXPECT_GT(FilterSizing::OptimalBits(1000, 0), 1'000'000u);
  EXPECT_EQ(FilterSizing::OptimalBits(std::numeric_limits<uint64_t>::max(), 1e-9),
            std::numeric_limits<uint64_t>::max());
}

TEST(FilterSizingTest, OptimalProbesRoundsAndIsAtLeastOne) {
  EXPECT_EQ(FilterSizing::OptimalProbes(9.585), 7);
  EXPECT_EQ(FilterSizing::OptimalProbes(10), 7);
  EXPECT_EQ(FilterSizing::OptimalProbes(16), 11);
  EXPECT_EQ(FilterSizing::OptimalProbes(0.1), 1);
  EXPECT_EQ(FilterSizing::OptimalProbes(-5), 1);
  EXPECT_EQ(FilterSizing::OptimalProbes(kNan), 1);
  EXPECT_GE(FilterSizing::OptimalProbes(kInfinity), 1);
}

TEST(FilterSizingTest, TextbookRates) {
  EXPECT_NEAR(FilterSizing::ExpectedFpr(10, 7), 0.00819, 0.00001);
  EXPECT_NEAR(FilterSizing::ExpectedFpr(12, 8), 0.00314, 0.00001);
  EXPECT_NEAR(FilterSizing::ExpectedFpr(16, 11), 0.00046, 0.00001);
  EXPECT_EQ(FilterSizing::ExpectedFpr(0, 7), 1);
  EXPECT_EQ(FilterSizing::ExpectedFpr(kNan, 7), 1);
  EXPECT_EQ(FilterSizing::ExpectedFpr(10, 0), FilterSizing::ExpectedFpr(10, 1));
  EXPECT_EQ(FilterSizing::ExpectedFpr(kInfinity, 7), 0);
}

// The figures that the power of the mean fill gives, 0.957, 0.407 and 0.083 %, are
// 1 to 2 % below ours, which accounts for the fill's variance and is what filters
// really do (BlockedBloomTest measures it).
TEST(FilterSizingTest, OneLineRates) {
  EXPECT_NEAR(FilterSizing::ExpectedBlockedFpr(10, 7), 0.00957, 0.00957 * 0.02);
  EXPECT_NEAR(FilterSizing::ExpectedBlockedFpr(10, 6), 0.00957, 0.00957 * 0.02);
  EXPECT_NEAR(FilterSizing::ExpectedBlockedFpr(12, 8), 0.00407, 0.00407 * 0.02);
  EXPECT_NEAR(FilterSizing::ExpectedBlockedFpr(16, 9), 0.00083, 0.00083 * 0.02);
}

// Up to the best number of probes; with far too many, a saturated filter gains from
// the lines that happen to be less full.
TEST(FilterSizingTest, OneLineIsNeverBetterThanTheTextbook) {
  for (double bits = 1; bits <= 64; bits += 0.5) {
    const int best = FilterSizing::OptimalBlockedProbes(bits);
    for (int probes = 1; probes <= best; ++probes) {
      const double fpr = FilterSizing::ExpectedBlockedFpr(bits, probes);
      EXPECT_GE(fpr, FilterSizing::ExpectedFpr(bits, probes) * 0.999) << bits << " " << probes;
      EXPECT_LE(fpr, 1) << bits << " " << probes;
    }
  }
}

TEST(FilterSizingTest, BlockedRateIsDefinedEverywhere) {
  EXPECT_EQ(FilterSizing::ExpectedBlockedFpr(0, 6), 1);
  EXPECT_EQ(FilterSizing::ExpectedBlockedFpr(-1, 6), 1);
  EXPECT_EQ(FilterSizing::ExpectedBlockedFpr(kNan, 6), 1);
  EXPECT_EQ(FilterSizing::ExpectedBlockedFpr(kInfinity, 6), 0);
  EXPECT_GT(FilterSizing::ExpectedBlockedFpr(0.02, 6), 0.999);
  EXPECT_LT(FilterSizing::ExpectedBlockedFpr(1e6, 6), 1e-6);
  EXPECT_EQ(FilterSizing::ExpectedBlockedFpr(10, -4), FilterSizing::ExpectedBlockedFpr(10, 1));
  EXPECT_EQ(FilterSizing::ExpectedBlockedFpr(10, 99), FilterSizing::ExpectedBlockedFpr(10, 16));
}

TEST(FilterSizingTest, BlockedRateFallsWithBits) {
  double before = 1;
  for (double bits = 1; bits <= 64; bits += 0.25) {
    const double fpr =
        FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
    EXPECT_LT(fpr, before) << bits;
    before = fpr;
  }
}

TEST(FilterSizingTest, OptimalBlockedProbesIsTheMinimum) {
  for (double bits : {0.5, 1.0, 2.0, 4.0, 8.0, 9.9, 10.0, 12.0, 16.0, 24.0, 40.0, 64.0}) {
    const int best = FilterSizing::OptimalBlockedProbes(bits);
    for (int probes = 1; probes <= 16; ++probes) {
      EXPECT_LE(FilterSizing::ExpectedBlockedFpr(bits, best),
                FilterSizing::ExpectedBlockedFpr(bits, probes))
          << bits << " bits, " << probes << " probes";
    }
    EXPECT_LE(best, FilterSizing::OptimalProbes(bits)) << bits;
  }
  EXPECT_EQ(FilterSizing::OptimalBlockedProbes(10), 6);
  EXPECT_EQ(FilterSizing::OptimalBlockedProbes(12), 8);
  EXPECT_EQ(FilterSizing::OptimalBlockedProbes(16), 9);
  EXPECT_EQ(FilterSizing::OptimalBlockedProbes(kNan), 1);
  EXPECT_EQ(FilterSizing::OptimalBlockedProbes(0), 1);
}

// Frozen: filters on disk were built with it.
TEST(FilterSizingTest, FilterHashIsXxh3) {
  EXPECT_EQ(FilterHash(""), 0x2d06800538d394c2u);
  EXPECT_NE(FilterHash("a"), FilterHash(std::string_view("\0a", 2)));
}

}  // namespace
}  // namespace sievedb
