#include "table/block.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "table/format.h"
#include "tests/table/table_test_util.h"
#include "util/hash.h"

namespace sievedb {
namespace {

std::string BuildBlock(const std::vector<TestEntry>& entries, int restart_interval,
                       bool with_hash_index) {
  BlockBuilder builder(restart_interval, with_hash_index);
  std::string last;
  bool first = true;
  for (const TestEntry& entry : entries) {
    const uint64_t before = builder.EstimateAfter(entry.user_key.size(), entry.value.size(),
                                                  SharedPrefix(last, entry.user_key));
    builder.Add(entry.user_key, entry.tag(), entry.value, SharedPrefix(last, entry.user_key),
                first || entry.user_key != last, Hash64(entry.user_key));
    // The estimate bounds the block, lengths above 127 bytes apart.
    EXPECT_LE(builder.EstimatedBytes(), before + 8);
    last = entry.user_key;
    first = false;
  }
  const uint64_t estimate = builder.EstimatedBytes();
  const absl::Span<char> block = builder.Finish(kBlockTrailerBytes);
  EXPECT_LE(block.size(), estimate);
  return {block.data(), block.size()};
}

std::string FindText(const Block& block, const KeyOrder& order, std::string_view key,
                     uint64_t sequence) {
  uint64_t tag = 0;
  std::string_view value;
  switch (block.Find(order, key, SeekTag(sequence), Hash64(key), &tag, &value)) {
    case Block::Result::kFound:
      return TagType(tag) == 0 ? "deleted" : "=" + std::string(value);
    case Block::Result::kAbsent:
    case Block::Result::kNotHere:
      return "absent";
    case Block::Result::kDamaged:
      break;
  }
  return "damaged";
}

void CheckIteration(const InternalKeyOrder& order, const std::string& bytes,
                    const std::vector<TestEntry>& entries) {
  BlockIterator it(order);
  ASSERT_TRUE(it.Init(bytes));
  EXPECT_FALSE(it.Valid());
  size_t n = 0;
  for (it.SeekToFirst(); it.Valid(); it.Next(), ++n) {
    ASSERT_LT(n, entries.size());
    ASSERT_EQ(it.key(), entries[n].internal_key());
    ASSERT_EQ(it.value(), entries[n].value);
  }
  EXPECT_EQ(n, entries.size());
  for (it.SeekToLast(); it.Valid(); it.Prev()) {
    ASSERT_GT(n, 0u);
    --n;
    ASSERT_EQ(it.key(), entries[n].internal_key());
    ASSERT_EQ(it.value(), entries[n].value);
  }
  EXPECT_EQ(n, 0u);
  EXPECT_FALSE(it.damaged());
  // A walk that turns around all the time.
  std::mt19937_64 random(7);
  it.SeekToFirst();
  size_t at = 0;
  for (int step = 0; step < 2000 && it.Valid(); ++step) {
    ASSERT_EQ(it.key(), entries[at].internal_key());
    ASSERT_EQ(it.value(), entries[at].value);
    if (at + 1 < entries.size() && (at == 0 || random() % 5 < 3)) {
      it.Next();
      ++at;
    } else if (at > 0) {
      it.Prev();
      --at;
    }
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    it.Seek(entries[i].user_key, entries[i].tag());
    ASSERT_TRUE(it.Valid());
    ASSERT_EQ(it.key(), entries[i].internal_key());
    it.Seek(entries[i].user_key, entries[i].tag() - 1);
    ASSERT_EQ(it.Valid(), i + 1 < entries.size());
    if (it.Valid()) {
      ASSERT_EQ(it.key(), entries[i + 1].internal_key());
    }
  }
}

TEST(BlockTest, RoundTripOverOptions) {
  const LengthFirstComparator length_first;
  const CaselessComparator caseless;
  std::mt19937_64 random(301);
  for (const Comparator* comparator :
       {BytewiseComparator(), ReverseBytewiseComparator(),
        static_cast<const Comparator*>(&length_first), static_cast<const Comparator*>(&caseless)}) {
    const InternalKeyOrder order(comparator);
    for (const int restart_interval : {1, 2, 5, 16, 1000}) {
      for (const bool with_hash_index : {false, true}) {
        for (const size_t keys : {1, 7, 120}) {
          SCOPED_TRACE(testing::Message() << comparator->Name() << " " << restart_interval << " "
                                          << with_hash_index << " " << keys);
          EntryShape shape;
          shape.keys = keys;
          shape.max_value_bytes = 200;
          shape.max_versions = 6;
          const std::vector<TestEntry> entries = RandomEntries(&random, order, shape);
          const bool hashed = with_hash_index && comparator != &caseless;
          const std::string bytes = BuildBlock(entries, restart_interval, hashed);
          CheckIteration(order, bytes, entries);
          Block block;
          ASSERT_TRUE(block.Parse(bytes));
          const bool small = block.num_restarts() <= kMaxHashedRestarts;
          EXPECT_EQ(block.num_hash_buckets() > 0, hashed && small);
          for (const TestEntry& entry : entries) {
            for (uint64_t s = entry.sequence - 1; s <= entry.sequence + 1; ++s) {
              ASSERT_EQ(FindText(block, order.user(), entry.user_key, s),
                        ExpectedText(entries, order, entry.user_key, s));
            }
          }
          for (int i = 0; i < 300; ++i) {
            const std::string key = RandomBytes(&random, random() % 14, shape.alphabet + 1);
            ASSERT_EQ(FindText(block, order.user(), key, 100),
                      ExpectedText(entries, order, key, 100));
          }
        }
      }
    }
  }
}

TEST(BlockTest, ManyVersionsOverManyIntervals) {
  std::vector<TestEntry> entries;
  for (uint64_t s = 200; s >= 1; --s) {
    entries.push_back({"key", s, EntryType::kPut, std::to_string(s)});
  }
  entries.insert(entries.begin(), {"a", 5, EntryType::kPut, "first"});
  entries.push_back({"z", 5, EntryType::kDelete, ""});
  const InternalKeyOrder order(BytewiseComparator());
  for (const int restart_interval : {1, 3, 16}) {
    const std::string bytes = BuildBlock(entries, restart_interval, true);
    Block block;
    ASSERT_TRUE(block.Parse(bytes));
    EXPECT_GT(block.num_hash_buckets(), 0u);
    for (uint64_t s = 1; s <= 210; ++s) {
      EXPECT_EQ(FindText(block, order.user(), "key", s),
                "=" + std::to_string(std::min<uint64_t>(s, 200)));
    }
    EXPECT_EQ(FindText(block, order.user(), "key", 0), "absent");
    EXPECT_EQ(FindText(block, order.user(), "z", 9), "deleted");
    EXPECT_EQ(FindText(block, order.user(), "ke", 9), "absent");
    EXPECT_EQ(FindText(block, order.user(), "keys", 9), "absent");
  }
}

TEST(BlockTest, NoHashIndexAboveItsRestarts) {
  std::vector<TestEntry> entries;
  for (int i = 0; i < 254; ++i) {
    entries.push_back({std::to_string(1000 + i), 1, EntryType::kPut, "v"});
  }
  const InternalKeyOrder order(BytewiseComparator());
  Block block;
  const std::string more = BuildBlock(entries, 1, true);
  ASSERT_TRUE(block.Parse(more));
  EXPECT_EQ(block.num_hash_buckets(), 0u);
  EXPECT_EQ(FindText(block, order.user(), "1253", 1), "=v");
  entries.pop_back();
  const std::string fewer = BuildBlock(entries, 1, true);
  ASSERT_TRUE(block.Parse(fewer));
  EXPECT_GT(block.num_hash_buckets(), 0u);
  EXPECT_EQ(FindText(block, order.user(), "1252", 1), "=v");
  EXPECT_EQ(FindText(block, order.user(), "1253", 1), "absent");
}

TEST(BlockTest, BuilderIsReused) {
  BlockBuilder builder(4, true);
  std::string last;
  std::string before;
  for (int round = 0; round < 3; ++round) {
    builder.Add("k", MakeTag(1, EntryType::kPut), std::string(100, 'v'), 0, true, Hash64("k"));
    const absl::Span<char> block = builder.Finish(0);
    const std::string bytes(block.data(), block.size());
    if (round > 0) {
      EXPECT_EQ(bytes, before);
    }
    before = bytes;
    builder.Reset();
    EXPECT_TRUE(builder.empty());
  }
}

// Whatever bytes say, a search ends and reads nothing outside of them.
TEST(BlockTest, DamagedBytesEndEverySearch) {
  std::mt19937_64 random(99);
  const InternalKeyOrder order(BytewiseComparator());
  EntryShape shape;
  shape.keys = 30;
  const std::vector<TestEntry> entries = RandomEntries(&random, order, shape);
  const std::string good = BuildBlock(entries, 4, true);
  int rejected = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (uint64_t i = 0; i <= random() % 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::memcpy(exact.get(), bytes.data(), bytes.size());
    const std::string_view view(exact.get(), bytes.size());
    Block block;
    BlockIterator it(order);
    if (!block.Parse(view)) {
      ++rejected;
      EXPECT_FALSE(it.Init(view));
      continue;
    }
    ASSERT_TRUE(it.Init(view));
    size_t steps = 0;
    for (it.SeekToFirst(); it.Valid(); it.Next()) ASSERT_LT(++steps, bytes.size());
    steps = 0;
    for (it.SeekToLast(); it.Valid(); it.Prev()) ASSERT_LT(++steps, bytes.size());
    for (int i = 0; i < 5; ++i) {
      const TestEntry& entry = entries[random() % entries.size()];
      FindText(block, order.user(), entry.user_key, random() % 10);
      it.Seek(entry.user_key, entry.tag());
      for (int n = 0; it.Valid() && n < 3; ++n) it.Prev();
    }
  }
  EXPECT_GT(rejected, 100);
}

TEST(KeyBufferTest, GrowsAndKeeps) {
  KeyBuffer key;
  std::string expected;
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    const std::string piece = RandomBytes(&random, random() % (i % 100 == 0 ? 5000 : 50));
    const size_t keep = expected.empty() ? 0 : random() % (expected.size() + 1);
    key.Replace(keep, piece.data(), piece.size(), piece.size());
    expected.resize(keep);
    expected += piece;
    ASSERT_EQ(key.view(), expected);
  }
}

}  // namespace
}  // namespace sievedb
