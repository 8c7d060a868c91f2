#include "util/blocked_bloom.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "util/aligned_buffer.h"

namespace sievedb {
namespace {

// A well-known sequence (SplitMix64), so that golden vectors can be made elsewhere.
uint64_t Random(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::vector<uint64_t> RandomHashes(uint64_t n, uint64_t first = 0) {
  std::vector<uint64_t> hashes(n);
  for (uint64_t i = 0; i < n; ++i) hashes[i] = Random(first + i);
  return hashes;
}

struct Filter {
  Filter(const std::vector<uint64_t>& hashes, uint64_t blocks, int probe_count)
      : num_blocks(blocks),
        probes(probe_count),
        buffer(AlignedBuffer::Zeroed(blocks * BlockedBloom::kBlockBytes)) {
    BlockedBloom::AddAll(buffer.data(), num_blocks, probes, hashes);
  }
  bool MayContain(uint64_t hash) const {
    return BlockedBloom::MayContain(buffer.data(), num_blocks, probes, hash);
  }
  const uint64_t num_blocks;
  const int probes;
  AlignedBuffer buffer;
};

// Made by a few lines of Python from the description of the format alone.
TEST(BlockedBloomTest, GoldenVectors) {
  struct Golden {
    uint64_t blocks;
    int probes;
    uint64_t keys;
    const char* hex;
  };
  constexpr Golden kGolden[] = {
      {1, 6, 8,
       "8025000200041000200010001012880044200000000584002100000008204110000000100000000000804004"
       "12000000448a0040028010004000000000002080"},
      {3, 16, 5,
       "0204000000088000081000010000080000800100004884000100000048000210200000100000000000000005"
       "02001000e4820000000040000000000000000000000000001000000020000000000200000000080000001000"
       "2000000008000000000000000000011040800000000000000008000000000200000042000000008080000000"
       "4000004020001000000000040420000000211000800002000040400020000010000000000080420000000000"
       "00a00080820402004020000080002000"},
      {2, 1, 40,
       "001000000000100800000400800000000000000200000c010000000000200000000004108000000000000004"
       "0000000000000000000040000000010000400480002020000041000050000000100000008400000020030000"
       "00000000000000200040040000000000000000008000000000000001000010400000020000000000"},
  };
  for (const Golden& golden : kGolden) {
    const Filter filter(RandomHashes(golden.keys), golden.blocks, golden.probes);
    EXPECT_EQ(absl::BytesToHexString({filter.buffer.data(), filter.buffer.size()}), golden.hex);
  }
}

TEST(BlockedBloomTest, ProbeBitIsTheBitThatIsSet) {
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t hash = Random(i);
    const Filter filter({hash}, 1, 16);
    std::string expected(64, '\0');
    for (int probe = 0; probe < 16; ++probe) {
      const auto bit = static_cast<unsigned>(BlockedBloom::ProbeBit(hash, probe));
      ASSERT_LT(bit, 512u);
      expected[bit / 8] = static_cast<char>(expected[bit / 8] | (1 << (bit % 8)));
    }
    EXPECT_EQ(std::string(filter.buffer.view()), expected);
  }
}

TEST(BlockedBloomTest, AddAllInPiecesSetsTheSameBits) {
  // Around the number of keys in flight, where the ring fills and drains.
  const std::vector<uint64_t> hashes = RandomHashes(100);
  for (size_t piece : {size_t{1}, size_t{2}, size_t{15}, size_t{16}, size_t{17}, size_t{33}}) {
    const Filter whole(hashes, 7, 6);
    Filter pieces({}, 7, 6);
    for (size_t at = 0; at < hashes.size(); at += piece) {
      BlockedBloom::AddAll(pieces.buffer.data(), 7, 6,
                           absl::MakeConstSpan(hashes).subspan(at, piece));
    }
    EXPECT_EQ(whole.buffer.view(), pieces.buffer.view()) << piece;
  }
}

// At any alignment, into blocks that have bits already.
TEST(BlockedBloomTest, BothWaysToBuildSetTheSameBits) {
  for (int probes = 1; probes <= BlockedBloom::kMaxProbes; ++probes) {
    std::string fast(7 * 64 + 1, '\0');
    std::string portable = fast;
    for (uint64_t n : {1u, 15u, 16u, 17u, 100u}) {
      const std::vector<uint64_t> hashes = RandomHashes(n, n * 1000);
      BlockedBloom::AddAll(fast.data() + 1, 7, probes, hashes);
      BlockedBloom::AddAll(portable.data() + 1, 7, probes, hashes, /*portable=*/true);
      ASSERT_EQ(fast, portable) << probes << " " << n;
    }
  }
}

TEST(BlockedBloomTest, ManyAreAskedAsOne) {
  const Filter filter(RandomHashes(500), 10, 6);
  for (size_t n : {0u, 1u, 31u, 32u, 33u, 64u, 1000u}) {
    const std::vector<uint64_t> hashes = RandomHashes(n, 250);
    const std::unique_ptr<bool[]> results(new bool[n]());
    BlockedBloom::MayContainMany(filter.buffer.data(), 10, 6, hashes,
                                 absl::MakeSpan(results.get(), n));
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(results[i], filter.MayContain(hashes[i])) << i;
  }
}

TEST(BlockedBloomTest, EmptyFilterDeniesEverything) {
  const Filter filter({}, 1, 1);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_FALSE(filter.MayContain(Random(i)));
  EXPECT_EQ(BlockedBloom::CountSetBits(filter.buffer.data(), 1), 0u);
  EXPECT_EQ(BlockedBloom::FprFromBits(filter.buffer.data(), 1, 6), 0);
}

TEST(BlockedBloomTest, NeverDeniesWhatWasAdded) {
  for (uint64_t blocks : {1u, 2u, 3u, 1000u}) {
    for (int probes = 1; probes <= BlockedBloom::kMaxProbes; ++probes) {
      std::vector<uint64_t> hashes = RandomHashes(2000, static_cast<uint64_t>(probes) * 10'000);
      hashes.insert(hashes.end(),
                    {0, 1, 0xffffffff, 0x100000000, ~uint64_t{0}, ~uint64_t{0} << 32});
      const Filter filter(hashes, blocks, probes);
      for (uint64_t hash : hashes) ASSERT_TRUE(filter.MayContain(hash)) << blocks << " " << probes;
    }
  }
}

TEST(BlockedBloomTest, PortableAndAvx2Agree) {
#if SIEVEDB_BLOOM_HAS_AVX2
  if (!bloom_internal::kUseAvx2) GTEST_SKIP() << "this CPU has no AVX2";
  // Every number of probes, blocks from empty to full, at any alignment.
  std::string bytes(64 + 1, '\0');
  uint64_t yes = 0;
  for (int fill = 0; fill <= 100; ++fill) {
    for (char& byte : bytes) byte = 0;
    for (uint64_t i = 0; i < 512; ++i) {
      const uint64_t r = Random(static_cast<uint64_t>(fill) * 1000 + i);
      if (r % 100 < static_cast<uint64_t>(fill)) {
        bytes[1 + i / 8] = static_cast<char>(bytes[1 + i / 8] | (1 << (i % 8)));
      }
    }
    const char* const block = bytes.data() + 1;
    for (int probes = 1; probes <= BlockedBloom::kMaxProbes; ++probes) {
      for (uint64_t i = 0; i < 200; ++i) {
        const auto low = static_cast<uint32_t>(Random(i + 1'000'000));
        const bool expected = bloom_internal::BlockMayContainPortable(block, probes, low);
        ASSERT_EQ(bloom_internal::BlockMayContainAvx2(block, probes, low), expected)
            << fill << " " << probes << " " << low;
        bool by_bits = true;
        for (int probe = 0; probe < probes; ++probe) {
          const auto bit = static_cast<unsigned>(BlockedBloom::ProbeBit(low, probe));
          by_bits = by_bits && (static_cast<uint8_t>(block[bit / 8]) >> (bit % 8) & 1) != 0;
        }
        ASSERT_EQ(by_bits, expected);
        yes += expected ? 1 : 0;
      }
    }
  }
  EXPECT_GT(yes, 1000u);  // both answers were compared
#else
  GTEST_SKIP() << "no AVX2 in this build";
#endif
}

TEST(BlockedBloomTest, BlockIndexUsesAll64Bits) {
  EXPECT_EQ(BlockedBloom::BlockIndex(~uint64_t{0}, 1), 0u);
  EXPECT_EQ(BlockedBloom::BlockIndex(0, 1'000'000), 0u);
  // More than 2^32 blocks: 32-bit arithmetic would wrap.
  constexpr uint64_t kMany = (uint64_t{1} << 32) * 3 + 5;
  EXPECT_EQ(BlockedBloom::BlockIndex(~uint64_t{0}, kMany), kMany - 1);
  EXPECT_EQ(BlockedBloom::BlockIndex(uint64_t{1} << 63, kMany), kMany / 2);
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(BlockedBloom::BlockIndex(Random(i), kMany), kMany);
    if (i > 0) {
      // Monotonic in the hash.
      const uint64_t a = std::min(Random(i), Random(i - 1));
      const uint64_t b = std::max(Random(i), Random(i - 1));
      EXPECT_LE(BlockedBloom::BlockIndex(a, kMany), BlockedBloom::BlockIndex(b, kMany));
    }
  }
}

TEST(BlockedBloomTest, BlocksForRoundsUpAndIsAtLeastOne) {
  EXPECT_EQ(BlockedBloom::BlocksFor(0, 10), 1u);
  EXPECT_EQ(BlockedBloom::BlocksFor(1, 10), 1u);
  EXPECT_EQ(BlockedBloom::BlocksFor(51, 10), 1u);
  EXPECT_EQ(BlockedBloom::BlocksFor(52, 10), 2u);
  EXPECT_EQ(BlockedBloom::BlocksFor(1'000'000'000'000, 10), 19531250000u);  // above 2^32
  EXPECT_GT(BlockedBloom::BlocksFor(~uint64_t{0}, 64), 1u);
  EXPECT_EQ(BlockedBloom::BlocksFor(100, std::nan("")), 1u);
}

// With so many blocks that the block's number takes 24 bits of the hash, the low
// bits must still be as random as they were: else keys of one block would share bits.
TEST(BlockedBloomTest, ProbesAreIndependentOfTheBlockAtAHundredMillionKeys) {
  constexpr uint64_t kBlocks = 12'500'000;
  // The hashes of one block are an interval. Its ends, and a sample in between.
  constexpr uint64_t kBlock = 7'654'321;
  const uint64_t width = ~uint64_t{0} / kBlocks;
  const uint64_t first = kBlock * width + kBlock * (~uint64_t{0} % kBlocks) / kBlocks + 1000;
  std::vector<uint64_t> counts(512);
  constexpr int kSamples = 512 * 200;
  for (uint64_t i = 0; i < kSamples; ++i) {
    const uint64_t hash = first + Random(i) % (width - 2000);
    ASSERT_EQ(BlockedBloom::BlockIndex(hash, kBlocks), kBlock);
    ++counts[static_cast<size_t>(BlockedBloom::ProbeBit(hash, 3))];
  }
  double chi_square = 0;
  for (uint64_t count : counts) {
    chi_square += (static_cast<double>(count) - 200) * (static_cast<double>(count) - 200) / 200;
  }
  // 511 degrees of freedom: 511 +- 32.
  EXPECT_LT(chi_square, 511 + 6 * 32);
}

TEST(BlockedBloomTest, RateIsTheory) {
  // So many blocks that one filter's own luck is small, and as many probes as give
  // 3 % at three standard deviations where that is affordable here.
  constexpr uint64_t kKeys = 200'000;
  const std::vector<uint64_t> hashes = RandomHashes(kKeys);
  for (double bits : {4.0, 6.0, 8.0, 10.0, 12.0, 16.0}) {
    const int probes = FilterSizing::OptimalBlockedProbes(bits);
    const Filter filter(hashes, BlockedBloom::BlocksFor(kKeys, bits), probes);
    const double real_bits = static_cast<double>(filter.num_blocks) * 512 / kKeys;
    const double expected = FilterSizing::ExpectedBlockedFpr(real_bits, probes);
    constexpr uint64_t kAsked = 1'000'000;
    uint64_t yes = 0;
    for (uint64_t i = 0; i < kAsked; ++i) yes += filter.MayContain(Random(kKeys + i)) ? 1 : 0;
    const double measured = static_cast<double>(yes) / kAsked;
    const double deviation = std::sqrt(expected / kAsked);
    EXPECT_NEAR(measured, expected, expected * 0.03 + 3 * deviation) << bits;
    EXPECT_NEAR(BlockedBloom::FprFromBits(filter.buffer.data(), filter.num_blocks, probes),
                expected, expected * 0.03)
        << bits;
  }
}

// The rate of the bits set, for the densest filters, where counting false positives
// would take too long.
TEST(BlockedBloomTest, FillOfDenseFiltersIsTheory) {
  constexpr uint64_t kKeys = 400'000;
  const std::vector<uint64_t> hashes = RandomHashes(kKeys);
  for (double bits : {20.0, 24.0}) {
    const int probes = FilterSizing::OptimalBlockedProbes(bits);
    const Filter filter(hashes, BlockedBloom::BlocksFor(kKeys, bits), probes);
    const double expected = FilterSizing::ExpectedBlockedFpr(bits, probes);
    EXPECT_NEAR(BlockedBloom::FprFromBits(filter.buffer.data(), filter.num_blocks, probes),
                expected, expected * 0.03)
        << bits;
  }
}

TEST(BlockedBloomTest, RateDoesNotDependOnTheKeys) {
  struct Kind {
    const char* name;
    std::function<std::string(uint64_t)> key;
  };
  const std::string prefix(300, 'p');
  const Kind kinds[] = {
      {"random", [](uint64_t i) { return absl::StrFormat("%016x", Random(i)); }},
      {"sequential", [](uint64_t i) { return std::string(reinterpret_cast<char*>(&i), 8); }},
      {"decimal", [](uint64_t i) { return absl::StrFormat("%d", i); }},
      {"padded", [](uint64_t i) { return absl::StrFormat("%016d", i); }},
      {"prefix", [&prefix](uint64_t i) { return absl::StrFormat("%s%d", prefix, i); }},
  };
  constexpr uint64_t kKeys = 50'000;
  constexpr uint64_t kAsked = 200'000;
  for (const Kind& kind : kinds) {
    std::vector<uint64_t> hashes(kKeys);
    // Present and absent keys alternate in the keys' order.
    for (uint64_t i = 0; i < kKeys; ++i) hashes[i] = FilterHash(kind.key(5 * i));
    const Filter filter(hashes, BlockedBloom::BlocksFor(kKeys, 10), 6);
    for (uint64_t hash : hashes) ASSERT_TRUE(filter.MayContain(hash)) << kind.name;
    uint64_t yes = 0;
    for (uint64_t i = 0; i < kAsked; ++i) {
      yes += filter.MayContain(FilterHash(kind.key(i / 4 * 5 + 1 + i % 4))) ? 1 : 0;
    }
    const double expected = FilterSizing::ExpectedBlockedFpr(10, 6);
    EXPECT_NEAR(static_cast<double>(yes) / kAsked, expected,
                expected * 0.03 + 3 * std::sqrt(expected / kAsked))
        << kind.name;
  }
}

TEST(BlockedBloomTest, FprFromBitsIsTheMeanOverBlocks) {
  AlignedBuffer buffer = AlignedBuffer::Zeroed(128);
  std::memset(buffer.data(), 0xff, 64);  // one full block, one empty
  EXPECT_EQ(BlockedBloom::CountSetBits(buffer.data(), 2), 512u);
  EXPECT_DOUBLE_EQ(BlockedBloom::FprFromBits(buffer.data(), 2, 6), 0.5);
  std::memset(buffer.data() + 64, 0x0f, 64);
  EXPECT_DOUBLE_EQ(BlockedBloom::FprFromBits(buffer.data(), 2, 2), (1 + 0.25) / 2);
}

TEST(AlignedBufferTest, AlignsAndAccounts) {
  EXPECT_EQ(AlignedBuffer().MemoryBytes(), 0u);
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
  for (size_t bytes : {size_t{1}, size_t{64}, size_t{65}, AlignedBuffer::kHugePageBytes - 1,
                       AlignedBuffer::kHugePageBytes, AlignedBuffer::kHugePageBytes + 1}) {
    AlignedBuffer buffer = AlignedBuffer::Zeroed(bytes);
    const bool huge = bytes >= AlignedBuffer::kHugePageBytes;
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) %
                  (huge ? AlignedBuffer::kHugePageBytes : AlignedBuffer::kAlignment),
              0u);
    EXPECT_GE(buffer.MemoryBytes(), bytes);
    EXPECT_LT(buffer.MemoryBytes(), bytes + (huge ? 4096 : 64));
    EXPECT_EQ(buffer.data()[0], 0);
    EXPECT_EQ(buffer.data()[bytes - 1], 0);
    std::memset(buffer.data(), 0x5a, bytes);
    AlignedBuffer moved = std::move(buffer);
    EXPECT_EQ(moved.size(), bytes);
    EXPECT_EQ(moved.data()[bytes - 1], 0x5a);
    moved = AlignedBuffer(3);
    EXPECT_EQ(moved.size(), 3u);
  }
}

}  // namespace
}  // namespace sievedb
