#include "table/format.h"

#include <string>

#include "gtest/gtest.h"
#include "util/coding.h"
#include "util/hash.h"

namespace sievedb {
namespace {

constexpr uint64_t kFileBytes = 10000;

Footer SomeFooter() {
  Footer footer;
  const uint64_t tail_at = 9000;
  footer.filter = {tail_at, 400};
  footer.index = {footer.filter.offset + 409, 300};
  footer.properties = {footer.index.offset + 309, 0};
  footer.properties.size =
      kFileBytes - kFooterBytes - kBlockTrailerBytes - footer.properties.offset;
  footer.tail_bytes = kFileBytes - tail_at;
  footer.file_number = 42;
  footer.filter_keys = 1234;
  footer.filter_bits_per_key = 9.5;
  footer.filter_kind = 1;
  footer.filter_probes = 6;
  return footer;
}

std::string Encoded(const Footer& footer) {
  std::string bytes;
  AppendFooter(&bytes, footer);
  return bytes;
}

// As a program would that writes version.
std::string WithVersion(std::string bytes, uint32_t version) {
  EncodeFixed32(bytes.data() + 112, version);
  EncodeFixed32(bytes.data() + 116, ~version);
  EncodeFixed64(bytes.data() + 104, Hash64(bytes.substr(0, 104) + bytes.substr(112)));
  return bytes;
}

TEST(FooterTest, RoundTrip) {
  const std::string bytes = Encoded(SomeFooter());
  ASSERT_EQ(bytes.size(), kFooterBytes);
  EXPECT_EQ(bytes.substr(120), "SVtable1");
  const auto footer = DecodeFooter(bytes, kFileBytes, "f");
  ASSERT_TRUE(footer.ok()) << footer.status();
  EXPECT_EQ(Encoded(*footer), bytes);
  EXPECT_EQ(footer->filter.offset, 9000u);
  EXPECT_EQ(footer->index.size, 300u);
  EXPECT_EQ(footer->file_number, 42u);
  EXPECT_EQ(footer->filter_keys, 1234u);
  EXPECT_EQ(footer->filter_bits_per_key, 9.5);
  EXPECT_EQ(footer->filter_kind, 1);
  EXPECT_EQ(footer->filter_probes, 6);
}

TEST(FooterTest, EveryFlippedBitIsDataLoss) {
  const std::string bytes = Encoded(SomeFooter());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto footer = DecodeFooter(damaged, kFileBytes, "some/path.sst");
    ASSERT_FALSE(footer.ok()) << bit;
    EXPECT_EQ(footer.status().code(), absl::StatusCode::kDataLoss) << footer.status();
    EXPECT_NE(footer.status().message().find("some/path.sst"), absl::string_view::npos);
  }
}

TEST(FooterTest, NewerVersionIsRefused) {
  const std::string bytes = Encoded(SomeFooter());
  ASSERT_TRUE(DecodeFooter(WithVersion(bytes, 1), kFileBytes, "f").ok());
  // Version 2 is one with range tombstones, which this footer has not.
  EXPECT_EQ(DecodeFooter(WithVersion(bytes, 2), kFileBytes, "f").status().code(),
            absl::StatusCode::kDataLoss);
  const auto footer = DecodeFooter(WithVersion(bytes, 3), kFileBytes, "f");
  EXPECT_EQ(footer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(footer.status().message().find("written by a newer version"), absl::string_view::npos);
}

TEST(FooterTest, BlocksMustDivideTheTail) {
  const auto code = [](const Footer& footer, uint64_t file_bytes = kFileBytes) {
    return DecodeFooter(Encoded(footer), file_bytes, "f").status().code();
  };
  constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
  EXPECT_EQ(code(SomeFooter()), absl::StatusCode::kOk);
  EXPECT_EQ(code(SomeFooter(), kFileBytes + 1), kDataLoss);
  EXPECT_EQ(code(SomeFooter(), 500), kDataLoss);
  Footer footer = SomeFooter();
  footer.filter.size = ~uint64_t{0};
  EXPECT_EQ(code(footer), kDataLoss);
  footer = SomeFooter();
  ++footer.index.offset;
  EXPECT_EQ(code(footer), kDataLoss);
  footer = SomeFooter();
  footer.properties.size -= 1;
  EXPECT_EQ(code(footer), kDataLoss);
  footer = SomeFooter();
  footer.index.size = 0;
  EXPECT_EQ(code(footer), kDataLoss);
  footer = SomeFooter();
  footer.tail_bytes = kFileBytes + 1;
  EXPECT_EQ(code(footer), kDataLoss);
  footer = SomeFooter();
  footer.range_tombstones = {1, 1};
  EXPECT_EQ(code(footer), kDataLoss);
}

TEST(BlockTrailerTest, DependsOnPlaceAndBytes) {
  const auto trailer = [](std::string payload, Compression codec, uint64_t file, uint64_t offset) {
    const size_t bytes = payload.size();
    payload.resize(bytes + kBlockTrailerBytes);
    AddBlockTrailer(payload.data(), bytes, codec, file, offset);
    return payload.substr(bytes);
  };
  const std::string one = trailer("abc", Compression::kNone, 1, 2);
  EXPECT_EQ(one[0], 0);
  EXPECT_EQ(trailer("abc", Compression::kNone, 1, 2), one);
  EXPECT_NE(trailer("abd", Compression::kNone, 1, 2).substr(1), one.substr(1));
  EXPECT_NE(trailer("abc", Compression::kSnappy, 1, 2).substr(1), one.substr(1));
  EXPECT_NE(trailer("abc", Compression::kNone, 2, 2).substr(1), one.substr(1));
  EXPECT_NE(trailer("abc", Compression::kNone, 1, 3).substr(1), one.substr(1));
}

TEST(SharedPrefixTest, EveryLength) {
  const std::string a(40, 'x');
  for (size_t length = 0; length <= a.size(); ++length) {
    for (size_t differs = 0; differs <= length; ++differs) {
      std::string b = a.substr(0, length);
      if (differs < length) b[differs] = 'y';
      EXPECT_EQ(SharedPrefix(a, b), differs);
      EXPECT_EQ(SharedPrefix(b, a), differs);
    }
  }
}

}  // namespace
}  // namespace sievedb
