#include "table/table_iterator.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "table/format.h"
#include "tests/table/table_test_util.h"
#include "util/statistics_impl.h"

namespace sievedb {
namespace {

const LengthFirstComparator* LengthFirst() {
  static const LengthFirstComparator comparator;
  return &comparator;
}

// Compares every movement with a sorted list.
void CheckIterator(InternalIterator* it, const InternalKeyOrder& order,
                   const std::vector<TestEntry>& entries, std::mt19937_64* random) {
  size_t n = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++n) {
    ASSERT_LT(n, entries.size());
    ASSERT_EQ(it->key(), entries[n].internal_key());
    ASSERT_EQ(it->value(), entries[n].value);
  }
  ASSERT_TRUE(it->status().ok()) << it->status();
  ASSERT_EQ(n, entries.size());
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    ASSERT_GT(n, 0u);
    --n;
    ASSERT_EQ(it->key(), entries[n].internal_key());
    ASSERT_EQ(it->value(), entries[n].value);
  }
  ASSERT_TRUE(it->status().ok()) << it->status();
  ASSERT_EQ(n, 0u);
  const size_t size = entries.size();
  size_t at = size;  // size: not valid
  for (int step = 0; step < 1500; ++step) {
    const uint64_t what = (*random)() % 20;
    if (what < 2) {
      const TestEntry probe{(*random)() % 2 == 0 ? entries[(*random)() % size].user_key
                                                 : RandomBytes(random, (*random)() % 14, 5),
                            (*random)() % 30, EntryType::kPut, ""};
      const std::string key = probe.internal_key();
      const auto before = [&](const TestEntry& e) {
        return order.Compare(e.user_key, e.tag(), probe.user_key, probe.tag()) < 0;
      };
      const auto found = static_cast<size_t>(
          std::partition_point(entries.begin(), entries.end(), before) - entries.begin());
      if (what == 0) {
        it->Seek(key);
        at = found;
      } else {
        it->SeekForPrev(key);
        const bool equal = found < size && entries[found].internal_key() == key;
        at = equal ? found : found == 0 ? size : found - 1;
      }
    } else if (at == size) {
      what % 2 == 0 ? it->SeekToFirst() : it->SeekToLast();
      at = what % 2 == 0 ? 0 : size - 1;
    } else if (what < 12) {
      it->Next();
      ++at;
    } else {
      it->Prev();
      at = at == 0 ? size : at - 1;
    }
    ASSERT_TRUE(it->status().ok()) << it->status();
    ASSERT_EQ(it->Valid(), at != size);
    if (at == size) continue;
    ASSERT_EQ(it->key(), entries[at].internal_key());
    ASSERT_EQ(it->value(), entries[at].value);
  }
}

TEST(TableIteratorTest, MatchesAModelOverOptions) {
  std::mt19937_64 random(77);
  const auto cache = TestCache(1 << 20);
  const auto tiny_cache = TestCache(4000);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       static_cast<const Comparator*>(LengthFirst())}) {
    for (const size_t block_bytes : {1, 150, 4096}) {
      for (const Compression compression : {Compression::kNone, Compression::kSnappy}) {
        TableBuilderOptions options;
        options.order = InternalKeyOrder(comparator);
        options.block_bytes = block_bytes;
        options.compression = compression;
        EntryShape shape;
        shape.keys = 1 + random() % 300;
        const std::vector<TestEntry> entries = RandomEntries(&random, options.order, shape);
        const BuiltTable table = BuildTable(options, entries);
        for (int variant = 0; variant < 6; ++variant) {
          SCOPED_TRACE(testing::Message() << comparator->Name() << " " << block_bytes << " "
                                          << static_cast<int>(compression) << " " << variant);
          TableReaderOptions reader_options = ReaderOptionsFor(options, table);
          ReadOptions read;
          if (variant == 1 || variant == 5) reader_options.block_cache = Impl(cache);
          if (variant == 2) reader_options.block_cache = Impl(tiny_cache);
          if (variant == 3) read.readahead_bytes = 1000;
          if (variant == 4) read.upper_bound = entries[entries.size() / 2].user_key;
          if (variant == 5) read.fill_cache = false;
          const auto reader = OpenTable(reader_options, table.bytes);
          ASSERT_TRUE(reader.ok()) << reader.status();
          const auto it = (*reader)->NewIterator(read, /*for_compaction=*/variant == 0);
          EXPECT_FALSE(it->Valid());
          EXPECT_TRUE(it->status().ok());
          CheckIterator(it.get(), options.order, entries, &random);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

struct ScanTable {
  TableBuilderOptions options;
  std::vector<TestEntry> entries;
  BuiltTable table;
  StringFile* file = nullptr;  // of the reader opened last
  std::unique_ptr<TableReader> reader;
  StatisticsImpl statistics;

  explicit ScanTable(size_t keys, size_t value_bytes = 1000) {
    std::mt19937_64 random(5);
    options.compression = Compression::kNone;
    for (size_t i = 0; i < keys; ++i) {
      entries.push_back(
          {std::to_string(1000000 + i), 1, EntryType::kPut, RandomBytes(&random, value_bytes)});
    }
    table = BuildTable(options, entries);
  }
  void Open(BlockCacheImpl* cache) {
    TableReaderOptions reader_options = ReaderOptionsFor(options, table);
    reader_options.block_cache = cache;
    reader_options.statistics = &statistics;
    auto string_file = std::make_unique<StringFile>(table.bytes);
    file = string_file.get();
    auto opened = TableReader::Open(reader_options, std::move(string_file));
    ASSERT_TRUE(opened.ok()) << opened.status();
    reader = *std::move(opened);
  }
};

TEST(TableIteratorTest, ScansReadAhead) {
  ScanTable t(4000);
  t.Open(nullptr);
  const double bytes = static_cast<double>(t.table.bytes.size());
  const auto scan = [&](const ReadOptions& read, bool backward, bool for_compaction) {
    const int before = t.file->reads();
    const auto it = t.reader->NewIterator(read, for_compaction);
    size_t n = 0;
    if (backward) {
      for (it->SeekToLast(); it->Valid(); it->Prev()) ++n;
    } else {
      for (it->SeekToFirst(); it->Valid(); it->Next()) ++n;
    }
    EXPECT_TRUE(it->status().ok()) << it->status();
    EXPECT_EQ(n, t.entries.size());
    return t.file->reads() - before;
  };
  EXPECT_LE(scan({}, false, false), bytes / (256 << 10) + 8);
  EXPECT_LE(scan({}, true, false), bytes / (256 << 10) + 8);
  EXPECT_LE(scan({}, false, true), bytes / (1 << 20) + 2);
  ReadOptions read;
  read.readahead_bytes = 2 << 20;
  EXPECT_LE(scan(read, false, false), bytes / (2 << 20) + 2);

  // A single seek reads one block; a bound keeps the readahead from what is behind it.
  const auto it = t.reader->NewIterator({});
  int before = t.file->reads();
  it->Seek(t.entries[1000].internal_key());
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(t.file->reads(), before + 1);
  t.statistics.Reset();
  read.readahead_bytes = 64 << 20;
  read.upper_bound = t.entries[3].user_key;
  const auto bounded = t.reader->NewIterator(read);
  before = t.file->reads();
  bounded->SeekToFirst();
  for (int i = 0; i < 8; ++i) bounded->Next();
  ASSERT_TRUE(bounded->Valid());
  EXPECT_GT(t.file->reads(), before + 1);
}

TEST(TableIteratorTest, CacheIsFilledOrLeftAlone) {
  ScanTable t(300);
  const auto cache = TestCache(8 << 20);
  t.Open(Impl(cache));
  const auto scan = [&](const ReadOptions& read, bool for_compaction) {
    const auto it = t.reader->NewIterator(read, for_compaction);
    size_t n = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++n;
    return it->status().ok() ? std::to_string(n) : it->status().ToString();
  };
  ReadOptions cache_only;
  cache_only.cache_only = true;
  ReadOptions no_fill;
  no_fill.fill_cache = false;
  EXPECT_NE(scan(cache_only, false).find("UNAVAILABLE"), std::string::npos);
  EXPECT_EQ(scan({}, true), "300");
  EXPECT_EQ(scan(no_fill, false), "300");
  EXPECT_EQ(cache->UsageBytes(), TestCache(8 << 20)->UsageBytes());
  EXPECT_NE(scan(cache_only, false).find("UNAVAILABLE"), std::string::npos);
  t.statistics.Reset();
  EXPECT_EQ(scan({}, false), "300");
  const uint64_t blocks = t.reader->properties().data_blocks;
  EXPECT_EQ(t.statistics.Get(Counter::kBlockReads), blocks);
  EXPECT_EQ(t.statistics.Get(Counter::kBlockReadBytes), t.reader->properties().data_bytes);
  EXPECT_EQ(t.statistics.Get(Counter::kBlockCacheMisses), blocks);
  EXPECT_EQ(scan(cache_only, false), "300");
  EXPECT_EQ(t.statistics.Get(Counter::kBlockCacheHits), blocks);
}

TEST(TableIteratorTest, ABlockOutlivesItsEviction) {
  ScanTable t(100);
  const auto cache = TestCache(8 << 20);
  t.Open(Impl(cache));
  const auto it = t.reader->NewIterator({});
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  cache->Clear();
  EpochSynchronize();
  EXPECT_EQ(it->value(), t.entries[0].value);
  it->Next();
  EXPECT_EQ(it->value(), t.entries[1].value);
}

TEST(TableIteratorTest, LargeBlocksPassByThePiece) {
  ScanTable t(3, 3 << 20);
  t.Open(nullptr);
  for (const bool for_compaction : {false, true}) {
    const auto it = t.reader->NewIterator({}, for_compaction);
    size_t n = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++n) {
      ASSERT_EQ(it->key(), t.entries[n].internal_key());
      ASSERT_EQ(it->value(), t.entries[n].value);
    }
    EXPECT_TRUE(it->status().ok()) << it->status();
    EXPECT_EQ(n, 3u);
  }
}

TEST(TableIteratorTest, AnErrorEndsItAndASeekClearsIt) {
  ScanTable t(100);
  const uint64_t first_block = t.entries[0].value.size();  // somewhere in it
  t.table.bytes[first_block] = static_cast<char>(t.table.bytes[first_block] ^ 1);
  t.Open(nullptr);
  const auto it = t.reader->NewIterator({});
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(it->status().message().find("test.sst: block at offset 0: checksum: expected "),
            absl::string_view::npos)
      << it->status();
  it->SeekToLast();
  ASSERT_TRUE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  size_t n = 0;
  for (; it->Valid(); it->Prev()) ++n;
  EXPECT_GT(n, 90u);
  EXPECT_LT(n, 100u);
  EXPECT_EQ(it->status().code(), absl::StatusCode::kDataLoss);
  it->SeekForPrev(t.entries[0].internal_key());
  EXPECT_FALSE(it->Valid());
  EXPECT_FALSE(it->status().ok());
}

TEST(EmptyInternalIteratorTest, CarriesItsStatus) {
  const auto fine = NewEmptyInternalIterator();
  fine->SeekToFirst();
  EXPECT_FALSE(fine->Valid());
  EXPECT_TRUE(fine->status().ok());
  const auto failed = NewEmptyInternalIterator(absl::DataLossError("why"));
  failed->Seek(TestEntry{"k", 1, EntryType::kPut, ""}.internal_key());
  EXPECT_FALSE(failed->Valid());
  EXPECT_EQ(failed->status(), absl::DataLossError("why"));
}

}  // namespace
}  // namespace sievedb
