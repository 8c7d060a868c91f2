#include "util/hash_partition.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/util/filter_testing.h"
#include "util/multiply.h"

namespace sievedb {
namespace {

TEST(HashPartitionTest, MixIsABijectionOnWhatIsTried) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 20000; ++i) {
    seen.insert(MixHash(i, MixSeed(0)));
    seen.insert(MixHash(~i, MixSeed(0)));
  }
  EXPECT_EQ(seen.size(), 40000u);
  EXPECT_NE(MixHash(1, MixSeed(0)), MixHash(1, MixSeed(1)));
}

TEST(HashPartitionTest, MixIsThePublishedFinalizer) {
  EXPECT_EQ(MixHash(0, 0), 0u);
  EXPECT_EQ(MixHash(1, 0), 0xb456bcfc34c2cb2cu);
  EXPECT_EQ(MixHash(0, 1), 0xb456bcfc34c2cb2cu);
}

TEST(HashPartitionTest, GroupsAscendAndHoldEveryHash) {
  const std::vector<uint64_t> hashes = RandomHashes(1000);
  for (uint64_t parts : {1u, 2u, 7u, 1000u, 3000u}) {
    std::vector<uint64_t> out(hashes.size());
    std::vector<uint64_t> begins;
    PartitionHashes(hashes, 5, parts, out.data(), &begins);
    ASSERT_EQ(begins.size(), parts + 1);
    EXPECT_EQ(begins.front(), 0u);
    EXPECT_EQ(begins.back(), hashes.size());
    for (uint64_t part = 0; part < parts; ++part) {
      for (uint64_t i = begins[part]; i < begins[part + 1]; ++i) {
        EXPECT_EQ(MultiplyHigh(out[i], parts), part);
      }
    }
    std::vector<uint64_t> expected;
    for (uint64_t hash : hashes) expected.push_back(MixHash(hash, 5));
    std::sort(expected.begin(), expected.end());
    std::sort(out.begin(), out.end());
    EXPECT_EQ(out, expected);
  }
}

TEST(HashPartitionTest, NoHashesAreNoGroups) {
  std::vector<uint64_t> begins;
  PartitionHashes({}, 5, 3, nullptr, &begins);
  EXPECT_EQ(begins, std::vector<uint64_t>(4, 0));
  EXPECT_EQ(SortMixedHashes({}, 5, nullptr), 0u);
}

TEST(HashPartitionTest, SortIsSortedAndDistinct) {
  for (uint64_t n : {1u, 2u, 100u, 4095u, 4096u, 30000u}) {
    std::vector<uint64_t> hashes = RandomHashes(n);
    std::vector<uint64_t> expected;
    for (uint64_t hash : hashes) expected.push_back(MixHash(hash, 9));
    std::sort(expected.begin(), expected.end());
    hashes.insert(hashes.end(), hashes.begin(), hashes.begin() + static_cast<int>(n / 2));
    std::vector<uint64_t> out(hashes.size());
    out.resize(SortMixedHashes(hashes, 9, out.data()));
    EXPECT_EQ(out, expected);
  }
}

TEST(HashPartitionTest, GroupsOfProbesKeepTheirPlaces) {
  for (size_t n : {0u, 1u, 15u, 16u, 17u, 100u}) {
    const std::vector<uint64_t> hashes = RandomHashes(n);
    const std::unique_ptr<bool[]> results(new bool[n]());
    ProbeInGroups<uint64_t>(
        hashes, absl::MakeSpan(results.get(), n), [](uint64_t hash) { return hash + 1; },
        [](uint64_t place) { return place % 2 == 0; });
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(results[i], hashes[i] % 2 == 1);
  }
}

}  // namespace
}  // namespace sievedb
