#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "util/aligned_buffer.h"
#include "util/coding.h"
#include "util/filter_block.h"
#include "util/hash.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;

uint64_t KeyHash(uint64_t i) { return FilterHash(absl::StrFormat("key%06d", i)); }

std::string Build(const FilterPolicy& policy, const std::vector<uint64_t>& hashes) {
  std::unique_ptr<FilterBuilder> builder = policy.NewBuilder({});
  for (uint64_t hash : hashes) builder->AddHash(hash);
  return builder->Finish();
}

std::string BuildKeys(double bits_per_key, uint64_t keys) {
  std::vector<uint64_t> hashes(keys);
  for (uint64_t i = 0; i < keys; ++i) hashes[i] = KeyHash(i);
  return Build(*NewBlockedBloomPolicy(bits_per_key), hashes);
}

// As a table holds it: aligned, and not a byte longer.
AlignedBuffer Aligned(std::string_view bytes) {
  AlignedBuffer buffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

// The trailer's check is made right, so that the fields behind it are judged too.
void FixCheck(std::string* bytes) {
  char* const trailer = bytes->data() + bytes->size() - kFilterTrailerBytes;
  EncodeFixed32(trailer + kFilterCheckOffset,
                static_cast<uint32_t>(Hash64Pair({trailer, 24}, {trailer + 28, 4}, 0)));
}

TEST(FilterPolicyTest, NamesItself) {
  const auto policy = NewBlockedBloomPolicy(12);
  EXPECT_EQ(policy->Kind(), 1);
  EXPECT_STREQ(policy->Name(), "sievedb.BlockedBloom");
  EXPECT_EQ(policy->BitsPerKey({}), 12);
}

TEST(FilterPolicyTest, ClampsBitsPerKey) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(NewBlockedBloomPolicy(0.5)->BitsPerKey({}), 1);
  EXPECT_EQ(NewBlockedBloomPolicy(0)->BitsPerKey({}), 1);
  EXPECT_EQ(NewBlockedBloomPolicy(-7)->BitsPerKey({}), 1);
  EXPECT_EQ(NewBlockedBloomPolicy(1000)->BitsPerKey({}), 64);
  EXPECT_EQ(NewBlockedBloomPolicy(kInfinity)->BitsPerKey({}), 64);
  EXPECT_EQ(NewBlockedBloomPolicy(-kInfinity)->BitsPerKey({}), 1);
  EXPECT_EQ(NewBlockedBloomPolicy(std::nan(""))->BitsPerKey({}), 10);
  EXPECT_EQ(NewBlockedBloomPolicy(7.25)->BitsPerKey({}), 7.25);
}

TEST(FilterPolicyTest, NoKeysDenyEverything) {
  const AlignedBuffer bytes = Aligned(BuildKeys(10, 0));
  EXPECT_EQ(bytes.size(), 64 + kFilterTrailerBytes);
  auto reader = NewBlockedBloomPolicy(10)->NewReader(bytes.view());
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_FALSE((*reader)->MayContain(KeyHash(i)));
  EXPECT_EQ((*reader)->Figures().keys, 0u);
  EXPECT_EQ((*reader)->Figures().expected_fpr, 0);
}

TEST(FilterPolicyTest, EveryKeyIsFoundAtAnySizeAndDensity) {
  for (double bits : {0.5, 1.0, 3.3, 10.0, 24.0, 64.0, 1000.0, std::nan("")}) {
    const auto policy = NewBlockedBloomPolicy(bits);
    // 8192 and 8193: the builder's pieces.
    for (uint64_t keys : {1u, 2u, 51u, 52u, 1000u, 8192u, 8193u, 20000u}) {
      const AlignedBuffer bytes = Aligned(BuildKeys(bits, keys));
      auto reader = policy->NewReader(bytes.view());
      ASSERT_TRUE(reader.ok()) << reader.status();
      for (uint64_t i = 0; i < keys; ++i) {
        (*reader)->Prefetch(KeyHash(i));
        ASSERT_TRUE((*reader)->MayContain(KeyHash(i))) << bits << " " << keys << " " << i;
      }
      const FilterFigures figures = (*reader)->Figures();
      EXPECT_EQ(figures.keys, keys);
      EXPECT_EQ(figures.blocks, BlockedBloom::BlocksFor(keys, policy->BitsPerKey({})));
      EXPECT_EQ(figures.bits, figures.blocks * 512);
      EXPECT_EQ(figures.bits_per_key, policy->BitsPerKey({}));
      EXPECT_EQ(figures.probes, FilterSizing::OptimalBlockedProbes(figures.bits_per_key));
      EXPECT_GT(figures.bits_set, 0u);
      EXPECT_LE(figures.bits_set, figures.bits);
      EXPECT_GT((*reader)->MemoryBytes(), figures.bits / 8);
    }
  }
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
// While a table is written, its filter is 8 bytes a key, of whatever kind: not the keys,
// and no array that doubles.
TEST(FilterPolicyTest, EightBytesAKeyAreKeptUntilFinish) {
  constexpr size_t kKeys = 1'000'000;
  const auto heap_bytes = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  if (heap_bytes() == 0) GTEST_SKIP() << "the allocator is not glibc's";
  for (const auto& policy : {NewBlockedBloomPolicy(10), NewDenseBlockedBloomPolicy(10),
                             NewBloomPolicy(10), NewRibbonPolicy(10), NewBinaryFusePolicy()}) {
    const size_t before = heap_bytes();
    const std::unique_ptr<FilterBuilder> builder = policy->NewBuilder({});
    size_t most = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      builder->AddHash(i * 0x9e3779b97f4a7c15);
      if (i % 1000 == 0) most = std::max(most, heap_bytes() - before);
    }
    most = std::max(most, heap_bytes() - before);
    EXPECT_GE(most, 8 * kKeys) << policy->Name();
    EXPECT_LE(most, 8 * kKeys + 8 * kKeys / 100) << policy->Name();
  }
}
#endif

TEST(FilterPolicyTest, RepeatedHashesAreOneKey) {
  const std::string once = Build(*NewBlockedBloomPolicy(10), {KeyHash(1), KeyHash(2)});
  const std::string twice = Build(*NewBlockedBloomPolicy(10),
                                  {KeyHash(1), KeyHash(1), KeyHash(1), KeyHash(2), KeyHash(2)});
  EXPECT_EQ(once, twice);
  // The first hash may be 0, like any other.
  const std::string zero = Build(*NewBlockedBloomPolicy(10), {0, 0});
  const AlignedBuffer bytes = Aligned(zero);
  auto reader = BlockedBloomReader::Open(bytes.view());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->keys(), 1u);
  EXPECT_TRUE((*reader)->MayContain(0));
}

TEST(FilterPolicyTest, FarDuplicatesAreHarmless) {
  std::vector<uint64_t> hashes;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 100; ++i) hashes.push_back(KeyHash(i));
  }
  const AlignedBuffer bytes = Aligned(Build(*NewBlockedBloomPolicy(10), hashes));
  auto reader = BlockedBloomReader::Open(bytes.view());
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (uint64_t hash : hashes) EXPECT_TRUE((*reader)->MayContain(hash));
}

TEST(FilterPolicyTest, MatchesTheGoldenFile) {
  std::ifstream file(SIEVEDB_TEST_DATA_DIR "/filter/blocked_bloom_v1_10bits_100keys.bin",
                     std::ios::binary);
  ASSERT_TRUE(file.is_open());
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(BuildKeys(10, 100), golden);
  const AlignedBuffer bytes = Aligned(golden);
  auto reader = OpenBuiltInFilter(1, bytes.view());
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE((*reader)->MayContain(KeyHash(i)));
}

TEST(FilterPolicyTest, EveryFlippedBitIsFoundOrHarmless) {
  const std::string good = BuildKeys(10, 100);
  const size_t trailer = good.size() - kFilterTrailerBytes;
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      const AlignedBuffer bytes = Aligned(bad);
      auto reader = OpenBuiltInFilter(kBlockedBloomKind, bytes.view());
      if (at >= trailer) {
        EXPECT_EQ(reader.status().code(), absl::StatusCode::kDataLoss) << at << "." << bit;
      } else {
        ASSERT_TRUE(reader.ok()) << reader.status();
        for (uint64_t i = 0; i < 10; ++i) (*reader)->Prefetch(KeyHash(i));
        EXPECT_LE((*reader)->Figures().expected_fpr, 1);
      }
    }
  }
}

TEST(FilterPolicyTest, EveryTruncationIsFound) {
  const std::string good = BuildKeys(10, 100);
  for (size_t size = 0; size < good.size(); ++size) {
    const AlignedBuffer front = Aligned(std::string_view(good).substr(0, size));
    EXPECT_EQ(OpenBuiltInFilter(1, front.view()).status().code(), absl::StatusCode::kDataLoss)
        << size;
    const AlignedBuffer back = Aligned(std::string_view(good).substr(good.size() - size));
    EXPECT_EQ(OpenBuiltInFilter(1, back.view()).status().code(), absl::StatusCode::kDataLoss)
        << size;
  }
}

TEST(FilterPolicyTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string good = BuildKeys(10, 100);
  const size_t trailer = good.size() - kFilterTrailerBytes;
  const auto status_with = [&](size_t offset, std::string_view value) {
    std::string bad = good;
    bad.replace(trailer + offset, value.size(), value);
    FixCheck(&bad);
    const AlignedBuffer bytes = Aligned(bad);
    return OpenBuiltInFilter(1, bytes.view()).status();
  };
  const auto loss = absl::StatusCode::kDataLoss;
  EXPECT_TRUE(status_with(kFilterProbesOffset, "\x07").ok());
  EXPECT_EQ(status_with(kFilterProbesOffset, std::string_view("\0", 1)).code(), loss);
  EXPECT_EQ(status_with(kFilterProbesOffset, "\x11").code(), loss);
  EXPECT_EQ(status_with(kFilterDetailOffset, "\x01").code(), loss);
  EXPECT_EQ(status_with(kFilterVersionOffset, "\x02").code(), loss);
  EXPECT_EQ(status_with(kFilterKindOffset, "\x02").code(), loss);
  EXPECT_EQ(status_with(kFilterExtentOffset, "\x03").code(), loss);
  // More blocks than 64 bits of bytes can be.
  EXPECT_EQ(status_with(kFilterExtentOffset, std::string("\0\0\0\0\0\0\0\x40", 8)).code(), loss);
  EXPECT_EQ(status_with(kFilterBitsPerKeyOffset, std::string(8, '\xff')).code(), loss);  // NaN
  EXPECT_EQ(status_with(kFilterBitsPerKeyOffset, std::string(8, '\0')).code(), loss);
  const absl::Status blocks = status_with(kFilterExtentOffset, "\x03");
  EXPECT_THAT(std::string(blocks.message()), HasSubstr("offset 128: expected 2, found 3"));
}

TEST(FilterPolicyTest, UnknownKindsAreRefused) {
  const AlignedBuffer bytes = Aligned(BuildKeys(10, 100));
  for (int kind : {0, 2, 8, 9, 127, 128, 255}) {
    EXPECT_EQ(OpenBuiltInFilter(static_cast<uint8_t>(kind), bytes.view()).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace sievedb
