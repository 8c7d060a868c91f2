#include "db/version.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/version_builder.h"
#include "db/version_iterator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"
#include "util/epoch.h"

namespace sievedb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using version_test::Entry;
using version_test::InternalKey;
using version_test::MakeFile;
using version_test::TableStore;

// An order of user keys by length first. It has no words.
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

std::shared_ptr<const Version> Make(TableStore* store, const VersionEdit& edit) {
  const Version empty(store->context.order, store->opener.get());
  auto version = Version::Apply(empty, edit);
  EXPECT_TRUE(version.ok()) << version.status();
  return version.ok() ? *version : nullptr;
}

std::vector<uint64_t> Numbers(absl::Span<const FileRef> files) {
  std::vector<uint64_t> numbers;
  for (const FileRef& file : files) numbers.push_back(file->number);
  return numbers;
}

// --- what a version consists of

class VersionApplyTest : public testing::Test {
 protected:
  VersionApplyTest() : empty_(store_.context.order, store_.opener.get()) {}
  absl::Status Status(const Version& base, const VersionEdit& edit) {
    return Version::Apply(base, edit).status();
  }
  TableStore store_;
  const Version empty_;
};

TEST_F(VersionApplyTest, LevelsAreOrdered) {
  VersionEdit edit;
  edit.added_files.emplace_back(0, MakeFile(1, "a", "z", 5));
  edit.added_files.emplace_back(0, MakeFile(2, "a", "z", 9));
  edit.added_files.emplace_back(0, MakeFile(3, "a", "z", 5));
  edit.added_files.emplace_back(4, MakeFile(4, "m", "p"));
  edit.added_files.emplace_back(4, MakeFile(5, "a", "c", 1, 50));
  const auto version = Make(&store_, edit);
  EXPECT_THAT(Numbers(version->files(0)), ElementsAre(2, 3, 1));
  EXPECT_THAT(Numbers(version->files(4)), ElementsAre(5, 4));
  EXPECT_EQ(version->LevelBytes(4), 1050u);
  EXPECT_EQ(version->DeepestLevel(), 4);
  EXPECT_EQ(empty_.DeepestLevel(), 0);
  EXPECT_EQ(version->DebugString(),
            "L0: 2[a .. z]1000 3[a .. z]1000 1[a .. z]1000\nL4: 5[a .. c]50 4[m .. p]1000\n");
  EXPECT_EQ(version->EntriesEstimate(), 500u);
}

TEST_F(VersionApplyTest, WhatDoesNotFitIsDamage) {
  VersionEdit edit;
  edit.added_files.emplace_back(4, MakeFile(4, "m", "p"));
  const auto version = Make(&store_, edit);
  EXPECT_TRUE(absl::IsDataLoss(Status(*version, edit)));  // is there already
  VersionEdit again;
  again.added_files.emplace_back(0, MakeFile(4, "a", "b"));  // in another level
  EXPECT_TRUE(absl::IsDataLoss(Status(*version, again)));
  VersionEdit absent;
  absent.removed_files.emplace_back(3, 4);
  EXPECT_TRUE(absl::IsDataLoss(Status(*version, absent)));
  VersionEdit overlap;
  overlap.added_files.emplace_back(4, MakeFile(5, "p", "q"));
  const absl::Status status = Status(*version, overlap);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tables 4 and 5 of level 4 overlap"));
  VersionEdit backwards;
  backwards.added_files.emplace_back(0, MakeFile(5, "q", "p"));
  EXPECT_TRUE(absl::IsDataLoss(Status(*version, backwards)));
  VersionEdit twice;
  twice.removed_files = {{4, 4}, {4, 4}};
  EXPECT_TRUE(absl::IsDataLoss(Status(*version, twice)));
}

TEST_F(VersionApplyTest, AMoveKeepsTheTable) {
  VersionEdit edit;
  edit.added_files.emplace_back(0, MakeFile(4, "m", "p"));
  const auto version = Make(&store_, edit);
  VersionEdit move;
  move.removed_files.emplace_back(0, 4);
  move.added_files.emplace_back(6, MakeFile(4, "m", "p"));  // described anew
  const auto moved = Version::Apply(*version, move);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ((*moved)->files(6)[0], version->files(0)[0]);
  EXPECT_TRUE((*moved)->files(0).empty());
}

TEST_F(VersionApplyTest, BuilderTakesManyEdits) {
  VersionBuilder builder(empty_);
  for (uint64_t i = 1; i <= 100; ++i) {
    VersionEdit edit;
    const std::string key = absl::StrFormat("%03d", i);
    edit.added_files.emplace_back(i % 2 == 0 ? 0 : 6, MakeFile(i, key, key, i));
    if (i > 10) edit.removed_files.emplace_back(i % 2 == 0 ? 0 : 6, i - 10);
    ASSERT_TRUE(builder.Add(edit).ok());
  }
  const auto version = builder.Build();
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_THAT(Numbers((*version)->files(0)), ElementsAre(100, 98, 96, 94, 92));
  EXPECT_THAT(Numbers((*version)->files(6)), ElementsAre(91, 93, 95, 97, 99));
  EXPECT_TRUE(builder.TakeDropped().empty());
}

TEST_F(VersionApplyTest, Overlapping) {
  VersionEdit edit;
  edit.added_files.emplace_back(0, MakeFile(1, "a", "c", 1));
  edit.added_files.emplace_back(0, MakeFile(2, "c", "f", 2));
  edit.added_files.emplace_back(0, MakeFile(3, "f", "g", 3));
  edit.added_files.emplace_back(0, MakeFile(4, "x", "z", 4));
  edit.added_files.emplace_back(5, MakeFile(11, "b", "d"));
  edit.added_files.emplace_back(5, MakeFile(12, "f", "h"));
  edit.added_files.emplace_back(5, MakeFile(13, "j", "l"));
  const auto version = Make(&store_, edit);
  const auto overlapping = [&](int level, const char* begin, const char* end) {
    std::string_view b;
    std::string_view e;
    if (begin != nullptr) b = begin;
    if (end != nullptr) e = end;
    return Numbers(version->Overlapping(level, begin == nullptr ? nullptr : &b,
                                        end == nullptr ? nullptr : &e));
  };
  EXPECT_THAT(overlapping(0, "a", "a"), ElementsAre(3, 2, 1));  // each brings the next
  EXPECT_THAT(overlapping(0, "h", "x"), ElementsAre(4));
  EXPECT_THAT(overlapping(0, "h", "i"), ElementsAre());
  EXPECT_THAT(overlapping(0, nullptr, nullptr), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(overlapping(5, "a", "a1"), ElementsAre());
  EXPECT_THAT(overlapping(5, "d", "f"), ElementsAre(11, 12));
  EXPECT_THAT(overlapping(5, "d1", "e"), ElementsAre());
  EXPECT_THAT(overlapping(5, "g", nullptr), ElementsAre(12, 13));
  EXPECT_THAT(overlapping(5, nullptr, "i"), ElementsAre(11, 12));
  EXPECT_THAT(overlapping(5, "m", nullptr), ElementsAre());
  EXPECT_THAT(overlapping(6, nullptr, nullptr), ElementsAre());
  EXPECT_TRUE(version->KeyMayExistBelow(0, "c"));
  EXPECT_TRUE(version->KeyMayExistBelow(4, "l"));
  EXPECT_FALSE(version->KeyMayExistBelow(4, "e"));
  EXPECT_FALSE(version->KeyMayExistBelow(5, "c"));
}

// The search by words finds what a walk finds, whatever the keys share.
TEST_F(VersionApplyTest, FindFileByWordsEqualsAWalk) {
  std::mt19937_64 random(5);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       static_cast<const Comparator*>(&kByLength)}) {
    for (const std::string& prefix : {std::string(), std::string("user"), std::string(300, 'p')}) {
      TableStore store(NewMemoryFileSystem(), comparator);
      const KeyOrder& order = store.context.order.user();
      std::set<std::string> chosen;
      for (int i = 0; i < 200; ++i) {
        std::string key = prefix;
        // Long runs of one byte: many keys share a word.
        for (uint64_t n = random() % 14; n > 0; --n) key += random() % 4 == 0 ? '\xff' : 'a';
        chosen.insert(key);
      }
      std::vector<std::string> keys(chosen.begin(), chosen.end());
      std::sort(keys.begin(), keys.end(),
                [&](const auto& a, const auto& b) { return order.Compare(a, b) < 0; });
      VersionEdit edit;
      for (size_t i = 0; i + 1 < keys.size(); i += 2) {
        edit.added_files.emplace_back(3, MakeFile(i + 1, keys[i], keys[i + 1]));
      }
      const auto version = Make(&store, edit);
      const absl::Span<const FileRef> files = version->files(3);
      for (int i = 0; i < 500; ++i) {
        std::string key = i % 2 == 0 ? keys[random() % keys.size()] : prefix.substr(0, i);
        if (i % 3 == 0) key += static_cast<char>(random());
        const std::string_view view = key;
        std::vector<uint64_t> expected;
        for (const FileRef& file : files) {
          if (order.Compare(UserKey(file->smallest), key) <= 0 &&
              order.Compare(UserKey(file->largest), key) >= 0) {
            expected.push_back(file->number);
          }
        }
        ASSERT_EQ(Numbers(version->Overlapping(3, &view, &view)), expected) << key;
      }
    }
  }
}

// --- reading

class VersionReadTest : public testing::Test {
 protected:
  // "value", "deleted", "absent", or the error.
  std::string Get(TableStore& store, const Version& version, std::string_view key,
                  uint64_t sequence = kMaxSequence, bool cache_only = false) {
    ReadOptions options;
    options.cache_only = cache_only;
    const EpochGuard guard;
    Lookup lookup(key, sequence, version.order().user(), options, store.statistics());
    Version::Candidates candidates;
    version.FindCandidates(lookup, &candidates);
    const absl::Status status = version.Get(&candidates, &lookup);
    if (!status.ok()) return status.ToString();
    switch (lookup.state) {
      case Lookup::State::kFound:
        EXPECT_TRUE(version.MayContain(lookup));
        return std::string(lookup.value);
      case Lookup::State::kDeleted:
        return "deleted";
      case Lookup::State::kSearching:
        return "absent";
    }
    return "";
  }
  bool MayContain(TableStore& store, const Version& version, std::string_view key) {
    const ReadOptions options;
    const EpochGuard guard;
    return version.MayContain(
        Lookup(key, kMaxSequence, version.order().user(), options, store.statistics()));
  }
};

TEST_F(VersionReadTest, NewestRunWins) {
  TableStore store;
  VersionEdit edit;
  edit.added_files.emplace_back(6, store.Write({{"a", 1, "a1"}, {"b", 2, "b2"}, {"c", 3, "c3"}}));
  edit.added_files.emplace_back(5, store.Write({{"b", 5, "b5"}}));
  edit.added_files.emplace_back(
      0, store.Write({{"b", 8, "", EntryType::kDelete}, {"c", 9, "c9"}, {"c", 7, "c7"}}));
  edit.added_files.emplace_back(0, store.Write({{"a", 12, "a12"}, {"d", 11, "d11"}}));
  const auto version = Make(&store, edit);
  EXPECT_EQ(Get(store, *version, "a"), "a12");
  EXPECT_EQ(Get(store, *version, "a", 11), "a1");
  EXPECT_EQ(Get(store, *version, "b"), "deleted");
  EXPECT_EQ(Get(store, *version, "b", 7), "b5");
  EXPECT_EQ(Get(store, *version, "b", 4), "b2");
  EXPECT_EQ(Get(store, *version, "b", 1), "absent");
  EXPECT_EQ(Get(store, *version, "c"), "c9");
  EXPECT_EQ(Get(store, *version, "c", 8), "c7");
  EXPECT_EQ(Get(store, *version, "c", 6), "c3");
  EXPECT_EQ(Get(store, *version, "c1"), "absent");
  EXPECT_EQ(Get(store, *version, "z"), "absent");
  EXPECT_EQ(Get(store, *version, ""), "absent");
}

TEST_F(VersionReadTest, FilterAnswersAreCountedByLevel) {
  TableStore store;
  std::vector<Entry> entries;
  for (int i = 0; i < 1000; ++i) entries.push_back({absl::StrFormat("%04d", i), 1, "v"});
  VersionEdit edit;
  edit.added_files.emplace_back(6, store.Write(entries));
  edit.added_files.emplace_back(0, store.Write({{"0000", 2, "v"}, {"9999", 2, "v"}}));
  const auto version = Make(&store, edit);
  int absent = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Get(store, *version, absl::StrFormat("%04d", i)), "v");
    absent += Get(store, *version, absl::StrFormat("%04dx", i)) == "absent" ? 1 : 0;
  }
  EXPECT_EQ(absent, 1000);
  const FilterLevelCounts top = store.options.statistics->GetFilterCounts(0);
  const FilterLevelCounts bottom = store.options.statistics->GetFilterCounts(6);
  EXPECT_EQ(top.checked, 2000u);
  EXPECT_EQ(top.maybe_present, 1u);
  // The last "0999x" is beyond level 6's range: no filter was asked.
  EXPECT_EQ(bottom.checked, 1998u);
  EXPECT_EQ(bottom.maybe_present, 999u);
  EXPECT_LT(bottom.maybe_absent, 50u);
  EXPECT_EQ(bottom.said_no + bottom.maybe_absent + bottom.maybe_present, bottom.checked);
}

TEST_F(VersionReadTest, MayContainRulesOut) {
  TableStore store;
  VersionEdit edit;
  const auto open = store.Write({{"b", 1, "v"}, {"d", 2, "v"}});
  edit.added_files.emplace_back(6, open);
  const auto version = Make(&store, edit);
  EXPECT_TRUE(MayContain(store, *version, "b"));
  EXPECT_FALSE(MayContain(store, *version, "a"));
  EXPECT_FALSE(MayContain(store, *version, "c"));
  EXPECT_FALSE(MayContain(store, *version, "e"));
  // Not open: only its range rules out.
  VersionEdit closed;
  closed.added_files.emplace_back(6, TableStore::Closed(*open));
  const auto other = Make(&store, closed);
  EXPECT_TRUE(MayContain(store, *other, "c"));
  EXPECT_FALSE(MayContain(store, *other, "e"));
  EXPECT_EQ(other->files(6)[0]->table.load(), nullptr);
}

TEST_F(VersionReadTest, TablesAreOpenedByTheReadThatNeedsThem) {
  TableStore store;
  VersionEdit edit;
  const auto file = store.Write({{"b", 1, "v"}});
  edit.added_files.emplace_back(6, TableStore::Closed(*file));
  const auto version = Make(&store, edit);
  EXPECT_THAT(Get(store, *version, "b", kMaxSequence, /*cache_only=*/true),
              HasSubstr("UNAVAILABLE"));
  EXPECT_EQ(Get(store, *version, "c", kMaxSequence, /*cache_only=*/true), "absent");
  EXPECT_EQ(Get(store, *version, "b"), "v");
  EXPECT_NE(version->files(6)[0]->table.load(), nullptr);
  EXPECT_EQ(Get(store, *version, "b", kMaxSequence, /*cache_only=*/true), "v");
}

TEST_F(VersionReadTest, ManyThreadsReadAndOpenTheTables) {
  TableStore store;
  VersionEdit edit;
  for (int i = 0; i < 30; ++i) {
    const std::string key = absl::StrFormat("%02d", i);
    edit.added_files.emplace_back(6, TableStore::Closed(*store.Write({{key, 1, key}})));
  }
  edit.added_files.emplace_back(0,
                                TableStore::Closed(*store.Write({{"00", 5, "x"}, {"99", 5, ""}})));
  const auto version = Make(&store, edit);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 120; ++i) {
        const int n = (i * 7 + t * 11) % 30;
        const std::string key = absl::StrFormat("%02d", n);
        EXPECT_TRUE(MayContain(store, *version, key));
        EXPECT_EQ(Get(store, *version, key), n == 0 ? "x" : key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(VersionReadTest, MissingAndDamagedTablesAreDataLoss) {
  TableStore store;
  VersionEdit edit;
  const auto file = store.Write({{"b", 1, "v"}});
  edit.added_files.emplace_back(6, TableStore::Closed(*file));
  const auto version = Make(&store, edit);
  ASSERT_TRUE(store.options.file_system->DeleteFile("db/000001.sst").ok());
  EXPECT_THAT(Get(store, *version, "b"), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(Get(store, *version, "b"), HasSubstr("db/000001.sst"));
}

// Entries of all runs, in order; the latest of each key is what Get finds, under
// every order of keys.
TEST_F(VersionReadTest, RandomVersionsEqualAModel) {
  std::mt19937_64 random(99);
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator(),
                                       static_cast<const Comparator*>(&kByLength)}) {
    TableStore store(NewMemoryFileSystem(), comparator);
    const InternalKeyOrder& order = store.context.order;
    uint64_t sequence = 0;
    VersionEdit edit;
    std::map<std::string, std::string> model;  // user key: value or "deleted"
    size_t entries = 0;
    const auto table = [&](const std::vector<std::string>& keys) {
      std::vector<Entry> sorted;
      ++sequence;
      for (const std::string& key : keys) {
        const bool is_put = random() % 4 != 0;
        const std::string value = absl::StrFormat("%d", sequence);
        sorted.push_back(
            {key, sequence, is_put ? value : "", is_put ? EntryType::kPut : EntryType::kDelete});
        model[key] = is_put ? value : "deleted";
      }
      entries += sorted.size();
      return store.Write(sorted);
    };
    const auto keys = [&](size_t n) {
      std::set<std::string> chosen;
      while (chosen.size() < n) {
        chosen.insert("key" + std::string(random() % 3, 'x') + std::to_string(random() % 500));
      }
      std::vector<std::string> list(chosen.begin(), chosen.end());
      std::sort(list.begin(), list.end(), [&](const std::string& a, const std::string& b) {
        return order.user().Compare(a, b) < 0;
      });
      return list;
    };
    for (const auto& [level, run] :
         std::vector<std::pair<int, uint64_t>>{{6, 0}, {6, 1}, {6, 9}, {5, 0}, {3, 2}, {3, 3}}) {
      const std::vector<std::string> all = keys(300);
      for (size_t i = 0; i < all.size(); i += 30) {
        const auto at = all.begin() + static_cast<std::ptrdiff_t>(i);
        edit.added_files.emplace_back(level, table({at, at + 30}), run);
      }
    }
    for (int i = 0; i < 6; ++i) edit.added_files.emplace_back(0, table(keys(20)));
    const auto version = Make(&store, edit);
    for (const char* x : {"", "x", "xx", "y"}) {
      for (int i = 0; i < 500; ++i) {
        const std::string key = absl::StrFormat("key%s%d", x, i);
        const auto it = model.find(key);
        ASSERT_EQ(Get(store, *version, key), it == model.end() ? "absent" : it->second) << key;
      }
    }
    std::vector<std::unique_ptr<InternalIterator>> runs;
    EXPECT_TRUE(version->AppendIterators(ReadOptions(), nullptr, nullptr, &runs).ok());
    EXPECT_EQ(runs.size(), 12u);
    size_t forward = 0;
    size_t backward = 0;
    for (const auto& run : runs) {
      std::string last;
      for (run->SeekToFirst(); run->Valid(); run->Next(), ++forward) {
        if (!last.empty()) {
          ASSERT_LT(order.Compare(last, run->key()), 0);
        }
        last = run->key();
      }
      ASSERT_TRUE(run->status().ok());
      for (run->SeekToLast(); run->Valid(); run->Prev(), ++backward) {
        ASSERT_GE(order.Compare(last, run->key()), 0);
        last = run->key();
      }
      ASSERT_TRUE(run->status().ok());
    }
    EXPECT_EQ(forward, entries);
    EXPECT_EQ(backward, entries);
  }
}

TEST_F(VersionReadTest, IteratorsAreOfTheTablesInTheBounds) {
  TableStore store;
  VersionEdit edit;
  edit.added_files.emplace_back(0, store.Write({{"a", 10, "v"}, {"c", 10, "v"}}));
  edit.added_files.emplace_back(0, store.Write({{"f", 11, "v"}, {"h", 11, "v"}}));
  edit.added_files.emplace_back(6, store.Write({{"a", 1, "v"}, {"b", 1, "v"}}));
  edit.added_files.emplace_back(6, store.Write({{"d", 1, "v"}, {"e", 1, "v"}}));
  edit.added_files.emplace_back(6, store.Write({{"g", 1, "v"}, {"h", 1, "v"}}));
  const auto version = Make(&store, edit);
  // The keys that the runs have between them.
  const auto keys = [&](const char* lower, const char* upper) {
    const std::string l = lower == nullptr ? "" : lower;
    const std::string u = upper == nullptr ? "" : upper;
    std::vector<std::unique_ptr<InternalIterator>> runs;
    EXPECT_TRUE(version
                    ->AppendIterators(ReadOptions(), lower == nullptr ? nullptr : &l,
                                      upper == nullptr ? nullptr : &u, &runs)
                    .ok());
    std::string text;
    for (const auto& run : runs) {
      if (!text.empty()) text += '|';
      for (run->SeekToFirst(); run->Valid(); run->Next()) text += UserKey(run->key());
    }
    return text;
  };
  EXPECT_EQ(keys(nullptr, nullptr), "fh|ac|abdegh");
  EXPECT_EQ(keys("c", "f"), "ac|de");  // the upper bound is not wanted itself
  EXPECT_EQ(keys("c1", "d"), "");
  EXPECT_EQ(keys("d", "g1"), "fh|degh");
  EXPECT_EQ(keys("i", nullptr), "");
  EXPECT_EQ(keys(nullptr, "a"), "");
  EXPECT_EQ(keys(nullptr, "a1"), "ac|ab");
}

TEST_F(VersionReadTest, RunIteratorSeeks) {
  TableStore store;
  VersionEdit edit;
  for (int i = 0; i < 5; ++i) {
    const auto key = [&](int j) { return absl::StrFormat("%02d", 10 * i + j); };
    edit.added_files.emplace_back(
        6,
        TableStore::Closed(*store.Write({{key(2), 9, "v"}, {key(2), 4, "v"}, {key(6), 3, "v"}})));
  }
  const auto version = Make(&store, edit);
  std::vector<std::unique_ptr<InternalIterator>> runs;
  EXPECT_TRUE(version->AppendIterators(ReadOptions(), nullptr, nullptr, &runs).ok());
  ASSERT_EQ(runs.size(), 1u);
  for (const FileRef& file : version->files(6)) EXPECT_EQ(file->table.load(), nullptr);
  InternalIterator* it = runs[0].get();
  const auto at = [&] {
    return it->Valid() ? absl::StrFormat("%s@%d", UserKey(it->key()), TagSequence(Tag(it->key())))
                       : it->status().ToString();
  };
  std::vector<std::string> all;
  for (it->SeekToFirst(); it->Valid(); it->Next()) all.push_back(at());
  ASSERT_EQ(all.size(), 15u);
  const InternalKeyOrder& order = version->order();
  for (int n = 0; n < 60; ++n) {
    for (const uint64_t sequence : {1, 3, 5, 10}) {
      const std::string target = InternalKey(absl::StrFormat("%02d", n), sequence);
      std::string expected_next = "OK";
      std::string expected_prev = "OK";
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        if (order.Compare(it->key(), target) <= 0) expected_prev = at();
        if (order.Compare(it->key(), target) >= 0 && expected_next == "OK") expected_next = at();
      }
      it->Seek(target);
      EXPECT_EQ(at(), expected_next) << n << "@" << sequence;
      it->SeekForPrev(target);
      EXPECT_EQ(at(), expected_prev) << n << "@" << sequence;
    }
  }
  // Turning round, also at the border of two tables.
  it->Seek(InternalKey("06", 3));
  it->Next();
  EXPECT_EQ(at(), "12@9");
  it->Prev();
  EXPECT_EQ(at(), "06@3");
  it->Next();
  EXPECT_EQ(at(), "12@9");
}

TEST_F(VersionReadTest, RunIteratorStopsAtAnErrorAndRecovers) {
  auto faults = std::make_shared<FaultFileSystem>();
  TableStore store(faults);
  VersionEdit edit;
  for (const char* key : {"a", "b", "c"}) {
    edit.added_files.emplace_back(6, TableStore::Closed(*store.Write({{key, 1, "v"}})));
  }
  const auto version = Make(&store, edit);
  std::vector<std::unique_ptr<InternalIterator>> runs;
  EXPECT_TRUE(version->AppendIterators(ReadOptions(), nullptr, nullptr, &runs).ok());
  InternalIterator* it = runs[0].get();
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  faults->Fail(FileOp::kOpenForReading, "000002.sst", absl::UnavailableError("broken"));
  it->Next();
  EXPECT_FALSE(it->Valid());  // and not on "c"
  EXPECT_TRUE(absl::IsUnavailable(it->status())) << it->status();
  it->Seek(InternalKey("b", 1));
  EXPECT_TRUE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  ReadOptions cache_only;
  cache_only.cache_only = true;
  runs.clear();
  EXPECT_TRUE(version->AppendIterators(cache_only, nullptr, nullptr, &runs).ok());
  runs[0]->SeekToLast();
  EXPECT_TRUE(absl::IsUnavailable(runs[0]->status())) << runs[0]->status();
}

TEST_F(VersionReadTest, ApproximateBytes) {
  TableStore store;
  store.options.compression = Compression::kNone;
  std::vector<Entry> entries;
  for (int i = 0; i < 1000; ++i) {
    entries.push_back({absl::StrFormat("%04d", i), 1, std::string(100, 'v')});
  }
  VersionEdit edit;
  const auto file = store.Write(entries);
  edit.added_files.emplace_back(6, file);
  const auto version = Make(&store, edit);
  EXPECT_EQ(version->ApproximateBytes("", "x"), file->file_bytes);
  EXPECT_NEAR(static_cast<double>(version->ApproximateBytes("0250", "0750")),
              static_cast<double>(file->file_bytes - file->tail_bytes) / 2, 1000);
  EXPECT_EQ(version->ApproximateBytes("x", "y"), 0u);
  EXPECT_EQ(version->ApproximateBytes("", "0000"), 0u);
  EXPECT_EQ(version->ApproximateBytes("0750", "0250"), 0u);
}

}  // namespace
}  // namespace sievedb
