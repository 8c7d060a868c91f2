#include "util/coding.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sievedb {
namespace {

// Values around every length of a varint.
std::vector<uint64_t> EdgeValues() {
  std::vector<uint64_t> values = {0, 1};
  for (int bit = 1; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  values.push_back(std::numeric_limits<uint64_t>::max());
  return values;
}

// Decodes from memory that ends where the bytes end, so that sanitizers see a read
// beyond them.
template <typename V, typename F>
bool Decode(F decode, std::string_view bytes, V* v, size_t* used) {
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const char* const end = decode(exact.get(), exact.get() + bytes.size(), v);
  if (end == nullptr) return false;
  *used = static_cast<size_t>(end - exact.get());
  return true;
}
bool Decode64(std::string_view bytes, uint64_t* v, size_t* used) {
  return Decode(DecodeVarint64, bytes, v, used);
}
bool Decode32(std::string_view bytes, uint32_t* v, size_t* used) {
  return Decode(DecodeVarint32, bytes, v, used);
}

TEST(CodingTest, FixedWidthIsLittleEndian) {
  std::string bytes;
  AppendFixed32(&bytes, 0x04030201);
  AppendFixed64(&bytes, 0x0c0b0a0908070605);
  EXPECT_EQ(bytes, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c");
  EXPECT_EQ(DecodeFixed32(bytes.data()), 0x04030201u);
  EXPECT_EQ(DecodeFixed64(bytes.data() + 4), 0x0c0b0a0908070605u);
}

TEST(CodingTest, VarintBytesAreFixed) {
  const auto encoded = [](uint64_t v) {
    std::string bytes;
    AppendVarint64(&bytes, v);
    return bytes;
  };
  EXPECT_EQ(encoded(0), std::string(1, '\0'));
  EXPECT_EQ(encoded(127), "\x7f");
  EXPECT_EQ(encoded(128), "\x80\x01");
  EXPECT_EQ(encoded(300), "\xac\x02");
  EXPECT_EQ(encoded(~uint64_t{0}), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(CodingTest, VarintsComeBack) {
  for (const uint64_t v : EdgeValues()) {
    std::string bytes;
    AppendVarint64(&bytes, v);
    EXPECT_EQ(bytes.size(), static_cast<size_t>(VarintLength(v))) << v;
    bytes += "tail";
    uint64_t decoded = ~v;
    size_t used = 0;
    ASSERT_TRUE(Decode64(bytes, &decoded, &used)) << v;
    EXPECT_EQ(decoded, v);
    EXPECT_EQ(used, bytes.size() - 4);

    uint32_t decoded32 = 7;
    if (v > std::numeric_limits<uint32_t>::max()) {
      EXPECT_FALSE(Decode32(bytes, &decoded32, &used)) << v;
    } else {
      ASSERT_TRUE(Decode32(bytes, &decoded32, &used)) << v;
      EXPECT_EQ(decoded32, v);
      std::string bytes32;
      AppendVarint32(&bytes32, static_cast<uint32_t>(v));
      EXPECT_EQ(bytes32 + "tail", bytes);
    }
  }
}

TEST(CodingTest, CutVarintsAreRefused) {
  for (const uint64_t v : EdgeValues()) {
    std::string bytes;
    AppendVarint64(&bytes, v);
    for (size_t n = 0; n < bytes.size(); ++n) {
      uint64_t decoded = 0;
      uint32_t decoded32 = 0;
      size_t used = 0;
      EXPECT_FALSE(Decode64(bytes.substr(0, n), &decoded, &used)) << v << " cut to " << n;
      EXPECT_FALSE(Decode32(bytes.substr(0, n), &decoded32, &used)) << v << " cut to " << n;
    }
  }
}

TEST(CodingTest, VarintsTooLargeForTheTypeAreRefused) {
  uint64_t v = 0;
  uint32_t v32 = 0;
  size_t used = 0;
  EXPECT_FALSE(Decode64("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", &v, &used));
  EXPECT_FALSE(Decode64("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", &v, &used));
  EXPECT_FALSE(Decode64(std::string(64, '\x80'), &v, &used));
  EXPECT_FALSE(Decode32("\xff\xff\xff\xff\x10", &v32, &used));
  EXPECT_FALSE(Decode32("\x80\x80\x80\x80\x80\x01", &v32, &used));
  ASSERT_TRUE(Decode32("\xff\xff\xff\xff\x0f", &v32, &used));
  EXPECT_EQ(v32, std::numeric_limits<uint32_t>::max());
}

TEST(CodingTest, ReaderReadsWhatWasAppended) {
  std::string bytes = "\x2a";
  AppendFixed32(&bytes, 1);
  AppendFixed64(&bytes, 2);
  AppendVarint32(&bytes, 300);
  AppendVarint64(&bytes, uint64_t{1} << 40);
  AppendLengthPrefixed(&bytes, "hello");
  AppendLengthPrefixed(&bytes, "");
  bytes += "rest";
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Byte(), 0x2a);
  EXPECT_EQ(reader.Fixed32(), 1u);
  EXPECT_EQ(reader.Fixed64(), 2u);
  EXPECT_EQ(reader.Varint32(), 300u);
  EXPECT_EQ(reader.Varint64(), uint64_t{1} << 40);
  EXPECT_EQ(reader.LengthPrefixed(), "hello");
  EXPECT_EQ(reader.LengthPrefixed(), "");
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.rest(), "rest");
  EXPECT_EQ(reader.Bytes(4), "rest");
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.Bytes(0), "");
  EXPECT_TRUE(reader.ok());
}

TEST(CodingTest, ReaderStaysFailed) {
  ByteReader reader("abc");
  EXPECT_EQ(reader.Fixed32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.Byte(), 0);  // though there are three bytes
  EXPECT_EQ(reader.Bytes(0), "");
  EXPECT_EQ(reader.Varint64(), 0u);
  EXPECT_EQ(reader.LengthPrefixed(), "");
  EXPECT_FALSE(reader.ok());
}

TEST(CodingTest, ReaderRefusesEveryFieldThatIsCut) {
  const auto fails = [](std::string_view bytes, auto read) {
    ByteReader reader(bytes);
    read(&reader);
    return !reader.ok();
  };
  EXPECT_TRUE(fails("", [](ByteReader* r) { r->Byte(); }));
  EXPECT_TRUE(fails("abc", [](ByteReader* r) { r->Fixed32(); }));
  EXPECT_TRUE(fails("abcdefg", [](ByteReader* r) { r->Fixed64(); }));
  EXPECT_TRUE(fails("\x80", [](ByteReader* r) { r->Varint32(); }));
  EXPECT_TRUE(fails("", [](ByteReader* r) { r->Varint64(); }));
  EXPECT_TRUE(fails("abc", [](ByteReader* r) { r->Bytes(4); }));
  EXPECT_TRUE(fails("abc", [](ByteReader* r) { r->Bytes(~uint64_t{0}); }));
  EXPECT_TRUE(
      fails("\x05"
            "abcd",
            [](ByteReader* r) { r->LengthPrefixed(); }));
  EXPECT_TRUE(
      fails("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            "a",
            [](ByteReader* r) { r->LengthPrefixed(); }));
}

TEST(CodingTest, ReaderSurvivesRandomBytes) {
  std::mt19937_64 random(20240611);
  for (int round = 0; round < 20000; ++round) {
    const size_t n = random() % 24;
    const std::unique_ptr<char[]> exact(new char[n]);
    for (size_t i = 0; i < n; ++i) exact[i] = static_cast<char>(random());
    ByteReader reader(std::string_view(exact.get(), n));
    size_t before = n + 1;
    while (reader.ok() && !reader.done() && reader.rest().size() < before) {
      before = reader.rest().size();
      switch (random() % 5) {
        case 0:
          reader.Byte();
          break;
        case 1:
          reader.Fixed32();
          break;
        case 2:
          reader.Varint32();
          break;
        case 3:
          reader.Varint64();
          break;
        default:
          reader.LengthPrefixed();
          break;
      }
      ASSERT_LE(reader.rest().size(), before);
    }
    // Each read took something, or failed.
    EXPECT_TRUE(!reader.ok() || reader.done());
  }
}

}  // namespace
}  // namespace sievedb
