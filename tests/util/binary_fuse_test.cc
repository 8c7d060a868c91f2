#include "util/binary_fuse.h"

#include <cmath>
#include <cstdint>
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

using ::testing::HasSubstr;

void ExpectFuseOf(absl::Span<const uint64_t> hashes, uint64_t distinct) {
  const std::string block = BuildBlock(*NewBinaryFusePolicy(), hashes, kBinaryFuseKind);
  const auto reader = OpenBuiltInFilter(kBinaryFuseKind, block);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  EXPECT_EQ((*reader)->Figures().keys, distinct);
}

TEST(BinaryFuseTest, ShapesAreThoseOfThePaper) {
  EXPECT_EQ(BinaryFuse::ShapeFor(0), (BinaryFuse::Shape{1, 2}));
  EXPECT_EQ(BinaryFuse::ShapeFor(1), (BinaryFuse::Shape{1, 2}));
  // 2^floor(ln n / ln 3.33 + 2.25), 1.125 bytes a key.
  EXPECT_EQ(BinaryFuse::ShapeFor(1'000'000).length_log2, 13);
  EXPECT_EQ(BinaryFuse::ShapeFor(10'000'000).length_log2, 15);
  EXPECT_EQ(BinaryFuse::ShapeFor(BinaryFuse::kMaxKeys).length_log2, 18);
  EXPECT_NEAR(static_cast<double>(BinaryFuse::ShapeFor(10'000'000).ArrayBytes()), 11.25e6, 33e3);
  uint64_t last = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    const BinaryFuse::Shape shape = BinaryFuse::ShapeFor(n);
    EXPECT_GE(shape.segments, 1u);
    EXPECT_GE(shape.ArrayBytes(), n);
    // Room for some more keys never takes much less room.
    EXPECT_GT(shape.ArrayBytes() * 2, last) << n;
    last = shape.ArrayBytes();
  }
}

TEST(BinaryFuseTest, CellsAreInThreeSegmentsOfTheArray) {
  for (uint64_t n : {0u, 1u, 2u, 100u, 5000u}) {
    const BinaryFuse::Shape shape = BinaryFuse::ShapeFor(n);
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t hash = i == 0 ? ~uint64_t{0} : Random(i);
      const BinaryFuse::Cells cells = BinaryFuse::CellsFor(hash, shape);
      const uint64_t segment = cells.at[0] >> shape.length_log2;
      EXPECT_LT(segment, shape.segments);
      EXPECT_EQ(cells.at[1] >> shape.length_log2, segment + 1);
      EXPECT_EQ(cells.at[2] >> shape.length_log2, segment + 2);
      EXPECT_LT(cells.at[2], shape.ArrayBytes());
    }
  }
}

TEST(BinaryFuseTest, EveryKeyIsFoundAtSmallSizes) {
  for (uint64_t n = 0; n <= 100; ++n) ExpectFuseOf(RandomHashes(n, n * 1000), n);
}

TEST(BinaryFuseTest, EveryKeyIsFoundAndTheRateIsOneIn256) {
  for (uint64_t n : {1000u, 10'000u, 100'000u, 1'000'000u}) {
    const std::vector<uint64_t> hashes = RandomHashes(n);
    const std::string block = BuildBlock(*NewBinaryFusePolicy(), hashes, kBinaryFuseKind);
    const auto reader = NewBinaryFusePolicy()->NewReader(block);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    ExpectRate(**reader, 1.0 / 256, 400'000);
    const FilterFigures figures = (*reader)->Figures();
    EXPECT_EQ(figures.expected_fpr, 1.0 / 256);
    EXPECT_EQ(figures.probes, 3);
    EXPECT_EQ(figures.keys, n);
    EXPECT_EQ(figures.bits, (block.size() - kFilterTrailerBytes) * 8);
    const double bits_per_key = static_cast<double>(figures.bits) / static_cast<double>(n);
    EXPECT_LT(bits_per_key, n >= 1'000'000 ? 9.06 : 11.3);
    EXPECT_GT((*reader)->MemoryBytes(), block.size());
  }
}

TEST(BinaryFuseTest, NoKeysDenyEverything) {
  const std::string block = BuildBlock(*NewBinaryFusePolicy(), {}, kBinaryFuseKind);
  const auto reader = OpenBuiltInFilter(kBinaryFuseKind, block);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(MeasuredRate(**reader, 5000), 0);
  EXPECT_EQ((*reader)->Figures().expected_fpr, 0);
}

TEST(BinaryFuseTest, EqualHashesCountOnce) {
  std::vector<uint64_t> hashes;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 1000; ++i) hashes.push_back(Random(i));
  }
  ExpectFuseOf(hashes, 1000);
  // More of one than a cell can count.
  for (int i = 0; i < 300; ++i) {
    hashes.push_back(7);
    hashes.push_back(Random(1));
  }
  ExpectFuseOf(hashes, 1001);
  std::vector<uint64_t> two;
  for (int i = 0; i < 64; ++i) two.insert(two.end(), {1, 2});
  ExpectFuseOf(two, 2);
}

TEST(BinaryFuseTest, NoShapeOfHashesMatters) {
  for (const std::vector<uint64_t>& hashes : AdversarialHashes(20'000)) {
    ExpectFuseOf(hashes, 20'000);
    const auto filter = BinaryFuseFilter::Create(hashes);
    ASSERT_TRUE(filter.ok()) << filter.status();
    const std::string bytes = filter->Serialize();
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectRate(**reader, 1.0 / 256, 100'000);
  }
}

TEST(BinaryFuseTest, FailsCleanlyWithoutAttemptsOrMemory) {
  const std::vector<uint64_t> hashes = RandomHashes(100);
  EXPECT_FALSE(BinaryFuse::Build(hashes, [](const BinaryFuse::Shape&) -> uint8_t* {
                 return nullptr;
               }).has_value());
  // With one attempt a key that is there twice cannot be built, and memory is not asked for.
  const std::vector<uint64_t> twice = {1, 2, 1};
  bool asked = false;
  EXPECT_FALSE(BinaryFuse::Build(
                   twice,
                   [&](const BinaryFuse::Shape&) -> uint8_t* {
                     asked = true;
                     return nullptr;
                   },
                   1)
                   .has_value());
  EXPECT_FALSE(asked);
}

TEST(BinaryFuseTest, AboveItsMemoryThePolicyMakesABlockedBloomFilter) {
  const std::vector<uint64_t> hashes = RandomHashes(10'000);
  const uint64_t needed = BinaryFuse::BuildBytes(hashes.size()) + hashes.size() * 8;
  EXPECT_LT(needed / 10'000, 30u);
  BuildBlock(*NewBinaryFusePolicy(needed), hashes, kBinaryFuseKind);
  const std::string block = BuildBlock(*NewBinaryFusePolicy(needed - 1), hashes, kBlockedBloomKind);
  const auto reader = OpenBuiltInFilter(kBlockedBloomKind, block);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  EXPECT_LT(MeasuredRate(**reader, 50'000), 0.03);
}

TEST(BinaryFuseTest, ThePolicyNamesItself) {
  EXPECT_EQ(NewBinaryFusePolicy()->Kind(), 5);
  EXPECT_STREQ(NewBinaryFusePolicy()->Name(), "sievedb.BinaryFuse");
  EXPECT_EQ(NewBinaryFusePolicy()->BitsPerKey({}), 9);
}

TEST(BinaryFuseTest, SerializesAndDeserializes) {
  std::vector<uint64_t> hashes(500);
  for (uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = FilterHash(absl::StrFormat("k%d", i));
  auto filter = BinaryFuseFilter::Create(hashes);
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_TRUE(filter->Contains("k499"));
  EXPECT_GE(filter->MemoryBytes(), filter->Serialize().size() - 8);
  const std::string bytes = filter->Serialize();
  EXPECT_EQ(BlockOf(bytes), BuildBlock(*NewBinaryFusePolicy(), hashes, kBinaryFuseKind));
  auto copy = BinaryFuseFilter::Deserialize(bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  for (const uint64_t hash : hashes) EXPECT_TRUE(copy->ContainsHash(hash));
  EXPECT_EQ(copy->EstimatedFpr(), 1.0 / 256);
  EXPECT_EQ(RibbonFilter::Deserialize(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BinaryFuseTest, MatchesTheGoldenFile) {
  const std::string golden = GoldenFile("binary_fuse_v1_100keys.bin");
  EXPECT_EQ(BuildBlock(*NewBinaryFusePolicy(), RandomHashes(100), kBinaryFuseKind), golden);
  const auto reader = OpenBuiltInFilter(kBinaryFuseKind, golden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, RandomHashes(100));
}

TEST(BinaryFuseTest, DamageIsFound) {
  ExpectDamageIsFound(
      Serialized(BuildBlock(*NewBinaryFusePolicy(), RandomHashes(100), kBinaryFuseKind)));
}

TEST(BinaryFuseTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string good = BuildBlock(*NewBinaryFusePolicy(), RandomHashes(100), kBinaryFuseKind);
  const auto loss = absl::StatusCode::kDataLoss;
  EXPECT_TRUE(StatusWith(good, kFilterKeysOffset, Fixed64(77)).ok());
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(0)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(~uint64_t{0})).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(uint64_t{1} << 40)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterProbesOffset, "\x40").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterDetailOffset, "\x01").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterDetailOffset, "\x13").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterVersionOffset, "\x02").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterBitsPerKeyOffset, std::string(8, '\xff')).code(), loss);
  const absl::Status status = StatusWith(good, kFilterDetailOffset, "\x13");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrFormat("offset %d: expected 2 to 18, found 19",
                                        good.size() - kFilterTrailerBytes + kFilterDetailOffset)));
  EXPECT_GT(TryDamagedFields(good, 0), 0);
}

}  // namespace
}  // namespace sievedb
