#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "table/index_builder.h"
#include "table/index_reader.h"
#include "tests/table/table_test_util.h"

namespace sievedb {
namespace {

struct TestBlock {
  std::string first_user, last_user;
  uint64_t first_tag, last_tag;
  uint64_t payload_bytes;
};

struct TestIndex {
  std::string bytes;
  std::vector<TestBlock> blocks;
  uint64_t data_bytes = 0;
};

TestIndex BuildIndex(const InternalKeyOrder& order, const std::vector<TestEntry>& entries,
                     std::mt19937_64* random, size_t per_block) {
  TestIndex index;
  IndexBuilder builder(order);
  for (size_t at = 0; at < entries.size();) {
    const size_t end = std::min(entries.size(), at + 1 + (*random)() % per_block);
    const TestEntry& first = entries[at];
    const TestEntry& last = entries[end - 1];
    const uint64_t bytes = 1 + (*random)() % 5000;
    index.blocks.push_back({first.user_key, last.user_key, first.tag(), last.tag(), bytes});
    std::string_view next;
    if (end < entries.size()) next = entries[end].user_key;
    builder.Add(last.user_key, last.tag(), end < entries.size() ? &next : nullptr, bytes);
    index.data_bytes += bytes + kBlockTrailerBytes;
    at = end;
  }
  EXPECT_EQ(builder.blocks(), index.blocks.size());
  index.bytes = builder.Finish();
  return index;
}

void CheckIndex(const InternalKeyOrder& order, const TestIndex& index,
                const std::vector<TestEntry>& probes) {
  const auto reader = IndexReader::Decode(order, index.bytes, index.data_bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ(reader->blocks(), index.blocks.size());
  uint64_t offset = 0;
  std::vector<std::string> separators;
  for (size_t i = 0; i < index.blocks.size(); ++i) {
    const TestBlock& block = index.blocks[i];
    EXPECT_EQ(reader->handle(i).offset, offset);
    EXPECT_EQ(reader->handle(i).size, block.payload_bytes);
    EXPECT_EQ(reader->FirstBlockFrom(offset), i);
    EXPECT_EQ(reader->FirstBlockFrom(offset + 1), i + 1);
    offset += block.payload_bytes + kBlockTrailerBytes;
    const std::string separator = reader->Separator(i);
    separators.push_back(separator);
    EXPECT_GE(order.Compare(UserKey(separator), Tag(separator), block.last_user, block.last_tag),
              0);
    if (i + 1 < index.blocks.size()) {
      const TestBlock& next = index.blocks[i + 1];
      EXPECT_LT(order.Compare(UserKey(separator), Tag(separator), next.first_user, next.first_tag),
                0);
    }
    EXPECT_TRUE(reader->SeparatorHasKey(i, UserKey(separator)));
    EXPECT_FALSE(reader->SeparatorHasKey(i, std::string(UserKey(separator)) + "x"));
  }
  EXPECT_EQ(reader->offset(reader->blocks()), index.data_bytes);
  for (const TestEntry& probe : probes) {
    const auto at = std::partition_point(
        separators.begin(), separators.end(), [&](const std::string& separator) {
          return order.Compare(UserKey(separator), Tag(separator), probe.user_key, probe.tag()) < 0;
        });
    const auto expected = static_cast<size_t>(at - separators.begin());
    ASSERT_EQ(reader->Find(probe.user_key, probe.tag()), expected) << probe.user_key;
    // Not always sure, but never wrong.
    for (size_t i = 0; i < reader->blocks(); ++i) {
      if (!reader->SurelyFinds(i, probe.user_key)) continue;
      ASSERT_EQ(i, expected) << probe.user_key;
    }
  }
}

TEST(IndexTest, RoundTripAndSearch) {
  const LengthFirstComparator length_first;
  std::mt19937_64 random(17);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       static_cast<const Comparator*>(&length_first)}) {
    const InternalKeyOrder order(comparator);
    for (const size_t keys : {1, 8, 9, 64, 65, 600}) {
      for (const char* prefix : {"", "tenant-0001/object/"}) {
        for (const int alphabet : {2, 256}) {
          EntryShape shape;
          shape.keys = keys;
          shape.alphabet = alphabet;
          shape.max_key_bytes = 20;
          std::vector<TestEntry> entries = RandomEntries(&random, order, shape);
          for (TestEntry& entry : entries) entry.user_key = prefix + entry.user_key;
          SortEntries(order, &entries);
          const TestIndex index = BuildIndex(order, entries, &random, 3);
          std::vector<TestEntry> probes = entries;
          for (int i = 0; i < 200; ++i) {
            std::string key = RandomBytes(&random, random() % 22, alphabet);
            if (random() % 2 == 0) key = prefix + key;
            probes.push_back({key, random() % 12, EntryType::kPut, ""});
          }
          probes.push_back({"", 3, EntryType::kPut, ""});
          probes.push_back({"tenant", 3, EntryType::kPut, ""});
          probes.push_back({std::string(30, '\xff'), 3, EntryType::kPut, ""});
          CheckIndex(order, index, probes);
        }
      }
    }
  }
}

TEST(IndexTest, SureWhereWordsTell) {
  const InternalKeyOrder order(BytewiseComparator());
  std::vector<TestEntry> entries;
  for (int i = 100; i < 400; ++i) {
    entries.push_back({"shared/" + std::to_string(i), 1, EntryType::kPut, ""});
  }
  std::mt19937_64 random(3);
  const TestIndex index = BuildIndex(order, entries, &random, 4);
  const auto reader = IndexReader::Decode(order, index.bytes, index.data_bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  size_t sure = 0;
  for (const TestEntry& entry : entries) {
    const size_t block = reader->Find(entry.user_key, entry.tag());
    if (block < reader->blocks() && reader->SurelyFinds(block, entry.user_key)) ++sure;
  }
  EXPECT_GT(sure, entries.size() / 4);  // a separator's own key is not
  EXPECT_FALSE(reader->SurelyFinds(0, "other"));
}

// Keys that differ only behind the first 8 bytes, or not at all: words are equal.
TEST(IndexTest, EqualWords) {
  std::vector<TestEntry> entries;
  for (int i = 0; i < 300; ++i) {
    entries.push_back({"a" + std::to_string(i % 2), 1000u - i, EntryType::kPut, ""});
    entries.push_back(
        {"b" + std::string(12, 'x') + std::to_string(1000 + i), 1, EntryType::kPut, ""});
  }
  std::mt19937_64 random(3);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    const InternalKeyOrder order(comparator);
    SortEntries(order, &entries);
    CheckIndex(order, BuildIndex(order, entries, &random, 1), entries);
  }
}

TEST(IndexTest, SeparatorsAreShort) {
  const InternalKeyOrder order(BytewiseComparator());
  IndexBuilder builder(order);
  const std::string_view next = "d and more";
  builder.Add(std::string(1000, 'b'), MakeTag(7, EntryType::kPut), &next, 10);
  builder.Add("d and what not", MakeTag(7, EntryType::kPut), nullptr, 10);
  const std::string bytes = builder.Finish();
  EXPECT_LT(bytes.size(), 20u);
  const auto reader = IndexReader::Decode(order, bytes, 2 * (10 + kBlockTrailerBytes));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(UserKey(reader->Separator(0)), "c");
  EXPECT_EQ(Tag(reader->Separator(0)), kMaxTag);
  EXPECT_EQ(UserKey(reader->Separator(1)), "e");
}

// A comparator whose separators are wrong loses nothing.
class LyingComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    return BytewiseComparator()->Compare(a, b);
  }
  const char* Name() const override { return "test.Lying"; }
  void FindShortestSeparator(std::string* start, std::string_view) const override { *start = "zz"; }
  void FindShortSuccessor(std::string* key) const override { key->clear(); }
};

TEST(IndexTest, WrongSeparatorsAreNotUsed) {
  const LyingComparator lying;
  const InternalKeyOrder order(&lying);
  std::mt19937_64 random(4);
  const std::vector<TestEntry> entries = RandomEntries(&random, order, {});
  CheckIndex(order, BuildIndex(order, entries, &random, 3), entries);
}

TEST(IndexTest, DamagedBytesAreRefusedOrHarmless) {
  const InternalKeyOrder order(BytewiseComparator());
  std::mt19937_64 random(5);
  EntryShape shape;
  shape.keys = 40;
  const std::vector<TestEntry> entries = RandomEntries(&random, order, shape);
  const TestIndex index = BuildIndex(order, entries, &random, 2);
  for (size_t n = 0; n < index.bytes.size(); ++n) {
    const auto cut = IndexReader::Decode(order, index.bytes.substr(0, n), index.data_bytes);
    EXPECT_EQ(cut.status().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(IndexReader::Decode(order, index.bytes + "x", index.data_bytes).ok());
  EXPECT_FALSE(IndexReader::Decode(order, index.bytes, index.data_bytes + 1).ok());
  EXPECT_FALSE(IndexReader::Decode(order, index.bytes, index.data_bytes - 1).ok());
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = index.bytes;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto reader = IndexReader::Decode(order, bytes, index.data_bytes);
    if (!reader.ok()) {
      ++refused;
      EXPECT_EQ(reader.status().code(), absl::StatusCode::kDataLoss);
      continue;
    }
    EXPECT_EQ(reader->offset(reader->blocks()), index.data_bytes);
    const TestEntry& probe = entries[random() % entries.size()];
    EXPECT_LE(reader->Find(probe.user_key, probe.tag()), reader->blocks());
  }
  EXPECT_GT(refused, 1000);
  // A count that would have to be allocated for.
  std::string huge;
  AppendVarint64(&huge, uint64_t{1} << 60);
  huge += "\0\0\0";
  EXPECT_FALSE(IndexReader::Decode(order, huge, 1000).ok());
}

TEST(IndexTest, MemoryIsCounted) {
  const InternalKeyOrder order(BytewiseComparator());
  std::mt19937_64 random(6);
  EntryShape shape;
  shape.keys = 2000;
  const TestIndex index = BuildIndex(order, RandomEntries(&random, order, shape), &random, 1);
  const auto reader = IndexReader::Decode(order, index.bytes, index.data_bytes);
  ASSERT_TRUE(reader.ok());
  EXPECT_GT(reader->MemoryBytes(), reader->blocks() * 24);
  EXPECT_LT(reader->MemoryBytes(), reader->blocks() * 70);
}

}  // namespace
}  // namespace sievedb
