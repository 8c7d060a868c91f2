#include "table/table_properties.h"

#include <string>

#include "gtest/gtest.h"
#include "util/coding.h"

namespace sievedb {
namespace {

TableProperties SomeProperties() {
  TableProperties p;
  p.entries = 300;
  p.tombstones = 2;
  p.distinct_user_keys = 250;
  p.data_blocks = 4;
  p.raw_key_bytes = 5000;
  p.raw_value_bytes = uint64_t{1} << 40;
  p.raw_data_bytes = 6;
  p.data_bytes = 7;
  p.index_bytes = 8;
  p.filter_bytes = 9;
  p.smallest_sequence = 10;
  p.largest_sequence = (uint64_t{1} << 56) - 1;
  p.smallest_key = std::string("\0\xff", 2) + "tagbytes";
  p.largest_key = "tagbytes";
  p.compression = Compression::kSnappy;
  p.comparator_name = "sievedb.Bytewise";
  p.filter_name = "bloom";
  p.filter_bits_per_key = 10.25;
  p.filter_probes = 6;
  p.creation_seconds = 1700000000;
  p.file_number = 11;
  p.db_id = ~uint64_t{0};
  p.created_by = "sievedb 1.2.3";
  p.hash_seed = 0x8899aabbccddeeff;
  p.prefix_extractor_name = "fixed";
  p.prefixes = 77;
  return p;
}

TEST(TablePropertiesTest, RoundTrip) {
  const std::string bytes = EncodeTableProperties(SomeProperties());
  const auto p = DecodeTableProperties(bytes);
  ASSERT_TRUE(p.ok()) << p.status();
  // Encoding is a function of all fields, so this compares each.
  EXPECT_EQ(EncodeTableProperties(*p), bytes);
  EXPECT_EQ(p->entries, 300u);
  EXPECT_EQ(p->raw_value_bytes, uint64_t{1} << 40);
  EXPECT_EQ(p->smallest_key, std::string("\0\xff", 2) + "tagbytes");
  EXPECT_EQ(p->filter_bits_per_key, 10.25);
  EXPECT_EQ(p->filter_probes, 6);
  EXPECT_EQ(p->db_id, ~uint64_t{0});
  EXPECT_EQ(p->created_by, "sievedb 1.2.3");
  EXPECT_EQ(p->hash_seed, 0x8899aabbccddeeffu);
  EXPECT_EQ(p->prefix_extractor_name, "fixed");
  EXPECT_EQ(p->prefixes, 77u);
}

TEST(TablePropertiesTest, NoHashSeedIsSeedZero) {
  TableProperties p = SomeProperties();
  p.hash_seed = 0;
  std::string bytes = EncodeTableProperties(p);
  EXPECT_EQ(bytes.size() + 1 + 1 + 8, EncodeTableProperties(SomeProperties()).size());
  EXPECT_EQ(DecodeTableProperties(bytes)->hash_seed, 0u);
  p.prefix_extractor_name = "";
  bytes = EncodeTableProperties(p);
  EXPECT_EQ(DecodeTableProperties(bytes)->prefixes, 0u);
  const auto code = [](std::string with, uint32_t id, std::string_view value) {
    AppendVarint32(&with, id);
    AppendLengthPrefixed(&with, value);
    return DecodeTableProperties(with).status().code();
  };
  EXPECT_EQ(code(bytes, 24, "7 bytes"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(bytes, 25, ""), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(bytes, 26, "\x80"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(bytes, 26, "\x05"), absl::StatusCode::kOk);
}

TEST(TablePropertiesTest, UnknownIdsAreSkipped) {
  std::string bytes = EncodeTableProperties(SomeProperties());
  AppendVarint32(&bytes, 1000);
  AppendLengthPrefixed(&bytes, "from the future");
  const auto p = DecodeTableProperties(bytes);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->created_by, "sievedb 1.2.3");
}

TEST(TablePropertiesTest, MalformedBytesAreDataLoss) {
  const std::string bytes = EncodeTableProperties(SomeProperties());
  const auto code = [](const std::string& b) { return DecodeTableProperties(b).status().code(); };
  constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
  EXPECT_EQ(code(""), kDataLoss);
  // A cut at a field's end is as if the last fields were not known; what a table can't
  // be read without must be there.
  int whole = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto cut = DecodeTableProperties(bytes.substr(0, n));
    if (cut.ok()) {
      ++whole;
      EXPECT_EQ(cut->largest_key, "tagbytes");
    } else {
      EXPECT_EQ(cut.status().code(), kDataLoss);
    }
  }
  EXPECT_EQ(whole, 12);
  EXPECT_EQ(code(bytes + bytes), kDataLoss) << "ids must ascend";
  EXPECT_EQ(code(std::string("\x01\x02\x80\x80", 4) + bytes.substr(4)), kDataLoss);
  std::string short_key;
  AppendVarint32(&short_key, 13);
  AppendLengthPrefixed(&short_key, "1234567");
  EXPECT_EQ(code(short_key), kDataLoss);
}

}  // namespace
}  // namespace sievedb
