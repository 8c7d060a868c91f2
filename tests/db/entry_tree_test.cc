#include "db/entry_tree.h"

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

struct Key {
  std::string key;
  uint64_t tag = 0;
};

struct KeyLess {
  InternalKeyOrder order;
  bool operator()(const Key& a, const Key& b) const {
    return order.Compare(a.key, a.tag, b.key, b.tag) < 0;
  }
};

using Oracle = std::set<Key, KeyLess>;

// Short ones, zeros inside and at the end, shared prefixes around the word sizes.
std::string RandomKey(std::mt19937* random) {
  static constexpr std::string_view kAlphabet("\0\1a\xff", 4);
  static constexpr size_t kPrefixes[] = {0, 0, 7, 8, 9, 15, 16, 17};
  std::string key(kPrefixes[(*random)() % 8], 'p');
  for (size_t n = (*random)() % 4; n > 0; --n) key += kAlphabet[(*random)() % 4];
  return key;
}

void ExpectAt(const EntryTree::Cursor& cursor, const Oracle& oracle, Oracle::const_iterator it) {
  const EntryTree::Entry* const entry = cursor.entry();
  if (it == oracle.end()) {
    EXPECT_EQ(entry, nullptr);
    return;
  }
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->user_key(), it->key);
  EXPECT_EQ(entry->tag(), it->tag);
}

class EntryTreeOrderTest : public testing::TestWithParam<int> {
 protected:
  const Comparator* comparator() const {
    static const PlainComparator plain;
    if (GetParam() == 0) return BytewiseComparator();
    if (GetParam() == 1) return ReverseBytewiseComparator();
    return &plain;
  }
  InternalKeyOrder order_{comparator()};
  Arena arena_;
  EntryTree tree_{order_, &arena_};
};

INSTANTIATE_TEST_SUITE_P(Orders, EntryTreeOrderTest, testing::Values(0, 1, 2));

TEST_P(EntryTreeOrderTest, EmptyHasNothing) {
  EXPECT_EQ(tree_.size(), 0u);
  EXPECT_EQ(tree_.First().entry(), nullptr);
  EXPECT_EQ(tree_.Last().entry(), nullptr);
  const EntryTree::Target target{"k", 7};
  EXPECT_FALSE(tree_.FindAtOrAfter(target).Valid());
  EXPECT_FALSE(tree_.FindBefore(target).Valid());
  EXPECT_FALSE(tree_.FindAtOrBefore(target).Valid());
}

TEST_P(EntryTreeOrderTest, AgreesWithSet) {
  std::mt19937 random(301);
  Oracle oracle(KeyLess{order_});
  for (int i = 0; i < 4000; ++i) {
    const Key entry{RandomKey(&random), random() % 50};
    if (!oracle.insert(entry).second) continue;
    tree_.Insert(entry.key, entry.tag, "v" + std::to_string(entry.tag));
  }
  ASSERT_EQ(tree_.size(), oracle.size());

  auto it = oracle.begin();
  for (EntryTree::Cursor at = tree_.First(); at.Valid(); at.Next(), ++it) {
    ExpectAt(at, oracle, it);
    EXPECT_EQ(at.entry()->value(), "v" + std::to_string(it->tag));
    EXPECT_EQ(UserKey(at.entry()->internal_key()), it->key);
    EXPECT_EQ(Tag(at.entry()->internal_key()), it->tag);
  }
  EXPECT_EQ(it, oracle.end());
  ExpectAt(tree_.Last(), oracle, std::prev(oracle.end()));

  for (int i = 0; i < 4000; ++i) {
    const Key entry{RandomKey(&random), random() % 52};
    const EntryTree::Target target{entry.key, entry.tag};
    const auto at_or_after = oracle.lower_bound(entry);
    const auto after = oracle.upper_bound(entry);
    ExpectAt(tree_.FindAtOrAfter(target), oracle, at_or_after);
    ExpectAt(tree_.FindBefore(target), oracle,
             at_or_after == oracle.begin() ? oracle.end() : std::prev(at_or_after));
    ExpectAt(tree_.FindAtOrBefore(target), oracle,
             after == oracle.begin() ? oracle.end() : std::prev(after));
  }
}

// The hint of the last insert must not lead another one astray, whatever comes next.
TEST_P(EntryTreeOrderTest, RunsOfKeysInAnyDirection) {
  std::mt19937 random(302);
  Oracle oracle(KeyLess{order_});
  for (int run = 0; run < 200; ++run) {
    const bool up = random() % 2 == 0;
    const uint32_t start = random() % 100'000;
    for (uint32_t i = 0; i < 30; ++i) {
      char key[32];
      snprintf(key, sizeof(key), "%016u", up ? start + i : start + 30 - i);
      const Key entry{key, run + 1u};
      if (oracle.insert(entry).second) tree_.Insert(entry.key, entry.tag, "");
    }
  }
  auto it = oracle.begin();
  for (EntryTree::Cursor at = tree_.First(); at.Valid(); at.Next(), ++it) {
    ASSERT_NE(it, oracle.end());
    ExpectAt(at, oracle, it);
  }
  EXPECT_EQ(it, oracle.end());
}

// Keys share more and more, or less and less, with those before them: what the tree takes
// for the prefix of all must follow, for entries and for searches.
TEST_P(EntryTreeOrderTest, KeysLeaveThePrefixOfTheOthers) {
  std::mt19937 random(303);
  Oracle oracle(KeyLess{order_});
  const auto insert = [&](std::string key) {
    const Key entry{std::move(key), 1};
    if (oracle.insert(entry).second) tree_.Insert(entry.key, entry.tag, "");
  };
  const auto expect_all = [&] {
    auto it = oracle.begin();
    for (EntryTree::Cursor at = tree_.First(); at.Valid(); at.Next(), ++it) {
      ASSERT_NE(it, oracle.end());
      ExpectAt(at, oracle, it);
    }
    EXPECT_EQ(it, oracle.end());
    auto back = oracle.rbegin();
    for (EntryTree::Cursor at = tree_.Last(); at.Valid(); at.Prev(), ++back) {
      ASSERT_NE(back, oracle.rend());
      ExpectAt(at, oracle, std::prev(back.base()));
    }
    EXPECT_EQ(back, oracle.rend());
  };
  const std::string_view base = "tenant-0042/user-";
  for (size_t shared = base.size(); shared + 1 > 0; --shared) {
    // What comes after the shared bytes is on either side of what was there.
    const std::string prefix(base.substr(0, shared));
    insert(prefix);
    for (int i = 0; i < 200; ++i) insert(prefix + std::to_string(random() % 100'000));
    for (const char* const end : {"\xff", "\1", "u", "-"}) insert(prefix + end);
    for (int i = 0; i < 100; ++i) {
      const std::string key = prefix + RandomKey(&random);
      const Key entry{key, random() % 3};
      const auto at_or_after = oracle.lower_bound(entry);
      ExpectAt(tree_.FindAtOrAfter({key, entry.tag}), oracle, at_or_after);
      ExpectAt(tree_.FindBefore({key, entry.tag}), oracle,
               at_or_after == oracle.begin() ? oracle.end() : std::prev(at_or_after));
    }
    expect_all();
  }
}

// Thousands of versions of a key, whose words tell nothing apart.
TEST_P(EntryTreeOrderTest, ManyVersionsOfFewKeys) {
  std::mt19937 random(304);
  Oracle oracle(KeyLess{order_});
  for (int i = 0; i < 6000; ++i) {
    const Key entry{"counter" + std::string(random() % 3, '0'), random() % 4000};
    if (oracle.insert(entry).second) tree_.Insert(entry.key, entry.tag, "");
  }
  for (const Key& entry : oracle) {
    ExpectAt(tree_.FindAtOrAfter({entry.key, entry.tag}), oracle, oracle.find(entry));
    ExpectAt(tree_.FindAtOrBefore({entry.key, entry.tag}), oracle, oracle.find(entry));
  }
}

TEST(EntryTreeTest, TagsDescendWithinAKey) {
  Arena arena;
  EntryTree tree(InternalKeyOrder(BytewiseComparator()), &arena);
  for (const uint64_t tag : {5, 9, 1, 7, 3}) tree.Insert("k", tag, "");
  std::vector<uint64_t> tags;
  for (EntryTree::Cursor at = tree.First(); at.Valid(); at.Next()) {
    tags.push_back(at.entry()->tag());
  }
  EXPECT_EQ(tags, (std::vector<uint64_t>{9, 7, 5, 3, 1}));
}

TEST(EntryTreeTest, LargeValueIsOnePiece) {
  Arena arena;
  EntryTree tree(InternalKeyOrder(BytewiseComparator()), &arena);
  std::string value(20 << 20, 'v');
  value.back() = 'w';
  tree.Insert("a", 1, "small");
  tree.Insert("b", 1, value);
  tree.Insert("c", 1, "");
  EXPECT_TRUE(tree.FindAtOrAfter({"b", 1}).entry()->value() == value);
  EXPECT_EQ(tree.Last().entry()->value(), "");
}

// Writers insert each their own keys, in runs and at random, while readers go
// through the tree: what was there before a walk began must be met, in order.
TEST(EntryTreeTest, ConcurrentWritersAndReaders) {
  constexpr int kWriters = 3;
  constexpr uint32_t kPerWriter = 3000;
  const InternalKeyOrder order(BytewiseComparator());
  Arena arena;
  EntryTree tree(order, &arena);
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
        tree.Insert(key, 1, key);
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
          const EntryTree::Entry* const entry = tree.FindAtOrAfter({key, 1}).entry();
          ASSERT_NE(entry, nullptr);
          ASSERT_EQ(entry->user_key(), key);
          ASSERT_EQ(entry->value(), key);
        }
        uint64_t met = 0;
        std::string last;
        for (EntryTree::Cursor at = tree.First(); at.Valid(); at.Next()) {
          ASSERT_LT(last, at.entry()->user_key());
          last = at.entry()->user_key();
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
  for (EntryTree::Cursor at = tree.First(); at.Valid(); at.Next(), ++it) {
    ASSERT_NE(it, expected.end());
    ASSERT_EQ(at.entry()->user_key(), *it);
  }
  EXPECT_EQ(it, expected.end());
  for (const std::string& key : expected) {
    const EntryTree::Entry* const entry = tree.FindAtOrAfter({key, 1}).entry();
    ASSERT_TRUE(entry != nullptr && entry->user_key() == key);
  }
}

// Whoever inserted a key finds it from then on, by every kind of search, whatever the
// other writers do to the nodes around it.
TEST(EntryTreeTest, WritersFindTheirOwn) {
  constexpr int kWriters = 4;
  constexpr uint32_t kPerWriter = 10'000;
  Arena arena;
  EntryTree tree(InternalKeyOrder(BytewiseComparator()), &arena);
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      std::mt19937 random(500 + static_cast<uint32_t>(writer));
      std::vector<std::string> mine;
      for (uint32_t i = 0; i < kPerWriter; ++i) {
        // Close to the others', so that they split the same nodes; and some outside of
        // the prefix of all others.
        const char* const prefix = random() % 500 == 0 ? "" : "a-prefix-";
        char key[32];
        snprintf(key, sizeof(key), "%s%08u-%d", prefix,
                 static_cast<uint32_t>(random() % 2 == 0 ? i : random() % 100'000), writer);
        if (tree.FindAtOrBefore({key, 1}).Valid() &&
            tree.FindAtOrBefore({key, 1}).entry()->user_key() == key) {
          continue;  // by chance
        }
        tree.Insert(key, 1, "");
        mine.emplace_back(key);
        for (const std::string& known : {mine.back(), mine[random() % mine.size()]}) {
          const EntryTree::Target target{known, 1};
          ASSERT_EQ(tree.FindAtOrAfter(target).entry()->user_key(), known);
          ASSERT_EQ(tree.FindAtOrBefore(target).entry()->user_key(), known);
          EntryTree::Cursor at = tree.FindBefore(target);
          if (!at.Valid()) at = tree.First();
          while (at.entry()->user_key() < known) at.Next();
          ASSERT_EQ(at.entry()->user_key(), known);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sievedb
