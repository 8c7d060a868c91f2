#include "util/key_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

namespace sievedb {
namespace {

// The order of lengths, then of bytes; "equal" where only the case differs.
class UserOrder final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    for (size_t i = 0; i < a.size(); ++i) {
      const int difference = (a[i] & 0x5f) - (b[i] & 0x5f);
      if (difference != 0) return difference;
    }
    return 0;
  }
  const char* Name() const override { return "test.UserOrder"; }
  bool EqualKeysHaveEqualBytes() const override { return false; }
};

int Sign(int r) { return r < 0 ? -1 : r > 0 ? 1 : 0; }

// Random bytes, often sharing a prefix, often of extreme bytes.
std::string RandomKey(std::mt19937_64* random) {
  constexpr std::string_view kBytes("\x00\x01\x7f\x80\xff", 5);
  std::string key((*random)() % 14, '\0');
  const bool extreme = (*random)() % 2 == 0;
  for (char& c : key) {
    c = extreme ? kBytes[(*random)() % kBytes.size()] : static_cast<char>((*random)() % 256);
  }
  return key;
}

TEST(KeyOrderTest, AgreesWithItsComparator) {
  const UserOrder user;
  std::mt19937_64 random(5);
  for (const Comparator* comparator :
       {BytewiseComparator(), ReverseBytewiseComparator(), static_cast<const Comparator*>(&user)}) {
    const KeyOrder order(comparator);
    EXPECT_EQ(order.comparator(), comparator);
    for (int round = 0; round < 20000; ++round) {
      const std::string a = RandomKey(&random);
      const std::string b = random() % 8 == 0 ? a : RandomKey(&random);
      ASSERT_EQ(Sign(order.Compare(a, b)), Sign(comparator->Compare(a, b)));
      ASSERT_EQ(order.Equal(a, b), comparator->Compare(a, b) == 0);
    }
  }
}

TEST(KeyOrderTest, WordsNeverContradictTheOrder) {
  std::mt19937_64 random(6);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    const KeyOrder order(comparator);
    EXPECT_TRUE(order.has_words());
    int decided = 0;
    for (int round = 0; round < 100000; ++round) {
      const size_t skip = random() % 4;
      const std::string prefix(skip, static_cast<char>(random() % 256));
      // Keys that share their first skip bytes, or all that they have of them.
      const std::string a = prefix + RandomKey(&random);
      const std::string b = prefix + RandomKey(&random);
      const uint64_t word_a = order.Word(a, skip);
      const uint64_t word_b = order.Word(b, skip);
      // The words decide, or say nothing.
      const int by_words = word_a < word_b ? -1 : word_a > word_b ? 1 : 0;
      if (by_words != 0) {
        ASSERT_EQ(Sign(order.Compare(a, b)), by_words);
      }
      decided += word_a != word_b ? 1 : 0;
    }
    EXPECT_GT(decided, 50000) << comparator->Name();
  }
}

TEST(KeyOrderTest, WordReadsEightBytesFromSkipOn) {
  const KeyOrder order(BytewiseComparator());
  EXPECT_EQ(order.Word("\x01\x02\x03\x04\x05\x06\x07\x08\x09"), 0x0102030405060708u);
  EXPECT_EQ(order.Word("\x01\x02\x03\x04\x05\x06\x07\x08\x09", 1), 0x0203040506070809u);
  EXPECT_EQ(order.Word("\x01\x02"), 0x0102000000000000u);
  EXPECT_EQ(order.Word("\x01\x02", 2), 0u);
  EXPECT_EQ(order.Word("\x01\x02", 9), 0u);
  EXPECT_EQ(order.Word(""), 0u);
  EXPECT_EQ(KeyOrder(ReverseBytewiseComparator()).Word("\x01\x02"), ~uint64_t{0x0102000000000000});
}

TEST(KeyOrderTest, UserOrdersHaveNoWords) {
  const UserOrder user;
  const KeyOrder order(&user);
  EXPECT_FALSE(order.has_words());
  EXPECT_EQ(order.Word("abcdefgh"), 0u);
  EXPECT_FALSE(order.equal_keys_have_equal_bytes());
  EXPECT_TRUE(order.Equal("abc", "ABC"));
  EXPECT_TRUE(KeyOrder(BytewiseComparator()).equal_keys_have_equal_bytes());
}

}  // namespace
}  // namespace sievedb
