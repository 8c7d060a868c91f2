#include "util/counting_bloom.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tests/util/filter_testing.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

CountingBloomFilter Make(uint64_t keys, double bits_per_key) {
  auto filter = CountingBloomFilter::Create(FilterSizing::ForBitsPerKey(keys, bits_per_key));
  EXPECT_TRUE(filter.ok()) << filter.status();
  return *std::move(filter);
}

CountingBloomFilter MakeFull(const std::vector<uint64_t>& hashes, double bits_per_key) {
  CountingBloomFilter filter = Make(hashes.size(), bits_per_key);
  for (const uint64_t hash : hashes) filter.AddHash(hash);
  return filter;
}

TEST(CountingBloomTest, EveryKeyIsFoundAtSmallSizes) {
  for (uint64_t n = 0; n <= 100; ++n) {
    const std::vector<uint64_t> hashes = RandomHashes(n, n * 1000);
    const std::string bytes = MakeFull(hashes, 40).Serialize();
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    EXPECT_EQ((*reader)->Figures().keys, n);
  }
}

TEST(CountingBloomTest, TheRateIsThatOfABloomFilterOfAQuarter) {
  for (double bits : {4.0, 20.0, 40.0, 64.0}) {
    for (uint64_t n : {1000u, 100'000u}) {
      const std::vector<uint64_t> hashes = RandomHashes(n);
      const CountingBloomFilter filter = MakeFull(hashes, bits);
      const std::string bytes = filter.Serialize();
      EXPECT_LT(static_cast<double>(bytes.size()) * 8, static_cast<double>(n) * bits + 1024);
      const auto reader = OpenFilter(bytes);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ExpectAllFound(**reader, hashes);
      const double theory =
          FilterSizing::ExpectedFpr(bits / 4, FilterSizing::OptimalProbes(bits / 4));
      EXPECT_NEAR(filter.EstimatedFpr(), theory, theory * (n == 1000 ? 0.25 : 0.03));
      ExpectRate(**reader, filter.EstimatedFpr(), 200'000, 0.02);
    }
  }
}

TEST(CountingBloomTest, AMillionKeys) {
  const std::vector<uint64_t> hashes = RandomHashes(1'000'000);
  const CountingBloomFilter filter = MakeFull(hashes, 40);
  const std::string bytes = filter.Serialize();
  const auto reader = OpenFilter(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  ExpectRate(**reader, FilterSizing::ExpectedFpr(10, 7), 200'000, 0.01);
}

TEST(CountingBloomTest, NoShapeOfHashesMatters) {
  for (const std::vector<uint64_t>& hashes : AdversarialHashes(10'000)) {
    const std::string bytes = MakeFull(hashes, 40).Serialize();
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    ExpectRate(**reader, FilterSizing::ExpectedFpr(10, 7), 100'000, 0.08);
  }
}

TEST(CountingBloomTest, RemovingAllLeavesNothing) {
  const std::vector<uint64_t> hashes = RandomHashes(20'000);
  const std::string empty = Make(hashes.size(), 60).Serialize();
  CountingBloomFilter filter = MakeFull(hashes, 60);
  for (const uint64_t hash : hashes) EXPECT_TRUE(filter.RemoveHash(hash));
  // No counter came near 15, so the memory is what it was.
  EXPECT_EQ(filter.Serialize(), empty);
  EXPECT_EQ(filter.EstimatedFpr(), 0);
  EXPECT_FALSE(filter.RemoveHash(hashes[0]));
}

// In few counters, where a key's probes often meet: a filter beside a multiset.
TEST(CountingBloomTest, AgreesWithAMultiset) {
  for (uint64_t planned : {1u, 30u, 500u}) {
    std::mt19937_64 random(planned);
    CountingBloomFilter filter = Make(planned, 40);
    std::map<uint64_t, int> oracle;
    uint64_t size = 0;
    for (int step = 0; step < 6000; ++step) {
      const uint64_t hash = Random(random() % (planned * 2));
      int& count = oracle[hash];
      if (random() % 2 == 0 && count < 3 && size < planned) {
        filter.AddHash(hash);
        ++count;
        ++size;
      } else if (count > 0) {
        EXPECT_TRUE(filter.RemoveHash(hash));
        --count;
        --size;
      }
      EXPECT_EQ(filter.Figures().keys, size);
      if (step % 50 == 0) {
        for (const auto& [key, copies] : oracle) {
          if (copies > 0) {
            EXPECT_TRUE(filter.ContainsHash(key));
          }
        }
      }
    }
    for (auto& [key, copies] : oracle) {
      for (; copies > 0; --copies) EXPECT_TRUE(filter.RemoveHash(key));
    }
    EXPECT_EQ(filter.EstimatedFpr(), 0);
  }
}

TEST(CountingBloomTest, RemovingWhatIsCertainlyNotThereChangesNothing) {
  const std::vector<uint64_t> hashes = RandomHashes(1000);
  CountingBloomFilter filter = MakeFull(hashes, 40);
  const std::string before = filter.Serialize();
  int refused = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t absent = Random(kAbsent + i);
    if (filter.ContainsHash(absent)) continue;
    EXPECT_FALSE(filter.RemoveHash(absent));
    ++refused;
  }
  EXPECT_GT(refused, 950);
  EXPECT_EQ(filter.Serialize(), before);
}

TEST(CountingBloomTest, SaturatedCountersStay) {
  CountingBloomFilter filter = Make(100, 40);
  for (int i = 0; i < 14; ++i) filter.AddHash(1);
  for (int i = 0; i < 14; ++i) EXPECT_TRUE(filter.RemoveHash(1));
  EXPECT_FALSE(filter.ContainsHash(1));
  EXPECT_FALSE(filter.RemoveHash(1));
  for (int i = 0; i < 40; ++i) filter.AddHash(1);
  EXPECT_EQ(filter.Figures().bits_set, static_cast<uint64_t>(filter.Figures().probes));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(filter.RemoveHash(1));
  EXPECT_TRUE(filter.ContainsHash(1));
  EXPECT_EQ(filter.Figures().keys, 0u);
}

TEST(CountingBloomTest, NeighboursInAByteAreNotTouched) {
  // Both halves of each byte, at every value, up and down.
  std::vector<uint8_t> counters(64);
  std::vector<uint64_t> expected(128);
  for (uint64_t i = 0; i < 3000; ++i) {
    const uint64_t hash = Random(i % 150);
    CountingBloom::Probes probes(hash, 128);
    const uint64_t counter = probes.Next();
    if (i % 3 != 2) {
      CountingBloom::Add(counters.data(), 128, 1, hash);
      if (expected[counter] < 15) ++expected[counter];
    } else {
      EXPECT_EQ(CountingBloom::Remove(counters.data(), 128, 1, hash), expected[counter] > 0);
      if (expected[counter] > 0 && expected[counter] < 15) --expected[counter];
    }
    uint64_t nonzero = 0;
    for (uint64_t k = 0; k < 128; ++k) {
      ASSERT_EQ(CountingBloom::Counter(counters.data(), k), expected[k]) << i << " " << k;
      nonzero += expected[k] > 0;
    }
    ASSERT_EQ(CountingBloom::CountNonzero(counters.data(), 128), nonzero);
  }
}

TEST(CountingBloomTest, RefusesOtherSizings) {
  const auto code = [](const FilterSizing& sizing) {
    return CountingBloomFilter::Create(sizing).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  for (double bits : {0.0, 0.5, 3.9, 257.0, 1000.0, -40.0, std::nan(""),
                      std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(code(FilterSizing::ForBitsPerKey(10, bits)), invalid) << bits;
  }
  for (double rate : {0.0, 1.0, -0.1, 0.9, 1e-40, std::nan("")}) {
    EXPECT_EQ(code(FilterSizing::ForRate(10, rate)), invalid) << rate;
  }
  EXPECT_EQ(code({10, 40, 0.01}), invalid);
  EXPECT_EQ(code(FilterSizing::ForRate(~uint64_t{0}, 0.01)), absl::StatusCode::kResourceExhausted);
  for (double bits : {4.0, 256.0}) {
    CountingBloomFilter filter = Make(0, bits);
    filter.AddHash(3);
    EXPECT_TRUE(filter.ContainsHash(3));
  }
}

TEST(CountingBloomTest, SizingByRateHasTheRate) {
  auto filter = CountingBloomFilter::Create(FilterSizing::ForRate(50'000, 0.01));
  ASSERT_TRUE(filter.ok()) << filter.status();
  for (const uint64_t hash : RandomHashes(50'000)) filter->AddHash(hash);
  EXPECT_NEAR(filter->EstimatedFpr(), 0.01, 0.0005);
}

TEST(CountingBloomTest, SerializesAndDeserializes) {
  CountingBloomFilter filter = Make(1000, 40);
  for (int i = 0; i < 1000; ++i) filter.Add(absl::StrFormat("key%d", i));
  const std::string bytes = filter.Serialize();
  EXPECT_GE(filter.MemoryBytes(), bytes.size() - 8);
  auto copy = CountingBloomFilter::Deserialize(bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  EXPECT_EQ(copy->Figures().keys, 1000u);
  // The copy goes on where the filter was.
  EXPECT_TRUE(copy->Remove("key7"));
  EXPECT_TRUE(filter.Remove("key7"));
  copy->Add("new");
  filter.Add("new");
  EXPECT_EQ(copy->Serialize(), filter.Serialize());
  EXPECT_EQ(CuckooFilter::Deserialize(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

// Made by a few lines of Python from the description of the format alone.
TEST(CountingBloomTest, GoldenVector) {
  std::vector<uint8_t> counters(64);
  for (uint64_t i = 0; i < 12; ++i) CountingBloom::Add(counters.data(), 128, 7, Random(i));
  EXPECT_EQ(
      absl::BytesToHexString({reinterpret_cast<const char*>(counters.data()), counters.size()}),
      "01101000010201002010210101101000120010000102200000020121010101011201201011001011"
      "102010100100031011200100010002013111012111011201");
}

TEST(CountingBloomTest, MatchesTheGoldenFile) {
  const std::string golden = GoldenFile("counting_bloom_v1_40bits_50keys.bin");
  const std::string bytes = MakeFull(RandomHashes(50), 40).Serialize();
  EXPECT_EQ(BlockOf(bytes), golden);
  const auto reader = OpenBuiltInFilter(kCountingBloomKind, golden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, RandomHashes(50));
}

TEST(CountingBloomTest, DamageIsFound) {
  ExpectDamageIsFound(MakeFull(RandomHashes(50), 40).Serialize());
}

TEST(CountingBloomTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string bytes = MakeFull(RandomHashes(50), 40).Serialize();
  const std::string_view good = BlockOf(bytes);
  const auto loss = absl::StatusCode::kDataLoss;
  EXPECT_TRUE(StatusWith(good, kFilterKeysOffset, Fixed64(77)).ok());
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(0)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(129)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(uint64_t{1} << 57)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(~uint64_t{0})).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterProbesOffset, std::string_view("\0", 1)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterProbesOffset, "\x21").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterDetailOffset, "\x01").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterVersionOffset, "\x02").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterBitsPerKeyOffset, std::string(8, '\xff')).code(), loss);
  EXPECT_GT(TryDamagedFields(good, 0), 0);
}

}  // namespace
}  // namespace sievedb
