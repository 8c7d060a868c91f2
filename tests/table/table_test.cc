#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "table/format.h"
#include "tests/table/table_test_util.h"
#include "util/epoch.h"
#include "util/statistics_impl.h"

namespace sievedb {
namespace {

const LengthFirstComparator* LengthFirst() {
  static const LengthFirstComparator comparator;
  return &comparator;
}
const CaselessComparator* Caseless() {
  static const CaselessComparator comparator;
  return &comparator;
}

void CheckTable(const TableBuilderOptions& options, const std::vector<TestEntry>& entries,
                std::mt19937_64* random) {
  const BuiltTable table = BuildTable(options, entries);
  const InternalKeyOrder& order = options.order;
  const auto cache = TestCache(1 << 20);
  for (const bool cached : {false, true}) {
    for (const bool tail_known : {false, true}) {
      TableReaderOptions reader_options = ReaderOptionsFor(options, table);
      if (cached) reader_options.block_cache = Impl(cache);
      if (!tail_known) reader_options.tail_bytes = 0;
      const auto reader = OpenTable(reader_options, table.bytes);
      ASSERT_TRUE(reader.ok()) << reader.status();
      const absl::Status verified = (*reader)->Verify();
      ASSERT_TRUE(verified.ok()) << verified;
      for (const TestEntry& entry : entries) {
        for (uint64_t s = entry.sequence - 1; s <= entry.sequence + 1; ++s) {
          ASSERT_EQ(GetText(**reader, order, entry.user_key, s),
                    ExpectedText(entries, order, entry.user_key, s));
        }
        ASSERT_TRUE((*reader)->MayContain(Hash64(entry.user_key)));
      }
      ASSERT_EQ(GetText(**reader, order, entries[0].user_key, kMaxSequence),
                ExpectedText(entries, order, entries[0].user_key, kMaxSequence));
      for (int i = 0; i < 100; ++i) {
        const std::string key = RandomBytes(random, (*random)() % 14, 5);
        ASSERT_EQ(GetText(**reader, order, key, 100), ExpectedText(entries, order, key, 100));
      }
    }
  }
}

TEST(TableTest, RoundTripOverOptions) {
  std::mt19937_64 random(20240501);
  const auto filter = NewBlockedBloomPolicy(10);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       static_cast<const Comparator*>(LengthFirst()),
                                       static_cast<const Comparator*>(Caseless())}) {
    for (const size_t block_bytes : {1, 120, 700, 4096, 100000}) {
      TableBuilderOptions options;
      options.order = InternalKeyOrder(comparator);
      options.block_bytes = block_bytes;
      const int intervals[] = {1, 3, 16};
      options.block_restart_interval = intervals[random() % 3];
      options.compression = random() % 2 == 0 ? Compression::kSnappy : Compression::kNone;
      options.filter_policy = random() % 4 == 0 ? nullptr : filter.get();
      options.file_number = random() % 100;
      EntryShape shape;
      shape.keys = 1 + random() % 150;
      shape.max_versions = 1 + random() % 8;
      SCOPED_TRACE(testing::Message()
                   << comparator->Name() << " block_bytes=" << block_bytes
                   << " interval=" << options.block_restart_interval
                   << " compression=" << static_cast<int>(options.compression)
                   << " keys=" << shape.keys << " versions=" << shape.max_versions);
      CheckTable(options, RandomEntries(&random, options.order, shape), &random);
    }
  }
}

TEST(TableTest, LargeValues) {
  std::mt19937_64 random(11);
  TableBuilderOptions options;
  EntryShape shape;
  shape.keys = 12;
  shape.max_versions = 2;
  shape.max_value_bytes = 100000;
  std::vector<TestEntry> entries = RandomEntries(&random, options.order, shape);
  entries.push_back({std::string(5000, 'k'), 9, EntryType::kPut, std::string(5000, 'v')});
  // Above what is read through the thread's scratch, compressible and not.
  entries.push_back({"large", 9, EntryType::kPut, RandomBytes(&random, 1500000)});
  entries.push_back({"large", 8, EntryType::kPut, std::string(9000000, 'z')});
  entries.push_back({"large", 7, EntryType::kPut, ""});
  SortEntries(options.order, &entries);
  CheckTable(options, entries, &random);
}

TEST(TableTest, OneEntry) {
  std::mt19937_64 random(12);
  TableBuilderOptions options;
  const auto filter = NewBlockedBloomPolicy(10);
  options.filter_policy = filter.get();
  CheckTable(options, {{"", 1, EntryType::kPut, ""}}, &random);
  CheckTable(options, {{"key", 5, EntryType::kDelete, ""}}, &random);
  CheckTable(options, {{std::string(300, '\xff'), 5, EntryType::kPut, "v"}}, &random);
}

// One user key over many blocks: Get must go on where the separator is of the key.
TEST(TableTest, VersionsSpanBlocks) {
  std::mt19937_64 random(13);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       static_cast<const Comparator*>(LengthFirst()),
                                       static_cast<const Comparator*>(Caseless())}) {
    for (const size_t block_bytes : {1, 60, 200}) {
      TableBuilderOptions options;
      options.order = InternalKeyOrder(comparator);
      options.block_bytes = block_bytes;
      options.block_restart_interval = 2;
      std::vector<TestEntry> entries;
      for (uint64_t s = 2; s <= 80; s += 2) {
        entries.push_back(
            {"key", s, s % 5 == 0 ? EntryType::kDelete : EntryType::kPut, std::to_string(s)});
        if (s % 8 == 0) entries.push_back({"kez", s, EntryType::kPut, std::to_string(s)});
        if (s % 10 == 0) entries.push_back({"kex", s, EntryType::kPut, std::to_string(s)});
      }
      SortEntries(options.order, &entries);
      CheckTable(options, entries, &random);
    }
  }
}

TEST(TableTest, CaselessKeysAreFoundByAnySpelling) {
  TableBuilderOptions options;
  options.order = InternalKeyOrder(Caseless());
  const auto filter = NewBlockedBloomPolicy(10);
  options.filter_policy = filter.get();
  const std::vector<TestEntry> entries = {{"APPLE", 7, EntryType::kPut, "new"},
                                          {"apple", 5, EntryType::kPut, "old"},
                                          {"Pear", 5, EntryType::kPut, "pear"}};
  const BuiltTable table = BuildTable(options, entries);
  EXPECT_EQ(table.summary.properties.distinct_user_keys, 2u);
  EXPECT_EQ(table.summary.properties.filter_name, "");
  const auto reader = OpenTable(ReaderOptionsFor(options, table), table.bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->filter(), nullptr);
  EXPECT_TRUE((*reader)->MayContain(123));
  EXPECT_EQ(GetText(**reader, options.order, "aPPle", 9), "=new");
  EXPECT_EQ(GetText(**reader, options.order, "aPPle", 6), "=old");
  EXPECT_EQ(GetText(**reader, options.order, "pEAR", 6), "=pear");
  EXPECT_TRUE((*reader)->Verify().ok());
}

TEST(TableTest, PropertiesAndSummary) {
  TableBuilderOptions options;
  const auto filter = NewBlockedBloomPolicy(10);
  options.filter_policy = filter.get();
  options.file_number = 77;
  options.db_id = 88;
  options.creation_seconds = 99;
  options.block_bytes = 100;
  std::vector<TestEntry> entries;
  for (int i = 0; i < 100; ++i) {
    entries.push_back({absl::StrFormat("k%03d", i), 20, EntryType::kPut, std::string(50, 'v')});
    entries.push_back({absl::StrFormat("k%03d", i), 10, EntryType::kDelete, ""});
  }
  const BuiltTable table = BuildTable(options, entries);
  const auto reader = OpenTable(ReaderOptionsFor(options, table), table.bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(EncodeTableProperties((*reader)->properties()),
            EncodeTableProperties(table.summary.properties));
  const TableProperties& p = (*reader)->properties();
  EXPECT_EQ(table.summary.file_bytes, table.bytes.size());
  EXPECT_EQ(p.entries, 200u);
  EXPECT_EQ(p.tombstones, 100u);
  EXPECT_EQ(p.distinct_user_keys, 100u);
  EXPECT_EQ(p.raw_key_bytes, 200u * 12);
  EXPECT_EQ(p.raw_value_bytes, 100u * 50);
  EXPECT_EQ(p.smallest_sequence, 10u);
  EXPECT_EQ(p.largest_sequence, 20u);
  EXPECT_EQ(p.smallest_key, entries.front().internal_key());
  EXPECT_EQ(p.largest_key, entries.back().internal_key());
  EXPECT_EQ(p.compression, Compression::kSnappy);
  EXPECT_EQ(p.comparator_name, BytewiseComparator()->Name());
  EXPECT_EQ(p.filter_name, filter->Name());
  EXPECT_EQ(p.filter_bits_per_key, 10);
  EXPECT_EQ(p.filter_probes, (*reader)->filter()->Figures().probes);
  EXPECT_EQ(p.file_number, 77u);
  EXPECT_EQ(p.db_id, 88u);
  EXPECT_EQ(p.creation_seconds, 99u);
  EXPECT_EQ(p.created_by.substr(0, 8), "sievedb ");
  EXPECT_EQ(
      p.data_bytes + p.filter_bytes + p.index_bytes,
      table.bytes.size() - kFooterBytes - EncodeTableProperties(p).size() - kBlockTrailerBytes);
  EXPECT_GT(p.raw_data_bytes, p.raw_value_bytes);
  EXPECT_EQ((*reader)->filter_kind(), 1);
  EXPECT_EQ((*reader)->filter()->Figures().keys, 100u);
  EXPECT_EQ((*reader)->filter_bytes().size() + kBlockTrailerBytes, p.filter_bytes);
  EXPECT_GE((*reader)->FilterMemoryBytes(), (*reader)->filter_bytes().size());
  EXPECT_GT((*reader)->IndexMemoryBytes(), 0u);
  EXPECT_GE((*reader)->MemoryBytes(),
            (*reader)->FilterMemoryBytes() + (*reader)->IndexMemoryBytes());

  uint64_t blocks = 0, counted = 0, offset = 0, raw = 0;
  const absl::Status walked = (*reader)->ForEachBlock([&](const BlockDescription& block) {
    EXPECT_EQ(block.offset, offset);
    offset += block.stored_bytes + kBlockTrailerBytes;
    raw += block.raw_bytes;
    counted += block.entries;
    ++blocks;
    return true;
  });
  EXPECT_TRUE(walked.ok()) << walked;
  EXPECT_EQ(blocks, p.data_blocks);
  EXPECT_EQ(counted, p.entries);
  EXPECT_EQ(raw, p.raw_data_bytes);
  EXPECT_EQ(offset, p.data_bytes);
  blocks = 0;
  EXPECT_TRUE((*reader)->ForEachBlock([&](const BlockDescription&) { return ++blocks < 3; }).ok());
  EXPECT_EQ(blocks, 3u);

  EXPECT_EQ((*reader)->ApproximateOffsetOf(entries.front().internal_key()), 0u);
  EXPECT_EQ((*reader)->ApproximateOffsetOf(TestEntry{"z", 1, EntryType::kPut, ""}.internal_key()),
            p.data_bytes);
  const uint64_t middle = (*reader)->ApproximateOffsetOf(entries[100].internal_key());
  EXPECT_GT(middle, p.data_bytes / 3);
  EXPECT_LT(middle, p.data_bytes * 2 / 3);

  const std::vector<std::string> anchors = (*reader)->Anchors(p.data_bytes / 4);
  ASSERT_GE(anchors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const std::string key = TestEntry{anchors[i], 0, EntryType::kPut, ""}.internal_key();
    const uint64_t at = (*reader)->ApproximateOffsetOf(key);
    EXPECT_NEAR(static_cast<double>(at), static_cast<double>(p.data_bytes * (i + 1) / 4), 1000);
  }
  EXPECT_TRUE((*reader)->Anchors(p.data_bytes + 1).empty());
  EXPECT_LE((*reader)->Anchors(1).size(), p.data_blocks - 1);
}

TEST(TableTest, OpenReadsOnceWhereTheTailIsKnown) {
  TableBuilderOptions options;
  const BuiltTable table = BuildTable(options, {{"k", 1, EntryType::kPut, "v"}});
  for (const bool known : {true, false}) {
    TableReaderOptions reader_options = ReaderOptionsFor(options, table);
    if (!known) reader_options.tail_bytes = 0;
    auto file = std::make_unique<StringFile>(table.bytes);
    const StringFile* const watched = file.get();
    const auto reader = TableReader::Open(reader_options, std::move(file));
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(watched->reads(), known ? 1 : 2);
  }
}

TEST(TableTest, WrongFileNumberOrComparator) {
  TableBuilderOptions options;
  options.file_number = 5;
  const BuiltTable table = BuildTable(options, {{"k", 1, EntryType::kPut, "v"}});
  TableReaderOptions reader_options = ReaderOptionsFor(options, table);
  reader_options.file_number = 6;
  const auto wrong = OpenTable(reader_options, table.bytes);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(wrong.status().message().find("wrong file"), absl::string_view::npos);
  reader_options.file_number = kAnyFileNumber;
  EXPECT_TRUE(OpenTable(reader_options, table.bytes).ok());
  reader_options.order = InternalKeyOrder(ReverseBytewiseComparator());
  EXPECT_EQ(OpenTable(reader_options, table.bytes).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TableTest, CacheIsUsedAndCounted) {
  TableBuilderOptions options;
  options.block_bytes = 1;
  std::vector<TestEntry> entries;
  for (int i = 100; i < 200; ++i) {
    entries.push_back({std::to_string(i), 1, EntryType::kPut, std::to_string(i)});
  }
  const BuiltTable table = BuildTable(options, entries);
  const auto cache = TestCache(1 << 20);
  TableReaderOptions reader_options = ReaderOptionsFor(options, table);
  reader_options.block_cache = Impl(cache);
  const auto reader = OpenTable(reader_options, table.bytes);
  ASSERT_TRUE(reader.ok());
  StatisticsImpl statistics;
  const auto get = [&](const char* key, const ReadOptions& read) {
    const EpochGuard guard;
    Lookup lookup(key, 9, options.order.user(), read, &statistics);
    const absl::Status status = (*reader)->Get(&lookup);
    return status.ok() && lookup.state == Lookup::State::kFound && lookup.value == key
               ? absl::StatusCode::kOk
               : status.code();
  };
  ReadOptions cache_only;
  cache_only.cache_only = true;
  ReadOptions no_fill;
  no_fill.fill_cache = false;
  ReadOptions unverified;
  unverified.verify_checksums = false;
  EXPECT_EQ(get("150", cache_only), absl::StatusCode::kUnavailable);
  EXPECT_EQ(get("150", no_fill), absl::StatusCode::kOk);
  EXPECT_EQ(get("150", cache_only), absl::StatusCode::kUnavailable);
  EXPECT_EQ(get("150", unverified), absl::StatusCode::kOk);
  EXPECT_EQ(get("150", cache_only), absl::StatusCode::kUnavailable);
  EXPECT_EQ(get("150", {}), absl::StatusCode::kOk);
  EXPECT_EQ(get("150", cache_only), absl::StatusCode::kOk);
  EXPECT_EQ(statistics.Get(Counter::kBlockReads), 3u);
  EXPECT_EQ(statistics.Get(Counter::kBlockCacheHits), 1u);
  EXPECT_EQ(statistics.Get(Counter::kBlockCacheMisses), 6u);
  EXPECT_GT(statistics.Get(Counter::kBlockReadBytes), 3u * kBlockTrailerBytes);
  EXPECT_EQ(statistics.GetLatency(Latency::kBlockRead).count, 3u);

  // Another open table of the same bytes has other blocks.
  const auto other = OpenTable(reader_options, table.bytes);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(GetText(**other, options.order, "150", 9, cache_only).find("UNAVAILABLE"),
            std::string::npos);
}

// A policy of a user: the filter is the list of all hashes.
class ListFilterPolicy final : public FilterPolicy {
 public:
  class Builder final : public FilterBuilder {
   public:
    void AddHash(uint64_t hash) override { hashes_ += std::to_string(hash) + ","; }
    std::string Finish() override { return hashes_; }

   private:
    std::string hashes_;
  };
  class Reader final : public FilterReader {
   public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}
    bool MayContain(uint64_t hash) const override {
      return bytes_.find(std::to_string(hash) + ",") != std::string_view::npos;
    }
    FilterFigures Figures() const override {
      FilterFigures figures;
      figures.probes = 3;
      return figures;
    }
    size_t MemoryBytes() const override { return bytes_.size(); }

   private:
    const std::string_view bytes_;
  };
  uint8_t Kind() const override { return 200; }
  const char* Name() const override { return "test.List"; }
  double BitsPerKey(const FilterContext&) const override { return 160; }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext&) const override {
    return std::make_unique<Builder>();
  }
  absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view bytes) const override {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % 64 != 0) {
      return absl::DataLossError("not aligned");
    }
    return std::make_unique<Reader>(bytes);
  }
};

TEST(TableTest, FilterOfAUsersPolicy) {
  const ListFilterPolicy policy;
  TableBuilderOptions options;
  options.filter_policy = &policy;
  const BuiltTable table = BuildTable(options, {{"k", 2, EntryType::kPut, "new"},
                                                {"k", 1, EntryType::kPut, "old"},
                                                {"l", 1, EntryType::kPut, "v"}});
  EXPECT_EQ(table.summary.properties.filter_probes, 3);
  EXPECT_EQ(table.summary.properties.filter_name, "test.List");
  TableReaderOptions reader_options = ReaderOptionsFor(options, table);
  const auto reader = OpenTable(reader_options, table.bytes);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->filter_kind(), 200);
  EXPECT_TRUE((*reader)->MayContain(Hash64("k")));
  EXPECT_FALSE((*reader)->MayContain(Hash64("m")));
  EXPECT_TRUE((*reader)->Verify().ok());
  // Without the policy the table is read without a filter, and nothing is wrong.
  reader_options.filter_policy = nullptr;
  const auto without = OpenTable(reader_options, table.bytes);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ((*without)->filter(), nullptr);
  EXPECT_TRUE((*without)->filter_status().ok());
  EXPECT_TRUE((*without)->MayContain(Hash64("m")));
  EXPECT_EQ(GetText(**without, options.order, "k", 9), "=new");
}

class CountingRateLimiter final : public RateLimiter {
 public:
  void Request(int64_t bytes, Priority priority) override {
    total += bytes;
    low = low && priority == Priority::kLow;
  }
  void SetBytesPerSecond(int64_t) override {}
  int64_t BytesPerSecond() const override { return 1; }
  int64_t TotalBytes() const override { return total; }
  int64_t total = 0;
  bool low = true;
};

TEST(TableBuilderTest, WritesInPiecesThatArePaced) {
  CountingRateLimiter limiter;
  TableBuilderOptions options;
  options.rate_limiter = &limiter;
  options.bytes_per_writeback = 1 << 20;
  options.compression = Compression::kNone;
  StringSink sink;
  TableBuilder builder(options, &sink);
  std::mt19937_64 random(14);
  const std::string value = RandomBytes(&random, 1000);
  for (int i = 0; i < 4000; ++i) {
    const TestEntry entry{std::to_string(10000 + i), 1, EntryType::kPut, value};
    ASSERT_TRUE(builder.Add(entry.internal_key(), value).ok());
    if (i % 500 == 499) {
      EXPECT_NEAR(static_cast<double>(builder.EstimatedFileBytes()), i * 1015.0, i * 30.0);
    }
  }
  const TestEntry large{"3", 1, EntryType::kPut, RandomBytes(&random, 5 << 20)};
  ASSERT_TRUE(builder.Add(large.internal_key(), large.value).ok());
  const uint64_t estimate = builder.EstimatedFileBytes();
  ASSERT_TRUE(builder.Finish().ok());
  EXPECT_EQ(limiter.total, static_cast<int64_t>(sink.bytes.size()));
  EXPECT_TRUE(limiter.low);
  EXPECT_LT(sink.appends, 60);
  EXPECT_LE(sink.largest_append, size_t{1} << 20);
  EXPECT_GE(sink.writebacks, 6);
  EXPECT_NEAR(static_cast<double>(estimate), static_cast<double>(sink.bytes.size()), 2000);
}

TEST(TableBuilderTest, BlocksKeepTheirSize) {
  std::mt19937_64 random(15);
  for (const size_t block_bytes : {200, 4096, 16384}) {
    TableBuilderOptions options;
    options.block_bytes = block_bytes;
    EntryShape shape;
    shape.keys = 2000;
    shape.max_key_bytes = 30;
    const BuiltTable table = BuildTable(options, RandomEntries(&random, options.order, shape));
    const auto reader = OpenTable(ReaderOptionsFor(options, table), table.bytes);
    ASSERT_TRUE(reader.ok());
    uint64_t blocks = 0, raw = 0;
    ASSERT_TRUE((*reader)
                    ->ForEachBlock([&](const BlockDescription& block) {
                      EXPECT_TRUE(block.raw_bytes <= block_bytes || block.entries == 1);
                      raw += block.raw_bytes;
                      ++blocks;
                      return true;
                    })
                    .ok());
    EXPECT_GT(static_cast<double>(raw) / static_cast<double>(blocks),
              0.6 * static_cast<double>(block_bytes));
  }
}

TEST(TableBuilderTest, WriteErrorsAreReturnedAndStay) {
  TableBuilderOptions options;
  options.compression = Compression::kNone;
  StringSink sink;
  sink.fail_with = absl::ResourceExhaustedError("full");
  TableBuilder builder(options, &sink);
  absl::Status status;
  int added = 0;
  for (; status.ok() && added < 1000; ++added) {
    const TestEntry entry{std::to_string(10000 + added), 1, EntryType::kPut, ""};
    status = builder.Add(entry.internal_key(), std::string(1000, 'v'));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(added, 1000);
  EXPECT_EQ(builder.Finish().status().code(), absl::StatusCode::kResourceExhausted);
  TableBuilder small(options, &sink);
  ASSERT_TRUE(small.Add(TestEntry{"k", 1, EntryType::kPut, ""}.internal_key(), "").ok());
  EXPECT_EQ(small.Finish().status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sievedb
