// Tables of each format version, byte by byte, and what range tombstones add to a table.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "table/format.h"
#include "tests/table/table_test_util.h"
#include "util/epoch.h"
#include "util/escape.h"

namespace sievedb {
namespace {

std::vector<TestEntry> GoldenEntries() {
  std::vector<TestEntry> entries = {{"", 3, EntryType::kPut, "the empty key"},
                                    {std::string("\0\x01", 2), 4, EntryType::kPut, ""},
                                    {"deleted", 9, EntryType::kDelete, ""},
                                    {"deleted", 2, EntryType::kPut, "before"},
                                    {"\xff\xff", kMaxSequence, EntryType::kPut, "last"}};
  for (uint64_t s = 1; s <= 30; ++s) entries.push_back({"versions", s, EntryType::kPut, "v"});
  for (int i = 0; i < 40; ++i) {
    entries.push_back(
        {absl::StrFormat("user%04d", i * 7), 100, EntryType::kPut, absl::StrFormat("value %d", i)});
  }
  entries.push_back({"wide", 5, EntryType::kPut, std::string(400, 'w')});
  return entries;
}

TableBuilderOptions GoldenOptions(const FilterPolicy* filter) {
  TableBuilderOptions options;
  options.filter_policy = filter;
  options.compression = Compression::kNone;  // Snappy's bytes are its own affair
  options.block_bytes = 256;
  options.block_restart_interval = 4;
  options.file_number = 7;
  options.db_id = 0x0123456789abcdef;
  options.creation_seconds = 1700000000;
  return options;
}

std::string Dump(const TableReader& table) {
  std::string out;
  const TableProperties& p = table.properties();
  out += absl::StrFormat("entries %d tombstones %d keys %d blocks %d sequences %d..%d\n", p.entries,
                         p.tombstones, p.distinct_user_keys, p.data_blocks, p.smallest_sequence,
                         p.largest_sequence);
  out += absl::StrFormat("comparator %s filter %s %g bits %d probes file %d db %x created %d\n",
                         p.comparator_name, p.filter_name, p.filter_bits_per_key, p.filter_probes,
                         p.file_number, p.db_id, p.creation_seconds);
  if (!p.prefix_extractor_name.empty()) {
    out += absl::StrFormat("seed %x extractor %s prefixes %d keys in filter %d\n", p.hash_seed,
                           p.prefix_extractor_name, p.prefixes, table.FilterKeys());
  }
  if (const RangeTombstones* tombstones = table.range_tombstones(); tombstones != nullptr) {
    out += absl::StrFormat("range tombstones %d, keys %s to %s\n", p.range_tombstones,
                           Escape(p.smallest_key), Escape(p.largest_key));
    for (const RangeTombstones::Fragment& fragment : tombstones->fragments()) {
      out += absl::StrFormat("[%s, %s)", Escape(fragment.begin), Escape(fragment.end));
      for (const auto* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) {
        out += absl::StrFormat(" %d", stamp->sequence);
      }
      out += "\n";
    }
  }
  out += absl::StrFormat("filter %s\n", ToHex(table.filter_bytes()));
  const absl::Status walked = table.ForEachBlock([&](const BlockDescription& block) {
    out += absl::StrFormat("block at %d: %d bytes, %d entries\n", block.offset, block.stored_bytes,
                           block.entries);
    return true;
  });
  EXPECT_TRUE(walked.ok()) << walked;
  const auto it = table.NewIterator({});
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    out += absl::StrFormat("%s@%d%s %s\n", Escape(UserKey(it->key())), TagSequence(Tag(it->key())),
                           TagType(Tag(it->key())) == 0 ? " deleted" : "", Escape(it->value()));
  }
  EXPECT_TRUE(it->status().ok()) << it->status();
  return out;
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << "cannot read " << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void CheckGolden(const std::string& name, const TableBuilderOptions& options,
                 const BuiltTable& built) {
  const std::string base = std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/" + name;
  TableReaderOptions reader_options = ReaderOptionsFor(options, built);
  const char* const rewrite = std::getenv("SIEVEDB_REWRITE");
  if (rewrite != nullptr && std::string_view(rewrite) == "1") {
    const auto reader = OpenTable(reader_options, built.bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::ofstream(base + ".sst", std::ios::binary) << built.bytes;
    std::ofstream(base + ".txt", std::ios::binary) << Dump(**reader);
  }
  const std::string bytes = ReadTestFile(base + ".sst");
  reader_options.file_bytes = bytes.size();
  reader_options.tail_bytes = 0;
  const auto reader = OpenTable(reader_options, bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Verify().ok()) << (*reader)->Verify();
  EXPECT_EQ(Dump(**reader), ReadTestFile(base + ".txt"));
}

TEST(TableGoldenTest, Version1) {
  const auto filter = NewBlockedBloomPolicy(10);
  const TableBuilderOptions options = GoldenOptions(filter.get());
  std::vector<TestEntry> entries = GoldenEntries();
  SortEntries(options.order, &entries);
  const BuiltTable built = BuildTable(options, entries);
  CheckGolden("table_v1", options, built);
  // What is built today is the same, up to the properties, which name the version.
  const std::string golden =
      ReadTestFile(std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/table_v1.sst");
  ASSERT_GT(golden.size(), kFooterBytes);
  const auto footer = DecodeFooter(std::string_view(golden).substr(golden.size() - kFooterBytes),
                                   golden.size(), "");
  ASSERT_TRUE(footer.ok()) << footer.status();
  EXPECT_EQ(ToHex(built.bytes.substr(0, footer->properties.offset)),
            ToHex(golden.substr(0, footer->properties.offset)));
}

TEST(TableGoldenTest, Version1SeedAndPrefixes) {
  const auto filter = NewBlockedBloomPolicy(10);
  const auto extractor = NewFixedPrefixExtractor(4);
  TableBuilderOptions options = GoldenOptions(filter.get());
  options.hash_seed = 0x0fedcba987654321;
  options.prefix_extractor = extractor.get();
  std::vector<TestEntry> entries = GoldenEntries();
  SortEntries(options.order, &entries);
  CheckGolden("table_v1_prefixes", options, BuildTable(options, entries));
}

RefPtr<const RangeTombstones> GoldenTombstones() {
  RangeTombstoneMerger merger(KeyOrder(BytewiseComparator()), {50});
  merger.Add("delete", "user0100", 40);
  merger.Add("user0050", "x", 120);
  return merger.Finish();
}

TEST(TableGoldenTest, Version2) {
  const auto filter = NewBlockedBloomPolicy(10);
  const TableBuilderOptions options = GoldenOptions(filter.get());
  std::vector<TestEntry> entries = GoldenEntries();
  SortEntries(options.order, &entries);
  const RefPtr<const RangeTombstones> tombstones = GoldenTombstones();
  CheckGolden("table_v2", options, BuildTable(options, entries, tombstones.get()));
}

TEST(TableGoldenTest, Version2WithoutEntries) {
  const auto filter = NewBlockedBloomPolicy(10);
  const TableBuilderOptions options = GoldenOptions(filter.get());
  const RefPtr<const RangeTombstones> tombstones = GoldenTombstones();
  CheckGolden("table_v2_only_ranges", options, BuildTable(options, {}, tombstones.get()));
}

// Each block of the tail is checked, the range tombstones' as the others.
TEST(TableRangeTombstonesTest, DamageIsFound) {
  const TableBuilderOptions options = GoldenOptions(nullptr);
  const RefPtr<const RangeTombstones> tombstones = GoldenTombstones();
  for (const std::vector<TestEntry>& entries :
       {std::vector<TestEntry>{{"a", 1, EntryType::kPut, "1"}}, std::vector<TestEntry>{}}) {
    const BuiltTable built = BuildTable(options, entries, tombstones.get());
    const TableReaderOptions reader_options = ReaderOptionsFor(options, built);
    ASSERT_TRUE(OpenTable(reader_options, built.bytes).ok());
    const size_t tail_at = built.bytes.size() - built.summary.tail_bytes;
    for (size_t at = tail_at; at < built.bytes.size(); ++at) {
      std::string bytes = built.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
      EXPECT_FALSE(OpenTable(reader_options, bytes).ok()) << at;
    }
  }
}

TEST(TableRangeTombstonesTest, LookupsMeetThem) {
  const auto filter = NewBlockedBloomPolicy(10);
  const TableBuilderOptions options = GoldenOptions(filter.get());
  RangeTombstoneMerger merger(options.order.user(), {});
  merger.Add("b", "d", 5);
  const RefPtr<const RangeTombstones> tombstones = merger.Finish();
  std::vector<TestEntry> entries = {{"a", 1, EntryType::kPut, "1"},
                                    {"b", 1, EntryType::kPut, "1"},
                                    {"c", 7, EntryType::kPut, "2"},
                                    {"d", 1, EntryType::kPut, "1"}};
  SortEntries(options.order, &entries);
  const BuiltTable built = BuildTable(options, entries, tombstones.get());
  const auto reader = OpenTable(ReaderOptionsFor(options, built), built.bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Verify().ok()) << (*reader)->Verify();
  const auto state = [&](std::string_view key, uint64_t sequence) {
    const EpochGuard guard;
    const ReadOptions read;
    Lookup lookup(key, sequence, options.order.user(), read, nullptr);
    EXPECT_TRUE((*reader)->Get(&lookup).ok());
    return lookup.state;
  };
  EXPECT_EQ(state("a", 9), Lookup::State::kFound);
  EXPECT_EQ(state("b", 9), Lookup::State::kDeleted);
  EXPECT_EQ(state("b", 4), Lookup::State::kFound);
  EXPECT_EQ(state("c", 9), Lookup::State::kFound);
  EXPECT_EQ(state("d", 9), Lookup::State::kFound);
}

TEST(TableGoldenTest, Version1Snappy) {
  TableBuilderOptions options = GoldenOptions(nullptr);
  options.compression = Compression::kSnappy;
  std::vector<TestEntry> entries = GoldenEntries();
  SortEntries(options.order, &entries);
  CheckGolden("table_v1_snappy", options, BuildTable(options, entries));
}

}  // namespace
}  // namespace sievedb
