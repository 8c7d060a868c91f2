#include "sievedb/comparator.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace sievedb {
namespace {

std::string Separator(const Comparator* order, std::string start, std::string_view limit) {
  order->FindShortestSeparator(&start, limit);
  return start;
}
std::string Successor(const Comparator* order, std::string key) {
  order->FindShortSuccessor(&key);
  return key;
}

TEST(ComparatorTest, Names) {
  EXPECT_STREQ(BytewiseComparator()->Name(), "sievedb.BytewiseComparator");
  EXPECT_STREQ(ReverseBytewiseComparator()->Name(), "sievedb.ReverseBytewiseComparator");
  EXPECT_EQ(BytewiseComparator(), BytewiseComparator());
  EXPECT_NE(BytewiseComparator(), ReverseBytewiseComparator());
  EXPECT_TRUE(BytewiseComparator()->EqualKeysHaveEqualBytes());
  EXPECT_TRUE(ReverseBytewiseComparator()->EqualKeysHaveEqualBytes());
}

TEST(ComparatorTest, BytesAreUnsigned) {
  const Comparator* const order = BytewiseComparator();
  EXPECT_LT(order->Compare("a", "b"), 0);
  EXPECT_LT(order->Compare("a", "ab"), 0);
  EXPECT_LT(order->Compare("", "a"), 0);
  EXPECT_LT(order->Compare("\x7f", "\x80"), 0);
  EXPECT_EQ(order->Compare("same", "same"), 0);
  EXPECT_GT(order->Compare("b", "abc"), 0);
  const Comparator* const reverse = ReverseBytewiseComparator();
  EXPECT_GT(reverse->Compare("a", "b"), 0);
  EXPECT_GT(reverse->Compare("a", "ab"), 0);
  EXPECT_LT(reverse->Compare("\x80", "\x7f"), 0);
  EXPECT_EQ(reverse->Compare("same", "same"), 0);
}

TEST(ComparatorTest, BytewiseSeparators) {
  const Comparator* const order = BytewiseComparator();
  EXPECT_EQ(Separator(order, "abcdef", "abzz"), "abd");
  EXPECT_EQ(Separator(order, "abc123", "abd"), "abc2");
  EXPECT_EQ(Separator(order, "abc123", "abdx"), "abd");
  EXPECT_EQ(Separator(order, "ab\xff\xff\x01q", "ac"), "ab\xff\xff\x02");
  EXPECT_EQ(Separator(order, "ab\xff\xff", "ac"), "ab\xff\xff");  // nothing to count up
  EXPECT_EQ(Separator(order, "ab", "abcdef"), "ab");              // a prefix
  EXPECT_EQ(Separator(order, "abc", "abc"), "abc");
  EXPECT_EQ(Separator(order, "b", "a"), "b");  // no such range: left alone
  EXPECT_EQ(Separator(order, "", "a"), "");
}

TEST(ComparatorTest, ReverseSeparators) {
  const Comparator* const order = ReverseBytewiseComparator();
  EXPECT_EQ(Separator(order, "abzzzz", "abcdef"), "abz");
  EXPECT_EQ(Separator(order, "abcdef", "ab"), "abc");  // longer than its prefix
  EXPECT_EQ(Separator(order, "abc", "abc"), "abc");
  EXPECT_EQ(Separator(order, "a", "b"), "a");
  EXPECT_EQ(Separator(order, "abc", ""), "a");
}

TEST(ComparatorTest, Successors) {
  EXPECT_EQ(Successor(BytewiseComparator(), "abc"), "b");
  EXPECT_EQ(Successor(BytewiseComparator(),
                      "\xff\xff"
                      "az"),
            "\xff\xff"
            "b");
  EXPECT_EQ(Successor(BytewiseComparator(), "\xff\xff"), "\xff\xff");
  EXPECT_EQ(Successor(BytewiseComparator(), ""), "");
  EXPECT_EQ(Successor(ReverseBytewiseComparator(), "abc"), "a");
  EXPECT_EQ(Successor(ReverseBytewiseComparator(), ""), "");
}

// A short string over few bytes, the extreme ones among them.
std::string RandomKey(std::mt19937_64* random) {
  constexpr std::string_view kBytes("\x00\x01\x02\x7f\x80\xfe\xff", 7);
  std::string key((*random)() % 6, '\0');
  for (char& c : key) c = kBytes[(*random)() % kBytes.size()];
  return key;
}

TEST(ComparatorTest, ShortenedKeysKeepTheContract) {
  std::mt19937_64 random(77);
  for (const Comparator* order : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    int shortened = 0;
    for (int round = 0; round < 100000; ++round) {
      const std::string a = RandomKey(&random);
      const std::string b = RandomKey(&random);
      ASSERT_EQ(order->Compare(a, b) < 0, order->Compare(b, a) > 0);
      const std::string separator = Separator(order, a, b);
      if (order->Compare(a, b) < 0) {
        ASSERT_LE(order->Compare(a, separator), 0);
        ASSERT_LT(order->Compare(separator, b), 0);
      } else {
        ASSERT_EQ(separator, a);
      }
      ASSERT_LE(separator.size(), a.size());
      const std::string successor = Successor(order, a);
      ASSERT_LE(order->Compare(a, successor), 0);
      ASSERT_LE(successor.size(), a.size());
      shortened += separator.size() < a.size() ? 1 : 0;
    }
    EXPECT_GT(shortened, 10000) << order->Name();
  }
}

class PlainOrder final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return "test.PlainOrder"; }
};

TEST(ComparatorTest, DefaultsLeaveKeysAlone) {
  const PlainOrder order;
  EXPECT_EQ(Separator(&order, "abcdef", "x"), "abcdef");
  EXPECT_EQ(Successor(&order, "abcdef"), "abcdef");
  EXPECT_TRUE(order.EqualKeysHaveEqualBytes());
}

}  // namespace
}  // namespace sievedb
