#include "sievedb/prefix_extractor.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

using std::string_view_literals::operator""sv;

TEST(PrefixExtractorTest, FixedTakesTheFirstBytes) {
  const auto four = NewFixedPrefixExtractor(4);
  EXPECT_STREQ(four->Name(), "sievedb.FixedPrefix.4");
  EXPECT_EQ(four->Prefix("abcdef"), "abcd"sv);
  EXPECT_EQ(four->Prefix("abcd"), "abcd"sv);
  EXPECT_EQ(four->Prefix("\0\xff\0\xff\0"sv), "\0\xff\0\xff"sv);
  EXPECT_EQ(four->Prefix("abc"), std::nullopt);
  EXPECT_EQ(four->Prefix(""), std::nullopt);
  const auto none = NewFixedPrefixExtractor(0);
  EXPECT_EQ(none->Prefix(""), ""sv);
  EXPECT_EQ(none->Prefix("abc"), ""sv);
}

TEST(PrefixExtractorTest, DelimiterTakesAllUpToIt) {
  const auto one = NewDelimiterPrefixExtractor('/');
  const auto two = NewDelimiterPrefixExtractor('/', 2);
  EXPECT_STREQ(one->Name(), "sievedb.DelimiterPrefix.2f.1");
  EXPECT_STREQ(two->Name(), "sievedb.DelimiterPrefix.2f.2");
  EXPECT_STREQ(NewDelimiterPrefixExtractor('\xff', -3)->Name(), "sievedb.DelimiterPrefix.ff.1");
  EXPECT_EQ(one->Prefix("user/7/name"), "user/"sv);
  EXPECT_EQ(two->Prefix("user/7/name"), "user/7/"sv);
  EXPECT_EQ(two->Prefix("user//"), "user//"sv);
  EXPECT_EQ(one->Prefix("/"), "/"sv);
  EXPECT_EQ(one->Prefix("user"), std::nullopt);
  EXPECT_EQ(two->Prefix("user/7"), std::nullopt);
  EXPECT_EQ(one->Prefix(""), std::nullopt);
  EXPECT_EQ(NewDelimiterPrefixExtractor('\0')->Prefix("a\0b"sv), "a\0"sv);
}

// Every string of up to three letters, in order: no prefix comes back after another.
TEST(PrefixExtractorTest, PrefixesAreContiguous) {
  std::vector<std::string> keys = {""};
  for (size_t i = 0; keys[i].size() < 4; ++i) {
    for (const char c : {'\0', '/', 'a', '\xff'}) keys.push_back(keys[i] + c);
  }
  std::sort(keys.begin(), keys.end());
  for (const auto& extractor :
       {NewFixedPrefixExtractor(0), NewFixedPrefixExtractor(1), NewFixedPrefixExtractor(2),
        NewDelimiterPrefixExtractor('/'), NewDelimiterPrefixExtractor('/', 2)}) {
    std::vector<std::optional<std::string_view>> prefixes;
    for (const std::string& key : keys) {
      const auto prefix = extractor->Prefix(key);
      if (!prefixes.empty() && prefixes.back() == prefix) continue;
      if (prefix.has_value()) {
        EXPECT_EQ(std::count(prefixes.begin(), prefixes.end(), prefix), 0) << extractor->Name();
      }
      prefixes.push_back(prefix);
    }
  }
}

}  // namespace
}  // namespace sievedb
