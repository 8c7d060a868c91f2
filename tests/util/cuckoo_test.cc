#include "util/cuckoo.h"

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

CuckooFilter Make(uint64_t keys, double bits_per_key) {
  auto filter = CuckooFilter::Create(FilterSizing::ForBitsPerKey(keys, bits_per_key));
  EXPECT_TRUE(filter.ok()) << filter.status();
  return *std::move(filter);
}

CuckooFilter MakeFull(const std::vector<uint64_t>& hashes, double bits_per_key) {
  CuckooFilter filter = Make(hashes.size(), bits_per_key);
  uint64_t refused = 0;
  for (const uint64_t hash : hashes) refused += !filter.AddHash(hash).ok();
  EXPECT_EQ(refused, 0u);
  return filter;
}

TEST(CuckooTest, TheOtherBucketsOtherIsTheFirst) {
  for (uint64_t buckets : {1u, 2u, 3u, 7u, 1000u, 65'536u}) {
    for (uint32_t fingerprint = 1; fingerprint < 200; ++fingerprint) {
      for (uint64_t i = 0; i < 20; ++i) {
        const uint64_t bucket = Random(i) % buckets;
        const uint64_t other = Cuckoo::Other(bucket, fingerprint, buckets);
        ASSERT_LT(other, buckets);
        ASSERT_EQ(Cuckoo::Other(other, fingerprint, buckets), bucket);
      }
    }
  }
}

TEST(CuckooTest, FingerprintsAreNeverZero) {
  for (int bits = Cuckoo::kMinBits; bits <= Cuckoo::kMaxBits; ++bits) {
    const Cuckoo::Shape shape{5, bits};
    uint32_t least = ~uint32_t{0};
    uint32_t most = 0;
    for (uint64_t i = 0; i < 3000; ++i) {
      const Cuckoo::Place place = Cuckoo::PlaceFor(Random(i), shape);
      least = std::min(least, place.fingerprint);
      most = std::max(most, place.fingerprint);
      ASSERT_LT(place.bucket, 5u);
      ASSERT_LT(place.other, 5u);
    }
    EXPECT_GE(least, 1u);
    EXPECT_LT(most, uint32_t{1} << bits);
    EXPECT_GT(most, uint32_t{1} << (bits - 1));
  }
}

TEST(CuckooTest, EveryKeyIsFoundAtSmallSizes) {
  for (uint64_t n = 0; n <= 100; ++n) {
    const std::vector<uint64_t> hashes = RandomHashes(n, n * 1000);
    const std::string bytes = MakeFull(hashes, 12.8).Serialize();
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    EXPECT_EQ((*reader)->Figures().keys, n);
  }
}

// Every width of fingerprints: all keys planned for find a place, and the rate is that
// of the paper, about 8 * load / 2^bits.
TEST(CuckooTest, HoldsItsKeysAtTheRateOfItsFingerprints) {
  for (double bits = 6; bits <= 32; bits += bits < 17 ? 1 : 5) {
    const uint64_t n = 30'000;
    const std::vector<uint64_t> hashes = RandomHashes(n);
    const CuckooFilter filter = MakeFull(hashes, bits);
    const std::string bytes = filter.Serialize();
    EXPECT_LT(static_cast<double>(bytes.size()) * 8, static_cast<double>(n) * bits + 1500);
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    const double fingerprint = std::floor(bits * Cuckoo::kLoad);
    const double load = fingerprint / bits;
    const double theory = 1 - std::pow(1 - 1 / (std::exp2(fingerprint) - 1), 8 * load);
    EXPECT_NEAR(filter.EstimatedFpr(), theory, theory * 0.01) << bits;
    ExpectRate(**reader, filter.EstimatedFpr(), 100'000, 0.02);
  }
}

TEST(CuckooTest, AMillionKeys) {
  const std::vector<uint64_t> hashes = RandomHashes(1'000'000);
  const std::string bytes = MakeFull(hashes, 12.8).Serialize();
  const auto reader = OpenFilter(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, hashes);
  ExpectRate(**reader, 0.00183, 400'000, 0.01);
}

TEST(CuckooTest, PlannedKeysNearlyAlwaysFit) {
  int failed = 0;
  int filters = 0;
  for (uint64_t n : {1u, 2u, 5u, 8u, 16u, 30u, 60u, 200u}) {
    for (uint64_t round = 0; round < 60; ++round) {
      CuckooFilter filter = Make(n, 12.8);
      bool fits = true;
      for (const uint64_t hash : RandomHashes(n, round * 1000)) fits &= filter.AddHash(hash).ok();
      failed += !fits;
      ++filters;
    }
  }
  EXPECT_LE(failed, filters / 100);
}

TEST(CuckooTest, NoShapeOfHashesMatters) {
  for (const std::vector<uint64_t>& hashes : AdversarialHashes(10'000)) {
    const std::string bytes = MakeFull(hashes, 12.8).Serialize();
    const auto reader = OpenFilter(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    ExpectAllFound(**reader, hashes);
    ExpectRate(**reader, 0.00183, 200'000, 0.02);
  }
}

TEST(CuckooTest, AFullFilterIsUnchangedByWhatItRefuses) {
  for (double bits : {6.0, 9.5, 12.8, 32.0}) {
    CuckooFilter filter = Make(2000, bits);
    uint64_t added = 0;
    while (filter.AddHash(Random(added)).ok()) ++added;
    EXPECT_GT(static_cast<double>(added),
              0.93 * static_cast<double>(filter.Figures().bits) / std::floor(bits * 0.95));
    const std::string full = filter.Serialize();
    int refused = 0;
    for (uint64_t i = 0; i < 200; ++i) {
      const absl::Status status = filter.AddHash(Random(added + i));
      if (status.ok()) break;  // another walk may find a place
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      ASSERT_EQ(filter.Serialize(), full);
      ++refused;
    }
    EXPECT_GT(refused, 0);
    for (uint64_t i = 0; i < added; ++i) ASSERT_TRUE(filter.ContainsHash(Random(i)));
  }
}

TEST(CuckooTest, AKeyFitsEightTimes) {
  CuckooFilter filter = Make(1000, 12.8);
  const uint64_t hash = Random(1);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(filter.AddHash(hash).ok());
  const std::string full = filter.Serialize();
  EXPECT_EQ(filter.AddHash(hash).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(filter.Serialize(), full);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(filter.ContainsHash(hash));
    EXPECT_TRUE(filter.RemoveHash(hash));
  }
  EXPECT_FALSE(filter.ContainsHash(hash));
  EXPECT_FALSE(filter.RemoveHash(hash));
  EXPECT_EQ(filter.Serialize(), Make(1000, 12.8).Serialize());
}

TEST(CuckooTest, AgreesWithAMultiset) {
  for (uint64_t planned : {3u, 40u, 1000u}) {
    std::mt19937_64 random(planned);
    CuckooFilter filter = Make(planned, 16);
    std::map<uint64_t, int> oracle;
    uint64_t size = 0;
    for (int step = 0; step < 8000; ++step) {
      const uint64_t hash = Random(random() % (planned * 2));
      int& count = oracle[hash];
      if (random() % 2 == 0 && count < 3) {
        if (filter.AddHash(hash).ok()) {
          ++count;
          ++size;
        }
      } else if (count > 0) {
        EXPECT_TRUE(filter.RemoveHash(hash));
        --count;
        --size;
      }
      ASSERT_EQ(filter.Figures().keys, size);
      if (step % 100 == 0) {
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
    EXPECT_EQ(filter.Serialize(), Make(planned, 16).Serialize());
  }
}

TEST(CuckooTest, RemovingWhatIsNotThereChangesNothing) {
  CuckooFilter filter = MakeFull(RandomHashes(1000), 16);
  const std::string before = filter.Serialize();
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t absent = Random(kAbsent + i);
    if (!filter.ContainsHash(absent)) {
      EXPECT_FALSE(filter.RemoveHash(absent));
    }
  }
  EXPECT_EQ(filter.Serialize(), before);
}

TEST(CuckooTest, RefusesOtherSizings) {
  const auto code = [](const FilterSizing& sizing) {
    return CuckooFilter::Create(sizing).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  for (double bits : {0.0, 0.5, 5.9, 32.5, 1000.0, -12.0, std::nan(""),
                      std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(code(FilterSizing::ForBitsPerKey(10, bits)), invalid) << bits;
  }
  for (double rate : {0.0, 1.0, -0.1, 1e-10, std::nan("")}) {
    EXPECT_EQ(code(FilterSizing::ForRate(10, rate)), invalid) << rate;
  }
  EXPECT_EQ(code({10, 12, 0.01}), invalid);
  EXPECT_EQ(code(FilterSizing::ForBitsPerKey(~uint64_t{0}, 12)),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(FilterSizing::ForBitsPerKey(0, 6)), absl::StatusCode::kOk);
}

TEST(CuckooTest, SizingByRateStaysUnderTheRate) {
  for (double rate : {0.9, 0.1, 0.01, 0.001, 1e-6, 1e-8}) {
    auto filter = CuckooFilter::Create(FilterSizing::ForRate(20'000, rate));
    ASSERT_TRUE(filter.ok()) << filter.status();
    for (const uint64_t hash : RandomHashes(20'000)) ASSERT_TRUE(filter->AddHash(hash).ok());
    EXPECT_LE(filter->EstimatedFpr(), rate);
    if (rate < 0.1) {
      EXPECT_GE(filter->EstimatedFpr(), rate / 2.2);
    }
  }
}

TEST(CuckooTest, SerializesAndDeserializes) {
  CuckooFilter filter = Make(1000, 12.8);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(filter.Add(absl::StrFormat("key%d", i)).ok());
  const std::string bytes = filter.Serialize();
  EXPECT_GE(filter.MemoryBytes(), bytes.size() - 8);
  auto copy = CuckooFilter::Deserialize(bytes);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->Serialize(), bytes);
  EXPECT_TRUE(copy->Remove("key7"));
  EXPECT_TRUE(filter.Remove("key7"));
  EXPECT_TRUE(copy->Add("new").ok());
  EXPECT_TRUE(filter.Add("new").ok());
  EXPECT_EQ(copy->Serialize(), filter.Serialize());
  EXPECT_EQ(copy->Figures().keys, 1000u);
  EXPECT_EQ(CountingBloomFilter::Deserialize(bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Made by a few lines of Python from the description of the format alone: 6 keys that
// all find a slot in one of their buckets, so that no walk is in it.
TEST(CuckooTest, GoldenVector) {
  const Cuckoo::Shape shape{5, 7};
  std::string array(shape.ArrayBytes(), '\0');
  for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(Cuckoo::Add(array.data(), shape, Random(i)));
  EXPECT_EQ(absl::BytesToHexString(array),
            "570000600500004e0000000000007328020000000000000000000000000000000000000000000000"
            "000000000000000000000000000000000000000000000000");
}

TEST(CuckooTest, MatchesTheGoldenFile) {
  const std::string golden = GoldenFile("cuckoo_v1_10bits_80keys.bin");
  const std::string bytes = MakeFull(RandomHashes(80), 10).Serialize();
  EXPECT_EQ(BlockOf(bytes), golden);
  const auto reader = OpenBuiltInFilter(kCuckooKind, golden);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectAllFound(**reader, RandomHashes(80));
}

TEST(CuckooTest, DamageIsFound) { ExpectDamageIsFound(MakeFull(RandomHashes(80), 10).Serialize()); }

TEST(CuckooTest, WrongFieldsAreFoundBehindARightCheck) {
  const std::string bytes = MakeFull(RandomHashes(80), 10).Serialize();
  const std::string_view good = BlockOf(bytes);
  const auto loss = absl::StatusCode::kDataLoss;
  EXPECT_TRUE(StatusWith(good, kFilterKeysOffset, Fixed64(0)).ok());
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(0)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(1)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(uint64_t{1} << 53)).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterExtentOffset, Fixed64(~uint64_t{0})).code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterProbesOffset, "\x03").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterProbesOffset, "\x1e").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterProbesOffset, "\x1f").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterDetailOffset, "\x01").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterVersionOffset, "\x02").code(), loss);
  EXPECT_EQ(StatusWith(good, kFilterBitsPerKeyOffset, std::string(8, '\xff')).code(), loss);
  EXPECT_GT(TryDamagedFields(good, 0), 0);
}

}  // namespace
}  // namespace sievedb
