#include "db/db_iterator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/statistics.h"
#include "table/merging_iterator.h"
#include "tests/data_driven.h"
#include "tests/vector_iterator.h"
#include "util/escape.h"

namespace sievedb {
namespace {

// Compares like the bytewise order, through a virtual call and without words.
class PlainComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return "test.plain"; }
};

const Comparator* ComparatorOf(std::string_view name) {
  static const PlainComparator plain;
  if (name == "reverse") return ReverseBytewiseComparator();
  return name == "plain" ? &plain : BytewiseComparator();
}

using Lists = std::vector<std::vector<VectorEntry>>;

IteratorSource MakeSource(const InternalKeyOrder& order, const Lists& lists, uint64_t sequence) {
  std::vector<std::unique_ptr<InternalIterator>> children;
  for (const std::vector<VectorEntry>& list : lists) {
    children.push_back(std::make_unique<VectorIterator>(order, list));
  }
  IteratorSource source;
  source.entries = NewMergingIterator(order, std::move(children));
  source.sequence = sequence;
  return source;
}

VectorEntry MakeEntry(std::string_view key, uint64_t sequence, EntryType type,
                      std::string_view value) {
  VectorEntry entry;
  AppendInternalKey(&entry.key, key, MakeTag(sequence, type));
  entry.value = value;
  return entry;
}

// --- tests/data/db_iterator/*.txt

std::string Unescaped(const std::string& text) {
  absl::StatusOr<std::string> bytes = Unescape(text);
  EXPECT_TRUE(bytes.ok()) << text;
  return bytes.ok() ? *bytes : "";
}

// key@sequence=put:value, =del, =type9 (an unknown one) or =error (the read fails
// there); =short is a key that is too short to be one.
VectorEntry ParseEntry(const std::string& text) {
  const size_t at = text.find('@');
  const size_t equals = text.find('=', at);
  EXPECT_NE(equals, std::string::npos) << text;
  const std::string key = Unescaped(text.substr(0, at));
  uint64_t sequence = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text.substr(at + 1, equals - at - 1), &sequence)) << text;
  const std::string what = text.substr(equals + 1);
  if (what == "del") return MakeEntry(key, sequence, EntryType::kDelete, "");
  if (what.rfind("put:", 0) == 0) {
    return MakeEntry(key, sequence, EntryType::kPut, Unescaped(what.substr(4)));
  }
  VectorEntry entry = MakeEntry(key, sequence, EntryType::kPut, "");
  if (what == "error") entry.status = absl::DataLossError("read of " + key);
  if (what == "type9") entry.key[entry.key.size() - kTagBytes] = 9;
  return entry;
}

class Interpreter {
 public:
  void Reset() { *this = Interpreter(); }

  // entries [order=bytewise|reverse|plain]: one list a line, newest first.
  // iterate [sequence=N] [lower=K] [upper=K] [snapshot]: one move a line; prints where
  //   each led to.
  std::string Run(const DataDrivenCase& test) {
    if (test.command == "entries") return Entries(test);
    if (test.command == "iterate") return Iterate(test);
    return "unknown command " + test.command;
  }

 private:
  std::string Entries(const DataDrivenCase& test) {
    order_ = InternalKeyOrder(ComparatorOf(test.Argument("order")));
    lists_.clear();
    for (const std::string& line : SplitLines(test.input)) {
      std::vector<VectorEntry> list;
      for (const std::string& word : SplitWords(line)) list.push_back(ParseEntry(word));
      std::stable_sort(list.begin(), list.end(), [this](const auto& a, const auto& b) {
        return order_.Compare(a.key, b.key) < 0;
      });
      lists_.push_back(std::move(list));
    }
    return "ok";
  }

  std::string Iterate(const DataDrivenCase& test) {
    uint64_t sequence = 0;
    if (!absl::SimpleAtoi(test.Argument("sequence", "1000"), &sequence)) return "bad sequence";
    ReadOptions options;
    if (test.HasArgument("lower")) options.lower_bound = Unescaped(test.Argument("lower"));
    if (test.HasArgument("upper")) options.upper_bound = Unescaped(test.Argument("upper"));
    const std::unique_ptr<Iterator> it = NewDBIterator(
        order_, options, nullptr,
        [&]() -> absl::StatusOr<IteratorSource> { return MakeSource(order_, lists_, sequence); });
    std::string output;
    for (const std::string& line : SplitLines(test.input)) {
      const std::vector<std::string> words = SplitWords(line);
      const std::string target = words.size() > 1 ? Unescaped(words[1]) : "";
      if ((words[0] == "next" || words[0] == "prev") && !it->Valid()) {
        output += "not valid\n";
        continue;
      }
      Move(words[0], target, it.get());
      output += Show(*it) + "\n";
    }
    return output;
  }

  static void Move(const std::string& how, const std::string& target, Iterator* it) {
    if (how == "first") it->SeekToFirst();
    if (how == "last") it->SeekToLast();
    if (how == "seek") it->Seek(target);
    if (how == "seek-for-prev") it->SeekForPrev(target);
    if (how == "next") it->Next();
    if (how == "prev") it->Prev();
  }

  static std::string Show(const Iterator& it) {
    if (it.Valid()) return Escape(it.key()) + "=" + Escape(it.value());
    return it.status().ok() ? "end" : it.status().ToString();
  }

  InternalKeyOrder order_{BytewiseComparator()};
  Lists lists_;
};

TEST(DBIteratorTest, DataDriven) {
  std::unique_ptr<Interpreter> interpreter;
  RunDataDriven(
      "db_iterator", [&] { interpreter = std::make_unique<Interpreter>(); },
      [&](const DataDrivenCase& test) { return interpreter->Run(test); });
}

// --- what text does not say

const InternalKeyOrder kBytewise(BytewiseComparator());

TEST(DBIteratorTest, ShortKeyIsDataLoss) {
  const std::unique_ptr<Iterator> it =
      NewDBIterator(kBytewise, ReadOptions(), nullptr, []() -> absl::StatusOr<IteratorSource> {
        return MakeSource(kBytewise, {{{"short", "", {}}}}, 5);
      });
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status().code(), absl::StatusCode::kDataLoss);
  it->SeekToLast();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status().code(), absl::StatusCode::kDataLoss);
}

TEST(DBIteratorTest, SourceThatFailsIsAnErrorUntilRefreshed) {
  bool fails = true;
  const std::unique_ptr<Iterator> it =
      NewDBIterator(kBytewise, ReadOptions(), nullptr, [&]() -> absl::StatusOr<IteratorSource> {
        if (fails) return absl::FailedPreconditionError("closed");
        return MakeSource(kBytewise, {{MakeEntry("a", 1, EntryType::kPut, "x")}}, 5);
      });
  EXPECT_FALSE(it->Valid());
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status().code(), absl::StatusCode::kFailedPrecondition);
  fails = false;
  ASSERT_TRUE(it->Refresh().ok());
  EXPECT_FALSE(it->Valid());
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "x");
}

TEST(DBIteratorTest, RefreshSeesWhatIsNewAndLetsGoOfTheOld) {
  struct View {
    std::vector<std::string>* log;
    std::string name;
    ~View() { log->push_back(name); }
  };
  std::vector<std::string> log;
  uint64_t sequence = 1;
  {
    const std::unique_ptr<Iterator> it =
        NewDBIterator(kBytewise, ReadOptions(), nullptr, [&]() -> absl::StatusOr<IteratorSource> {
          IteratorSource source = MakeSource(kBytewise,
                                             {{MakeEntry("a", 2, EntryType::kPut, "new"),
                                               MakeEntry("a", 1, EntryType::kPut, "old")}},
                                             sequence);
          auto view = std::make_shared<View>();
          view->log = &log;
          view->name = "view " + std::to_string(sequence);
          source.view = view;
          return source;
        });
    it->SeekToFirst();
    EXPECT_EQ(it->value(), "old");
    EXPECT_TRUE(log.empty());
    sequence = 2;
    ASSERT_TRUE(it->Refresh().ok());
    EXPECT_EQ(log, std::vector<std::string>{"view 1"});
    EXPECT_FALSE(it->Valid());
    it->SeekToFirst();
    EXPECT_EQ(it->value(), "new");
  }
  EXPECT_EQ(log, (std::vector<std::string>{"view 1", "view 2"}));
}

class FakeSnapshot final : public Snapshot {
 public:
  FakeSnapshot() : Snapshot(5) {}
};

TEST(DBIteratorTest, IteratorOfASnapshotIsNotRefreshed) {
  ReadOptions options;
  options.snapshot = std::make_shared<FakeSnapshot>();
  const std::unique_ptr<Iterator> it =
      NewDBIterator(kBytewise, options, nullptr, []() -> absl::StatusOr<IteratorSource> {
        return MakeSource(kBytewise, {{MakeEntry("a", 1, EntryType::kPut, "x")}}, 5);
      });
  it->SeekToFirst();
  EXPECT_EQ(it->Refresh().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "a");
}

TEST(DBIteratorTest, CountsSeeksAndSteps) {
  const std::shared_ptr<Statistics> statistics = NewStatistics();
  const std::unique_ptr<Iterator> it = NewDBIterator(
      kBytewise, ReadOptions(), static_cast<StatisticsImpl*>(statistics.get()),
      []() -> absl::StatusOr<IteratorSource> {
        return MakeSource(
            kBytewise,
            {{MakeEntry("a", 1, EntryType::kPut, "x"), MakeEntry("b", 1, EntryType::kPut, "x"),
              MakeEntry("c", 1, EntryType::kPut, "x")}},
            5);
      });
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
  }
  for (it->SeekForPrev("b"); it->Valid(); it->Prev()) {
  }
  EXPECT_EQ(statistics->Get(Counter::kSeeks), 2u);
  EXPECT_EQ(statistics->Get(Counter::kNexts), 3u);
  EXPECT_EQ(statistics->Get(Counter::kPrevs), 2u);
}

// A key with very many versions costs a seek, not a step for each, in both
// directions; so does a key with very many that are too new.
TEST(DBIteratorTest, ManyVersionsAreNotWalkedOver) {
  constexpr int kVersions = 1000;
  for (const uint64_t sequence : {2000, 1}) {
    std::vector<VectorEntry> list;
    list.push_back(MakeEntry("a", 1, EntryType::kPut, "first"));
    for (uint64_t version = kVersions; version > 0; --version) {
      list.push_back(MakeEntry("k", version, EntryType::kPut, std::to_string(version)));
    }
    list.push_back(MakeEntry("z", 1, EntryType::kPut, "last"));
    const VectorIterator* entries = nullptr;
    const std::unique_ptr<Iterator> it =
        NewDBIterator(kBytewise, ReadOptions(), nullptr, [&]() -> absl::StatusOr<IteratorSource> {
          auto vector = std::make_unique<VectorIterator>(kBytewise, list);
          entries = vector.get();
          IteratorSource source;
          source.entries = std::move(vector);
          source.sequence = sequence;
          return source;
        });
    const std::string shown = sequence == 1 ? "1" : std::to_string(kVersions);
    std::vector<std::string> values;
    for (it->SeekToFirst(); it->Valid(); it->Next()) values.emplace_back(it->value());
    EXPECT_EQ(values, (std::vector<std::string>{"first", shown, "last"}));
    EXPECT_LT(entries->steps() + entries->seeks(), 40);

    values.clear();
    const int before = entries->steps() + entries->seeks();
    for (it->SeekToLast(); it->Valid(); it->Prev()) values.emplace_back(it->value());
    EXPECT_EQ(values, (std::vector<std::string>{"last", shown, "first"}));
    EXPECT_LT(entries->steps() + entries->seeks() - before, 40);
  }
}

TEST(DBIteratorTest, SeekToTheIteratorsOwnKey) {
  const std::unique_ptr<Iterator> it =
      NewDBIterator(kBytewise, ReadOptions(), nullptr, []() -> absl::StatusOr<IteratorSource> {
        return MakeSource(
            kBytewise,
            {{MakeEntry("a", 1, EntryType::kPut, "x")},
             {MakeEntry("a key that is longer than its words", 1, EntryType::kPut, "y")}},
            5);
      });
  it->SeekToLast();
  it->Seek(it->key());
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "y");
  it->SeekForPrev(it->key());
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), "y");
}

// --- random moves against a map

class RandomRun {
 public:
  explicit RandomRun(uint32_t seed)
      : random_(seed),
        order_(ComparatorOf(seed % 3 == 0   ? "reverse"
                            : seed % 3 == 1 ? ""
                                            : "plain")),
        prefix_((seed / 3 % 3) * 8),
        keys_(Less{order_}) {}

  void Run() {
    FillLists();
    const uint64_t sequence = random_() % 120;
    ReadOptions options;
    if (random_() % 2 == 0) options.lower_bound = RandomKey();
    if (random_() % 2 == 0) options.upper_bound = RandomKey();
    MakeOracle(sequence, options);
    const std::unique_ptr<Iterator> it = NewDBIterator(
        order_, options, nullptr,
        [&]() -> absl::StatusOr<IteratorSource> { return MakeSource(order_, lists_, sequence); });
    auto at = keys_.end();
    for (int step = 0; step < 200; ++step) {
      at = Move(at, it.get());
      ASSERT_TRUE(it->status().ok());
      ASSERT_EQ(it->Valid(), at != keys_.end()) << "step " << step;
      if (!it->Valid()) continue;
      ASSERT_EQ(it->key(), at->first) << "step " << step;
      ASSERT_EQ(it->value(), at->second) << "step " << step;
    }
  }

 private:
  struct Less {
    InternalKeyOrder order;
    bool operator()(const std::string& a, const std::string& b) const {
      return order.user().Compare(a, b) < 0;
    }
  };
  using Keys = std::map<std::string, std::string, Less>;

  // Some keys get many versions.
  std::string RandomKey() {
    const uint32_t number = random_() % 3 == 0 ? random_() % 2 : random_() % 15;
    return std::string(prefix_, 'p') + std::to_string(number);
  }

  void FillLists() {
    lists_.resize(1 + random_() % 4);
    for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
      const bool put = random_() % 3 != 0;
      lists_[random_() % lists_.size()].push_back(
          MakeEntry(RandomKey(), sequence, put ? EntryType::kPut : EntryType::kDelete,
                    put ? "v" + std::to_string(sequence) : ""));
    }
    for (std::vector<VectorEntry>& list : lists_) {
      std::sort(list.begin(), list.end(),
                [this](const auto& a, const auto& b) { return order_.Compare(a.key, b.key) < 0; });
    }
  }

  void MakeOracle(uint64_t sequence, const ReadOptions& options) {
    std::map<uint64_t, const VectorEntry*> by_sequence;
    for (const auto& list : lists_) {
      for (const VectorEntry& entry : list) by_sequence[TagSequence(Tag(entry.key))] = &entry;
    }
    const Less less{order_};
    for (const auto& [written, entry] : by_sequence) {
      const std::string key(UserKey(entry->key));
      if (written > sequence) break;
      if (options.lower_bound && less(key, *options.lower_bound)) continue;
      if (options.upper_bound && !less(key, *options.upper_bound)) continue;
      if (TagType(Tag(entry->key)) == static_cast<uint8_t>(EntryType::kPut)) {
        keys_[key] = entry->value;
      } else {
        keys_.erase(key);
      }
    }
  }

  Keys::iterator BeforeOrEnd(Keys::iterator it) {
    return it == keys_.begin() ? keys_.end() : std::prev(it);
  }

  Keys::iterator Move(Keys::iterator at, Iterator* it) {
    switch (random_() % (at == keys_.end() ? 4 : 14)) {
      case 0:
        it->SeekToFirst();
        return keys_.begin();
      case 1:
        it->SeekToLast();
        return BeforeOrEnd(keys_.end());
      case 2: {
        const std::string target = RandomKey();
        it->Seek(target);
        return keys_.lower_bound(target);
      }
      case 3: {
        const std::string target = RandomKey();
        it->SeekForPrev(target);
        return BeforeOrEnd(keys_.upper_bound(target));
      }
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        it->Next();
        return std::next(at);
      default:
        it->Prev();
        return BeforeOrEnd(at);
    }
  }

  std::mt19937 random_;
  const InternalKeyOrder order_;
  const size_t prefix_;
  Lists lists_;
  Keys keys_;
};

TEST(DBIteratorTest, RandomAgainstMap) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed).Run();
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sievedb
