#include "db/memtable.h"

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "table/prefix_hash.h"

namespace sievedb {
namespace {

// Takes keys that differ in case only for the same.
class CaselessComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    return Lower(a).compare(Lower(b));
  }
  const char* Name() const override { return "test.caseless"; }
  bool EqualKeysHaveEqualBytes() const override { return false; }

 private:
  static std::string Lower(std::string_view key) {
    std::string lower(key);
    for (char& c : lower) c = static_cast<char>(tolower(c));
    return lower;
  }
};

class MemTableTest : public testing::Test {
 protected:
  explicit MemTableTest(const Comparator* comparator = BytewiseComparator())
      : order_(comparator),
        memtable_(RefPtr<MemTable>::Adopt(std::make_unique<MemTable>(order_, 7).release())) {}

  // The value, "(deleted)" or "(none)".
  std::string Get(std::string_view key, uint64_t sequence = kMaxSequence) const {
    Lookup lookup(key, sequence, order_.user(), options_, nullptr);
    memtable_->Get(&lookup);
    EXPECT_EQ(memtable_->Contains(Lookup(key, sequence, order_.user(), options_, nullptr)),
              lookup.decided());
    if (lookup.state == Lookup::State::kDeleted) return "(deleted)";
    return lookup.decided() ? std::string(lookup.value) : "(none)";
  }

  const InternalKeyOrder order_;
  const ReadOptions options_;
  RefPtr<MemTable> memtable_;
};

TEST_F(MemTableTest, EmptyDecidesNothing) {
  EXPECT_TRUE(memtable_->empty());
  EXPECT_EQ(memtable_->id(), 7u);
  EXPECT_EQ(Get("k"), "(none)");
  EXPECT_EQ(Get(""), "(none)");
  const auto it = memtable_->NewIterator();
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  it->SeekToLast();
  EXPECT_FALSE(it->Valid());
}

TEST_F(MemTableTest, GetSeesTheNewestUpToItsSequence) {
  memtable_->Add(10, EntryType::kPut, "k", "ten");
  memtable_->Add(20, EntryType::kDelete, "k", "");
  memtable_->Add(30, EntryType::kPut, "k", "thirty");
  EXPECT_EQ(Get("k", 9), "(none)");
  EXPECT_EQ(Get("k", 10), "ten");
  EXPECT_EQ(Get("k", 19), "ten");
  EXPECT_EQ(Get("k", 20), "(deleted)");
  EXPECT_EQ(Get("k", 29), "(deleted)");
  EXPECT_EQ(Get("k", 30), "thirty");
  EXPECT_EQ(Get("k"), "thirty");
  EXPECT_EQ(memtable_->entries(), 3u);
  EXPECT_EQ(memtable_->tombstones(), 1u);
}

TEST_F(MemTableTest, NeighboursAreNotMistaken) {
  memtable_->Add(1, EntryType::kPut, std::string("a\0", 2), "zero");
  memtable_->Add(2, EntryType::kPut, "12345678abcdefghX", "long");
  memtable_->Add(3, EntryType::kPut, "", "empty key");
  memtable_->Add(4, EntryType::kPut, "empty value", "");
  EXPECT_EQ(Get("a"), "(none)");
  EXPECT_EQ(Get(std::string("a\0", 2)), "zero");
  EXPECT_EQ(Get(std::string("a\0\0", 3)), "(none)");
  EXPECT_EQ(Get("12345678abcdefgh"), "(none)");
  EXPECT_EQ(Get("12345678abcdefghW"), "(none)");
  EXPECT_EQ(Get("12345678abcdefghX"), "long");
  EXPECT_EQ(Get(""), "empty key");
  EXPECT_EQ(Get("empty value"), "");
}

TEST_F(MemTableTest, IteratorGoesBothWays) {
  std::mt19937 random(11);
  // By key ascending, then sequence descending.
  std::map<std::pair<std::string, uint64_t>, std::string> oracle;
  for (uint64_t sequence = 1; sequence <= 500; ++sequence) {
    const std::string key = "key" + std::to_string(random() % 100);
    memtable_->Add(sequence, EntryType::kPut, key, std::to_string(sequence));
    oracle[{key, ~sequence}] = std::to_string(sequence);
  }
  const auto it = memtable_->NewIterator();
  it->SeekToFirst();
  for (const auto& [key, value] : oracle) {
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(UserKey(it->key()), key.first);
    EXPECT_EQ(TagSequence(Tag(it->key())), ~key.second);
    EXPECT_EQ(it->value(), value);
    it->Next();
  }
  EXPECT_FALSE(it->Valid());
  it->SeekToLast();
  for (auto entry = oracle.rbegin(); entry != oracle.rend(); ++entry) {
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(UserKey(it->key()), entry->first.first);
    EXPECT_EQ(it->value(), entry->second);
    it->Prev();
  }
  EXPECT_FALSE(it->Valid());

  std::string target;
  AppendInternalKey(&target, "key5", SeekTag(kMaxSequence));
  it->Seek(target);
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(UserKey(it->key()), "key5");
  it->SeekForPrev(target);
  ASSERT_TRUE(it->Valid());
  EXPECT_LT(UserKey(it->key()), "key5");
  EXPECT_TRUE(it->status().ok());
}

TEST_F(MemTableTest, IteratorKeepsTheMemtable) {
  memtable_->Add(1, EntryType::kPut, "k", "v");
  const auto it = memtable_->NewIterator();
  memtable_ = RefPtr<MemTable>();
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "v");
}

TEST_F(MemTableTest, MemoryGrows) {
  const size_t before = memtable_->MemoryBytes();
  memtable_->Add(1, EntryType::kPut, "k", std::string(3 << 20, 'v'));
  EXPECT_GE(memtable_->MemoryBytes(), before + (3 << 20));
}

// A reader that acquired a sequence sees all entries up to it.
TEST_F(MemTableTest, PublishedEntriesAreSeen) {
  constexpr uint64_t kEntries = 5000;
  std::atomic<uint64_t> published{0};
  std::thread writer([&] {
    for (uint64_t sequence = 1; sequence <= kEntries; ++sequence) {
      memtable_->Add(sequence, EntryType::kPut, "key" + std::to_string(sequence % 17),
                     std::to_string(sequence));
      published.store(sequence, std::memory_order_release);
    }
  });
  uint64_t sequence = 0;
  while (sequence < kEntries) {
    sequence = published.load(std::memory_order_acquire);
    if (sequence == 0) continue;
    ASSERT_EQ(Get("key" + std::to_string(sequence % 17), sequence), std::to_string(sequence));
  }
  writer.join();
  EXPECT_EQ(memtable_->entries(), kEntries);
}

TEST_F(MemTableTest, PrefixesAreRuledOut) {
  const auto extractor = NewFixedPrefixExtractor(4);
  constexpr uint64_t kSeed = 99;
  const auto with = RefPtr<MemTable>::New(order_, 1, size_t{1} << 20, kSeed, extractor.get());
  const auto may_contain = [&](const MemTable& memtable, std::string_view prefix) {
    return memtable.MayContainPrefix(PrefixHash(prefix, kSeed));
  };
  EXPECT_FALSE(may_contain(*with, "key0"));
  for (uint64_t i = 1; i <= 300; ++i) {
    with->Add(i, i % 3 == 0 ? EntryType::kDelete : EntryType::kPut,
              "key" + std::to_string(i % 5) + std::to_string(i), "v");
  }
  with->Add(301, EntryType::kPut, "few", "v");  // it has no prefix
  EXPECT_EQ(with->prefixes(), 5u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(may_contain(*with, "key" + std::to_string(i)), i < 5) << i;
  }
  EXPECT_FALSE(may_contain(*with, "few"));
  memtable_->Add(1, EntryType::kPut, "key01", "v");
  EXPECT_TRUE(may_contain(*memtable_, "none"));  // it has no extractor
  EXPECT_EQ(memtable_->prefixes(), 0u);
}

class MemTableCaselessTest : public MemTableTest {
 protected:
  MemTableCaselessTest() : MemTableTest(&comparator_) {}
  static inline const CaselessComparator comparator_;
};

TEST_F(MemTableCaselessTest, EqualKeysOfOtherBytesAreOneKey) {
  memtable_->Add(1, EntryType::kPut, "Key", "one");
  memtable_->Add(2, EntryType::kPut, "KEY", "two");
  EXPECT_EQ(Get("key"), "two");
  EXPECT_EQ(Get("kEy", 1), "one");
  EXPECT_EQ(Get("kez"), "(none)");
}

}  // namespace
}  // namespace sievedb
