// Iterators that stay in a prefix, and the tables and memtables that they leave out.

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "tests/db/db_test_util.h"
#include "util/statistics_impl.h"

namespace sievedb {
namespace {

class NoPrefixExtractor final : public PrefixExtractor {
 public:
  const char* Name() const override { return "test.None"; }
  std::optional<std::string_view> Prefix(std::string_view) const override { return std::nullopt; }
};

class PrefixTest : public DBTest {
 protected:
  PrefixTest() {
    options_.prefix_extractor = NewDelimiterPrefixExtractor('/');
    options_.disable_auto_compaction = true;
    in_prefix_.prefix_same_as_start = true;
  }

  // The keys from a seek on, or backwards.
  std::string From(std::string_view target, ReadOptions options) {
    const auto it = db_->NewIterator(options);
    it->Seek(target);
    return Walk(it.get(), &Iterator::Next);
  }
  std::string From(std::string_view target) { return From(target, in_prefix_); }
  std::string Back(std::string_view target, ReadOptions options) {
    const auto it = db_->NewIterator(options);
    it->SeekForPrev(target);
    return Walk(it.get(), &Iterator::Prev);
  }
  std::string Back(std::string_view target) { return Back(target, in_prefix_); }
  static std::string Walk(Iterator* it, void (Iterator::*step)()) {
    std::string text;
    for (; it->Valid(); (it->*step)()) text += std::string(it->key()) + " ";
    if (!text.empty()) text.pop_back();
    return it->status().ok() ? text : it->status().ToString();
  }

  void PutAll(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) ASSERT_TRUE(Put(key, "v").ok());
  }
  void Flush() { ASSERT_TRUE(db_->Flush(FlushOptions()).ok()); }
  uint64_t Counted(Counter counter) { return options_.statistics->Get(counter); }
  // Blocks that were looked for.
  uint64_t Blocks() {
    return Counted(Counter::kBlockCacheHits) + Counted(Counter::kBlockCacheMisses) +
           Counted(Counter::kBlockReads);
  }
  uint64_t WholeKeyChecks() {
    uint64_t checks = 0;
    for (int level = 0; level < 7; ++level) {
      checks += options_.statistics->GetFilterCounts(level).checked;
    }
    return checks;
  }

  ReadOptions in_prefix_;
};

TEST_F(PrefixTest, StaysInThePrefixOfTheKeyThatWasSought) {
  Open();
  PutAll({"", "a", "a/1", "a/2", "b/", "b/1", "b/2/x", "c", "c/1", "d"});
  for (const bool flushed : {false, true}) {
    if (flushed) Flush();
    EXPECT_EQ(From("a/"), "a/1 a/2");
    EXPECT_EQ(From("a/15"), "a/2");
    EXPECT_EQ(From("a/3"), "");
    EXPECT_EQ(From("aa/"), "");
    EXPECT_EQ(From("b/"), "b/ b/1 b/2/x");
    EXPECT_EQ(Back("b/\xff"), "b/2/x b/1 b/");
    EXPECT_EQ(Back("b/0"), "b/");
    EXPECT_EQ(Back("a/"), "");
    EXPECT_EQ(Back("aa/9"), "");
    // Keys without a prefix set no limit.
    EXPECT_EQ(From("b"), "b/ b/1 b/2/x c c/1 d");
    EXPECT_EQ(From(""), " a a/1 a/2 b/ b/1 b/2/x c c/1 d");
    EXPECT_EQ(Back("b"), "a/2 a/1 a ");
    EXPECT_EQ(Back(""), "");
  }
  const auto it = db_->NewIterator(in_prefix_);
  it->Seek("b/1");
  ASSERT_TRUE(it->Valid());
  it->Prev();
  EXPECT_EQ(it->key(), "b/");
  it->Next();
  EXPECT_EQ(it->key(), "b/1");
  it->Prev();
  it->Prev();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  // Another seek, another prefix.
  it->Seek("c/");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "c/1");
  it->Next();
  EXPECT_FALSE(it->Valid());
}

TEST_F(PrefixTest, FromTheEndsItStaysInThePrefixOfTheFirstOrLastKey) {
  Open();
  PutAll({"a/1", "a/2", "b/1", "c/1", "c/2"});
  Flush();
  PutAll({"a/3", "c/0"});
  const auto it = db_->NewIterator(in_prefix_);
  it->Seek("b/");
  it->SeekToFirst();
  EXPECT_EQ(Walk(it.get(), &Iterator::Next), "a/1 a/2 a/3");
  it->SeekToLast();
  EXPECT_EQ(Walk(it.get(), &Iterator::Prev), "c/2 c/1 c/0");
  ReadOptions bounded = in_prefix_;
  bounded.lower_bound = "a/2";
  bounded.upper_bound = "b/9";
  const auto within = db_->NewIterator(bounded);
  within->SeekToFirst();
  EXPECT_EQ(Walk(within.get(), &Iterator::Next), "a/2 a/3");
  within->SeekToLast();
  EXPECT_EQ(Walk(within.get(), &Iterator::Prev), "b/1");
  within->Seek("a/");
  EXPECT_EQ(Walk(within.get(), &Iterator::Next), "a/2 a/3");
  within->Seek("A/");  // its prefix lies below the bounds
  EXPECT_EQ(Walk(within.get(), &Iterator::Next), "");
  within->SeekForPrev("c/1");
  EXPECT_EQ(Walk(within.get(), &Iterator::Prev), "");
}

TEST_F(PrefixTest, AnIteratorNeedsAnExtractorForIt) {
  options_.prefix_extractor = nullptr;
  Open();
  PutAll({"a/1"});
  const auto it = db_->NewIterator(in_prefix_);
  EXPECT_EQ(it->status().code(), absl::StatusCode::kInvalidArgument);
  it->Seek("a/");
  EXPECT_FALSE(it->Valid());
}

TEST_F(PrefixTest, TablesThatAreRuledOutAreNotTouched) {
  Open();
  // Three runs that all cover every prefix: the odd ones in none of them.
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 600; i += 2) {
      ASSERT_TRUE(Put(absl::StrFormat("%03d/%d", i, run), std::string(40, 'v')).ok());
    }
    Flush();
    if (run == 0) {
      ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    }
  }
  for (int run = 0; run < 2; ++run) {
    // In one run only.
    ASSERT_TRUE(Put("300/only", "v").ok());
    ASSERT_TRUE(Put("301/only", "v").ok());
  }
  Flush();
  const uint64_t whole = WholeKeyChecks();
  const uint64_t before = Blocks();
  uint64_t found = 0;
  for (int i = 1; i < 600; i += 2) {
    const std::string prefix = absl::StrFormat("%03d/", i);
    found += From(prefix + "0").empty() ? 0 : 1;
    found += Back(prefix + "~").empty() ? 0 : 1;
  }
  EXPECT_EQ(found, 2u);  // 301
  const uint64_t checks = Counted(Counter::kPrefixChecks);
  const uint64_t skips = Counted(Counter::kPrefixSkips);
  EXPECT_GE(checks, 2u * 300 * 3);
  EXPECT_GT(skips, checks * 97 / 100);
  // What was not ruled out costs a seek and a step, of a block or two.
  EXPECT_LE(Blocks() - before, 4 * (checks - skips));
  EXPECT_EQ(WholeKeyChecks(), whole);

  // The same bounds for every key have the filters asked without the option.
  for (int i = 1; i < 600; i += 2) {
    ReadOptions bounds;
    bounds.lower_bound = absl::StrFormat("%03d/0", i);
    bounds.upper_bound = absl::StrFormat("%03d/z", i);
    const auto it = db_->NewIterator(bounds);
    it->SeekToFirst();
    EXPECT_EQ(Walk(it.get(), &Iterator::Next), i == 301 ? "301/only" : "");
    it->SeekToLast();
    EXPECT_EQ(Walk(it.get(), &Iterator::Prev), i == 301 ? "301/only" : "");
    it->SeekForPrev("000/");
    EXPECT_FALSE(it->Valid());
  }
  EXPECT_GT(Counted(Counter::kPrefixSkips), skips + 500);
  EXPECT_EQ(WholeKeyChecks(), whole);
  // Bounds of two prefixes say nothing.
  const uint64_t now = Counted(Counter::kPrefixChecks);
  ReadOptions wide;
  wide.lower_bound = "300/";
  wide.upper_bound = "302/";
  EXPECT_EQ(From("", wide), "300/0 300/1 300/2 300/only 301/only");
  EXPECT_EQ(Counted(Counter::kPrefixChecks), now);
}

TEST_F(PrefixTest, AnExtractorThatYieldsNothingChangesNothing) {
  options_.prefix_extractor = std::make_shared<NoPrefixExtractor>();
  Open();
  PutAll({"", "a/1", "b/1"});
  Flush();
  PutAll({"c/1"});
  EXPECT_EQ(From("a/"), "a/1 b/1 c/1");
  EXPECT_EQ(Back("b/2"), "b/1 a/1 ");
  EXPECT_EQ(Counted(Counter::kPrefixChecks), 0u);
}

TEST_F(PrefixTest, TheEmptyPrefixIsOneLikeAnyOther) {
  options_.prefix_extractor = NewFixedPrefixExtractor(0);
  Open();
  PutAll({""});
  EXPECT_EQ(From(""), "");  // one key, the empty one
  const auto it = db_->NewIterator(in_prefix_);
  it->Seek("");
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "");
  Flush();
  PutAll({"b"});
  Flush();
  EXPECT_EQ(From(""), " b");
  EXPECT_EQ(Back("c"), "b ");
  EXPECT_EQ(Counted(Counter::kPrefixSkips), 0u);
}

TEST_F(PrefixTest, ReopenedWithAnotherExtractorOldTablesAreNotTrusted) {
  Open();
  PutAll({"aa/1", "ab/1", "b/1"});
  Flush();
  // Its prefixes are in no table's filter; they must be found all the same.
  for (const auto& extractor : {NewFixedPrefixExtractor(1), NewFixedPrefixExtractor(2)}) {
    options_.prefix_extractor = extractor;
    Open();
    EXPECT_EQ(From("a "), extractor->Prefix("aa") == "a" ? "aa/1 ab/1" : "");
    EXPECT_EQ(From("aa"), extractor->Prefix("aa") == "a" ? "aa/1 ab/1" : "aa/1");
    EXPECT_EQ(Back("b/9"), "b/1");
    EXPECT_EQ(Counted(Counter::kPrefixChecks), 0u);
  }
  options_.prefix_extractor = NewFixedPrefixExtractor(1);
  Open();
  PutAll({"ac/1", "d/1"});
  Flush();  // with the new one, beside the old table
  EXPECT_EQ(From("a"), "aa/1 ab/1 ac/1");
  EXPECT_EQ(Counted(Counter::kPrefixChecks), 1u);
  options_.prefix_extractor = nullptr;
  Open();
  EXPECT_EQ(Scan(), "aa/1=v ab/1=v ac/1=v b/1=v d/1=v ");
  // A compaction gives all of them its prefixes.
  options_.prefix_extractor = NewFixedPrefixExtractor(1);
  Open();
  CompactRangeOptions rewrite;
  rewrite.rewrite_bottommost = true;
  ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  options_.statistics->Reset();
  EXPECT_EQ(From("a"), "aa/1 ab/1 ac/1");
  EXPECT_EQ(From("c"), "");
  EXPECT_EQ(Counted(Counter::kPrefixChecks), 2u);
  EXPECT_EQ(Counted(Counter::kPrefixSkips), 1u);
  ASSERT_TRUE(db_->VerifyChecksums().ok());
}

TEST_F(PrefixTest, FilterMemoryCountsPrefixes) {
  options_.write_buffer_bytes = 64 << 20;
  options_.filter_memory_bytes = 60'000;
  options_.prefix_extractor = NewFixedPrefixExtractor(Key(0).size());  // one for each key
  Open();
  Fill(0, 20'000);
  Flush();
  Fill(20'000, 40'000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  const std::string memory = *db_->GetProperty("sievedb.filters");
  // 80 000 in the filters, of 40 000 keys: 6 bits for each of them.
  EXPECT_NE(memory.find("80000"), memory.npos) << memory;
  EXPECT_EQ(memory.find("40000"), memory.npos) << memory;
}

// Small blocks, small tables and short prefixes, so that prefixes lie across the borders
// of both; every seek, and walks that turn round, against a map.
class PrefixWalkTest : public PrefixTest {
 protected:
  struct Order {
    const Comparator* comparator;
    bool operator()(const std::string& a, const std::string& b) const {
      return comparator->Compare(a, b) < 0;
    }
  };
  using Model = std::map<std::string, std::string, Order>;

  std::string RandomKey() {
    std::string key(random_() % 5, ' ');
    for (char& c : key) c = static_cast<char>('a' + random_() % 4);
    if (random_() % 4 != 0) key.insert(key.size() / 2, "/");
    return key;
  }
  void Build(Model* model) {
    for (int i = 0; i < 6000; ++i) {
      const std::string key = RandomKey();
      if (random_() % 3 == 0) {
        ASSERT_TRUE(Delete(key).ok());
        model->erase(key);
      } else {
        const std::string value = absl::StrFormat("%d%s", i, std::string(i % 200, '.'));
        ASSERT_TRUE(Put(key, value).ok());
        (*model)[key] = value;
      }
      if (i == 4000) {
        ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
      }
      if (i == 5000 || i == 5600 || i == 5900) Flush();
    }
  }
  void RandomWalk(const Model& model) {
    const PrefixExtractor& extractor = *options_.prefix_extractor;
    const auto it = db_->NewIterator(in_prefix_);
    for (int walk = 0; walk < 400; ++walk) {
      const std::string target = RandomKey();
      const std::optional<std::string_view> prefix = extractor.Prefix(target);
      auto at = model.lower_bound(target);
      bool valid = true;
      if (random_() % 2 == 0) {
        it->Seek(target);
        valid = at != model.end();
      } else {
        it->SeekForPrev(target);
        at = model.upper_bound(target);
        valid = at != model.begin();
        if (valid) --at;
      }
      for (int step = 0; step < 12; ++step) {
        if (valid && prefix.has_value() && extractor.Prefix(at->first) != prefix) valid = false;
        ASSERT_TRUE(it->status().ok()) << it->status();
        ASSERT_EQ(it->Valid(), valid) << "from " << target << " at step " << step;
        if (!valid) break;
        ASSERT_EQ(it->key(), at->first) << "from " << target;
        ASSERT_EQ(it->value(), at->second);
        if (random_() % 3 != 0) {
          it->Next();
          valid = ++at != model.end();
        } else {
          it->Prev();
          valid = at != model.begin();
          if (valid) --at;
        }
      }
    }
  }

  std::mt19937_64 random_{20260701};
};

TEST_F(PrefixWalkTest, AcrossBlocksTablesAndRuns) {
  options_.block_bytes = 256;
  options_.target_file_bytes = 8 << 10;
  options_.compression = Compression::kNone;
  const std::shared_ptr<const PrefixExtractor> extractors[] = {
      NewDelimiterPrefixExtractor('/'), NewFixedPrefixExtractor(2), NewFixedPrefixExtractor(0)};
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    for (const auto& extractor : extractors) {
      db_ = nullptr;
      options_.file_system = NewMemoryFileSystem();
      options_.comparator = comparator;
      options_.prefix_extractor = extractor;
      Open();
      Model model(Order{comparator});
      Build(&model);
      EXPECT_GT(Files(6), 4) << "prefixes are to lie in several tables";
      RandomWalk(model);
      if (HasFatalFailure()) FAIL() << extractor->Name() << ", " << comparator->Name();
    }
  }
  EXPECT_GT(Counted(Counter::kPrefixSkips), 50u);
}

}  // namespace
}  // namespace sievedb
