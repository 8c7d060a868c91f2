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

// Equal tables, of which the first is asked 16 times as often as each other.
TEST(FilterPlanTest, WhatIsAskedMoreOftenGetsMoreAtTheSameTotal) {
  const std::vector<FilterShare> shares = {{1000, 16}, {1000, 1}, {1000, 1}, {1000, 1}};
  const std::vector<double> bits = PlanShares(shares, 10);
  EXPECT_NEAR(bits[0] + bits[1] + bits[2] + bits[3], 40, 0.1);
  EXPECT_NEAR(bits[1], bits[3], 1e-9);
  // Textbook filters: ln(16) / (ln 2)^2 = 5.8 bits; blocked ones gain less from a bit.
  EXPECT_GT(bits[0] - bits[1], 5.5);
  EXPECT_LT(bits[0] - bits[1], 8);
  double planned = 0;
  double even = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    planned += shares[i].asked * Rate(bits[i]);
    even += shares[i].asked * Rate(10);
  }
  EXPECT_LT(planned, 0.6 * even);
  // The unit does not matter, and what nobody asks for or is empty does no harm.
  const std::vector<FilterShare> same = {{1000, 16e9}, {1000, 1e9}, {1000, 1e9}, {1000, 1e9}};
  for (size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(PlanShares(same, 10)[i], bits[i], 0.01);
  const std::vector<FilterShare> odd = {{1000, 1}, {1000, 0}, {0, 1}};
  EXPECT_GT(PlanShares(odd, 5)[0], 9);
  EXPECT_EQ(PlanShares(odd, 5)[2], 0);
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

// A twentieth of the keys gets nine tenths of the lookups. After a compaction its filters
// are larger, the others smaller, all together no larger, and fewer blocks are read.
TEST_F(FilterPlanDBTest, WhatIsOftenAskedForInVainGetsMoreBits) {
  constexpr int kKeys = 40'000;
  constexpr int kHotBegin = 20'000;
  constexpr int kHotEnd = 22'000;
  double reads[2] = {};
  for (const bool aware : {false, true}) {
    options_.file_system = NewMemoryFileSystem();
    options_.statistics = NewStatistics();
    options_.disable_auto_compaction = true;
    options_.write_buffer_bytes = 64 << 20;
    options_.target_file_bytes = 100 << 10;
    options_.compression = Compression::kNone;
    options_.filter_policy = NewBlockedBloomPolicy(6);
    options_.access_aware_filters = aware;
    Open();
    Fill(0, kKeys);
    CompactRangeOptions all;
    all.rewrite_bottommost = true;  // the flushed table is moved, then cut into many
    ASSERT_TRUE(db_->CompactRange(all, nullptr, nullptr).ok());
    std::mt19937_64 random(5);
    const auto ask = [&](int lookups) {
      std::string value;
      for (int i = 0; i < lookups; ++i) {
        const int key = random() % 10 != 0
                            ? kHotBegin + static_cast<int>(random() % (kHotEnd - kHotBegin))
                            : static_cast<int>(random() % (kKeys - 1));
        ASSERT_FALSE(db_->Get(ReadOptions(), Key(key) + std::to_string(random()), &value).ok());
      }
    };
    ask(200'000);
    ASSERT_TRUE(db_->CompactRange(all, nullptr, nullptr).ok());
    const FilterLevelCounts before = options_.statistics->GetFilterCounts(kNumLevels - 1);
    ask(50'000);
    const FilterLevelCounts after = options_.statistics->GetFilterCounts(kNumLevels - 1);
    reads[aware ? 1 : 0] = static_cast<double>(after.maybe_absent - before.maybe_absent) / 50'000;
    EXPECT_LT(BitsOfLevels()[kNumLevels - 1], 7.6);  // with some 1.1 a key for small tables' rest

    double hot = 0;  // the most bits of a table within
    double cold = 100;
    const std::string text = *db_->GetProperty("sievedb.filter-tables");
    for (size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1)) {
      const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
      int level = 0, number = 0, keys = 0;
      double asked = 0, plan = 0, bits = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "%d %d %d %lf%% %lf %lf", &level, &number, &keys, &asked,
                            &plan, &bits),
                6)
          << line;
      const int first = std::stoi(line.substr(line.find("key") + 3, 8));
      const int last = std::stoi(line.substr(line.rfind("key") + 3, 8));
      if (first >= kHotBegin && last < kHotEnd) hot = std::max(hot, bits);
      if ((last < kHotBegin - 2000 || first > kHotEnd + 2000) && keys > 500) {
        cold = std::min(cold, bits);
      }
    }
    if (aware) {
      EXPECT_GT(hot, cold + 3) << text;
    } else {
      EXPECT_NEAR(hot, cold, 0.6) << text;
    }
  }
  EXPECT_LT(reads[1], 0.6 * reads[0]);
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
