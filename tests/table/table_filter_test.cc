#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/block_cache.h"
#include "sievedb/file_system.h"
#include "sievedb/filter.h"
#include "table/format.h"
#include "tests/table/table_test_util.h"
#include "util/coding.h"
#include "util/filter_kinds.h"
#include "util/hash.h"

namespace sievedb {
namespace {

std::string Key(int i) { return absl::StrFormat("%06d", i); }

std::vector<TestEntry> Entries(int n) {
  std::vector<TestEntry> entries;
  for (int i = 0; i < n; ++i) entries.push_back({Key(i), 1, EntryType::kPut, "v"});
  return entries;
}

// Every kind that a policy makes, read with any policy and with none.
TEST(TableFilterTest, EveryBuiltInKindIsUnderstoodWhateverThePolicyIs) {
  constexpr int kKeys = 3000;
  const auto blocked = NewBlockedBloomPolicy(10);
  const std::pair<uint8_t, std::shared_ptr<const FilterPolicy>> policies[] = {
      {kBlockedBloomKind, blocked},
      {kDenseBlockedBloomKind, NewDenseBlockedBloomPolicy(10)},
      {kBloomKind, NewBloomPolicy(10)},
      {kRibbonKind, NewRibbonPolicy(10)},
      {kBinaryFuseKind, NewBinaryFusePolicy()},
  };
  for (const auto& [kind, policy] : policies) {
    TableBuilderOptions options;
    options.filter_policy = policy.get();
    const BuiltTable table = BuildTable(options, Entries(kKeys));
    const FilterPolicy* const others[] = {policy.get(), blocked.get(), nullptr};
    for (const FilterPolicy* other : others) {
      TableReaderOptions reader_options = ReaderOptionsFor(options, table);
      reader_options.filter_policy = other;
      const auto opened = OpenTable(reader_options, table.bytes);
      ASSERT_TRUE(opened.ok()) << opened.status();
      const TableReader& reader = **opened;
      EXPECT_EQ(reader.filter_kind(), kind);
      ASSERT_NE(reader.filter(), nullptr) << int{kind} << " " << reader.filter_status();
      const FilterFigures figures = reader.filter()->Figures();
      EXPECT_EQ(figures.keys, uint64_t{kKeys});
      EXPECT_EQ(reader.properties().filter_probes, figures.probes);
      EXPECT_STREQ(reader.properties().filter_name.c_str(), policy->Name());
      // The way that has no virtual call agrees with the one that has.
      int maybe = 0;
      for (int i = 0; i < 3 * kKeys; ++i) {
        const uint64_t hash = Hash64(Key(i));
        reader.PrefetchFilter(hash);
        ASSERT_EQ(reader.MayContain(hash), reader.filter()->MayContain(hash));
        if (i < kKeys) {
          ASSERT_TRUE(reader.MayContain(hash)) << int{kind} << " " << i;
        } else {
          maybe += reader.MayContain(hash) ? 1 : 0;
        }
      }
      // About 60 of 6000 at 1 %.
      EXPECT_LT(maybe, 110) << int{kind};
    }
  }
}

// Keys of 8 bytes, after the first ones, whose hash with seed 0 falls into the first 1024th
// of every filter.
std::vector<std::string> CollidingKeys(size_t first, size_t count) {
  std::vector<std::string> keys;
  for (uint64_t i = 0; keys.size() < first + count; ++i) {
    std::string key;
    AppendFixed64(&key, i);
    if (Hash64(key) >> 54 == 0) keys.push_back(std::move(key));
  }
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(first));
  return keys;
}

TEST(TableFilterTest, KeysThatCollideWithoutASeedDoNotWithOne) {
  constexpr size_t kKeys = 2000;
  std::vector<TestEntry> entries;
  for (const std::string& key : CollidingKeys(0, kKeys)) {
    entries.push_back({key, 1, EntryType::kPut, "v"});
  }
  const std::vector<std::string> absent = CollidingKeys(kKeys, kKeys);
  for (const auto& policy :
       {NewBlockedBloomPolicy(10), NewDenseBlockedBloomPolicy(10), NewBloomPolicy(10)}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{0x243f6a8885a308d3}}) {
      TableBuilderOptions options;
      options.filter_policy = policy.get();
      options.hash_seed = seed;
      SortEntries(options.order, &entries);
      const BuiltTable table = BuildTable(options, entries);
      const auto reader = OpenTable(ReaderOptionsFor(options, table), table.bytes);
      ASSERT_TRUE(reader.ok()) << reader.status();
      for (const TestEntry& entry : entries) {
        ASSERT_TRUE((*reader)->MayContain((*reader)->HashOf(entry.user_key)));
      }
      size_t maybe = 0;
      for (const std::string& key : absent) {
        maybe += (*reader)->MayContain((*reader)->HashOf(key)) ? 1 : 0;
      }
      if (seed != 0) {
        EXPECT_LT(maybe, kKeys / 40) << policy->Name();  // about 20 of 2000
      } else if (policy->Kind() != kBloomKind) {
        EXPECT_GT(maybe, kKeys * 9 / 10) << policy->Name();
      }
      EXPECT_TRUE((*reader)->Verify().ok()) << (*reader)->Verify();
    }
  }
}

// A table says with which seed it was made, whatever the lookups are hashed with.
TEST(TableFilterTest, ATableOfAnotherSeedAnswersTheSame) {
  constexpr int kKeys = 1000;
  TableBuilderOptions options;
  const auto policy = NewBlockedBloomPolicy(10);
  options.filter_policy = policy.get();
  options.block_bytes = 512;
  options.hash_seed = 17;
  const BuiltTable table = BuildTable(options, Entries(kKeys));
  for (const uint64_t lookup_seed : {17, 0, 99}) {
    TableReaderOptions reader_options = ReaderOptionsFor(options, table);
    reader_options.hash_seed = lookup_seed;
    const auto reader = OpenTable(reader_options, table.bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const ReadOptions read;
    int maybe = 0;
    for (int i = 0; i < 2 * kKeys; ++i) {
      const std::string key = Key(i);
      const EpochGuard guard;
      Lookup lookup(key, 9, options.order.user(), read, nullptr, lookup_seed);
      EXPECT_EQ((*reader)->HashOf(lookup), Hash64(key, 17));
      const bool admitted = (*reader)->MayContain((*reader)->HashOf(lookup));
      // The blocks' hash indexes are of the same seed.
      ASSERT_TRUE((*reader)->Get(&lookup).ok());
      ASSERT_EQ(lookup.decided(), i < kKeys) << i << " with " << lookup_seed;
      ASSERT_TRUE(admitted || i >= kKeys) << i << " with " << lookup_seed;
      maybe += i >= kKeys && admitted ? 1 : 0;
    }
    EXPECT_LT(maybe, 25) << lookup_seed;
  }
}

// Where a probe reads one cache line, it must be one in memory too, wherever the block lies
// in the file and however the file is read.
TEST(TableFilterTest, LoadedFiltersBeginOnACacheLine) {
  const std::string path = testing::TempDir() + "loaded_filters.sst";
  for (const auto& policy : {NewBlockedBloomPolicy(10), NewDenseBlockedBloomPolicy(10),
                             NewBloomPolicy(10), NewRibbonPolicy(10), NewBinaryFusePolicy()}) {
    size_t odd_offsets = 0;
    for (int keys = 1; keys < 40; ++keys) {
      TableBuilderOptions options;
      options.filter_policy = policy.get();
      const BuiltTable table = BuildTable(options, Entries(keys));
      const auto footer =
          DecodeFooter(std::string_view(table.bytes).substr(table.bytes.size() - kFooterBytes),
                       table.bytes.size(), path);
      ASSERT_TRUE(footer.ok()) << footer.status();
      odd_offsets += footer->filter.offset % 64 != 0 ? 1 : 0;
      std::ofstream(path, std::ios::binary) << table.bytes;
      auto mapped = PosixFileSystem()->NewMappedFile(path);
      ASSERT_TRUE(mapped.ok()) << mapped.status();
      const TableReaderOptions reader_options = ReaderOptionsFor(options, table);
      const auto from_string = OpenTable(reader_options, table.bytes);
      const auto from_mapping = TableReader::Open(reader_options, *std::move(mapped));
      for (const auto* reader : {&from_string, &from_mapping}) {
        ASSERT_TRUE(reader->ok()) << reader->status();
        const char* const bytes = (**reader)->filter_bytes().data();
        ASSERT_EQ(reinterpret_cast<uintptr_t>(bytes) % 64, 0u) << policy->Name() << " " << keys;
        for (int i = 0; i < keys; ++i) ASSERT_TRUE((**reader)->MayContain(Hash64(Key(i))));
      }
    }
    EXPECT_GT(odd_offsets, 30u) << policy->Name();
  }
  ASSERT_TRUE(PosixFileSystem()->DeleteFile(path).ok());
}

// The cache knows a block by its open table and not by a file's number and offset, under
// which another block may come to lie.
TEST(TableFilterTest, ABlockOfAFileNumberThatIsUsedAgainIsNotTakenForAnother) {
  const auto policy = NewBlockedBloomPolicy(10);
  const std::shared_ptr<BlockCache> cache = NewBlockCache(1 << 20);
  TableBuilderOptions options;
  options.filter_policy = policy.get();
  options.file_number = 7;
  options.block_bytes = 256;
  const BuiltTable large = BuildTable(options, Entries(400));
  // Its filter lies where the large one has data blocks, and its blocks have other keys.
  std::vector<TestEntry> others;
  for (int i = 0; i < 60; ++i) others.push_back({Key(i) + "+", 1, EntryType::kPut, "other"});
  const BuiltTable small = BuildTable(options, others);
  ASSERT_LT(small.bytes.size(), large.bytes.size() / 2);
  const auto open = [&](const BuiltTable& table) {
    TableReaderOptions reader_options = ReaderOptionsFor(options, table);
    reader_options.block_cache = Impl(cache);
    auto reader = OpenTable(reader_options, table.bytes);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  };
  const auto expect_all = [&](const TableReader& reader, const std::vector<TestEntry>& entries) {
    ASSERT_NE(reader.filter(), nullptr);
    for (int round = 0; round < 2; ++round) {  // the second from the cache
      for (const TestEntry& entry : entries) {
        ASSERT_TRUE(reader.MayContain(reader.HashOf(entry.user_key))) << entry.user_key;
        ASSERT_EQ(GetText(reader, options.order, entry.user_key, 9), "=" + entry.value);
      }
    }
    ASSERT_TRUE(reader.Verify().ok()) << reader.Verify();
  };
  auto first = open(large);
  expect_all(*first, Entries(400));
  EXPECT_GT(cache->UsageBytes(), 4000u);
  {
    const auto beside = open(small);  // while the other is open, too
    expect_all(*beside, others);
    expect_all(*first, Entries(400));
  }
  first = nullptr;
  expect_all(*open(small), others);
  expect_all(*open(large), Entries(400));
}

// Its builders differ by level, as those of a policy that falls back do.
class MixedPolicy final : public FilterPolicy {
 public:
  class Builder final : public FilterBuilder {
   public:
    explicit Builder(const FilterPolicy& policy)
        : kind_(policy.Kind()), builder_(policy.NewBuilder({})) {}
    void AddHash(uint64_t hash) override { builder_->AddHash(hash); }
    std::string Finish() override { return builder_->Finish(); }
    uint8_t Kind() const override { return kind_; }

   private:
    const uint8_t kind_;
    const std::unique_ptr<FilterBuilder> builder_;
  };
  uint8_t Kind() const override { return kBinaryFuseKind; }
  const char* Name() const override { return "test.Mixed"; }
  double BitsPerKey(const FilterContext&) const override { return 12; }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    return std::make_unique<Builder>(context.bottommost ? *NewDenseBlockedBloomPolicy(12)
                                                        : *NewBloomPolicy(12));
  }
  absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view) const override {
    return absl::DataLossError("never asked for a built-in kind");
  }
};

TEST(TableFilterTest, TheFooterHasTheKindThatTheBuilderMade) {
  const MixedPolicy policy;
  for (const bool bottommost : {false, true}) {
    TableBuilderOptions options;
    options.filter_policy = &policy;
    options.filter_context.bottommost = bottommost;
    const BuiltTable table = BuildTable(options, Entries(500));
    const auto reader = OpenTable(ReaderOptionsFor(options, table), table.bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->filter_kind(), bottommost ? kDenseBlockedBloomKind : kBloomKind);
    ASSERT_NE((*reader)->filter(), nullptr) << (*reader)->filter_status();
    for (int i = 0; i < 500; ++i) ASSERT_TRUE((*reader)->MayContain(Hash64(Key(i))));
  }
}

}  // namespace
}  // namespace sievedb
