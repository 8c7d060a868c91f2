#include "util/bloom.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tests/util/filter_testing.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

BloomFilter Make(double bits_per_key, uint64_t keys) {
  auto filter = BloomFilter::Create(FilterSizing::ForBitsPerKey(keys, bits_per_key));
  EXPECT_TRUE(filter.ok()) << filter.status();
  filter->AddManyHashes(RandomHashes(keys));
  return *std::move(filter);
}

TEST(BloomTest, RatesAreThoseOfTheory) {
  for (const double bits : {4.0, 8.0, 10.0, 12.0, 16.0, 24.0}) {
    const BloomFilter filter = Make(bits, 200'000);
    const FilterFigures figures = filter.Figures();
    const double theory = FilterSizing::ExpectedFpr(bits, figures.probes);
    EXPECT_EQ(figures.probes, FilterSizing::OptimalProbes(bits));
    EXPECT_EQ(figures.keys, 200'000u);
    EXPECT_EQ(figures.blocks, 0u);
    // From the bits set, which has next to no chance in it, and then by asking.
    EXPECT_NEAR(figures.expected_fpr, theory, 0.03 * theory) << bits;
    const auto reader = OpenFilter(filter.Serialize());
    uint64_t maybe = 0;
    constexpr uint64_t kAsked = 1'000'000;
    for (uint64_t i = 0; i < kAsked; ++i) maybe += filter.ContainsHash(Random(kAbsent + i));
    const double sigma = std::sqrt(theory / kAsked);
    EXPECT_NEAR(static_cast<double>(maybe) / kAsked, theory, 0.03 * theory + 4 * sigma) << bits;
  }
}

// Where double hashing would be far above theory.
TEST(BloomTest, SmallFiltersHaveTheRateToo) {
  constexpr int kFilters = 300;
  constexpr uint64_t kKeys = 102;  // 1020 bits, so that rounding up to 1024 is little
  uint64_t maybe = 0;
  double theory = 0;
  for (uint64_t f = 0; f < kFilters; ++f) {
    std::string array(128, '\0');
    Bloom::AddAll(array.data(), 1024, 7, RandomHashes(kKeys, f * kKeys));
    const double fill = static_cast<double>(Bloom::CountSetBits(array.data(), 1024)) / 1024;
    theory += std::pow(fill, 7) / kFilters;
    for (uint64_t i = 0; i < 2000; ++i) {
      maybe += Bloom::MayContain(array.data(), 1024, 7, Random(kAbsent + f * 2000 + i));
    }
  }
  EXPECT_NEAR(theory, FilterSizing::ExpectedFpr(1024.0 / kKeys, 7), 0.03 * theory);
  constexpr double kAsked = kFilters * 2000.0;
  EXPECT_NEAR(static_cast<double>(maybe) / kAsked, theory, 5 * std::sqrt(theory / kAsked));
}

TEST(BloomTest, EveryKeyIsFoundAtAnySizeAndDensity) {
  for (const double bits : {1.0, 3.3, 10.0, 64.0}) {
    for (const uint64_t keys : {0u, 1u, 2u, 63u, 64u, 65u, 1000u}) {
      const BloomFilter filter = Make(bits, keys);
      const std::string bytes = filter.Serialize();
      const auto reader = OpenFilter(bytes);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ExpectAllFound(**reader, RandomHashes(keys));
      if (keys == 0) {
        EXPECT_EQ(MeasuredRate(**reader, 500), 0);
      }
    }
  }
}

TEST(BloomTest, NoShapeOfHashesLosesAKey) {
  for (const std::vector<uint64_t>& hashes : AdversarialHashes(3000)) {
    auto filter = BloomFilter::Create(FilterSizing::ForBitsPerKey(hashes.size(), 10));
    ASSERT_TRUE(filter.ok());
    filter->AddManyHashes(hashes);
    for (const uint64_t hash : hashes) ASSERT_TRUE(filter->ContainsHash(hash));
  }
}

TEST(BloomTest, ProbeBitsAreTheBitsThatAreSet) {
  std::string array(64, '\0');
  Bloom::AddAll(array.data(), 512, 5, RandomHashes(1, 1));
  std::string expected(64, '\0');
  for (int i = 0; i < 5; ++i) {
    const uint64_t bit = Bloom::ProbeBit(Random(1), i, 512);
    ASSERT_LT(bit, 512u);
    expected[bit / 8] = static_cast<char>(expected[bit / 8] | (1 << (bit % 8)));
  }
  EXPECT_EQ(array, expected);
}

// Frozen: the bits are a format.
TEST(BloomTest, ProbesAreFrozen) {
  constexpr uint64_t kHash = 0x0123456789abcdef;
  constexpr uint64_t kBits = uint64_t{1} << 36;
  EXPECT_EQ(Bloom::ProbeBit(kHash, 0, kBits), kHash >> 28);
  EXPECT_EQ(Bloom::ProbeBit(kHash, 1, kBits), (kHash * 0x9e3779b97f4a7c15) >> 28);
  EXPECT_EQ(Bloom::ProbeBit(kHash, 2, kBits),
            (kHash * 0x9e3779b97f4a7c15 * 0x9e3779b97f4a7c15) >> 28);
}

TEST(BloomTest, BitsFor) {
  EXPECT_EQ(Bloom::BitsFor(0, 10), 512u);
  EXPECT_EQ(Bloom::BitsFor(51, 10), 512u);
  EXPECT_EQ(Bloom::BitsFor(52, 10), 1024u);
  EXPECT_EQ(Bloom::BitsFor(1'000'000'000'000, 10), 10'000'000'000'000u);
  EXPECT_EQ(Bloom::BitsFor(std::numeric_limits<uint64_t>::max(), 64), uint64_t{1} << 63);
}

// 2^35 bits of which only the pages that are touched exist.
TEST(BloomTest, BeyondTwoToTheThirtyTwoBits) {
  constexpr uint64_t kBits = uint64_t{1} << 35;
  void* const memory = mmap(nullptr, kBits / 8, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for 4 GiB";
  char* const array = static_cast<char*>(memory);
  const std::vector<uint64_t> hashes = RandomHashes(300);
  Bloom::AddAll(array, kBits, 7, hashes);
  uint64_t beyond = 0;
  uint64_t maybe = 0;
  for (const uint64_t hash : hashes) {
    EXPECT_TRUE(Bloom::MayContain(array, kBits, 7, hash));
    for (int i = 0; i < 7; ++i) beyond += Bloom::ProbeBit(hash, i, kBits) >> 32 != 0;
  }
  for (uint64_t i = 0; i < 2000; ++i) {
    maybe += Bloom::MayContain(array, kBits, 7, Random(kAbsent + i));
  }
  // Seven of eight bits: 1838 of 2100, five standard deviations of 15 either way.
  EXPECT_NEAR(static_cast<double>(beyond), 1837.5, 76);
  EXPECT_EQ(maybe, 0u);
  munmap(memory, kBits / 8);
}

TEST(BloomTest, ThePolicyMakesTheSameBlock) {
  const auto policy = NewBloomPolicy(12);
  EXPECT_EQ(policy->Kind(), kBloomKind);
  EXPECT_STREQ(policy->Name(), "sievedb.Bloom");
  EXPECT_EQ(policy->BitsPerKey({}), 12);
  EXPECT_EQ(NewBloomPolicy(std::nan(""))->BitsPerKey({}), 10);
  EXPECT_EQ(NewBloomPolicy(0.5)->BitsPerKey({}), 1);
  EXPECT_EQ(NewBloomPolicy(1000)->BitsPerKey({}), 64);
  const auto builder = policy->NewBuilder({});
  EXPECT_EQ(builder->Kind(), 0);
  for (const uint64_t hash : RandomHashes(20'000)) builder->AddHash(hash);
  const std::string block = builder->Finish();
  EXPECT_TRUE(block == BlockOf(Make(12, 20'000).Serialize()));
  EXPECT_TRUE(policy->NewReader(Exact(block).view()).ok());
}

TEST(BloomTest, MatchesTheGoldenFile) {
  const std::string bytes = Make(10, 100).Serialize();
  EXPECT_EQ(bytes, GoldenFile("bloom_v1_10bits_100keys.bin"));
}

TEST(BloomTest, DamageIsFound) { ExpectDamageIsFound(Make(10, 30).Serialize()); }

TEST(BloomTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string block(BlockOf(Make(10, 100).Serialize()));
  const auto code = [&](int offset, std::string_view value) {
    return StatusWith(block, offset, value).code();
  };
  using absl::StatusCode;
  EXPECT_EQ(code(kFilterProbesOffset, "\x07"), StatusCode::kOk);
  EXPECT_EQ(code(kFilterProbesOffset, {"\0", 1}), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterProbesOffset, "\x2c"), StatusCode::kOk);
  EXPECT_EQ(code(kFilterProbesOffset, "\x2d"), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterDetailOffset, "\x01"), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterVersionOffset, "\x02"), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterExtentOffset, Fixed64(512)), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterExtentOffset, Fixed64(1025)), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterBitsPerKeyOffset, Fixed64(0)), StatusCode::kDataLoss);
  TryDamagedFields(block, 0);
}

}  // namespace
}  // namespace sievedb
