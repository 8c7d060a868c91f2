#ifndef SIEVEDB_TESTS_UTIL_FILTER_TESTING_H_
#define SIEVEDB_TESTS_UTIL_FILTER_TESTING_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "util/coding.h"
#include "util/filter_kinds.h"
#include "util/filter_trailer.h"
#include "util/hash.h"

// What the tests of several filters share.

namespace sievedb {

// SplitMix64: a well-known sequence.
inline uint64_t Random(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

inline std::vector<uint64_t> RandomHashes(uint64_t n, uint64_t first = 0) {
  std::vector<uint64_t> hashes(n);
  for (uint64_t i = 0; i < n; ++i) hashes[i] = Random(first + i);
  return hashes;
}

// Hashes of which RandomHashes has none.
inline constexpr uint64_t kAbsent = uint64_t{1} << 40;

// Sets of hashes as no good hash function would make them.
inline std::vector<std::vector<uint64_t>> AdversarialHashes(uint64_t n) {
  std::vector<std::vector<uint64_t>> sets(4);
  for (uint64_t i = 0; i < n; ++i) {
    sets[0].push_back(i);                        // in a row
    sets[1].push_back(i << 40);                  // in the upper bits alone
    sets[2].push_back(~uint64_t{0} - i * 1024);  // falling
    sets[3].push_back(i * 0x0001000100010001);   // one pattern four times
  }
  return sets;
}

// As a table or a mapping holds it: a buffer that ends with the bytes, so that the
// sanitizer sees each read behind them.
class Exact {
 public:
  explicit Exact(std::string_view bytes)
      : size_(bytes.size()), data_(std::make_unique_for_overwrite<char[]>(bytes.size())) {
    if (!bytes.empty()) std::memcpy(data_.get(), bytes.data(), bytes.size());
  }
  std::string_view view() const { return {data_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<char[]> data_;
};

inline std::string GoldenFile(std::string_view name) {
  std::ifstream file(std::string(SIEVEDB_TEST_DATA_DIR "/filter/") + std::string(name),
                     std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// What Serialize adds to a block.
inline std::string Serialized(std::string block) {
  AppendFixed64(&block, Hash64(block));
  return block;
}
inline std::string_view BlockOf(std::string_view serialized) {
  return serialized.substr(0, serialized.size() - 8);
}

// Every hash is found, alone and in batches of any size.
inline void ExpectAllFound(const FilterReader& reader, absl::Span<const uint64_t> hashes) {
  const std::unique_ptr<bool[]> results(new bool[hashes.size()]());
  reader.MayContainMany(hashes, absl::MakeSpan(results.get(), hashes.size()));
  uint64_t missed = 0;
  for (size_t i = 0; i < hashes.size(); ++i) {
    missed += !results[i];
    missed += !reader.MayContain(hashes[i]);
  }
  EXPECT_EQ(missed, 0u) << "of " << hashes.size();
}

// The share of n absent hashes that are "maybe"; batches agree with single probes.
inline double MeasuredRate(const FilterReader& reader, uint64_t n, uint64_t first = kAbsent) {
  uint64_t maybe = 0;
  uint64_t batched = 0;
  for (uint64_t at = 0; at < n;) {
    // Sizes from 0 on, so that each remainder of a group is met.
    const uint64_t size = std::min(n - at, at / 3 % 100 + 1);
    const std::vector<uint64_t> hashes = RandomHashes(size, first + at);
    const std::unique_ptr<bool[]> results(new bool[size]());
    reader.MayContainMany(hashes, absl::MakeSpan(results.get(), size));
    for (uint64_t i = 0; i < size; ++i) {
      batched += results[i];
      maybe += reader.MayContain(hashes[i]);
      EXPECT_EQ(results[i], reader.MayContain(hashes[i]));
    }
    at += size;
  }
  EXPECT_EQ(batched, maybe);
  return static_cast<double>(maybe) / static_cast<double>(n);
}

// The rate is within five standard deviations of the expected one, and slack of it.
inline void ExpectRate(const FilterReader& reader, double expected, uint64_t n, double slack = 0) {
  const double sigma = std::sqrt(expected * (1 - expected) / static_cast<double>(n));
  EXPECT_NEAR(MeasuredRate(reader, n), expected, 5 * sigma + slack * expected);
}

// Any flipped bit and any cut of what Serialize returned is kDataLoss.
inline void ExpectDamageIsFound(const std::string& serialized) {
  ASSERT_TRUE(OpenFilter(serialized).ok()) << OpenFilter(serialized).status();
  for (size_t at = 0; at < serialized.size(); ++at) {
    std::string bad = serialized;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    EXPECT_EQ(OpenFilter(Exact(bad).view()).status().code(), absl::StatusCode::kDataLoss) << at;
  }
  for (size_t size = 0; size < serialized.size(); ++size) {
    EXPECT_EQ(OpenFilter(Exact(serialized.substr(0, size)).view()).status().code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(OpenFilter(Exact(serialized.substr(serialized.size() - size)).view()).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

// The trailer's check is made right, so that the fields behind it are judged too.
inline void FixCheck(std::string* block, size_t extra_bytes) {
  char* const trailer = block->data() + block->size() - kFilterTrailerBytes;
  EncodeFixed32(
      trailer + kFilterCheckOffset,
      static_cast<uint32_t>(Hash64Pair(
          {trailer - extra_bytes, extra_bytes + kFilterCheckOffset},
          {trailer + kFilterProbesOffset, kFilterTrailerBytes - kFilterProbesOffset}, 0)));
}

// Opens the block with `value` at `offset` from the trailer's begin (negative: in the
// extra bytes), behind right checks. Where that is let through, all hashes are asked.
inline absl::Status StatusWith(std::string_view good, int offset, std::string_view value,
                               size_t extra_bytes = 0) {
  std::string bad(good);
  bad.replace(bad.size() - kFilterTrailerBytes + static_cast<size_t>(offset), value.size(), value);
  FixCheck(&bad, extra_bytes);
  const Exact bytes(bad);
  const auto reader = OpenBuiltInFilter(static_cast<uint8_t>(bad.back()), bytes.view());
  if (!reader.ok()) return reader.status();
  for (uint64_t i = 0; i < 200; ++i) {
    (*reader)->Prefetch(Random(i));
    (void)(*reader)->MayContain(Random(i));
  }
  for (const uint64_t hash : {uint64_t{0}, ~uint64_t{0}}) (void)(*reader)->MayContain(hash);
  EXPECT_GE((*reader)->Figures().expected_fpr, 0);
  return absl::OkStatus();
}

inline std::string Fixed64(uint64_t v) {
  std::string bytes;
  AppendFixed64(&bytes, v);
  return bytes;
}

// Each byte of the trailer and the extra bytes takes each of several values behind
// right checks: an error or an answer, no crash. Returns how many were let through.
inline int TryDamagedFields(std::string_view good, size_t extra_bytes) {
  int opened = 0;
  for (int offset = -static_cast<int>(extra_bytes); offset < int{kFilterTrailerBytes}; ++offset) {
    for (int value = 0; value < 256; value += 5) {
      const char byte = static_cast<char>(value);
      const absl::Status status = StatusWith(good, offset, {&byte, 1}, extra_bytes);
      if (status.ok()) {
        ++opened;
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      }
    }
  }
  return opened;
}

// The block that a policy's builder makes of the hashes, which is of the kind.
inline std::string BuildBlock(const FilterPolicy& policy, absl::Span<const uint64_t> hashes,
                              uint8_t expected_kind) {
  const std::unique_ptr<FilterBuilder> builder = policy.NewBuilder({});
  for (const uint64_t hash : hashes) builder->AddHash(hash);
  std::string block = builder->Finish();
  EXPECT_EQ(builder->Kind(), expected_kind);
  EXPECT_EQ(static_cast<uint8_t>(block.back()), expected_kind);
  return block;
}

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_UTIL_FILTER_TESTING_H_
