#include "util/hash.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sievedb {
namespace {

constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

// The hash is part of the table and filter formats: these never change. Taken from
// xxHash's own library, for the first `bytes` bytes of TestBytes.
struct Golden {
  size_t bytes;
  uint64_t seed_zero;
  uint64_t seeded;  // with kSeed
};
constexpr Golden kGolden[] = {
    {0, 0x2d06800538d394c2, 0x602b0e2cd6662c8b},    {1, 0x4c5cca45d0f4811f, 0x2f3acd3805f81de3},
    {2, 0x29c60963cbfa4e6e, 0x28a7b77c08c091eb},    {3, 0x6e3e2670e61106ac, 0xbc74611d87f659e0},
    {4, 0x5c4c63133443d03f, 0x6c3753177c607de4},    {5, 0x49f5eb3111280b63, 0xc527066b4c496b85},
    {6, 0x71655f8cab99dd4e, 0x3f99854b424b778f},    {7, 0x46a5c724d51fe43f, 0x3e7941a452179655},
    {8, 0xf9fd4dd0b04d78f5, 0xbc72d0531396303f},    {9, 0x7c20df9712c26edf, 0x93c5aa006102daf5},
    {10, 0x47261a89ca37d745, 0xdf51a50c2c8d93ee},   {11, 0xf817bcdc15e2dbf9, 0xa49f8d9c629bd3fa},
    {12, 0x16d2dff54dc2ee45, 0xfe7ffcdd4d01fe31},   {13, 0x413d6b8b972b0623, 0x32a651fc79f4e08e},
    {14, 0xb67890b9c5261bbf, 0x7434da2472547d63},   {15, 0xb345a7b2698ba575, 0x082933f851ba6e46},
    {16, 0x86abf6baccea0858, 0x69d001b16ecf450a},   {17, 0xb58bf5dc5022d071, 0xb7c99d19be27eb69},
    {18, 0x4e1decedad22d303, 0xb4c721548dc56f41},   {19, 0x22a1f7396844e812, 0xf11e653af2eb893e},
    {20, 0x67d45431cec6c464, 0x20a84f9dba6ae37c},   {21, 0x66398c584d65e6c8, 0xfa7fb54d43f75c76},
    {22, 0x1be9f5daa37ffa1a, 0xa355a2593b10ba29},   {23, 0xf6b86e81b07c482b, 0x327548ceed369c9f},
    {24, 0x08ce26a7964ba200, 0x4bb8532c0f764b96},   {25, 0x1fdebe779a525bc0, 0xe9089550f1f4e5d3},
    {26, 0xe11f36d173fd1632, 0x4a11d5c7bf9aa615},   {27, 0x4fa28cf42b9174af, 0xc124fc51d4f82a7e},
    {28, 0xbdee7aec1fba0602, 0xfc3294d3a3260f43},   {29, 0x0640b37e881d852b, 0xcecd3cfe0199d0bc},
    {30, 0x6ff64c4b501d074b, 0xf97fd80abb2086af},   {31, 0x48442fcd5518b086, 0x4d0ca634ab4ca4f4},
    {32, 0xe3712ed84c04a66e, 0xe5fb38c81d49c6f5},   {33, 0xa4dee99b093e1f73, 0x5a46a370c35146ac},
    {34, 0x1b5438276cb96c80, 0xe9f850b57030aafa},   {35, 0xf23f7e62e5f81a33, 0xc357359d2050f473},
    {36, 0x501257d5ad7c5d5c, 0x889ed52e159f3c79},   {37, 0x444531138dc93f0e, 0x4bc2a4e0b8a4225f},
    {38, 0xaf657ddcf038cd24, 0x8dbfb6ecea9d87f3},   {39, 0x182bc903cf0c9c06, 0xc32bd612a456372f},
    {40, 0x6d69b860559c44a8, 0x8bf67d0fdced7e65},   {41, 0x7c868f29d8d34bbf, 0x7e03d2b2ead93c23},
    {42, 0x275fbe085d1fdd85, 0x666f335bc55e3996},   {43, 0x34a332189792190b, 0x429115be378ca19d},
    {44, 0x941079d5d5c075ca, 0x3d12b0fb09a5e11c},   {45, 0x909567d4c87be825, 0x1252f9ac024b713f},
    {46, 0xa35044f97a8f2110, 0xa38d8ca26cdc95d1},   {47, 0x7712adb4a8863656, 0xd4624808dba322f6},
    {48, 0xd8d1caaa06ae1e99, 0xb6bb2844b1f4f204},   {49, 0x39a72d7709b32cf1, 0x8093885e9f14236b},
    {50, 0x66ab428c9dcfdfef, 0x1a3a07c07e1f8fac},   {51, 0xec70365c36c1cc33, 0x4c690210df4cf99f},
    {52, 0x2bcf3b5d93c140e7, 0xf1b9a3fb9de987f4},   {53, 0xda3dd179bce7d0bc, 0xd48b66ebe3b5ee62},
    {54, 0xae5fc7e4faa6eaa8, 0xc0ed68c217d511bd},   {55, 0x7534563744ecaf7f, 0xcdede63a2e3c08a8},
    {56, 0xa876fc9d8995d180, 0xfe6459f2e890bf1a},   {57, 0xe35d62dc30fc4942, 0xdeea1d1e2a023899},
    {58, 0x81d76d54b34cbf23, 0xbbd6ef7cccb4ccb2},   {59, 0x2c0be2361ba35649, 0x752ed016fd39bebe},
    {60, 0x6bdaf3c09478cb16, 0xfabe9a52dfd72765},   {61, 0x3be9f081c283123e, 0xddfe76d54576159b},
    {62, 0x05b59a628b87cd4c, 0x96debeb92f6aca01},   {63, 0x30ca01f63dcc223b, 0x92944c1b6245dd77},
    {64, 0x1291d2d4042330dd, 0x543fa55d8db03991},   {96, 0x81296929fc063365, 0x260f288635623ee8},
    {128, 0x10d17f72c0ccba41, 0x49b81c6e0abb9305},  {129, 0x1648bdc3db49d1a2, 0x5e3831b221810b00},
    {160, 0x655c8dc33b4b4c4a, 0x3c40f880a7d41ebf},  {240, 0xb6cfaf343fab81e6, 0x76a73ec26433f82c},
    {241, 0x956cae592c67279e, 0x2be236ba3bacf75c},  {256, 0xb15e550733c5dfac, 0x92999d62f0815eef},
    {257, 0x87b3bf2d941cf085, 0x49d44ae56fae6e04},  {512, 0xa0e9790eb93990d7, 0x36385c68aa6755ea},
    {1024, 0x70bd377d9574f4bb, 0xd8cf6b464541f232}, {1025, 0x66c4487c41e127a7, 0x8dc3a55e9c26d886},
    {4096, 0x9ddd66c14af0daff, 0xc7bc989f5d547a4d}, {4097, 0x34eecaecd32195a4, 0x71d461dda19ff9d6},
    {8192, 0xbf92f39d8e244293, 0xd4dcd8344aadc81c},
};

std::string TestBytes(size_t n) {
  std::string bytes(n, '\0');
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<char>(i * 131 + 7);
  return bytes;
}

TEST(HashTest, GoldenVectors) {
  for (const Golden& golden : kGolden) {
    const std::string bytes = TestBytes(golden.bytes);
    EXPECT_EQ(Hash64(bytes), golden.seed_zero) << golden.bytes;
    EXPECT_EQ(Hash64(bytes, 0), golden.seed_zero) << golden.bytes;
    EXPECT_EQ(Hash64(bytes, kSeed), golden.seeded) << golden.bytes;
  }
}

TEST(HashTest, NullViewIsTheEmptyKey) {
  EXPECT_EQ(Hash64(std::string_view()), Hash64(""));
  EXPECT_EQ(Hash64Pair({}, {}, kSeed), Hash64("", kSeed));
}

TEST(HashTest, DoesNotDependOnAlignment) {
  const std::string bytes = TestBytes(300);
  for (size_t n : {1, 3, 8, 16, 17, 64, 128, 200, 290}) {
    for (size_t shift = 1; shift < 8; ++shift) {
      const std::string shifted = std::string(shift, 'x') + bytes.substr(0, n);
      EXPECT_EQ(Hash64(std::string_view(shifted).substr(shift)), Hash64(bytes.substr(0, n)));
    }
  }
}

TEST(HashTest, PairIsTheHashOfBothJoined) {
  const std::string bytes = TestBytes(8192);
  for (const Golden& golden : kGolden) {
    const std::string_view whole = std::string_view(bytes).substr(0, golden.bytes);
    // Every split of short ones; a few of those that don't fit the small buffer.
    const size_t step = whole.size() <= 300 ? 1 : 61;
    for (size_t split = 0; split <= whole.size(); split += step) {
      EXPECT_EQ(Hash64Pair(whole.substr(0, split), whole.substr(split), kSeed), golden.seeded)
          << golden.bytes << " split at " << split;
    }
    EXPECT_EQ(Hash64Pair(whole, {}, 0), golden.seed_zero);
  }
}

TEST(HashTest, PairOfABlockAndItsTrailerByte) {
  const std::string bytes = TestBytes(4097);
  EXPECT_EQ(Hash64Pair(std::string_view(bytes).substr(0, 4096),
                       std::string_view(bytes).substr(4096), kSeed),
            Hash64(bytes, kSeed));
}

TEST(HashTest, EveryBitCounts) {
  for (size_t n : {1, 4, 9, 17, 64, 200, 257}) {
    const std::string bytes = TestBytes(n);
    const uint64_t hash = Hash64(bytes);
    for (size_t bit = 0; bit < 8 * n; ++bit) {
      std::string changed = bytes;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_NE(Hash64(changed), hash) << n << " bit " << bit;
    }
  }
}

}  // namespace
}  // namespace sievedb
