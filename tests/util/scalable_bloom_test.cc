#include "util/scalable_bloom.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tests/util/filter_testing.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

size_t ExtraBytes(size_t layers) { return layers * 32 + 8; }

ScalableBloomFilter Make(const FilterSizing& sizing) {
  auto filter = ScalableBloomFilter::Create(sizing);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return *std::move(filter);
}

void AddAll(ScalableBloomFilter* filter, absl::Span<const uint64_t> hashes) {
  for (const uint64_t hash : hashes) ASSERT_TRUE(filter->AddHash(hash).ok());
}

size_t LayersOf(const ScalableBloomFilter& filter) {
  const std::string bytes = filter.Serialize();
  return static_cast<uint8_t>(bytes[bytes.size() - 8 - kFilterTrailerBytes + kFilterDetailOffset]);
}

TEST(ScalableBloomTest, LayersDoubleAndTheirRatesSumUpToTheBound) {
  for (double bound : {0.5, 0.01, 1e-4, 1e-6}) {
    double sum = 0;
    for (int i = 0; i < 9; ++i) {
      const ScalableBloom::Layer layer = ScalableBloom::LayerFor(1000, bound, i);
      EXPECT_EQ(layer.capacity, uint64_t{1000} << i);
      const double bits =
          static_cast<double>(layer.num_blocks) * 512 / static_cast<double>(layer.capacity);
      sum += FilterSizing::ExpectedBlockedFpr(bits, layer.probes);
    }
    EXPECT_LT(sum, bound);
    EXPECT_GT(sum, bound * 0.7);
  }
  EXPECT_EQ(ScalableBloom::LayerFor(0, 0.01, 0).capacity, 256u);
  // No number of keys overflows.
  EXPECT_GE(ScalableBloom::LayerFor(~uint64_t{0}, 1e-6, 47).num_blocks, uint64_t{1} << 50);
}

TEST(ScalableBloomTest, BitsPerKeyForARateHaveTheRate) {
  for (double bits : {2.0, 10.0, 17.5, 32.0}) {
    const double rate =
        FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
    EXPECT_NEAR(ScalableBloom::BlockedBitsPerKeyFor(rate), bits, 1e-3);
  }
  EXPECT_EQ(ScalableBloom::BlockedBitsPerKeyFor(0), 64);
}

TEST(ScalableBloomTest, EveryKeyIsFoundAtSmallSizes) {
  for (uint64_t n = 0; n <= 100; ++n) {
    ScalableBloomFilter filter = Make(FilterSizing::ForRate(n, 0.01));
    const std::vector<uint64_t> hashes = RandomHashes(n, n * 1000);
    AddAll(&filter, hashes);
    const std::string bytes = filter.Serialize();
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    EXPECT_EQ(LayersOf(filter), 1u);
  }
}

TEST(ScalableBloomTest, KeepsItsBoundFarBeyondThePlan) {
  for (double bound : {0.1, 0.01, 0.001}) {
    ScalableBloomFilter filter = Make(FilterSizing::ForRate(2000, bound));
    std::vector<uint64_t> hashes;
    for (uint64_t times : {1u, 10u, 100u}) {
      const std::vector<uint64_t> more = RandomHashes(2000 * times - hashes.size(), hashes.size());
      AddAll(&filter, more);
      hashes.insert(hashes.end(), more.begin(), more.end());
      const std::string bytes = filter.Serialize();
      const auto reader = OpenFilter(bytes);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ExpectAllFound(**reader, hashes);
      EXPECT_LT(filter.EstimatedFpr(), bound);
      const double measured = MeasuredRate(**reader, 100'000);
      EXPECT_LT(measured, bound + 5 * std::sqrt(bound / 100'000)) << bound << " " << times;
      ExpectRate(**reader, filter.EstimatedFpr(), 100'000, 0.05);
      // Those that were "maybe" already are not counted.
      const double keys = static_cast<double>(filter.Figures().keys);
      EXPECT_LE(keys, static_cast<double>(hashes.size()));
      EXPECT_GE(keys, static_cast<double>(hashes.size()) * (1 - bound));
    }
    EXPECT_EQ(LayersOf(filter), 7u);  // 127 times the plan
    const double bits = static_cast<double>(filter.Figures().bits) / 254'000;
    EXPECT_LT(bits, -std::log2(bound) * 1.44 * 1.3 + 9);
  }
}

TEST(ScalableBloomTest, AMillionKeysOutOfNoPlan) {
  ScalableBloomFilter filter = Make(FilterSizing::ForRate(0, 0.01));
  const std::vector<uint64_t> hashes = RandomHashes(1'000'000);
  AddAll(&filter, hashes);
  const std::string bytes = filter.Serialize();
  const auto reader = OpenFilter(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  EXPECT_LT(MeasuredRate(**reader, 100'000), 0.0115);
}

TEST(ScalableBloomTest, RepeatedKeysDoNotMakeItGrow) {
  ScalableBloomFilter filter = Make(FilterSizing::ForRate(1000, 0.01));
  AddAll(&filter, RandomHashes(1000));
  const std::string bytes = filter.Serialize();
  for (int round = 0; round < 20; ++round) AddAll(&filter, RandomHashes(1000));
  EXPECT_EQ(filter.Serialize(), bytes);
}

TEST(ScalableBloomTest, BitsPerKeyStandForTheirRate) {
  ScalableBloomFilter filter = Make(FilterSizing::ForBitsPerKey(5000, 10));
  AddAll(&filter, RandomHashes(40'000));
  EXPECT_LT(filter.EstimatedFpr(), 0.00972);
  EXPECT_GT(filter.EstimatedFpr(), 0.004);
  EXPECT_EQ(filter.Figures().bits_per_key, 10);
}

TEST(ScalableBloomTest, RefusesOtherSizings) {
  const auto code = [](const FilterSizing& sizing) {
    return ScalableBloomFilter::Create(sizing).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  for (double bits : {0.0, 0.5, 1.9, 33.0, 1000.0, -10.0, std::nan(""),
                      std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(code(FilterSizing::ForBitsPerKey(10, bits)), invalid) << bits;
  }
  for (double rate : {0.0, 0.6, 1.0, -0.1, 1e-7, std::nan("")}) {
    EXPECT_EQ(code(FilterSizing::ForRate(10, rate)), invalid) << rate;
  }
  EXPECT_EQ(code({10, 10, 0.01}), invalid);
  EXPECT_EQ(code(FilterSizing::ForRate(~uint64_t{0}, 0.01)), absl::StatusCode::kResourceExhausted);
  for (double bits : {2.0, 32.0}) {
    EXPECT_EQ(code(FilterSizing::ForBitsPerKey(0, bits)), absl::StatusCode::kOk);
  }
}

TEST(ScalableBloomTest, GoesOnAfterDeserialize) {
  ScalableBloomFilter filter = Make(FilterSizing::ForRate(300, 0.01));
  AddAll(&filter, RandomHashes(1000));
  const std::string bytes = filter.Serialize();
  EXPECT_GE(filter.MemoryBytes(), bytes.size() - 8);
  auto copy = ScalableBloomFilter::Deserialize(bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  AddAll(&*copy, RandomHashes(3000, 1000));
  AddAll(&filter, RandomHashes(3000, 1000));
  EXPECT_EQ(copy->Serialize(), filter.Serialize());
  EXPECT_GT(LayersOf(filter), 3u);
  ScalableBloomFilter moved = std::move(filter);
  EXPECT_TRUE(moved.Add("after the move").ok());
  EXPECT_TRUE(moved.Contains("after the move"));
  EXPECT_EQ(CuckooFilter::Deserialize(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ScalableBloomTest, MatchesTheGoldenFile) {
  const std::string golden = GoldenFile("scalable_bloom_v1_4bits_600keys.bin");
  ScalableBloomFilter filter = Make(FilterSizing::ForBitsPerKey(100, 4));
  AddAll(&filter, RandomHashes(600));
  EXPECT_EQ(BlockOf(filter.Serialize()), golden);
  const auto reader = OpenBuiltInFilter(kScalableBloomKind, golden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, RandomHashes(600));
}

TEST(ScalableBloomTest, DamageIsFound) {
  ScalableBloomFilter filter = Make(FilterSizing::ForBitsPerKey(100, 4));
  AddAll(&filter, RandomHashes(600));
  ASSERT_EQ(LayersOf(filter), 2u);
  ExpectDamageIsFound(filter.Serialize());
}

TEST(ScalableBloomTest, WrongFieldsAreFoundBehindARightCheck) {
  ScalableBloomFilter filter = Make(FilterSizing::ForBitsPerKey(100, 4));
  AddAll(&filter, RandomHashes(600));
  const std::string bytes = filter.Serialize();
  const std::string_view good = BlockOf(bytes);
  const size_t extra = ExtraBytes(2);
  const auto loss = absl::StatusCode::kDataLoss;
  const int first = -static_cast<int>(extra);
  const auto status = [&](int offset, std::string_view value) {
    return StatusWith(good, offset, value, extra).code();
  };
  EXPECT_EQ(status(first + 16, Fixed64(9999)), absl::StatusCode::kOk);  // capacity
  for (uint64_t v : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 58, ~uint64_t{0}}) {
    EXPECT_EQ(status(kFilterExtentOffset, Fixed64(v)), loss) << v;
    EXPECT_EQ(status(first, Fixed64(v)), loss) << v;       // blocks of the first layer
    EXPECT_EQ(status(first + 32, Fixed64(v)), loss) << v;  // of the second
  }
  EXPECT_EQ(status(first + 8, Fixed64(1)), loss);   // keys that do not add up
  EXPECT_EQ(status(first + 16, Fixed64(0)), loss);  // capacity
  EXPECT_EQ(status(first + 24, Fixed64(0)), loss);  // probes
  EXPECT_EQ(status(first + 24, Fixed64(17)), loss);
  EXPECT_EQ(status(first + 64, std::string(8, '\xff')), loss);  // bound
  EXPECT_EQ(status(first + 64, std::string(8, '\0')), loss);
  EXPECT_EQ(status(kFilterProbesOffset, "\x01"), loss);
  EXPECT_EQ(status(kFilterVersionOffset, "\x02"), loss);
  EXPECT_EQ(status(kFilterBitsPerKeyOffset, std::string(8, '\xff')), loss);
  for (size_t layers : {0u, 1u, 3u, 49u, 255u}) {
    std::string bad(good);
    bad[bad.size() - kFilterTrailerBytes + kFilterDetailOffset] = static_cast<char>(layers);
    if (ExtraBytes(layers) + kFilterTrailerBytes <= bad.size()) {
      FixCheck(&bad, ExtraBytes(layers));
    }
    EXPECT_EQ(OpenBuiltInFilter(kScalableBloomKind, bad).status().code(), loss) << layers;
  }
  EXPECT_GT(TryDamagedFields(good, extra), 0);
}

}  // namespace
}  // namespace sievedb
