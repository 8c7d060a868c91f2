#include "db/version_iterator.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "table/merging_iterator.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using version_test::Entry;
using version_test::InternalKey;
using version_test::TableStore;

class ByLength final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  const char* Name() const override { return "by length"; }
  void FindShortestSeparator(std::string*, std::string_view) const override {}
  void FindShortSuccessor(std::string*) const override {}
};
const ByLength kByLength;

// Tables that are not open, and a merge of all that a version has.
class DeferredRunTest : public testing::Test {
 protected:
  DeferredRunTest() : faults_(std::make_shared<FaultFileSystem>()), store_(faults_) {}

  // A table with one entry for each letter.
  std::shared_ptr<FileMeta> Table(std::string_view letters) {
    std::vector<Entry> entries;
    for (const char letter : letters) entries.push_back({std::string(1, letter), 1, "v"});
    return TableStore::Closed(*store_.Write(entries));
  }
  void Merge(const VersionEdit& edit) {
    const Version empty(store_.context.order, store_.opener.get());
    auto version = Version::Apply(empty, edit);
    ASSERT_TRUE(version.ok()) << version.status();
    version_ = *version;
    std::vector<std::unique_ptr<InternalIterator>> runs;
    EXPECT_TRUE(version_->AppendIterators(ReadOptions(), nullptr, nullptr, &runs).ok());
    merge_ = NewMergingIterator(store_.context.order, std::move(runs));
  }
  // The numbers of the tables that are open, level by level.
  std::vector<uint64_t> Open() const {
    std::vector<uint64_t> open;
    for (int level = 0; level < kNumLevels; ++level) {
      for (const FileRef& file : version_->files(level)) {
        if (file->table.load() != nullptr) open.push_back(file->number);
      }
    }
    return open;
  }
  std::string At() const {
    return merge_->Valid() ? std::string(UserKey(merge_->key())) : merge_->status().ToString();
  }

  const std::shared_ptr<FaultFileSystem> faults_;
  TableStore store_;
  std::shared_ptr<const Version> version_;
  std::unique_ptr<InternalIterator> merge_;
};

TEST_F(DeferredRunTest, TablesAreOpenedWhereTheMergeComesToThem) {
  VersionEdit edit;
  edit.added_files.emplace_back(0, Table("fh"));  // 1
  edit.added_files.emplace_back(5, Table("ac"));  // 2
  edit.added_files.emplace_back(5, Table("xz"));  // 3
  edit.added_files.emplace_back(6, Table("ej"));  // 4
  edit.added_files.emplace_back(6, Table("ky"));  // 5
  Merge(edit);
  EXPECT_THAT(Open(), ElementsAre());
  merge_->SeekToFirst();
  EXPECT_EQ(At(), "a");
  EXPECT_THAT(Open(), ElementsAre(2));
  merge_->Seek(InternalKey("d", 1));
  EXPECT_EQ(At(), "e");
  EXPECT_THAT(Open(), ElementsAre(2, 4));
  merge_->Next();
  EXPECT_EQ(At(), "f");
  EXPECT_THAT(Open(), ElementsAre(1, 2, 4));
  merge_->SeekToLast();
  EXPECT_EQ(At(), "z");
  EXPECT_THAT(Open(), ElementsAre(1, 2, 3, 4));
  merge_->SeekForPrev(InternalKey("d", 1));
  EXPECT_EQ(At(), "c");
  EXPECT_THAT(Open(), ElementsAre(1, 2, 3, 4));
  merge_->Seek(InternalKey("d", 1));
  std::string rest;
  for (; merge_->Valid(); merge_->Next()) rest += At();
  EXPECT_EQ(rest, "efhjkxyz");
  EXPECT_TRUE(merge_->status().ok());
  merge_->SeekForPrev(InternalKey("k", 1));
  rest.clear();
  for (; merge_->Valid(); merge_->Prev()) rest += At();
  EXPECT_EQ(rest, "kjhfeca");
}

TEST_F(DeferredRunTest, ErrorShowsOnlyWhereTheTableIsNeeded) {
  VersionEdit edit;
  edit.added_files.emplace_back(5, Table("ab"));    // 1
  edit.added_files.emplace_back(5, Table("mn"));    // 2: can't be opened
  edit.added_files.emplace_back(6, Table("cdpq"));  // 3
  Merge(edit);
  const auto fail = [&] {
    faults_->Fail(FileOp::kOpenForReading, "000002.sst", absl::UnavailableError("broken"));
  };
  fail();
  merge_->Seek(InternalKey("c", 1));
  EXPECT_EQ(At(), "c");
  merge_->Next();
  EXPECT_EQ(At(), "d");
  merge_->Next();
  EXPECT_FALSE(merge_->Valid());  // and not on "p"
  EXPECT_TRUE(absl::IsUnavailable(merge_->status())) << merge_->status();
  fail();
  merge_->SeekToLast();
  EXPECT_EQ(At(), "q");
  merge_->Prev();
  EXPECT_EQ(At(), "p");
  merge_->Prev();
  EXPECT_FALSE(merge_->Valid());
  EXPECT_TRUE(absl::IsUnavailable(merge_->status())) << merge_->status();
  // What could not be opened once is tried again.
  merge_->SeekForPrev(InternalKey("o", 1));
  EXPECT_EQ(At(), "n");
}

TEST_F(DeferredRunTest, TableThatExceedsItsDescriptionIsDataLoss) {
  const std::shared_ptr<FileMeta> file = Table("bcd");
  file->smallest = InternalKey("c", 1);
  file->largest = InternalKey("c", 1);
  VersionEdit edit;
  edit.added_files.emplace_back(5, file);
  edit.added_files.emplace_back(6, Table("ae"));
  Merge(edit);
  merge_->SeekToFirst();
  EXPECT_EQ(At(), "a");
  merge_->Next();
  EXPECT_FALSE(merge_->Valid());
  EXPECT_TRUE(absl::IsDataLoss(merge_->status())) << merge_->status();
  EXPECT_THAT(std::string(merge_->status().message()), HasSubstr("table 000001"));
  merge_->SeekToLast();
  EXPECT_EQ(At(), "e");
  merge_->Prev();
  EXPECT_FALSE(merge_->Valid());
  EXPECT_TRUE(absl::IsDataLoss(merge_->status())) << merge_->status();
}

// Random walks over runs of many small tables, against a sorted vector.
void WalkAtRandom(uint32_t seed, const Comparator* comparator) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  TableStore store(NewMemoryFileSystem(), comparator);
  const InternalKeyOrder& order = store.context.order;
  const auto less = [&](const std::string& a, const std::string& b) {
    return order.Compare(a, b) < 0;
  };
  const std::string prefix(random() % 3 * 5, 'p');
  const auto random_key = [&] { return prefix + std::to_string(random() % 120); };
  std::vector<std::string> all;
  VersionEdit edit;
  for (const int level : {0, 0, 4, 5, 6}) {
    std::vector<std::string> keys;
    for (size_t n = random() % 40; n > 0; --n) keys.push_back(random_key());
    std::sort(keys.begin(), keys.end(), [&](const std::string& a, const std::string& b) {
      return comparator->Compare(a, b) < 0;
    });
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    // A sequence of its own for each, so that no two entries are equal.
    const size_t tables = level == 0 ? 1 : 1 + random() % 5;
    const size_t each = keys.size() / tables + 1;
    for (size_t begin = 0; begin < keys.size(); begin += each) {
      std::vector<Entry> entries;
      for (size_t i = begin; i < std::min(keys.size(), begin + each); ++i) {
        entries.push_back({keys[i], all.size() + 1, std::string(30, 'v')});
        all.push_back(InternalKey(keys[i], all.size() + 1));
      }
      edit.added_files.emplace_back(level, TableStore::Closed(*store.Write(entries)));
    }
  }
  std::sort(all.begin(), all.end(), less);
  const Version empty(order, store.opener.get());
  const auto version = Version::Apply(empty, edit);
  ASSERT_TRUE(version.ok()) << version.status();
  std::vector<std::unique_ptr<InternalIterator>> runs;
  EXPECT_TRUE((*version)->AppendIterators(ReadOptions(), nullptr, nullptr, &runs).ok());
  const auto it = NewMergingIterator(order, std::move(runs));
  size_t at = all.size();  // not Valid
  for (int step = 0; step < 400; ++step) {
    const std::string target = InternalKey(random_key(), random() % (all.size() + 2));
    const uint32_t what = random() % (at < all.size() ? 14 : 4);
    if (what == 0) {
      it->SeekToFirst();
      at = 0;
    } else if (what == 1) {
      it->SeekToLast();
      at = all.size() - 1;
    } else if (what == 2) {
      it->Seek(target);
      at =
          static_cast<size_t>(std::lower_bound(all.begin(), all.end(), target, less) - all.begin());
    } else if (what == 3) {
      it->SeekForPrev(target);
      at =
          static_cast<size_t>(std::upper_bound(all.begin(), all.end(), target, less) - all.begin());
      --at;
    } else if (what < 10) {
      it->Next();
      ++at;
    } else {
      it->Prev();
      --at;
    }
    if (at > all.size()) at = all.size();
    ASSERT_TRUE(it->status().ok()) << it->status();
    ASSERT_EQ(it->Valid(), at < all.size()) << "step " << step;
    if (!it->Valid()) continue;
    ASSERT_EQ(it->key(), all[at]) << "step " << step;
  }
}

TEST(DeferredRunWalkTest, RandomAgainstSortedVector) {
  const Comparator* const comparators[] = {BytewiseComparator(), ReverseBytewiseComparator(),
                                           &kByLength};
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    WalkAtRandom(seed, comparators[seed % 3]);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sievedb
