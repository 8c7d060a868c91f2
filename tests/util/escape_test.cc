#include "util/escape.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace sievedb {
namespace {

std::string AllBytes() {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes.push_back(static_cast<char>(c));
  return bytes;
}

TEST(EscapeTest, Examples) {
  EXPECT_EQ(Escape(""), "");
  EXPECT_EQ(Escape("plain text ~!"), "plain text ~!");
  EXPECT_EQ(Escape("a\\b\n\t\r"), "a\\\\b\\n\\t\\r");
  EXPECT_EQ(Escape(std::string_view("\0\x7f\xff", 3)), "\\x00\\x7f\\xff");
}

TEST(EscapeTest, IsPrintableAndComesBack) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = AllBytes();
    if (round > 0) {
      bytes.resize(random() % 40);
      for (char& c : bytes) c = static_cast<char>(random());
    }
    const std::string text = Escape(bytes);
    for (const char c : text) ASSERT_TRUE(c >= ' ' && c <= '~');
    const absl::StatusOr<std::string> back = Unescape(text);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(*back, bytes);
    const absl::StatusOr<std::string> from_hex = FromHex(ToHex(bytes));
    ASSERT_TRUE(from_hex.ok()) << from_hex.status();
    ASSERT_EQ(*from_hex, bytes);
  }
}

TEST(EscapeTest, UnescapeRefusesWhatIsNoEscape) {
  for (const std::string_view text :
       {"\\", "ab\\", "\\q", "\\x", "\\x1", "\\xg0", "\\x0g", "a\\0"}) {
    EXPECT_EQ(Unescape(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  // Both cases of the digits are read.
  EXPECT_EQ(*Unescape("\\xAb\\xaB"), "\xab\xab");
}

TEST(EscapeTest, HexExamples) {
  EXPECT_EQ(ToHex(std::string_view("\x00\x1f\xff", 3)), "001fff");
  EXPECT_EQ(*FromHex("001FfF"), std::string_view("\x00\x1f\xff", 3));
  EXPECT_EQ(*FromHex(""), "");
  for (const std::string_view hex : {"0", "001", "0g", "g0", "0x00", " 0"}) {
    EXPECT_EQ(FromHex(hex).status().code(), absl::StatusCode::kInvalidArgument) << hex;
  }
}

}  // namespace
}  // namespace sievedb
