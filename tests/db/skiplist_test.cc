#include "db/skiplist.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

// Compares like the bytewise order, through a virtual call and without words.
class PlainComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return "test.plain"; }
};

struct Entry {
  std::string key;
  uint64_t tag = 0;
};

struct EntryLess {
  InternalKeyOrder order;
  bool operator()(const Entry& a, const Entry& b) const {
    return order.Compare(a.key, a.tag, b.key, b.tag) < 0;
  }
};

using Oracle = std::set<Entry, EntryLess>;

// Short ones, zeros inside and at the end, shared prefixes around the word sizes.
std::string RandomKey(std::mt19937* random) {
  static constexpr std::string_view kAlphabet("\0\1a\xff", 4);
  static constexpr size_t kPrefixes[] = {0, 0, 7, 8, 9, 15, 16, 17};
  std::string key(kPrefixes[(*random)() % 8], 'p');
  for (size_t n = (*random)() % 4; n > 0; --n) key += kAlphabet[(*random)() % 4];
  return key;
}

void ExpectNode(const SkipList::Node* node, const Oracle& oracle, Oracle::const_iterator it) {
  if (it == oracle.end()) {
    EXPECT_EQ(node, nullptr);
    return;
  }
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->user_key(), it->key);
  EXPECT_EQ(node->tag(), it->tag);
}

class SkipListOrderTest : public testing::TestWithParam<int> {
 protected:
  const Comparator* comparator() const {
    static const PlainComparator plain;
    if (GetParam() == 0) return BytewiseComparator();
    if (GetParam() == 1) return ReverseBytewiseComparator();
    return &plain;
  }
  InternalKeyOrder order_{comparator()};
  Arena arena_;
  SkipList list_{order_, &arena_};
};

INSTANTIATE_TEST_SUITE_P(Orders, SkipListOrderTest, testing::Values(0, 1, 2));

TEST_P(SkipListOrderTest, EmptyHasNothing) {
  EXPECT_EQ(list_.size(), 0u);
  EXPECT_EQ(list_.First(), nullptr);
  EXPECT_EQ(list_.Last(), nullptr);
  const SkipList::Target target = list_.MakeTarget("k", 7);
  EXPECT_EQ(list_.FindAtOrAfter(target), nullptr);
  EXPECT_EQ(list_.FindBefore(target), nullptr);
  EXPECT_EQ(list_.FindAtOrBefore(target), nullptr);
}

TEST_P(SkipListOrderTest, AgreesWithSet) {
  std::mt19937 random(301);
  Oracle oracle(EntryLess{order_});
  for (int i = 0; i < 4000; ++i) {
    const Entry entry{RandomKey(&random), random() % 50};
    if (!oracle.insert(entry).second) continue;
    list_.Insert(entry.key, entry.tag, "v" + std::to_string(entry.tag));
  }
  ASSERT_EQ(list_.size(), oracle.size());

  auto it = oracle.begin();
  for (const SkipList::Node* node = list_.First(); node != nullptr; node = node->next(), ++it) {
    ExpectNode(node, oracle, it);
    EXPECT_EQ(node->value(), "v" + std::to_string(it->tag));
    EXPECT_EQ(UserKey(node->internal_key()), it->key);
    EXPECT_EQ(Tag(node->internal_key()), it->tag);
  }
  EXPECT_EQ(it, oracle.end());
  ExpectNode(list_.Last(), oracle, std::prev(oracle.end()));

  for (int i = 0; i < 4000; ++i) {
    const Entry entry{RandomKey(&random), random() % 52};
    const SkipList::Target target = list_.MakeTarget(entry.key, entry.tag);
    const auto at_or_after = oracle.lower_bound(entry);
    const auto after = oracle.upper_bound(entry);
    ExpectNode(list_.FindAtOrAfter(target), oracle, at_or_after);
    ExpectNode(list_.FindBefore(target), oracle,
               at_or_after == oracle.begin() ? oracle.end() : std::prev(at_or_after));
    ExpectNode(list_.FindAtOrBefore(target), oracle,
               after == oracle.begin() ? oracle.end() : std::prev(after));
  }
}

// The hint of the last insert must not lead another one astray, whatever comes next.
TEST_P(SkipListOrderTest, RunsOfKeysInAnyDirection) {
  std::mt19937 random(302);
  Oracle oracle(EntryLess{order_});
  for (int run = 0; run < 200; ++run) {
    const bool up = random() % 2 == 0;
    const uint32_t start = random() % 100'000;
    for (uint32_t i = 0; i < 30; ++i) {
      char key[32];
      snprintf(key, sizeof(key), "%016u", up ? start + i : start + 30 - i);
      const Entry entry{key, run + 1u};
      if (oracle.insert(entry).second) list_.Insert(entry.key, entry.tag, "");
    }
  }
  auto it = oracle.begin();
  for (const SkipList::Node* node = list_.First(); node != nullptr; node = node->next(), ++it) {
    ASSERT_NE(it, oracle.end());
    ExpectNode(node, oracle, it);
  }
  EXPECT_EQ(it, oracle.end());
}

TEST(SkipListTest, TagsDescendWithinAKey) {
  Arena arena;
  SkipList list(InternalKeyOrder(BytewiseComparator()), &arena);
  for (const uint64_t tag : {5, 9, 1, 7, 3}) list.Insert("k", tag, "");
  std::vector<uint64_t> tags;
  for (const SkipList::Node* node = list.First(); node != nullptr; node = node->next()) {
    tags.push_back(node->tag());
  }
  EXPECT_EQ(tags, (std::vector<uint64_t>{9, 7, 5, 3, 1}));
}

TEST(SkipListTest, LargeValueIsOnePiece) {
  Arena arena;
  SkipList list(InternalKeyOrder(BytewiseComparator()), &arena);
  std::string value(20 << 20, 'v');
  value.back() = 'w';
  list.Insert("a", 1, "small");
  list.Insert("b", 1, value);
  list.Insert("c", 1, "");
  EXPECT_TRUE(list.FindAtOrAfter(list.MakeTarget("b", 1))->value() == value);
  EXPECT_EQ(list.Last()->value(), "");
}

// Writers insert each their own keys, in runs and at random, while readers go
// through the list: what was there before a walk began must be met, in order.
TEST(SkipListTest, ConcurrentWritersAndReaders) {
  constexpr int kWriters = 3;
  constexpr uint32_t kPerWriter = 3000;
  const InternalKeyOrder order(BytewiseComparator());
  Arena arena;
  SkipList list(order, &arena);
  std::atomic<uint32_t> done[kWriters] = {};
  std::atomic<int> running{kWriters};

  const auto key_of = [](int writer, uint32_t i) {
    // Half in ascending runs among the other writers' keys, half scattered.
    const uint32_t number = i % 2 == 0 ? i : i * 2654435761u;
    char key[32];
    snprintf(key, sizeof(key), "%010u-%d", number, writer);
    return std::string(key);
  };

  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (uint32_t i = 0; i < kPerWriter; ++i) {
        const std::string key = key_of(writer, i);
        list.Insert(key, 1, key);
        done[writer].store(i + 1, std::memory_order_release);
      }
      running.fetch_sub(1);
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      std::mt19937 random(400 + static_cast<uint32_t>(reader));
      do {
        uint64_t expected = 0;
        uint32_t seen[kWriters];
        for (int w = 0; w < kWriters; ++w) {
          seen[w] = done[w].load(std::memory_order_acquire);
          expected += seen[w];
        }
        for (int i = 0; i < 50; ++i) {
          const int w = static_cast<int>(random() % kWriters);
          if (seen[w] == 0) continue;
          const std::string key = key_of(w, random() % seen[w]);
          const SkipList::Node* const node = list.FindAtOrAfter(list.MakeTarget(key, 1));
          ASSERT_NE(node, nullptr);
          ASSERT_EQ(node->user_key(), key);
          ASSERT_EQ(node->value(), key);
        }
        uint64_t met = 0;
        std::string last;
        for (const SkipList::Node* node = list.First(); node != nullptr; node = node->next()) {
          ASSERT_LT(last, node->user_key());
          last = node->user_key();
          ++met;
        }
        ASSERT_GE(met, expected);
      } while (running.load() > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::set<std::string> expected;
  for (int writer = 0; writer < kWriters; ++writer) {
    for (uint32_t i = 0; i < kPerWriter; ++i) expected.insert(key_of(writer, i));
  }
  ASSERT_EQ(expected.size(), static_cast<size_t>(kWriters) * kPerWriter);
  auto it = expected.begin();
  for (const SkipList::Node* node = list.First(); node != nullptr; node = node->next(), ++it) {
    ASSERT_NE(it, expected.end());
    ASSERT_EQ(node->user_key(), *it);
  }
  EXPECT_EQ(it, expected.end());
  for (const std::string& key : expected) {
    const SkipList::Node* const node = list.FindAtOrAfter(list.MakeTarget(key, 1));
    ASSERT_TRUE(node != nullptr && node->user_key() == key);
  }
}

}  // namespace
}  // namespace sievedb
