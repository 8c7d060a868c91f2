#include "sievedb/filter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tests/util/filter_testing.h"
#include "util/aligned_buffer.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"

namespace sievedb {
namespace {

// --- every class: made from hashes at about the memory of its ordinary use

template <typename Class>
struct Added {
  using Type = Class;
  static absl::StatusOr<Type> Sized(const FilterSizing& sizing) { return Type::Create(sizing); }
  static Type Make(absl::Span<const uint64_t> hashes, double bits_per_key) {
    auto filter = Type::Create(FilterSizing::ForBitsPerKey(hashes.size(), bits_per_key));
    EXPECT_TRUE(filter.ok()) << filter.status();
    for (const uint64_t hash : hashes) AddHash(*filter, hash);
    return *std::move(filter);
  }
  static void AddHash(Type& filter, uint64_t hash) {
    if constexpr (std::is_void_v<decltype(filter.AddHash(hash))>) {
      filter.AddHash(hash);
    } else {
      EXPECT_TRUE(filter.AddHash(hash).ok());
    }
  }
};
struct Bloomed : Added<BloomFilter> {
  static constexpr uint8_t kKind = kBloomKind;
  static constexpr double kBitsPerKey = 10;
};
struct Blocked : Added<BlockedBloomFilter> {
  static constexpr uint8_t kKind = kBlockedBloomKind;
  static constexpr double kBitsPerKey = 10;
};
struct Counting : Added<CountingBloomFilter> {
  static constexpr uint8_t kKind = kCountingBloomKind;
  static constexpr double kBitsPerKey = 40;
};
struct Cuckoo : Added<CuckooFilter> {
  static constexpr uint8_t kKind = kCuckooKind;
  static constexpr double kBitsPerKey = 13;
};
struct Scalable : Added<ScalableBloomFilter> {
  static constexpr uint8_t kKind = kScalableBloomKind;
  static constexpr double kBitsPerKey = 10;
};
struct Dense {
  using Type = BlockedBloomFilter;
  static constexpr uint8_t kKind = kDenseBlockedBloomKind;
  static constexpr double kBitsPerKey = 10;
  static absl::StatusOr<Type> Sized(const FilterSizing& sizing) {
    return Type::CreateDense(sizing, {});
  }
  static Type Make(absl::Span<const uint64_t> hashes, double bits_per_key) {
    return *Type::CreateDense(FilterSizing::ForBitsPerKey(0, bits_per_key), hashes);
  }
};
struct Ribbon {
  using Type = RibbonFilter;
  static constexpr uint8_t kKind = kRibbonKind;
  static constexpr double kBitsPerKey = 7.2;
  static absl::StatusOr<Type> Sized(const FilterSizing& sizing) { return Type::Create(sizing, {}); }
  static Type Make(absl::Span<const uint64_t> hashes, double bits_per_key) {
    return *Type::Create(FilterSizing::ForBitsPerKey(0, bits_per_key), hashes);
  }
};
struct Fuse {
  using Type = BinaryFuseFilter;
  static constexpr uint8_t kKind = kBinaryFuseKind;
  static constexpr double kBitsPerKey = 9;
  static Type Make(absl::Span<const uint64_t> hashes, double) { return *Type::Create(hashes); }
};

template <typename Kind>
class FilterTest : public testing::Test {
 protected:
  static auto Make(absl::Span<const uint64_t> hashes) {
    return Kind::Make(hashes, Kind::kBitsPerKey);
  }
  static auto MakeOfKeys(const std::vector<std::string>& keys) {
    std::vector<uint64_t> hashes;
    for (const std::string& key : keys) hashes.push_back(FilterHash(key));
    return Make(hashes);
  }
};
using Kinds = testing::Types<Bloomed, Blocked, Dense, Ribbon, Fuse, Counting, Cuckoo, Scalable>;
TYPED_TEST_SUITE(FilterTest, Kinds);

TYPED_TEST(FilterTest, EveryKeyIsFoundAloneAndInBatches) {
  // 63 to 65: the groups that ContainsMany hashes.
  for (const size_t n : {0u, 1u, 2u, 63u, 64u, 65u, 5000u}) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < n; ++i) keys.push_back(absl::StrFormat("key%d", i));
    const auto filter = this->MakeOfKeys(keys);
    std::vector<std::string_view> asked(keys.begin(), keys.end());
    const std::vector<std::string> absent = {"", "absent", std::string(3000, 'x'), "key-1"};
    asked.insert(asked.end(), absent.begin(), absent.end());
    const std::unique_ptr<bool[]> results(new bool[asked.size()]());
    filter.ContainsMany(asked, absl::MakeSpan(results.get(), asked.size()));
    for (size_t i = 0; i < asked.size(); ++i) {
      EXPECT_EQ(results[i], filter.Contains(asked[i])) << asked[i];
      if (i < n) {
        EXPECT_TRUE(results[i]) << asked[i];
      }
      if (n == 0) {
        EXPECT_FALSE(results[i]) << asked[i];
      }
    }
  }
}

TYPED_TEST(FilterTest, OddKeysAreKeys) {
  std::vector<std::string> keys = {"", std::string(1, '\0'), "\x80", "\xff\xfe\xfd",
                                   std::string(1 << 20, '\xee')};
  const auto filter = this->MakeOfKeys(keys);
  for (const std::string& key : keys) EXPECT_TRUE(filter.Contains(key)) << key.size();
  const auto alone = this->MakeOfKeys({""});
  EXPECT_TRUE(alone.Contains(""));
}

TYPED_TEST(FilterTest, RepeatedKeysAreHarmless) {
  std::vector<uint64_t> hashes = RandomHashes(1000);
  for (int round = 0; round < 2; ++round) {
    for (const uint64_t hash : RandomHashes(100)) hashes.push_back(hash);
  }
  const auto filter = this->Make(hashes);
  for (const uint64_t hash : hashes) EXPECT_TRUE(filter.ContainsHash(hash));
}

TYPED_TEST(FilterTest, ShapesOfKeysDoNotMatter) {
  constexpr uint64_t kKeys = 20'000;
  constexpr uint64_t kAsked = 400'000;
  const auto shapes = {
      +[](uint64_t i) { return absl::StrFormat("%d", i); },
      +[](uint64_t i) { return Fixed64(i); },
      +[](uint64_t i) { return absl::StrFormat("%016d", i); },
      +[](uint64_t i) { return std::string(200, 'p') + absl::StrFormat("%d", i); },
      +[](uint64_t i) { return Fixed64(Random(i)); },
  };
  int shape = 0;
  for (const auto key : shapes) {
    std::vector<uint64_t> hashes;
    for (uint64_t i = 0; i < kKeys; ++i) hashes.push_back(FilterHash(key(i)));
    const auto filter = this->Make(hashes);
    uint64_t maybe = 0;
    for (uint64_t i = 0; i < kAsked; ++i) maybe += filter.Contains(key(kKeys + i));
    const double expected = filter.EstimatedFpr();
    EXPECT_LE(static_cast<double>(maybe) / kAsked, 1.1 * expected) << "shape " << shape;
    EXPECT_GT(maybe, 0u) << "shape " << shape;
    ++shape;
  }
}

TYPED_TEST(FilterTest, SerializedIsTheSameFilter) {
  for (const uint64_t n : {0u, 1u, 3000u}) {
    const auto filter = this->Make(RandomHashes(n));
    const std::string bytes = filter.Serialize();
    EXPECT_EQ(static_cast<uint8_t>(bytes[bytes.size() - 9]), TypeParam::kKind);
    const auto copy = TypeParam::Type::Deserialize(Exact(bytes).view());
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_TRUE(copy->Serialize() == bytes);
    // As mapped, and where nothing is aligned.
    AlignedBuffer aligned(bytes.size());
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    const std::string shifted = "x" + bytes;
    const auto mapped = OpenFilter(aligned.view());
    const auto unaligned = OpenFilter(std::string_view(shifted).substr(1));
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    ASSERT_TRUE(unaligned.ok()) << unaligned.status();
    for (uint64_t i = 0; i < 2 * n + 500; ++i) {
      const uint64_t hash = i < n ? Random(i) : Random(kAbsent + i);
      const bool maybe = filter.ContainsHash(hash);
      EXPECT_EQ(copy->ContainsHash(hash), maybe);
      EXPECT_EQ((*mapped)->MayContain(hash), maybe);
      EXPECT_EQ((*unaligned)->MayContain(hash), maybe);
    }
    const FilterFigures figures = filter.Figures();
    // The scalable filter does not count a key that it took for one that was there.
    const uint64_t few = TypeParam::kKind == kScalableBloomKind ? n / 50 : 0;
    EXPECT_LE(figures.keys, n);
    EXPECT_GE(figures.keys, n - few);
    EXPECT_EQ((*mapped)->Figures().keys, figures.keys);
    EXPECT_EQ(copy->EstimatedFpr(), filter.EstimatedFpr());
    EXPECT_EQ((*mapped)->Figures().expected_fpr, figures.expected_fpr);
    EXPECT_LE(figures.bits_set, figures.bits);
  }
}

TYPED_TEST(FilterTest, EveryFlippedOrMissingByteIsFound) {
  const std::string good = this->Make(RandomHashes(20)).Serialize();
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    const Exact flipped(bad);
    EXPECT_EQ(TypeParam::Type::Deserialize(flipped.view()).status().code(),
              absl::StatusCode::kDataLoss)
        << at;
    const Exact cut(std::string_view(good).substr(0, at));
    EXPECT_EQ(TypeParam::Type::Deserialize(cut.view()).status().code(), absl::StatusCode::kDataLoss)
        << at;
    EXPECT_EQ(OpenFilter(cut.view()).status().code(), absl::StatusCode::kDataLoss) << at;
  }
}

TYPED_TEST(FilterTest, AnotherKindIsRefused) {
  const std::string bloom = Bloomed::Make(RandomHashes(10), 10).Serialize();
  const std::string ribbon = Ribbon::Make(RandomHashes(10), 8).Serialize();
  const std::string& other = TypeParam::kKind == kBloomKind ? ribbon : bloom;
  EXPECT_EQ(TypeParam::Type::Deserialize(other).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TYPED_TEST(FilterTest, Moves) {
  auto a = this->Make(RandomHashes(100));
  const std::string bytes = a.Serialize();
  auto b = std::move(a);
  EXPECT_TRUE(b.Serialize() == bytes);
  a = this->Make(RandomHashes(10, 1000));  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(a.ContainsHash(Random(1000)));
  a = std::move(b);
  EXPECT_TRUE(a.Serialize() == bytes);
  EXPECT_EQ(a.Figures().keys, 100u);
  EXPECT_EQ(b.MemoryBytes(), 0u);  // NOLINT(bugprone-use-after-move)
}

TYPED_TEST(FilterTest, MemoryIsWhatItHolds) {
  for (const uint64_t n : {1u, 1000u, 300'000u}) {
    const auto filter = this->Make(RandomHashes(n));
    const size_t block = filter.Serialize().size() - 8;
    EXPECT_GE(filter.MemoryBytes(), block);
    // A page and an object or, for the one that grows, one of each for each layer.
    const size_t layers = TypeParam::kKind == kScalableBloomKind ? 16 : 1;
    EXPECT_LE(filter.MemoryBytes(), block + layers * (4096 + 256));
  }
}

TYPED_TEST(FilterTest, RefusesSizingsThatSayNothing) {
  if constexpr (TypeParam::kKind != kBinaryFuseKind) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const double bits : {0.0, -1.0, 0.5, 1000.0, kNan, kInfinity}) {
      EXPECT_EQ(TypeParam::Sized(FilterSizing::ForBitsPerKey(10, bits)).status().code(),
                absl::StatusCode::kInvalidArgument)
          << bits;
    }
    for (const double rate : {0.0, -0.5, 1.0, 2.0, 1e-300, kNan, kInfinity}) {
      EXPECT_EQ(TypeParam::Sized(FilterSizing::ForRate(10, rate)).status().code(),
                absl::StatusCode::kInvalidArgument)
          << rate;
    }
    EXPECT_EQ(TypeParam::Sized({10, TypeParam::kBitsPerKey, 0.01}).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(TypeParam::Sized(FilterSizing::ForRate(10, 0.01)).ok());
  }
}

template <typename Kind>
class AddedFilterTest : public testing::Test {};
using AddedKinds = testing::Types<Bloomed, Blocked, Counting, Cuckoo>;
TYPED_TEST_SUITE(AddedFilterTest, AddedKinds);

TYPED_TEST(AddedFilterTest, MoreThanMemoryIsRefused) {
  for (const uint64_t keys : {uint64_t{1} << 55, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_EQ(
        TypeParam::Sized(FilterSizing::ForBitsPerKey(keys, TypeParam::kBitsPerKey)).status().code(),
        absl::StatusCode::kResourceExhausted);
  }
}

TYPED_TEST(AddedFilterTest, GoesOnAfterDeserialize) {
  auto filter = TypeParam::Type::Create(FilterSizing::ForBitsPerKey(100, TypeParam::kBitsPerKey));
  ASSERT_TRUE(filter.ok());
  for (uint64_t i = 0; i < 50; ++i) TypeParam::AddHash(*filter, Random(i));
  auto copy = TypeParam::Type::Deserialize(filter->Serialize());
  ASSERT_TRUE(copy.ok());
  for (uint64_t i = 50; i < 100; ++i) {
    TypeParam::AddHash(*filter, Random(i));
    TypeParam::AddHash(*copy, Random(i));
  }
  EXPECT_TRUE(copy->Serialize() == filter->Serialize());
  EXPECT_EQ(copy->Figures().keys, 100u);
}

// --- what no kind has of its own

// Frozen: filters on disk were built with it. Bytes of 0x80 and more among them.
TEST(FilterHashTest, GoldenVectors) {
  constexpr std::array<uint64_t, 65> kGolden = {
      0x2d06800538d394c2, 0x6b148c0872500941, 0xed2d135c6611ac28, 0xb01c33f38f975f90,
      0x32b939af088db2d6, 0xa699ead7f5de7133, 0x0760a1da5dd611ee, 0x0bb3f0e5a1d7c9c3,
      0x3126386570af4111, 0xd10817166c82d576, 0x546ac4efef22717d, 0x81bcd929940fc404,
      0xc17a8b6f5cce8ca8, 0xf28aa1056c652444, 0xd34c630610a40316, 0x9b24203472294add,
      0x3f74481ba1e3d71c, 0x09cc40552c6fa6b5, 0xd36456a2133988a2, 0x353b071f0aed934c,
      0x6a03b04477fd4537, 0x55fb744369f2e130, 0xf0decb067b2f9a3c, 0xa1919a02b38dbcfb,
      0x6ba5409d9252de36, 0x92171b2119b1fd78, 0xf7a6e92c41bc9b3a, 0x2e276c4c2f59832f,
      0xaf4c14aa75a29bbc, 0xd9aaee4c76313b00, 0x1a4a34960a991a5c, 0x50edb3fba6b7ee7a,
      0x463c3c44a1237a43, 0x0cc2d1c5e2a13468, 0x031742887b58c768, 0xede00eea6ec7ac86,
      0x9d70b263b8cfa806, 0x388844c6557d3814, 0xc1c8b1baabf6222a, 0xbe8df4b6b08de149,
      0x3ac317c1c749faa1, 0xaa76700c91a47870, 0x03487b4830f4c36f, 0xa32db8f49f9a2042,
      0x94eb399325c27093, 0xc23b6487b5721108, 0xa7d759cbcc7ee877, 0x4cf67e13dd5be0d2,
      0xd699ec1c4e295efa, 0x9ab021db916658ed, 0xcc1dece365ee7669, 0xf8f846a4ce7656af,
      0x74cc7a760664d906, 0x7094d87ab8361093, 0x9d61d95a495795db, 0xddaa6a3237fc55e6,
      0x2f8823fac4705778, 0xb55d471671db4357, 0x4aece03492efc3e4, 0xcabf4e521fb36aff,
      0x8b1456f51dd54a7e, 0xc75b063925cc56b1, 0x016ce6a56c0f43a8, 0xab8bb97654ffbd6c,
      0xb31db41b028e68ed,
  };
  char key[64];
  for (int i = 0; i < 64; ++i) key[i] = static_cast<char>(0x80 + i * 37);
  for (size_t n = 0; n < kGolden.size(); ++n) EXPECT_EQ(FilterHash({key, n}), kGolden[n]) << n;
}

TEST(FilterMemoryTest, IsZeroedAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1000}, (size_t{2} << 20) + 5}) {
    const FilterMemory memory(bytes);
    ASSERT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    EXPECT_GE(memory.MemoryBytes(), bytes);
    EXPECT_LT(memory.MemoryBytes(), bytes + 4096);
    EXPECT_EQ(std::string_view(memory.data(), bytes).find_first_not_of('\0'),
              std::string_view::npos);
  }
  EXPECT_EQ(FilterMemory(0).MemoryBytes(), 0u);
}

TEST(FilterMemoryTest, WhatCannotBeHadIsEmpty) {
  const FilterMemory memory(std::numeric_limits<size_t>::max() - 100);
  EXPECT_EQ(memory.size(), 0u);
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_EQ(FilterMemory(size_t{1} << 62).size(), 0u);
}

TEST(FilterMemoryTest, Moves) {
  FilterMemory a(100);
  char* const data = a.data();
  FilterMemory b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.size(), 0u);  // NOLINT(bugprone-use-after-move)
  FilterMemory c(7);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(b.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST(OpenFilterTest, UnknownKindsAreDamage) {
  std::string bytes = Bloomed::Make(RandomHashes(10), 10).Serialize();
  for (int kind = 0; kind < 256; ++kind) {
    if (kind == kBloomKind) continue;
    std::string bad(BlockOf(bytes));
    bad.back() = static_cast<char>(kind);
    EXPECT_EQ(OpenFilter(Serialized(bad)).status().code(), absl::StatusCode::kDataLoss) << kind;
  }
}

TEST(FilterReaderTest, TheDefaultOfManyAsksForEach) {
  struct Even final : FilterReader {
    bool MayContain(uint64_t hash) const override { return hash % 2 == 0; }
    FilterFigures Figures() const override { return {}; }
    size_t MemoryBytes() const override { return sizeof(*this); }
  };
  const Even reader;
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 100u}) {
    const std::vector<uint64_t> hashes = RandomHashes(n);
    const std::unique_ptr<bool[]> results(new bool[n]());
    reader.MayContainMany(hashes, absl::MakeSpan(results.get(), n));
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(results[i], hashes[i] % 2 == 0);
  }
}

TEST(FilterHashesTest, KeepsOrderAndDropsNeighbours) {
  FilterHashes hashes;
  std::vector<uint64_t> expected;
  for (uint64_t i = 0; i < 2 * FilterHashes::kPieceHashes + 3; ++i) {
    hashes.Add(Random(i));
    hashes.Add(Random(i));
    expected.push_back(Random(i));
  }
  EXPECT_EQ(hashes.size(), expected.size());
  std::vector<uint64_t> pieces;
  for (const auto piece : hashes.Pieces()) pieces.insert(pieces.end(), piece.begin(), piece.end());
  EXPECT_TRUE(pieces == expected);
  EXPECT_TRUE(hashes.Take() == expected);
  EXPECT_EQ(hashes.size(), 0u);
  EXPECT_TRUE(hashes.Pieces().empty());
}

// --- the blocked filter, whose bits have tests of their own

TEST(BlockedBloomFilterTest, RatesAreThoseOfTheory) {
  for (const double bits : {4.0, 8.0, 10.0, 12.0, 16.0, 24.0}) {
    const BlockedBloomFilter filter = Blocked::Make(RandomHashes(200'000), bits);
    const FilterFigures figures = filter.Figures();
    const double theory = FilterSizing::ExpectedBlockedFpr(bits, figures.probes);
    EXPECT_EQ(figures.probes, FilterSizing::OptimalBlockedProbes(bits));
    EXPECT_NEAR(figures.expected_fpr, theory, 0.03 * theory) << bits;
    uint64_t maybe = 0;
    constexpr uint64_t kAsked = 1'000'000;
    for (uint64_t i = 0; i < kAsked; ++i) maybe += filter.ContainsHash(Random(kAbsent + i));
    EXPECT_NEAR(static_cast<double>(maybe) / kAsked, theory,
                0.03 * theory + 4 * std::sqrt(theory / kAsked))
        << bits;
  }
}

TEST(BlockedBloomFilterTest, HasTheBlockOfThePolicy) {
  const auto builder = NewBlockedBloomPolicy(10)->NewBuilder({});
  for (const uint64_t hash : RandomHashes(20'000)) builder->AddHash(hash);
  EXPECT_TRUE(builder->Finish() == BlockOf(Blocked::Make(RandomHashes(20'000), 10).Serialize()));
  EXPECT_FALSE(Blocked::Make({}, 10).dense());
}

TEST(BlockedBloomFilterTest, ARateIsKept) {
  for (const double rate : {0.3, 0.01, 0.0001}) {
    auto filter = BlockedBloomFilter::Create(FilterSizing::ForRate(100'000, rate));
    ASSERT_TRUE(filter.ok()) << filter.status();
    filter->AddManyHashes(RandomHashes(100'000));
    EXPECT_NEAR(filter->EstimatedFpr(), rate, 0.05 * rate);
  }
}

}  // namespace
}  // namespace sievedb
