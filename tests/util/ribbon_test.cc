#include "util/ribbon.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tests/util/filter_testing.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

constexpr size_t kShapesBytes = 64;

void ExpectRibbonOf(const FilterPolicy& policy, absl::Span<const uint64_t> hashes,
                    uint64_t distinct) {
  const std::string block = BuildBlock(policy, hashes, kRibbonKind);
  const auto reader = OpenBuiltInFilter(kRibbonKind, block);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  EXPECT_EQ((*reader)->Figures().keys, distinct);
}

TEST(RibbonTest, ShapesSplitSegmentsByTheFraction) {
  const Ribbon::Shape whole = Ribbon::ShapeFor(100'000, 7);
  EXPECT_EQ(whole.bits, 7);
  EXPECT_EQ(whole.lower, whole.segments);
  const Ribbon::Shape quarter = Ribbon::ShapeFor(100'000, 7.25);
  EXPECT_EQ(quarter.bits, 7);
  EXPECT_NEAR(static_cast<double>(quarter.Words()) / static_cast<double>(quarter.segments), 7.25,
              0.01);
  EXPECT_EQ(Ribbon::ShapeFor(5, 99).bits, 32);
  EXPECT_EQ(Ribbon::ShapeFor(5, 99).lower, Ribbon::ShapeFor(5, 99).segments);
  EXPECT_EQ(Ribbon::ShapeFor(5, 0.1).bits, 1);
  EXPECT_EQ(Ribbon::ShapeFor(0, 7).segments, 2u);
}

TEST(RibbonTest, EveryKeyIsFoundAtSmallSizes) {
  const auto policy = NewRibbonPolicy(10);
  for (uint64_t n = 0; n <= 100; ++n) ExpectRibbonOf(*policy, RandomHashes(n, n * 1000), n);
}

TEST(RibbonTest, NoKeysDenyEverything) {
  const std::string block = BuildBlock(*NewRibbonPolicy(10), {}, kRibbonKind);
  const auto reader = OpenBuiltInFilter(kRibbonKind, block);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(MeasuredRate(**reader, 5000), 0);
  EXPECT_EQ((*reader)->Figures().expected_fpr, 0);
}

// The policy's bits per key are those of a Bloom filter with the rate.
TEST(RibbonTest, HasTheRateOfABloomFilterInSeventyPercentOfItsMemory) {
  for (double bits : {1.0, 2.5, 7.3, 10.0, 13.7, 20.0, 30.0}) {
    const double rate = FilterSizing::ExpectedFpr(bits, FilterSizing::OptimalProbes(bits));
    for (uint64_t n : {1000u, 100'000u}) {
      const std::vector<uint64_t> hashes = RandomHashes(n);
      const std::string block = BuildBlock(*NewRibbonPolicy(bits), hashes, kRibbonKind);
      const auto reader = NewRibbonPolicy(bits)->NewReader(block);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ExpectAllFound(**reader, hashes);
      const FilterFigures figures = (*reader)->Figures();
      EXPECT_EQ(figures.bits_per_key, bits);
      EXPECT_EQ(figures.keys, n);
      ExpectRate(**reader, figures.expected_fpr, 100'000);
      if (bits == 1) {
        EXPECT_EQ(figures.expected_fpr, 0.5);  // less than a bit makes no ribbon
      } else {
        EXPECT_LE(figures.expected_fpr, rate * 1.0001) << bits << " " << n;
        EXPECT_GT(figures.expected_fpr, rate * (n == 1000 ? 0.9 : 0.99)) << bits << " " << n;
      }
      const double size = static_cast<double>(block.size()) * 8 / static_cast<double>(n);
      const double entropy = std::max(1.0, -std::log2(rate));
      EXPECT_LT(size, entropy * (n >= 100'000 ? 1.015 : 1.12) + (n >= 100'000 ? 0.1 : 1.6))
          << bits << " " << n;
      if (n >= 100'000 && bits >= 7) {
        EXPECT_LT(size, bits * 0.72);
      }
    }
  }
}

TEST(RibbonTest, AMillionKeys) {
  const std::vector<uint64_t> hashes = RandomHashes(1'000'000);
  const auto filter = RibbonFilter::Create(FilterSizing::ForBitsPerKey(0, 7.05), hashes);
  ASSERT_TRUE(filter.ok()) << filter.status();
  const std::string bytes = filter->Serialize();
  EXPECT_LT(static_cast<double>(bytes.size()) * 8 / 1e6, 7.06);
  const auto reader = OpenFilter(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  EXPECT_NEAR(filter->EstimatedFpr(), 0.0078, 0.0001);
  ExpectRate(**reader, filter->EstimatedFpr(), 400'000);
}

TEST(RibbonTest, SizingByRateAndByBits) {
  const std::vector<uint64_t> hashes = RandomHashes(50'000);
  for (double rate : {0.5, 0.1, 0.01, 1e-4, 0x1p-28}) {
    const auto filter = RibbonFilter::Create(FilterSizing::ForRate(0, rate), hashes);
    ASSERT_TRUE(filter.ok()) << filter.status();
    EXPECT_LE(filter->EstimatedFpr(), rate * 1.0001);
    EXPECT_GT(filter->EstimatedFpr(), rate * 0.99);
  }
  for (double bits : {1.1, 4.4, 32.0}) {
    const auto filter = RibbonFilter::Create(FilterSizing::ForBitsPerKey(0, bits), hashes);
    ASSERT_TRUE(filter.ok()) << filter.status();
    EXPECT_NEAR(static_cast<double>(filter->Serialize().size()) * 8 / 50'000, bits,
                0.01 * bits + 0.1);
    EXPECT_EQ(filter->Figures().bits_per_key, bits);
  }
}

TEST(RibbonTest, RefusesOtherSizings) {
  const auto code = [](const FilterSizing& sizing) {
    return RibbonFilter::Create(sizing, {}).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  for (double bits :
       {0.0, 0.5, 1.0, 32.1, 1000.0, -7.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(code(FilterSizing::ForBitsPerKey(0, bits)), invalid) << bits;
  }
  for (double rate : {0.0, 0.51, 1.0, 0x1p-29, -0.1, std::nan("")}) {
    EXPECT_EQ(code(FilterSizing::ForRate(0, rate)), invalid) << rate;
  }
  EXPECT_EQ(code({0, 7, 0.01}), invalid);
  EXPECT_EQ(code(FilterSizing::ForBitsPerKey(0, 7)), absl::StatusCode::kOk);
}

TEST(RibbonTest, ThePolicyClampsBitsPerKey) {
  const std::vector<uint64_t> hashes = RandomHashes(3000);
  const double infinity = std::numeric_limits<double>::infinity();
  for (double bits : {0.0, 0.5, -3.0, 64.0, 1000.0, std::nan(""), infinity, -infinity}) {
    const auto policy = NewRibbonPolicy(bits);
    EXPECT_GE(policy->BitsPerKey({}), 1);
    EXPECT_LE(policy->BitsPerKey({}), 64);
    ExpectRibbonOf(*policy, hashes, hashes.size());
  }
  EXPECT_EQ(NewRibbonPolicy(std::nan(""))->BitsPerKey({}), 10);
  EXPECT_EQ(NewRibbonPolicy(10)->Kind(), 4);
  EXPECT_STREQ(NewRibbonPolicy(10)->Name(), "sievedb.Ribbon");
}

TEST(RibbonTest, EqualHashesCountOnce) {
  std::vector<uint64_t> hashes;
  for (int round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 2000; ++i) hashes.push_back(Random(i));
  }
  for (int i = 0; i < 1000; ++i) hashes.push_back(Random(static_cast<uint64_t>(i % 2)));
  ExpectRibbonOf(*NewRibbonPolicy(10), hashes, 2000);
}

TEST(RibbonTest, NoShapeOfHashesMatters) {
  for (const std::vector<uint64_t>& hashes : AdversarialHashes(20'000)) {
    const std::string block = BuildBlock(*NewRibbonPolicy(10), hashes, kRibbonKind);
    const auto reader = OpenBuiltInFilter(kRibbonKind, block);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    ExpectRate(**reader, (*reader)->Figures().expected_fpr, 100'000);
    EXPECT_LT(block.size() * 8, 20'000u * 7.3);
  }
}

// What every layer bumps ends up in the list: no keys make building fail.
TEST(RibbonTest, ALayerBumpsWhatItHasNoRoomFor) {
  // Three times as many keys as slots.
  const Ribbon::Shape shape = Ribbon::ShapeFor(1000, 7.5);
  std::vector<uint64_t> mixed = RandomHashes(3 * shape.segments * 64);
  std::sort(mixed.begin(), mixed.end());
  std::string bytes(shape.Bytes(), '\0');
  std::vector<uint64_t> bumped;
  Ribbon::BuildLayer(mixed, shape, bytes.data(), &bumped);
  const Ribbon::Layer layer{shape, bytes.data()};
  EXPECT_GT(bumped.size(), mixed.size() / 2);
  size_t next = 0;
  for (const uint64_t hash : mixed) {
    const bool is_bumped = next < bumped.size() && bumped[next] == hash;
    if (is_bumped) ++next;
    EXPECT_EQ(Ribbon::Ask(layer, hash),
              is_bumped ? Ribbon::Answer::kNextLayer : Ribbon::Answer::kMaybe);
  }
  EXPECT_EQ(next, bumped.size());
  double maybe = 0;
  double share = 0;
  Ribbon::Rates(layer, &maybe, &share);
  EXPECT_NEAR(share, static_cast<double>(bumped.size()) / static_cast<double>(mixed.size()), 0.05);
  EXPECT_GT(maybe, 0);
}

TEST(RibbonTest, AboveItsMemoryThePolicyMakesABlockedBloomFilter) {
  const std::vector<uint64_t> hashes = RandomHashes(10'000);
  uint64_t low = 0;
  uint64_t high = 1'000'000;
  // The memory at which it becomes a ribbon.
  while (low + 1 < high) {
    const uint64_t middle = (low + high) / 2;
    const std::unique_ptr<FilterBuilder> builder = NewRibbonPolicy(10, middle)->NewBuilder({});
    for (const uint64_t hash : hashes) builder->AddHash(hash);
    (void)builder->Finish();
    (builder->Kind() == kRibbonKind ? high : low) = middle;
  }
  EXPECT_GE(high, 24u * hashes.size());
  EXPECT_LE(high, 32u * hashes.size());
  BuildBlock(*NewRibbonPolicy(10, high), hashes, kRibbonKind);
  const std::string block = BuildBlock(*NewRibbonPolicy(10, low), hashes, kBlockedBloomKind);
  const auto reader = OpenBuiltInFilter(kBlockedBloomKind, block);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  EXPECT_LT(MeasuredRate(**reader, 50'000), 0.02);
}

TEST(RibbonTest, SerializesAndDeserializes) {
  const std::vector<uint64_t> hashes = RandomHashes(5000);
  auto filter = RibbonFilter::Create(FilterSizing::ForRate(0, 0.02), hashes);
  ASSERT_TRUE(filter.ok()) << filter.status();
  const std::string bytes = filter->Serialize();
  EXPECT_GE(filter->MemoryBytes(), bytes.size() - 8);
  auto copy = RibbonFilter::Deserialize(bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  for (const uint64_t hash : hashes) EXPECT_TRUE(copy->ContainsHash(hash));
  EXPECT_EQ(copy->EstimatedFpr(), filter->EstimatedFpr());
  EXPECT_EQ(BinaryFuseFilter::Deserialize(bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RibbonTest, MatchesTheGoldenFile) {
  // A fraction of a bit, a layer and a list.
  const std::string golden = GoldenFile("ribbon_v1_10bits_2800keys.bin");
  EXPECT_EQ(BuildBlock(*NewRibbonPolicy(10), RandomHashes(2800), kRibbonKind), golden);
  const auto reader = OpenBuiltInFilter(kRibbonKind, golden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, RandomHashes(2800));
}

TEST(RibbonTest, DamageIsFound) {
  ExpectDamageIsFound(Serialized(BuildBlock(*NewRibbonPolicy(10), RandomHashes(300), kRibbonKind)));
  ExpectDamageIsFound(Serialized(BuildBlock(*NewRibbonPolicy(10), RandomHashes(3), kRibbonKind)));
}

TEST(RibbonTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string good = BuildBlock(*NewRibbonPolicy(10.5), RandomHashes(1000), kRibbonKind);
  const auto loss = absl::StatusCode::kDataLoss;
  const int shapes = -static_cast<int>(kShapesBytes);
  const auto status = [&](int offset, std::string_view value) {
    return StatusWith(good, offset, value, kShapesBytes).code();
  };
  EXPECT_EQ(status(kFilterKeysOffset, Fixed64(77)), absl::StatusCode::kOk);
  EXPECT_EQ(status(kFilterExtentOffset, Fixed64(~uint64_t{0})), loss);
  EXPECT_EQ(status(kFilterProbesOffset, std::string_view("\0", 1)), loss);
  EXPECT_EQ(status(kFilterProbesOffset, "\x21"), loss);
  EXPECT_EQ(status(kFilterDetailOffset, "\x05"), loss);
  EXPECT_EQ(status(kFilterDetailOffset, std::string_view("\0", 1)), loss);
  EXPECT_EQ(status(kFilterVersionOffset, "\x02"), loss);
  EXPECT_EQ(status(kFilterBitsPerKeyOffset, std::string(8, '\xff')), loss);
  for (uint64_t segments : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_EQ(status(shapes, Fixed64(segments)), loss) << segments;
  }
  EXPECT_EQ(status(shapes + 8, Fixed64(~uint64_t{0})), loss);
  EXPECT_EQ(status(shapes + 48, Fixed64(1)), loss);
  EXPECT_EQ(status(shapes + 56, Fixed64(1)), loss);
  EXPECT_GT(TryDamagedFields(good, kShapesBytes), 0);
}

}  // namespace
}  // namespace sievedb
