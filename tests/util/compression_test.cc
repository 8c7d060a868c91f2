#include "util/compression.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>

namespace sievedb {
namespace {

std::string RandomBytes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Like the values of a database: half repeated, half random.
std::string MixedBytes(size_t n) {
  std::string bytes = RandomBytes(n, 9);
  for (size_t i = 0; i < n; ++i) {
    if (i / 64 % 2 == 0) bytes[i] = 'r';
  }
  return bytes;
}

TEST(CompressionTest, Names) {
  EXPECT_STREQ(CompressionName(Compression::kNone), "none");
  EXPECT_STREQ(CompressionName(Compression::kSnappy), "snappy");
  EXPECT_STREQ(CompressionName(static_cast<Compression>(77)), "unknown");
}

TEST(CompressionTest, SnappyComesBack) {
  for (const size_t bytes : {100, 4096, 100000, 3 << 20}) {
    for (const std::string& raw : {std::string(bytes, 'a'), MixedBytes(bytes)}) {
      std::string compressed = "what was there before";
      ASSERT_TRUE(Compress(Compression::kSnappy, raw, &compressed)) << bytes;
      EXPECT_LE(compressed.size(), raw.size() - raw.size() / 8);
      const absl::StatusOr<size_t> size =
          DecompressedSize(Compression::kSnappy, compressed, raw.size());
      ASSERT_TRUE(size.ok()) << size.status();
      ASSERT_EQ(*size, raw.size());
      const std::unique_ptr<char[]> back(new char[*size]);
      const absl::Status status = Decompress(Compression::kSnappy, compressed, back.get());
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(std::string_view(back.get(), *size), raw);
    }
  }
}

TEST(CompressionTest, RefusesWhereItSavesTooLittle) {
  std::string compressed;
  EXPECT_FALSE(Compress(Compression::kSnappy, RandomBytes(4096, 1), &compressed));
  EXPECT_FALSE(Compress(Compression::kSnappy, "", &compressed));
  EXPECT_FALSE(Compress(Compression::kSnappy, "ab", &compressed));
  EXPECT_FALSE(Compress(Compression::kNone, std::string(4096, 'a'), &compressed));
  // Just under an eighth can be saved: 4096 random bytes and a run of less than 512.
  EXPECT_FALSE(
      Compress(Compression::kSnappy, RandomBytes(4096, 1) + std::string(400, 'a'), &compressed));
  EXPECT_TRUE(
      Compress(Compression::kSnappy, RandomBytes(4096, 1) + std::string(1200, 'a'), &compressed));
}

TEST(CompressionTest, NoneIsACopy) {
  const absl::StatusOr<size_t> size = DecompressedSize(Compression::kNone, "bytes", 5);
  ASSERT_TRUE(size.ok());
  ASSERT_EQ(*size, 5u);
  char back[5];
  ASSERT_TRUE(Decompress(Compression::kNone, "bytes", back).ok());
  EXPECT_EQ(std::string_view(back, 5), "bytes");
  EXPECT_TRUE(Decompress(Compression::kNone, {}, nullptr).ok());
  EXPECT_EQ(DecompressedSize(Compression::kNone, "bytes", 4).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(CompressionTest, SizesThatCannotBeAreDataLoss) {
  std::string compressed;
  ASSERT_TRUE(Compress(Compression::kSnappy, std::string(1000, 'a'), &compressed));
  EXPECT_TRUE(DecompressedSize(Compression::kSnappy, compressed, 1000).ok());
  EXPECT_EQ(DecompressedSize(Compression::kSnappy, compressed, 999).status().code(),
            absl::StatusCode::kDataLoss);
  for (const std::string_view bytes : {"", "\x80", "\xff\xff\xff\xff\xff\xff"}) {
    EXPECT_EQ(DecompressedSize(Compression::kSnappy, bytes, 1 << 20).status().code(),
              absl::StatusCode::kDataLoss);
  }
  // A length of 4 GiB in front of nothing must not become an allocation.
  EXPECT_EQ(DecompressedSize(Compression::kSnappy, "\xff\xff\xff\xff\x0f", 1 << 20).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(CompressionTest, UnknownCompressionIsDataLoss) {
  const auto unknown = static_cast<Compression>(9);
  std::string compressed;
  EXPECT_FALSE(Compress(unknown, std::string(1000, 'a'), &compressed));
  EXPECT_EQ(DecompressedSize(unknown, "abc", 10).status().code(), absl::StatusCode::kDataLoss);
  char to[16];
  EXPECT_EQ(Decompress(unknown, "abc", to).code(), absl::StatusCode::kDataLoss);
}

TEST(CompressionTest, DamageNeverWritesBeyondTheBuffer) {
  const std::string raw = MixedBytes(2000);
  std::string compressed;
  ASSERT_TRUE(Compress(Compression::kSnappy, raw, &compressed));
  std::mt19937_64 random(4);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = compressed;
    if (round % 3 == 0) {
      damaged.resize(random() % damaged.size());
    } else {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<size_t> size = DecompressedSize(Compression::kSnappy, damaged, 1 << 16);
    if (!size.ok()) {
      ++refused;
      continue;
    }
    const std::unique_ptr<char[]> back(new char[*size]);  // sanitizers watch its end
    const absl::Status status = Decompress(Compression::kSnappy, damaged, back.get());
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace sievedb
