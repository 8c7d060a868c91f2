#include "db/filter_plan.h"

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/filter.h"
#include "tests/db/db_test_util.h"

namespace sievedb {
namespace {

double Rate(double bits) {
  return FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
}

double SumOfRates(const std::vector<double>& bits) {
  double sum = 0;
  for (const double b : bits) sum += Rate(b);
  return sum;
}

double Spent(const std::vector<uint64_t>& keys, const std::vector<double>& bits) {
  double sum = 0;
  for (size_t i = 0; i < keys.size(); ++i) sum += static_cast<double>(keys[i]) * bits[i];
  return sum;
}

TEST(FilterPlanTest, EqualRunsShareEqually) {
  for (const double bits : PlanFilterBits({1000, 1000, 1000}, 10)) EXPECT_NEAR(bits, 10, 0.2);
  EXPECT_NEAR(PlanFilterBits({12345}, 10)[0], 10, 0.2);
  EXPECT_TRUE(PlanFilterBits({}, 10).empty());
}

// The first of the paper's promises, with ratios of 10 between levels.
TEST(FilterPlanTest, SmallRunsGetMoreAndTheSumOfRatesFallsByHalfOrMore) {
  const std::vector<uint64_t> keys = {10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  const std::vector<double> bits = PlanFilterBits(keys, 10);
  EXPECT_NEAR(Spent(keys, bits) / Spent(keys, {10, 10, 10, 10, 10}), 1, 0.01);
  for (size_t i = 1; i < bits.size(); ++i) EXPECT_LE(bits[i], bits[i - 1]);
  EXPECT_GT(bits.back(), 9);
  // Blocked filters gain less from a bit than the textbook's ln(10)/(ln 2)^2 = 4.8.
  EXPECT_GT(bits[3] - bits[4], 4.5);
  EXPECT_LT(bits[3] - bits[4], 7);
  EXPECT_LE(bits.front(), kMaxPlannedBits);
  EXPECT_LT(SumOfRates(bits), 0.5 * SumOfRates({10, 10, 10, 10, 10}));
}

// No other way of spending the same is better: bits are moved between two runs.
TEST(FilterPlanTest, NoExchangeLowersTheSum) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> keys;
    for (uint64_t n = 2 + random() % 8; n > 0; --n) {
      keys.push_back(1 + random() % (uint64_t{1} << (4 + random() % 24)));
    }
    const double budget = 4 + static_cast<double>(random() % 120) / 10;
    const std::vector<double> bits = PlanFilterBits(keys, budget);
    const double total =
        static_cast<double>(std::accumulate(keys.begin(), keys.end(), uint64_t{0}));
    EXPECT_LE(Spent(keys, bits), budget * total * 1.001);
    const size_t from = random() % keys.size();
    const size_t to = random() % keys.size();
    if (from == to) continue;
    std::vector<double> other = bits;
    const double moved = std::min(bits[from], 1.0) * static_cast<double>(keys[from]);
    other[from] -= moved / static_cast<double>(keys[from]);
    other[to] += moved / static_cast<double>(keys[to]);
    EXPECT_GT(SumOfRates(other), 0.98 * SumOfRates(bits));
  }
}

class FilterPlanDBTest : public DBTest {
 protected:
  // Mean bits per key of each level's filters, as the database tells.
  std::vector<double> BitsOfLevels() {
    std::vector<double> bits(kNumLevels, 0);
    const std::string text = *db_->GetProperty("sievedb.filters");
    for (size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
      int level = 0;
      int tables = 0;
      int filters = 0;
      long keys = 0;
      double value = 0;
      if (std::sscanf(text.c_str() + at + 1, "%d %d %d %ld %lf", &level, &tables, &filters, &keys,
                      &value) == 5) {
        bits[static_cast<size_t>(level)] = value;
      }
    }
    return bits;
  }
  void FillTwoLevels() {
    Fill(0, 50'000);
    ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    Fill(0, 3'000);
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  }
};

TEST_F(FilterPlanDBTest, NewTablesGetTheirShare) {
  options_.disable_auto_compaction = true;
  options_.write_buffer_bytes = 64 << 20;
  Open();
  FillTwoLevels();
  std::vector<double> bits = BitsOfLevels();
  EXPECT_NEAR(bits[kNumLevels - 1], 10, 0.3);  // it was alone when it was written
  EXPECT_GT(bits[0], 15);
  EXPECT_LE(50'000 * bits[kNumLevels - 1] + 3'000 * bits[0], 53'000 * 11.1);
  // What is not rewritten keeps what it had: a sorted load may not end with the bits of
  // small tables in the last level.
  for (int i = 0; i < 20; ++i) {
    Fill(60'000 + i * 1000, 61'000 + i * 1000);
    ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  }
  bits = BitsOfLevels();
  EXPECT_LT(bits[kNumLevels - 1], 11.3);
}

TEST_F(FilterPlanDBTest, ABudgetInBytesIsKept) {
  options_.disable_auto_compaction = true;
  options_.write_buffer_bytes = 64 << 20;
  options_.filter_memory_bytes = 100'000;
  Open();
  FillTwoLevels();
  std::vector<double> bits = BitsOfLevels();
  EXPECT_NEAR(bits[kNumLevels - 1], 16, 0.5);
  EXPECT_GT(bits[0], 14);
  EXPECT_LE((50'000 * bits[kNumLevels - 1] + 3'000 * bits[0]) / 8, 110'000);
}

TEST_F(FilterPlanDBTest, WithoutAPlanEachTableHasThePolicysBits) {
  options_.plan_filter_memory = false;
  options_.filter_policy = NewBlockedBloomPolicy(12);
  Open();
  FillTwoLevels();
  for (const double bits : BitsOfLevels()) {
    if (bits == 0) continue;
    EXPECT_NEAR(bits, 12, 0.8);  // with the trailers
  }
}

}  // namespace
}  // namespace sievedb
