#include "table/merging_iterator.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/vector_iterator.h"

namespace sievedb {
namespace {

std::string InternalKey(std::string_view key, uint64_t sequence) {
  std::string internal_key;
  AppendInternalKey(&internal_key, key, MakeTag(sequence, EntryType::kPut));
  return internal_key;
}

std::unique_ptr<InternalIterator> Merge(const InternalKeyOrder& order,
                                        std::vector<std::vector<VectorEntry>> lists) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (std::vector<VectorEntry>& list : lists) {
    children.push_back(std::make_unique<VectorIterator>(order, std::move(list)));
  }
  return NewMergingIterator(order, std::move(children));
}

const InternalKeyOrder kBytewise(BytewiseComparator());

TEST(MergingIteratorTest, NoChildren) {
  const auto it = Merge(kBytewise, {});
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  it->SeekToLast();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
}

TEST(MergingIteratorTest, EmptyChildren) {
  const auto it = Merge(kBytewise, {{}, {{InternalKey("a", 1), "x", {}}}, {}});
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "x");
  it->Next();
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev(InternalKey("0", 1));
  EXPECT_FALSE(it->Valid());
}

TEST(MergingIteratorTest, OneKeyInAllChildrenKeepsTheirOrder) {
  const std::string key = InternalKey("k", 5);
  const auto it = Merge(kBytewise, {{{key, "0", {}}}, {{key, "1", {}}}, {{key, "2", {}}}});
  std::string seen;
  for (it->SeekToFirst(); it->Valid(); it->Next()) seen += it->value();
  for (it->SeekToLast(); it->Valid(); it->Prev()) seen += it->value();
  EXPECT_EQ(seen, "012210");

  it->SeekToFirst();
  it->Next();
  it->Next();
  EXPECT_EQ(it->value(), "2");
  it->Prev();
  EXPECT_EQ(it->value(), "1");
  it->Next();
  EXPECT_EQ(it->value(), "2");
  it->Prev();
  it->Prev();
  EXPECT_EQ(it->value(), "0");
  it->Prev();
  EXPECT_FALSE(it->Valid());
}

TEST(MergingIteratorTest, ErrorEndsTheIterationUntilTheNextSeek) {
  const absl::Status error = absl::DataLossError("block 7");
  const auto it =
      Merge(kBytewise, {{{InternalKey("a", 1), "a", {}},
                         {InternalKey("c", 1), "", error},
                         {InternalKey("e", 1), "e", {}}},
                        {{InternalKey("b", 1), "b", {}}, {InternalKey("d", 1), "d", {}}}});
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "a");
  it->Next();  // the first child fails here: "b" might not be what comes next
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status(), error);

  it->Seek(InternalKey("d", 1));
  ASSERT_TRUE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  EXPECT_EQ(it->value(), "d");
  it->Prev();  // the turn meets it
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status(), error);

  it->SeekToLast();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "e");
  it->Prev();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status(), error);
  it->Seek(InternalKey("b", 1));
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status(), error);
}

TEST(MergingIteratorTest, KeyTooShortIsDataLoss) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(
      std::make_unique<VectorIterator>(kBytewise, std::vector<VectorEntry>{{"short", "", {}}}));
  children.push_back(std::make_unique<VectorIterator>(
      kBytewise, std::vector<VectorEntry>{{InternalKey("a", 1), "", {}}}));
  const auto it = NewMergingIterator(kBytewise, std::move(children));
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status().code(), absl::StatusCode::kDataLoss);
}

// Defers some of its seeks: its bound is then the seek's target, be there an entry
// behind it or not, or the entry's own key.
class DeferringIterator final : public InternalIterator {
 public:
  // Defers one seek in `one_in`. Requires: one_in > 0.
  DeferringIterator(const InternalKeyOrder& order, std::vector<VectorEntry> entries, uint32_t seed,
                    uint32_t one_in)
      : entries_(order, std::move(entries)), random_(seed), one_in_(one_in) {}

  bool Valid() const override { return deferred_ || entries_.Valid(); }
  void SeekToFirst() override {
    Note([this] { entries_.SeekToFirst(); });
  }
  void SeekToLast() override {
    Note([this] { entries_.SeekToLast(); });
  }
  void Seek(std::string_view target) override {
    Note([this, target] { entries_.Seek(target); }, target);
  }
  void SeekForPrev(std::string_view target) override {
    Note([this, target] { entries_.SeekForPrev(target); }, target);
  }
  void Next() override {
    ASSERT_FALSE(deferred_);
    entries_.Next();
  }
  void Prev() override {
    ASSERT_FALSE(deferred_);
    entries_.Prev();
  }
  std::string_view key() const override {
    return deferred_ ? std::string_view(bound_) : entries_.key();
  }
  std::string_view value() const override {
    EXPECT_FALSE(deferred_);
    return entries_.value();
  }
  absl::Status status() const override { return deferred_ ? absl::OkStatus() : entries_.status(); }
  void AllowDeferral() override { allowed_ = true; }
  bool deferred() const override { return deferred_; }
  void Resolve() override {
    if (deferred_) ++resolutions_;
    deferred_ = false;
  }
  int resolutions() const { return resolutions_; }

 private:
  template <typename SeekEntries>
  void Note(SeekEntries seek, std::string_view target = {}) {
    seek();
    deferred_ = false;
    if (!allowed_ || random_() % one_in_ != 0) return;
    const bool use_target = !target.empty() && random_() % 2 == 0;
    if (!use_target && !entries_.Valid()) return;
    bound_ = use_target ? target : entries_.key();
    deferred_ = true;
  }

  VectorIterator entries_;
  std::mt19937 random_;
  const uint32_t one_in_;
  bool allowed_ = false;
  bool deferred_ = false;
  std::string bound_;
  int resolutions_ = 0;
};

TEST(MergingIteratorTest, DeferredChildIsResolvedOnceItsBoundIsReached) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  std::vector<DeferringIterator*> seen;
  for (const char* keys : {"ad", "be", "cf"}) {
    std::vector<VectorEntry> entries;
    for (const char c : std::string_view(keys))
      entries.push_back({InternalKey({&c, 1}, 1), "", {}});
    children.push_back(std::make_unique<DeferringIterator>(kBytewise, std::move(entries), 1, 1));
    seen.push_back(static_cast<DeferringIterator*>(children.back().get()));
  }
  const auto it = NewMergingIterator(kBytewise, std::move(children));
  const auto resolutions = [&] {
    std::vector<int> counts;
    for (const DeferringIterator* child : seen) counts.push_back(child->resolutions());
    return counts;
  };
  it->SeekToFirst();
  EXPECT_EQ(resolutions(), (std::vector<int>{1, 0, 0}));
  it->Next();
  EXPECT_EQ(UserKey(it->key()), "b");
  EXPECT_EQ(resolutions(), (std::vector<int>{1, 1, 0}));
  it->SeekToLast();
  EXPECT_EQ(UserKey(it->key()), "f");
  EXPECT_EQ(resolutions(), (std::vector<int>{1, 1, 1}));
  it->Prev();
  EXPECT_EQ(UserKey(it->key()), "e");
  EXPECT_EQ(resolutions(), (std::vector<int>{1, 2, 1}));
}

TEST(MergingIteratorTest, ErrorOfADeferredChildShowsWhereItsEntryIsWanted) {
  const absl::Status error = absl::DataLossError("block 7");
  // It stands on its bound, which is the target, whatever comes behind it.
  class AtC final : public InternalIterator {
   public:
    explicit AtC(absl::Status error) : key_(InternalKey("c", 1)), error_(std::move(error)) {}
    bool Valid() const override { return deferred_; }
    void SeekToFirst() override { deferred_ = true; }
    void SeekToLast() override { deferred_ = true; }
    void Seek(std::string_view /*target*/) override { deferred_ = true; }
    void SeekForPrev(std::string_view /*target*/) override { deferred_ = true; }
    void Next() override { FAIL(); }
    void Prev() override { FAIL(); }
    std::string_view key() const override { return key_; }
    std::string_view value() const override { return {}; }
    absl::Status status() const override { return deferred_ ? absl::OkStatus() : error_; }
    bool deferred() const override { return deferred_; }
    void Resolve() override { deferred_ = false; }

   private:
    const std::string key_;
    const absl::Status error_;
    bool deferred_ = false;
  };
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<AtC>(error));
  children.push_back(std::make_unique<VectorIterator>(
      kBytewise, std::vector<VectorEntry>{{InternalKey("a", 1), "a", {}},
                                          {InternalKey("b", 1), "b", {}},
                                          {InternalKey("d", 1), "d", {}}}));
  const auto it = NewMergingIterator(kBytewise, std::move(children));
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  it->Next();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "b");
  EXPECT_TRUE(it->status().ok());
  it->Next();
  EXPECT_FALSE(it->Valid());  // and not on "d"
  EXPECT_EQ(it->status(), error);
  it->SeekToLast();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "d");
  it->Prev();
  EXPECT_FALSE(it->Valid());  // and not on "b"
  EXPECT_EQ(it->status(), error);
}

struct Merged {
  std::string key;
  std::string value;
};

// Random moves over random children, against a sorted vector.
void RunRandom(uint32_t seed, const Comparator* comparator) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const InternalKeyOrder order(comparator);
  const size_t child_count = 1 + random() % 8;
  const size_t prefix = (random() % 3) * 8;
  std::vector<std::vector<VectorEntry>> lists(child_count);
  std::vector<Merged> all;
  const auto random_key = [&] {
    const std::string key = std::string(prefix, 'p') + std::to_string(random() % 20);
    return InternalKey(key, random() % 4);
  };
  for (size_t child = 0; child < child_count; ++child) {
    std::vector<VectorEntry>& list = lists[child];
    for (size_t n = random() % 20; n > 0; --n) list.push_back({random_key(), "", {}});
    const auto less = [&](const VectorEntry& a, const VectorEntry& b) {
      return order.Compare(a.key, b.key) < 0;
    };
    std::sort(list.begin(), list.end(), less);
    list.erase(std::unique(list.begin(), list.end(),
                           [](const auto& a, const auto& b) { return a.key == b.key; }),
               list.end());
    for (VectorEntry& entry : list) {
      entry.value = std::to_string(child);
      all.push_back({entry.key, entry.value});
    }
  }
  // Stable: children were added in their order.
  std::stable_sort(all.begin(), all.end(), [&](const Merged& a, const Merged& b) {
    return order.Compare(a.key, b.key) < 0;
  });

  std::vector<std::unique_ptr<InternalIterator>> children;
  for (std::vector<VectorEntry>& list : lists) {
    children.push_back(
        std::make_unique<DeferringIterator>(order, std::move(list), random(), 1 + random() % 3));
  }
  const auto it = NewMergingIterator(order, std::move(children));
  size_t at = all.size();  // all.size(): not Valid
  for (int step = 0; step < 300; ++step) {
    const bool on_entry = at < all.size();
    switch (random() % (on_entry ? 12 : 4)) {
      case 0:
        it->SeekToFirst();
        at = 0;
        break;
      case 1:
        it->SeekToLast();
        at = all.size() - 1;  // no index where all is empty
        break;
      case 2: {
        const std::string target = random_key();
        it->Seek(target);
        at = 0;
        while (at < all.size() && order.Compare(all[at].key, target) < 0) ++at;
        break;
      }
      case 3: {
        const std::string target = random_key();
        it->SeekForPrev(target);
        at = all.size();
        while (at > 0 && order.Compare(all[at - 1].key, target) > 0) --at;
        --at;
        break;
      }
      case 4:
      case 5:
      case 6:
      case 7:
        it->Next();
        ++at;
        break;
      default:
        it->Prev();
        --at;
        break;
    }
    ASSERT_TRUE(it->status().ok());
    ASSERT_EQ(it->Valid(), at < all.size()) << "step " << step;
    if (!it->Valid()) {
      at = all.size();
      continue;
    }
    ASSERT_EQ(it->key(), all[at].key) << "step " << step;
    ASSERT_EQ(it->value(), all[at].value) << "step " << step;
  }
}

TEST(MergingIteratorTest, RandomAgainstSortedVector) {
  class PlainComparator final : public Comparator {
   public:
    int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
    const char* Name() const override { return "test.plain"; }
  };
  const PlainComparator plain;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    RunRandom(seed, seed % 3 == 0   ? ReverseBytewiseComparator()
                    : seed % 3 == 1 ? BytewiseComparator()
                                    : &plain);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sievedb
