#include "tools/key_value_generator.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "snappy.h"

namespace sievedb {
namespace {

std::string KeyOf(const KeyGenerator& keys, uint64_t number) {
  std::string key;
  keys.Format(number, &key);
  return key;
}

TEST(KeyGeneratorTest, DecimalWithLeadingZeros) {
  const auto keys = KeyGenerator::Create(16, 2'000'000);
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(KeyOf(*keys, 0), "0000000000000000");
  EXPECT_EQ(KeyOf(*keys, 1234567), "0000000001234567");
}

TEST(KeyGeneratorTest, LongKeysHaveTheNumberInFront) {
  const auto keys = KeyGenerator::Create(24, ~uint64_t{0});
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(KeyOf(*keys, 7), "000000000000000000070000");
  EXPECT_EQ(KeyOf(*keys, ~uint64_t{0}), "184467440737095516150000");
}

TEST(KeyGeneratorTest, ShortKeysAreBinary) {
  const auto keys = KeyGenerator::Create(2, 0xffff);
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(KeyOf(*keys, 0), std::string(2, '\0'));
  EXPECT_EQ(KeyOf(*keys, 0x1234), "\x12\x34");
  EXPECT_EQ(KeyOf(*keys, 0xffff), "\xff\xff");
}

TEST(KeyGeneratorTest, TooManyKeysForTheSize) {
  EXPECT_EQ(KeyGenerator::Create(2, 0x10000).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(KeyGenerator::Create(0, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(KeyGenerator::Create(1, 255).ok());
}

TEST(KeyGeneratorTest, EverySizeKeepsOrderAndWidthAndIsReadBack) {
  BenchRandom random(301);
  for (size_t size = 1; size <= 40; ++size) {
    const uint64_t max = size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
    const auto keys = KeyGenerator::Create(size, max);
    ASSERT_TRUE(keys.ok()) << size;
    for (int i = 0; i < 200; ++i) {
      const uint64_t a = random.Next() & max;
      const uint64_t b = i % 2 == 0 ? random.Next() & max : (a == max ? a : a + 1);
      const std::string key_a = KeyOf(*keys, a);
      const std::string key_b = KeyOf(*keys, b);
      ASSERT_EQ(key_a.size(), size);
      ASSERT_EQ(a < b, key_a < key_b) << size << ": " << a << " and " << b;
      ASSERT_EQ(keys->Parse(key_a), a);
    }
  }
}

TEST(BenchRandomTest, FollowsFromTheSeed) {
  BenchRandom a(1), b(1), c(2);
  const uint64_t first = a.Next();
  EXPECT_EQ(first, b.Next());
  EXPECT_NE(first, c.Next());
}

TEST(BenchRandomTest, UniformCoversItsRangeEvenly) {
  BenchRandom random(301);
  std::vector<int> counts(10);
  for (int i = 0; i < 100'000; ++i) ++counts[random.Uniform(10)];
  for (int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(random.Uniform(1), 0u);
}

TEST(PermutationTest, EveryNumberOnce) {
  for (uint64_t count : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u, 65'536u, 65'537u}) {
    const Permutation permutation(count, 42);
    std::vector<bool> seen(count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t number = permutation(i);
      ASSERT_LT(number, count);
      ASSERT_FALSE(seen[number]) << number << " twice of " << count;
      seen[number] = true;
    }
  }
}

TEST(PermutationTest, LooksRandomAndFollowsFromTheSeed) {
  constexpr uint64_t kCount = 100'000;
  const Permutation a(kCount, 1), same(kCount, 1), other(kCount, 2);
  int equal_to_other = 0;
  int ascents = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(a(i), same(i));
    equal_to_other += a(i) == other(i);
    if (i > 0) ascents += a(i - 1) < a(i);
  }
  EXPECT_LT(equal_to_other, 20);  // one is expected
  EXPECT_NEAR(ascents, kCount / 2, 1000);
}

TEST(ValueGeneratorTest, SizesAndDeterminism) {
  for (size_t size : {0u, 1u, 7u, 100u, 1000u, 5'000'000u}) {
    const ValueGenerator a(size, 0.5, 9), same(size, 0.5, 9);
    for (uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{123'456'789}, ~uint64_t{0}}) {
      ASSERT_EQ(a.ValueOf(number).size(), size);
      ASSERT_EQ(a.ValueOf(number), same.ValueOf(number));
    }
  }
  EXPECT_NE(ValueGenerator(100, 0.5, 9).ValueOf(1), ValueGenerator(100, 0.5, 10).ValueOf(1));
  const ValueGenerator values(100, 0.5, 9);
  EXPECT_NE(values.ValueOf(1), values.ValueOf(2));
}

TEST(ValueGeneratorTest, CompressesAsAsked) {
  for (size_t size : {100u, 400u, 100'000u}) {
    for (double ratio : {0.25, 0.5, 1.0}) {
      const ValueGenerator values(size, ratio, 301);
      // About a block of them, as in a table.
      std::string block;
      for (uint64_t number = 0; block.size() < 4000; ++number) block += values.ValueOf(number);
      std::string compressed;
      snappy::Compress(block.data(), block.size(), &compressed);
      const double measured =
          static_cast<double>(compressed.size()) / static_cast<double>(block.size());
      EXPECT_NEAR(measured, ratio, 0.1) << size << " bytes";
    }
  }
}

TEST(ValueGeneratorTest, RatioOutOfRangeIsClamped) {
  EXPECT_EQ(ValueGenerator(100, -1, 1).ValueOf(5),
            std::string(100, ValueGenerator(100, 0, 1).ValueOf(5)[0]));
  EXPECT_EQ(ValueGenerator(100, 7, 1).ValueOf(5), ValueGenerator(100, 1, 1).ValueOf(5));
}

}  // namespace
}  // namespace sievedb
