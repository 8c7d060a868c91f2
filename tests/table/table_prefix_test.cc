// Prefixes in a table's filter: what is added, what is asked, and when it is not trusted.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "table/format.h"
#include "table/prefix_hash.h"
#include "tests/table/table_test_util.h"

namespace sievedb {
namespace {

constexpr uint64_t kSeed = 0xa4093822299f31d0;

class NoPrefixExtractor final : public PrefixExtractor {
 public:
  const char* Name() const override { return "test.None"; }
  std::optional<std::string_view> Prefix(std::string_view) const override { return std::nullopt; }
};

class TablePrefixTest : public testing::Test {
 protected:
  TablePrefixTest() {
    options_.filter_policy = policy_.get();
    options_.prefix_extractor = extractor_.get();
    options_.hash_seed = kSeed;
    options_.block_bytes = 256;
  }

  // Users 0, 2, 4 … with three keys each, of which the second has two versions.
  static std::vector<TestEntry> Entries(int users) {
    std::vector<TestEntry> entries;
    for (int i = 0; i < users; ++i) {
      const std::string user = absl::StrFormat("u%04d/", 2 * i);
      entries.push_back({user + "a", 1, EntryType::kPut, "v"});
      entries.push_back({user + "b", 9, EntryType::kDelete, ""});
      entries.push_back({user + "b", 3, EntryType::kPut, "v"});
      entries.push_back({user + "c", 2, EntryType::kPut, "v"});
    }
    return entries;
  }
  std::unique_ptr<TableReader> Open(const BuiltTable& table, const PrefixExtractor* extractor,
                                    uint64_t lookup_seed = kSeed) {
    TableReaderOptions options = ReaderOptionsFor(options_, table);
    options.prefix_extractor = extractor;
    options.hash_seed = lookup_seed;
    auto reader = OpenTable(options, table.bytes);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  static Footer FooterOf(const BuiltTable& table) {
    return *DecodeFooter(std::string_view(table.bytes).substr(table.bytes.size() - kFooterBytes),
                         table.bytes.size(), "");
  }
  static bool MayContain(const TableReader& table, std::string_view prefix,
                         uint64_t lookup_seed = kSeed) {
    const uint64_t hash = PrefixHash(prefix, lookup_seed);
    table.PrefetchPrefix(prefix, hash);
    return table.MayContainPrefix(prefix, hash);
  }

  const std::shared_ptr<const FilterPolicy> policy_ = NewBlockedBloomPolicy(12);
  const std::shared_ptr<const PrefixExtractor> extractor_ = NewDelimiterPrefixExtractor('/');
  TableBuilderOptions options_;
};

TEST_F(TablePrefixTest, EachPrefixIsAddedOnceAndCounted) {
  constexpr int kUsers = 700;
  for (const auto& policy : {policy_, NewDenseBlockedBloomPolicy(12), NewBloomPolicy(12),
                             NewRibbonPolicy(12), NewBinaryFusePolicy()}) {
    options_.filter_policy = policy.get();
    const BuiltTable table = BuildTable(options_, Entries(kUsers));
    EXPECT_EQ(table.summary.properties.distinct_user_keys, 3u * kUsers);
    EXPECT_EQ(table.summary.properties.prefixes, 1u * kUsers);
    EXPECT_EQ(FooterOf(table).filter_keys, 4u * kUsers);
    const auto reader = Open(table, extractor_.get());
    EXPECT_EQ(reader->properties().prefix_extractor_name, extractor_->Name());
    EXPECT_EQ(reader->FilterKeys(), 4u * kUsers);
    EXPECT_EQ(reader->filter()->Figures().keys, 4u * kUsers) << policy->Name();
    EXPECT_TRUE(reader->knows_prefixes());
    int maybe = 0;
    int keys = 0;
    for (int i = 0; i < 2 * kUsers; ++i) {
      const std::string prefix = absl::StrFormat("u%04d/", i);
      const bool admitted = MayContain(*reader, prefix);
      if (i % 2 == 0) {
        ASSERT_TRUE(admitted) << prefix << " of " << policy->Name();
        // A prefix is no key.
        keys += reader->MayContain(reader->HashOf(prefix)) ? 1 : 0;
      } else {
        maybe += admitted ? 1 : 0;
      }
    }
    EXPECT_LT(maybe, 20) << policy->Name();
    EXPECT_LT(keys, 20) << policy->Name();
    EXPECT_TRUE(reader->Verify().ok()) << reader->Verify();
  }
}

TEST_F(TablePrefixTest, OfAnotherExtractorOrOfNoneItIsNotTrusted) {
  const BuiltTable with = BuildTable(options_, Entries(100));
  options_.prefix_extractor = nullptr;
  const BuiltTable without = BuildTable(options_, Entries(100));
  EXPECT_EQ(without.summary.properties.prefix_extractor_name, "");
  EXPECT_EQ(FooterOf(without).filter_keys, 300u);
  const auto other = NewFixedPrefixExtractor(6);  // the same prefixes, by another name
  for (const BuiltTable* table : {&with, &without}) {
    for (const PrefixExtractor* extractor :
         {static_cast<const PrefixExtractor*>(nullptr), other.get(), extractor_.get()}) {
      const auto reader = Open(*table, extractor);
      const bool trusted = table == &with && extractor == extractor_.get();
      EXPECT_EQ(reader->knows_prefixes(), trusted);
      int denied = 0;
      for (int i = 1; i < 200; i += 2)
        denied += MayContain(*reader, absl::StrFormat("u%04d/", i)) ? 0 : 1;
      EXPECT_EQ(denied > 0, trusted);
      EXPECT_TRUE(reader->Verify().ok()) << reader->Verify();
    }
  }
}

TEST_F(TablePrefixTest, ATableOfAnotherSeedIsAskedWithIt) {
  const BuiltTable table = BuildTable(options_, Entries(300));
  for (const uint64_t lookup_seed : {kSeed, uint64_t{0}, uint64_t{5}}) {
    const auto reader = Open(table, extractor_.get(), lookup_seed);
    int maybe = 0;
    for (int i = 0; i < 600; ++i) {
      const bool admitted = MayContain(*reader, absl::StrFormat("u%04d/", i), lookup_seed);
      ASSERT_TRUE(admitted || i % 2 == 1);
      maybe += admitted && i % 2 == 1 ? 1 : 0;
    }
    EXPECT_LT(maybe, 10);
  }
}

TEST_F(TablePrefixTest, AnExtractorThatYieldsNothing) {
  const NoPrefixExtractor nothing;
  options_.prefix_extractor = &nothing;
  const BuiltTable table = BuildTable(options_, Entries(50));
  EXPECT_EQ(table.summary.properties.prefixes, 0u);
  EXPECT_EQ(FooterOf(table).filter_keys, 150u);
  const auto reader = Open(table, &nothing);
  EXPECT_TRUE(reader->knows_prefixes());
  EXPECT_TRUE(reader->MayContain(reader->HashOf("u0000/a")));
  EXPECT_TRUE(reader->Verify().ok()) << reader->Verify();
}

TEST_F(TablePrefixTest, TheEmptyKeyAndTheEmptyPrefix) {
  const auto empty = NewFixedPrefixExtractor(0);
  options_.prefix_extractor = empty.get();
  const std::vector<std::vector<std::string>> tables = {{""}, {"", "a", "b"}, {"a"}};
  for (const std::vector<std::string>& keys : tables) {
    std::vector<TestEntry> entries;
    for (const std::string& key : keys) entries.push_back({key, 1, EntryType::kPut, "v"});
    const BuiltTable table = BuildTable(options_, entries);
    EXPECT_EQ(table.summary.properties.prefixes, 1u);
    const auto reader = Open(table, empty.get());
    EXPECT_TRUE(MayContain(*reader, ""));
    for (const std::string& key : keys) EXPECT_TRUE(reader->MayContain(reader->HashOf(key)));
    // The empty prefix is not the empty key.
    EXPECT_EQ(reader->MayContain(reader->HashOf("")), keys.front().empty());
    EXPECT_TRUE(reader->Verify().ok()) << reader->Verify();
  }
}

TEST_F(TablePrefixTest, AFlippedByteOfTheFilterDeniesNoPrefix) {
  const BuiltTable table = BuildTable(options_, Entries(40));
  const Footer footer = FooterOf(table);
  for (uint64_t at = 0; at < footer.filter.size + kBlockTrailerBytes; ++at) {
    BuiltTable damaged = table;
    char& byte = damaged.bytes[footer.filter.offset + at];
    byte = static_cast<char>(byte ^ 0x55);
    const auto reader = Open(damaged, extractor_.get());
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(reader->filter_status().code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(reader->knows_prefixes());
    for (int i = 0; i < 80; ++i) {
      ASSERT_TRUE(MayContain(*reader, absl::StrFormat("u%04d/", i))) << at;
    }
  }
}

// Where equal keys may have other bytes, prefixes may as well.
TEST_F(TablePrefixTest, NoFilterNoPrefixes) {
  const CaselessComparator caseless;
  options_.order = InternalKeyOrder(&caseless);
  const BuiltTable table = BuildTable(options_, Entries(10));
  EXPECT_EQ(table.summary.properties.prefix_extractor_name, "");
  EXPECT_FALSE(Open(table, extractor_.get())->knows_prefixes());
  options_.order = InternalKeyOrder(BytewiseComparator());
  options_.filter_policy = nullptr;
  const BuiltTable bare = BuildTable(options_, Entries(10));
  EXPECT_FALSE(Open(bare, extractor_.get())->knows_prefixes());
  EXPECT_EQ(Open(bare, extractor_.get())->FilterKeys(), 30u);
}

TEST_F(TablePrefixTest, VerifyFindsAPrefixThatIsDenied) {
  // It has the name of the one that it was written with, and other prefixes.
  class Liar final : public PrefixExtractor {
   public:
    const char* Name() const override { return "sievedb.DelimiterPrefix.2f.1"; }
    std::optional<std::string_view> Prefix(std::string_view key) const override {
      return key.substr(0, key.size() - 1);
    }
  };
  options_.prefix_extractor = extractor_.get();
  const BuiltTable table = BuildTable(options_, {{"a/bc", 1, EntryType::kPut, "v"}});
  const Liar liar;
  const absl::Status status = Open(table, &liar)->Verify();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_NE(status.message().find("denies the prefix of entry 0"), absl::string_view::npos);
}

}  // namespace
}  // namespace sievedb
