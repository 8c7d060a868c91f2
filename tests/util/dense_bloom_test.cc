#include "util/dense_bloom.h"

#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tests/util/filter_testing.h"
#include "util/aligned_buffer.h"
#include "util/filter_block.h"

namespace sievedb {
namespace {

BlockedBloomFilter Make(double bits_per_key, absl::Span<const uint64_t> hashes) {
  auto filter =
      BlockedBloomFilter::CreateDense(FilterSizing::ForBitsPerKey(0, bits_per_key), hashes);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return *std::move(filter);
}

std::string Blocks(uint64_t num_blocks, int probes, absl::Span<const uint64_t> hashes,
                   bool portable) {
  std::string blocks(num_blocks * 64, '\0');
  DenseBlockedBloom::Build(blocks.data(), num_blocks, probes, {hashes}, portable);
  return blocks;
}

TEST(DenseBloomTest, RatesAreThoseOfTheory) {
  const std::vector<uint64_t> hashes = RandomHashes(200'000);
  for (const double bits : {4.0, 8.0, 10.0, 12.0, 16.0, 24.0}) {
    const BlockedBloomFilter filter = Make(bits, hashes);
    const FilterFigures figures = filter.Figures();
    const double theory = DenseBlockedBloom::ExpectedFpr(bits);
    EXPECT_EQ(figures.probes, DenseBlockedBloom::OptimalProbes(bits));
    EXPECT_EQ(figures.bits, figures.blocks * 480);
    // From the bits set: the rarer, the more of it comes from a few full blocks.
    EXPECT_NEAR(figures.expected_fpr, theory, 0.03 * theory) << bits;
    uint64_t maybe = 0;
    constexpr uint64_t kAsked = 1'000'000;
    for (uint64_t i = 0; i < kAsked; ++i) maybe += filter.ContainsHash(Random(kAbsent + i));
    EXPECT_NEAR(static_cast<double>(maybe) / kAsked, theory,
                0.03 * theory + 4 * std::sqrt(theory / kAsked))
        << bits;
  }
  EXPECT_LT(DenseBlockedBloom::ExpectedFpr(10), 0.0065);
}

TEST(DenseBloomTest, TheoryFallsWithBits) {
  double before = 1;
  int probes = 1;
  for (double bits = 1; bits <= 64; bits += 0.25) {
    EXPECT_LT(DenseBlockedBloom::ExpectedFpr(bits), before) << bits;
    EXPECT_GE(DenseBlockedBloom::OptimalProbes(bits), probes) << bits;
    EXPECT_LE(DenseBlockedBloom::OptimalProbes(bits), BlockedBloom::kMaxProbes);
    before = DenseBlockedBloom::ExpectedFpr(bits);
    probes = DenseBlockedBloom::OptimalProbes(bits);
  }
  EXPECT_EQ(DenseBlockedBloom::OptimalProbes(10), 7);
  EXPECT_EQ(DenseBlockedBloom::OptimalProbes(0), 1);
  EXPECT_EQ(DenseBlockedBloom::OptimalProbes(std::nan("")), 1);
  EXPECT_DOUBLE_EQ(DenseBlockedBloom::ExpectedFpr(1000), DenseBlockedBloom::ExpectedFpr(64));
}

// Every size around the borders of parts, and every number of probes: what one way
// builds the other reads, and the bytes are the same.
TEST(DenseBloomTest, BothPathsAgree) {
  for (int probes = 1; probes <= BlockedBloom::kMaxProbes; ++probes) {
    for (const uint64_t keys : {1u, 2u, 100u, 3000u}) {
      const std::vector<uint64_t> hashes = RandomHashes(keys, static_cast<uint64_t>(probes) << 20);
      const uint64_t num_blocks = BlockedBloom::BlocksFor(keys, 10);
      const std::string portable = Blocks(num_blocks, probes, hashes, /*portable=*/true);
      ASSERT_TRUE(portable == Blocks(num_blocks, probes, hashes, /*portable=*/false))
          << probes << " probes, " << keys << " keys";
      for (uint64_t i = 0; i < 3 * keys; ++i) {
        const uint64_t hash = i < keys ? hashes[i] : Random(kAbsent + i);
        const char* const block = portable.data() + BlockedBloom::BlockIndex(hash, num_blocks) * 64;
        const uint32_t low = static_cast<uint32_t>(hash);
        const bool maybe = dense_internal::BlockMayContainPortable(block, probes, low);
        bool by_bits = true;
        for (int p = 0; p < probes; ++p) {
          const int bit = DenseBlockedBloom::ProbeBit(block, hash, p);
          ASSERT_TRUE(bit >= 0 && bit < 480);
          by_bits = by_bits && ((block[bit / 8] >> (bit % 8)) & 1) != 0;
        }
        ASSERT_EQ(maybe, by_bits);
        if (i < keys) {
          ASSERT_TRUE(maybe);
        }
#if SIEVEDB_BLOOM_HAS_AVX2
        if (bloom_internal::kUseAvx2) {
          ASSERT_EQ(dense_internal::BlockMayContainAvx2(block, probes, low), maybe);
        }
#endif
      }
    }
  }
}

// Any 64 bytes are a block: also turns that are never written.
TEST(DenseBloomTest, BothPathsAgreeOnAnyBytes) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    char block[64];
    for (size_t at = 0; at < 64; at += 8) {
      const uint64_t word = Random(i * 8 + at / 8) | Random(~(i * 8 + at / 8));
      std::memcpy(block + at, &word, 8);
    }
    if (i % 2 == 0) std::memset(block + 60, 0xff, 4);
    const uint32_t low = static_cast<uint32_t>(Random(kAbsent + i));
    const int probes = 1 + static_cast<int>(i % 16);
    const bool maybe = dense_internal::BlockMayContainPortable(block, probes, low);
#if SIEVEDB_BLOOM_HAS_AVX2
    if (bloom_internal::kUseAvx2) {
      ASSERT_EQ(dense_internal::BlockMayContainAvx2(block, probes, low), maybe) << i;
    }
#endif
    bool by_bits = true;
    for (int p = 0; p < probes; ++p) {
      const int bit = DenseBlockedBloom::ProbeBit(block, low, p);
      by_bits = by_bits && ((block[bit / 8] >> (bit % 8)) & 1) != 0;
    }
    ASSERT_EQ(maybe, by_bits) << i;
  }
}

// The best turn by definition: all others are tried, group by group.
TEST(DenseBloomTest, EachGroupHasTheTurnThatSetsTheFewestBits) {
  const std::vector<uint64_t> hashes = RandomHashes(51);
  const std::string block = Blocks(1, 7, hashes, /*portable=*/false);
  std::string now(64, '\0');
  const auto with = [&](uint32_t group, uint32_t turn) {
    std::string next = now;
    const uint32_t shift = group % 2 * 4;
    next[60 + group / 2] = static_cast<char>(next[60 + group / 2] | (turn << shift));
    for (const uint64_t hash : hashes) {
      if (hash % 8 == group) DenseBlockedBloom::Add(next.data(), 1, 7, hash);
    }
    return next;
  };
  for (uint32_t group = 0; group < 8; ++group) {
    std::string best = with(group, 0);
    for (uint32_t turn = 1; turn < 15; ++turn) {
      std::string next = with(group, turn);
      if (DenseBlockedBloom::CountSetBits(next.data(), 1) <
          DenseBlockedBloom::CountSetBits(best.data(), 1)) {
        best = std::move(next);
      }
    }
    now = best;
  }
  EXPECT_EQ(block, now);
}

TEST(DenseBloomTest, EveryKeyIsFoundAtAnySizeAndDensity) {
  for (const double bits : {1.0, 3.3, 10.0, 64.0}) {
    // 8192: a part, and a piece of the builder.
    for (const uint64_t keys : {0u, 1u, 2u, 51u, 52u, 1000u, 8192u, 16'385u}) {
      const std::string bytes = Make(bits, RandomHashes(keys)).Serialize();
      const auto reader = OpenFilter(bytes);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ExpectAllFound(**reader, RandomHashes(keys));
      EXPECT_EQ((*reader)->Figures().keys, keys);
      if (keys == 0) {
        EXPECT_EQ(MeasuredRate(**reader, 500), 0);
      }
    }
  }
}

TEST(DenseBloomTest, NoShapeOfHashesLosesAKey) {
  for (const std::vector<uint64_t>& hashes : AdversarialHashes(20'000)) {
    const BlockedBloomFilter filter = Make(10, hashes);
    for (const uint64_t hash : hashes) ASSERT_TRUE(filter.ContainsHash(hash));
  }
  const std::vector<uint64_t> same(20'000, Random(1));
  EXPECT_TRUE(Make(10, same).ContainsHash(Random(1)));
}

TEST(DenseBloomTest, KeysCanBeAddedLater) {
  BlockedBloomFilter filter = Make(20, RandomHashes(1000));
  EXPECT_TRUE(filter.dense());
  filter.AddManyHashes(RandomHashes(1000, 1000));
  auto copy = BlockedBloomFilter::Deserialize(filter.Serialize());
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_TRUE(copy->dense());
  copy->AddHash(Random(2000));
  for (uint64_t i = 0; i <= 2000; ++i) EXPECT_TRUE(copy->ContainsHash(Random(i)));
  EXPECT_EQ(copy->Figures().keys, 2001u);
}

TEST(DenseBloomTest, ARateIsKept) {
  const auto filter =
      BlockedBloomFilter::CreateDense(FilterSizing::ForRate(0, 0.01), RandomHashes(100'000));
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_NEAR(filter->EstimatedFpr(), 0.01, 0.0003);
  EXPECT_LT(filter->Figures().bits_per_key, 9.1);
}

TEST(DenseBloomTest, ThePolicyMakesTheSameBlock) {
  const auto policy = NewDenseBlockedBloomPolicy(10);
  EXPECT_EQ(policy->Kind(), kDenseBlockedBloomKind);
  EXPECT_STREQ(policy->Name(), "sievedb.DenseBlockedBloom");
  EXPECT_EQ(NewDenseBlockedBloomPolicy(std::nan(""))->BitsPerKey({}), 10);
  EXPECT_EQ(NewDenseBlockedBloomPolicy(0.5)->BitsPerKey({}), 1);
  EXPECT_EQ(NewDenseBlockedBloomPolicy(1000)->BitsPerKey({}), 64);
  const auto builder = policy->NewBuilder({});
  for (const uint64_t hash : RandomHashes(20'000)) builder->AddHash(hash);
  const std::string block = builder->Finish();
  EXPECT_TRUE(block == BlockOf(Make(10, RandomHashes(20'000)).Serialize()));
  EXPECT_TRUE(policy->NewReader(Exact(block).view()).ok());
}

// 2^36 bits of which only the pages that are touched exist.
TEST(DenseBloomTest, BeyondTwoToTheThirtyTwoBits) {
  constexpr uint64_t kBlocks = uint64_t{1} << 27;
  void* const memory = mmap(nullptr, kBlocks * 64, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for 8 GiB";
  char* const blocks = static_cast<char*>(memory);
  uint64_t beyond = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    DenseBlockedBloom::Add(blocks, kBlocks, 7, Random(i));
    BlockedBloom::AddAll(blocks, kBlocks, 7, RandomHashes(1, i + 300));
    beyond += BlockedBloom::BlockIndex(Random(i), kBlocks) * 512 >> 32 != 0;
  }
  for (uint64_t i = 0; i < 300; ++i) {
    EXPECT_TRUE(DenseBlockedBloom::MayContain(blocks, kBlocks, 7, Random(i)));
    EXPECT_TRUE(BlockedBloom::MayContain(blocks, kBlocks, 7, Random(i + 300)));
    EXPECT_FALSE(BlockedBloom::MayContain(blocks, kBlocks, 7, Random(kAbsent + i)));
  }
  EXPECT_GT(beyond, 250u);  // 15 of 16
  munmap(memory, kBlocks * 64);
}

TEST(DenseBloomTest, MatchesTheGoldenFile) {
  EXPECT_EQ(Make(10, RandomHashes(100)).Serialize(),
            GoldenFile("dense_blocked_bloom_v1_10bits_100keys.bin"));
}

TEST(DenseBloomTest, DamageIsFound) { ExpectDamageIsFound(Make(10, RandomHashes(30)).Serialize()); }

TEST(DenseBloomTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string block(BlockOf(Make(10, RandomHashes(100)).Serialize()));
  const auto code = [&](int offset, std::string_view value) {
    return StatusWith(block, offset, value).code();
  };
  using absl::StatusCode;
  EXPECT_EQ(code(kFilterProbesOffset, "\x10"), StatusCode::kOk);
  EXPECT_EQ(code(kFilterProbesOffset, "\x11"), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterProbesOffset, {"\0", 1}), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterDetailOffset, "\x01"), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterVersionOffset, "\x02"), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterExtentOffset, Fixed64(1)), StatusCode::kDataLoss);
  EXPECT_EQ(code(kFilterBitsPerKeyOffset, Fixed64(0)), StatusCode::kDataLoss);
  TryDamagedFields(block, 0);
}

}  // namespace
}  // namespace sievedb
