// DeleteRange through all layers: what is seen is checked against a std::map by every
// kind of read, with the tombstones and what they hide in each place where they can be.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "sievedb/sst_file_writer.h"
#include "tests/db/db_test_util.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;

class DeleteRangeTest : public DBTest {
 protected:
  DeleteRangeTest() { options_.disable_auto_compaction = true; }

  absl::Status DeleteRange(std::string_view begin, std::string_view end) {
    return db_->DeleteRange(WriteOptions(), begin, end);
  }
  void Flush() { ASSERT_TRUE(db_->Flush(FlushOptions()).ok()); }
  void Compact(bool rewrite = false) {
    CompactRangeOptions options;
    options.rewrite_bottommost = rewrite;
    ASSERT_TRUE(db_->CompactRange(options, nullptr, nullptr).ok());
  }

  // Of keys, those that are there: by Get, MultiGet, and iterators in both directions;
  // "disagree" with what they say where they don't say the same.
  std::string Present(const std::vector<std::string>& keys, const ReadOptions& options = {}) {
    std::string by_get;
    std::string by_seek;
    std::string by_seek_for_prev;
    std::string denied;
    for (const std::string& key : keys) {
      std::string value;
      if (db_->Get(options, key, &value).ok()) {
        by_get += key + " ";
        if (!db_->MayContain(options, key)) denied += key + " ";
      }
      auto it = db_->NewIterator(options);
      it->Seek(key);
      if (it->Valid() && it->key() == key) by_seek += key + " ";
      it->SeekForPrev(key);
      if (it->Valid() && it->key() == key) by_seek_for_prev += key + " ";
    }
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<PinnedValue> values(keys.size());
    std::vector<absl::Status> statuses(keys.size());
    db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
    std::string by_multi_get;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok()) by_multi_get += keys[i] + " ";
    }
    std::string forward;
    const auto it = db_->NewIterator(options);
    for (it->SeekToFirst(); it->Valid(); it->Next()) forward += std::string(it->key()) + " ";
    std::string backward;
    for (it->SeekToLast(); it->Valid(); it->Prev()) {
      backward.insert(0, std::string(it->key()) + " ");
    }
    if (by_get == by_seek && by_get == by_seek_for_prev && by_get == by_multi_get &&
        by_get == forward && by_get == backward && denied.empty() && it->status().ok()) {
      return by_get;
    }
    return "disagree: Get " + by_get + "| Seek " + by_seek + "| SeekForPrev " + by_seek_for_prev +
           "| MultiGet " + by_multi_get + "| forward " + forward + "| backward " + backward +
           "| denied " + denied + it->status().ToString();
  }

  const std::vector<std::string> letters_ = {"a", "b", "c", "d", "e", "f", "g"};
  void PutLetters(const std::string& value = "1") {
    for (const std::string& key : letters_) ASSERT_TRUE(Put(key, value).ok());
  }
};

TEST_F(DeleteRangeTest, RangesThatAreNone) {
  Open();
  PutLetters();
  const uint64_t before = db_->LatestSequence();
  EXPECT_TRUE(DeleteRange("c", "c").ok());
  EXPECT_TRUE(DeleteRange("", "").ok());
  EXPECT_EQ(db_->LatestSequence(), before) << "nothing is written";
  const absl::Status status = DeleteRange("d", "c");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("begin \"d\" is after end \"c\""));
  WriteBatch batch;
  batch.Put("new", "1");
  batch.DeleteRange("a", "b");
  batch.DeleteRange("d", "c");
  EXPECT_TRUE(absl::IsInvalidArgument(db_->Write(WriteOptions(), &batch)));
  EXPECT_EQ(Present(letters_), "a b c d e f g ");
  batch.Clear();
  batch.DeleteRange("b", "b");
  EXPECT_TRUE(db_->Write(WriteOptions(), &batch).ok()) << "an empty range in a batch hides nothing";
  EXPECT_EQ(Present(letters_), "a b c d e f g ");
}

// The old entries and the tombstone each in the memtable, an immutable one, level 0 or
// deeper.
TEST_F(DeleteRangeTest, EveryPairOfLayers) {
  for (int old_at = 0; old_at < 3; ++old_at) {
    for (int tombstone_at = 0; tombstone_at <= old_at; ++tombstone_at) {
      SCOPED_TRACE(std::to_string(old_at) + " " + std::to_string(tombstone_at));
      options_.file_system = NewMemoryFileSystem();
      Open();
      const auto go_to = [&](int layer) {
        if (layer >= 1) Flush();
        if (layer >= 2) Compact();
      };
      PutLetters();
      const auto before = db_->GetSnapshot();
      if (old_at > tombstone_at) go_to(old_at);
      ASSERT_TRUE(DeleteRange("b", "e").ok());
      ASSERT_TRUE(Put("c", "2").ok());
      go_to(tombstone_at);
      EXPECT_EQ(Present(letters_), "a c e f g ");
      EXPECT_EQ(Get("c"), "2");
      ReadOptions old;
      old.snapshot = before;
      EXPECT_EQ(Present(letters_, old), "a b c d e f g ");
      EXPECT_EQ(Get("c", old), "1");
      Open();
      EXPECT_EQ(Present(letters_), "a c e f g ");
      Compact(/*rewrite=*/true);
      EXPECT_EQ(Present(letters_), "a c e f g ");
      EXPECT_TRUE(db_->VerifyChecksums().ok());
    }
  }
}

TEST_F(DeleteRangeTest, TombstonesOfOneBatchCountInTheirOrder) {
  Open();
  WriteBatch batch;
  batch.Put("b", "1");
  batch.Put("c", "1");
  batch.DeleteRange("a", "d");
  batch.Put("c", "2");
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  EXPECT_EQ(Scan(), "c=2 ");
  Open();
  EXPECT_EQ(Scan(), "c=2 ");
}

// The newer table has no such key, so its filter says no: its tombstone must be seen.
TEST_F(DeleteRangeTest, AFiltersNoHidesNoTombstone) {
  Open();
  Fill(0, 500);
  Flush();
  ASSERT_TRUE(Put("other", "1").ok());
  ASSERT_TRUE(DeleteRange(Key(100), Key(400)).ok());
  Flush();
  ASSERT_EQ(Files(0), 2);
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(Get(Key(i)), i >= 100 && i < 400 ? "(absent)" : Value(i)) << i;
    EXPECT_EQ(db_->MayContain(ReadOptions(), Key(i)), i < 100 || i >= 400) << i;
  }
}

TEST_F(DeleteRangeTest, ATableWithOnlyRangeTombstones) {
  Open();
  PutLetters();
  Flush();
  ASSERT_TRUE(DeleteRange("b", "d").ok());
  ASSERT_TRUE(DeleteRange("f", "z").ok());
  Flush();
  ASSERT_EQ(Files(0), 2);
  EXPECT_EQ(Present(letters_), "a d e ");
  EXPECT_TRUE(db_->VerifyChecksums().ok());
  Open();
  EXPECT_EQ(Present(letters_), "a d e ");
  EXPECT_EQ(Get("zz"), "(absent)");
  Compact();
  EXPECT_EQ(Present(letters_), "a d e ");
}

TEST_F(DeleteRangeTest, ADatabaseOfTombstonesAlone) {
  Open();
  ASSERT_TRUE(DeleteRange("", "z").ok());
  EXPECT_EQ(Scan(), "");
  Open();  // from the WAL
  ASSERT_TRUE(DeleteRange("", "z").ok());
  Flush();
  EXPECT_EQ(TotalFiles(), 2);
  EXPECT_EQ(Present(letters_), "");
  Compact();
  EXPECT_EQ(TotalFiles(), 0) << "they hide nothing";
}

TEST_F(DeleteRangeTest, TheEmptyKeyAndBordersOfTheRange) {
  Open();
  const std::vector<std::string> keys = {"", std::string(1, '\0'), "a", "b", "b\x01", "c"};
  for (int layers = 0; layers < 2; ++layers) {
    for (const std::string& key : keys) ASSERT_TRUE(Put(key, "1").ok());
    if (layers == 1) Flush();
    ASSERT_TRUE(DeleteRange("", "b").ok());
    EXPECT_EQ(Present(keys), "b b\x01 c ");
    ASSERT_TRUE(DeleteRange("b", "b\x01").ok());
    if (layers == 1) Flush();
    EXPECT_EQ(Present(keys), "b\x01 c ");
  }
}

// What a tombstone covers goes over several tables, of which each has its part.
TEST_F(DeleteRangeTest, TombstonesAreCutWhereTablesAre) {
  options_.target_file_bytes = 64 << 10;
  options_.write_buffer_bytes = 4 << 20;
  options_.compression = Compression::kNone;
  Open();
  Fill(0, 4000);
  Compact();
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  const auto snapshot = db_->GetSnapshot();  // keeps the tombstones and all that they hide
  ASSERT_TRUE(DeleteRange(Key(500), Key(3500)).ok());
  for (int i = 1000; i < 2000; i += 10) ASSERT_TRUE(Put(Key(i), "new").ok());
  Compact();
  ASSERT_GT(TotalFiles(), 4);
  const auto check = [&] {
    for (int i = 0; i < 4000; ++i) {
      const std::string now = i >= 1000 && i < 2000 && i % 10 == 0 ? "new"
                              : i >= 500 && i < 3500               ? "(absent)"
                                                                   : Value(i);
      ASSERT_EQ(Get(Key(i)), now) << i;
      const auto it = db_->NewIterator(ReadOptions());
      if (i % 50 != 0) continue;
      it->Seek(Key(i));
      const int next = i < 500    ? i
                       : i < 1000 ? 1000
                       : i < 2000 ? (i + 9) / 10 * 10
                       : i < 3500 ? 3500
                                  : i;
      ASSERT_EQ(it->key(), Key(next == 2000 ? 3500 : next)) << i;
      it->SeekForPrev(Key(i));
      const int previous = i < 500    ? i
                           : i < 1000 ? 499
                           : i < 2000 ? i / 10 * 10
                           : i < 3500 ? 1990
                                      : i;
      ASSERT_EQ(it->key(), Key(previous)) << i;
    }
    ReadOptions old;
    old.snapshot = snapshot;
    for (int i = 0; i < 4000; i += 7) ASSERT_EQ(Get(Key(i), old), Value(i)) << i;
  };
  check();
  // Once more, with tombstones in tables that are cut already.
  ASSERT_TRUE(DeleteRange(Key(2500), Key(2600)).ok());
  Compact(/*rewrite=*/true);
  check();
  EXPECT_TRUE(db_->VerifyChecksums().ok());
  Open();
  EXPECT_EQ(Get(Key(700)), "(absent)");
  EXPECT_EQ(Get(Key(1000)), "new");
}

TEST_F(DeleteRangeTest, CoveredTablesAreDroppedUnread) {
  options_.target_file_bytes = 64 << 10;
  options_.write_buffer_bytes = 4 << 20;
  options_.compression = Compression::kNone;
  Open();
  Fill(0, 4000);
  Compact();
  Compact(/*rewrite=*/true);
  // The flush's job may still hold its table, which the compaction has replaced.
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  const int before = TotalFiles();
  ASSERT_GT(before, 4);
  const std::vector<std::string> files = FilesEndingWith(".sst");
  ASSERT_EQ(static_cast<int>(files.size()), before);
  ASSERT_TRUE(DeleteRange(Key(0), Key(4000)).ok());
  Flush();
  const uint64_t reads = options_.statistics->Get(Counter::kCompactionBytesWritten);
  // Damage in the data of each: who reads them would tell.
  for (const std::string& file : files) FlipByte(file, 10);
  Open();
  Compact();
  EXPECT_EQ(TotalFiles(), 0);
  EXPECT_EQ(options_.statistics->Get(Counter::kCompactionBytesWritten), reads);
  EXPECT_EQ(Scan(), "");
}

TEST_F(DeleteRangeTest, ASnapshotKeepsCoveredTables) {
  Open();
  PutLetters();
  Compact();
  auto snapshot = db_->GetSnapshot();
  ASSERT_TRUE(DeleteRange("a", "z").ok());
  Compact();
  ReadOptions old;
  old.snapshot = snapshot;
  EXPECT_EQ(Present(letters_, old), "a b c d e f g ");
  EXPECT_EQ(Present(letters_), "");
  old.snapshot = snapshot = nullptr;
  Compact(/*rewrite=*/true);
  EXPECT_EQ(TotalFiles(), 0);
}

TEST_F(DeleteRangeTest, TombstonesGoAtTheBottomAlone) {
  Open();
  PutLetters();
  Compact();
  ASSERT_TRUE(DeleteRange("b", "d").ok());
  ASSERT_TRUE(Put("bb", "2").ok());
  Flush();
  EXPECT_THAT(*db_->GetProperty("sievedb.sstables"), HasSubstr("[b .. d]"));
  Compact();
  EXPECT_EQ(Scan(), "a=1 bb=2 d=1 e=1 f=1 g=1 ");
  // A get between the keys meets no tombstone any more: the range of the one table.
  EXPECT_EQ(TotalFiles(), 1);
}

TEST_F(DeleteRangeTest, ReverseOrder) {
  options_.comparator = ReverseBytewiseComparator();
  Open();
  PutLetters();
  Flush();
  EXPECT_TRUE(absl::IsInvalidArgument(DeleteRange("b", "e")));
  ASSERT_TRUE(DeleteRange("e", "b").ok());
  const auto check = [&](const std::string& expected) {
    std::string keys;
    for (const std::string& key : letters_) {
      if (Get(key) != "(absent)") keys += key + " ";
    }
    EXPECT_EQ(keys, expected);
    std::string scanned;
    const auto it = db_->NewIterator(ReadOptions());
    for (it->SeekToLast(); it->Valid(); it->Prev()) scanned += std::string(it->key()) + " ";
    EXPECT_EQ(scanned, expected);
  };
  check("a b f g ");
  Flush();
  check("a b f g ");
  Compact();
  check("a b f g ");
}

// Keys that differ in case are one.
class CaselessComparator : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    return Lower(a).compare(Lower(b));
  }
  const char* Name() const override { return "test.Caseless"; }
  bool EqualKeysHaveEqualBytes() const override { return false; }

 private:
  static std::string Lower(std::string_view key) {
    std::string lower(key);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
  }
};

TEST_F(DeleteRangeTest, KeysThatCompareEqual) {
  static const CaselessComparator comparator;
  options_.comparator = &comparator;
  Open();
  PutLetters();
  EXPECT_TRUE(DeleteRange("C", "c").ok());
  EXPECT_EQ(Get("C"), "1");
  ASSERT_TRUE(DeleteRange("B", "D").ok());
  EXPECT_EQ(Get("b"), "(absent)");
  EXPECT_EQ(Get("d"), "1");
  Flush();
  ASSERT_TRUE(DeleteRange("E", "F").ok());
  Flush();
  EXPECT_EQ(Get("E"), "(absent)");
  EXPECT_EQ(Scan(), "a=1 d=1 f=1 g=1 ");
  Compact();
  EXPECT_EQ(Scan(), "a=1 d=1 f=1 g=1 ");
}

TEST_F(DeleteRangeTest, IteratorsKeepWhatTheySee) {
  Open();
  PutLetters();
  const auto it = db_->NewIterator(ReadOptions());
  it->Seek("b");
  ASSERT_TRUE(DeleteRange("a", "g").ok());
  it->Next();
  EXPECT_EQ(it->key(), "c");
  ASSERT_TRUE(it->Refresh().ok());
  it->SeekToFirst();
  EXPECT_EQ(it->key(), "g");
  it->Prev();
  EXPECT_FALSE(it->Valid());
  ASSERT_TRUE(Put("d", "2").ok());
  ASSERT_TRUE(it->Refresh().ok());
  it->SeekToLast();
  it->Prev();
  EXPECT_EQ(it->key(), "d");
  it->Next();
  EXPECT_EQ(it->key(), "g");
}

TEST_F(DeleteRangeTest, BoundsInsideOfATombstone) {
  Open();
  PutLetters();
  Flush();
  ASSERT_TRUE(DeleteRange("b", "f").ok());
  ASSERT_TRUE(Put("d", "2").ok());
  for (int flushed = 0; flushed < 2; ++flushed) {
    ReadOptions options;
    options.lower_bound = "c";
    options.upper_bound = "g";
    EXPECT_EQ(Scan(options), "d=2 f=1 ");
    const auto it = db_->NewIterator(options);
    it->SeekForPrev("c");
    EXPECT_FALSE(it->Valid());
    it->SeekForPrev("e");
    EXPECT_EQ(it->key(), "d");
    options.upper_bound = "d";
    EXPECT_EQ(Scan(options), "");
    Flush();
  }
}

// The table that only a tombstone makes reach the sought prefix has no key of it; the next
// table of the run has one.
TEST_F(DeleteRangeTest, PrefixesAndTombstones) {
  options_.prefix_extractor = NewFixedPrefixExtractor(2);
  options_.target_file_bytes = 64 << 10;
  options_.compression = Compression::kNone;
  Open();
  ASSERT_TRUE(Put("zz", "1").ok());
  const auto snapshot = db_->GetSnapshot();  // keeps the tombstone
  for (const char* key : {"bb1", "bb2", "cc1"}) ASSERT_TRUE(Put(key, "1").ok());
  ASSERT_TRUE(DeleteRange("aa0", "bb2").ok());
  ASSERT_TRUE(Put("aa1", std::string(100 << 10, 'v')).ok());  // a table full: bb2 is in the next
  Compact();
  ASSERT_EQ(Files(6), 2);
  ReadOptions options;
  options.prefix_same_as_start = true;
  const auto it = db_->NewIterator(options);
  it->Seek("bb");
  ASSERT_TRUE(it->Valid()) << it->status();
  EXPECT_EQ(it->key(), "bb2");
  it->Next();
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev("bb9");
  ASSERT_TRUE(it->Valid()) << it->status();
  EXPECT_EQ(it->key(), "bb2");
  it->Prev();
  EXPECT_FALSE(it->Valid());
}

TEST_F(DeleteRangeTest, IngestedTablesAreNewerThanATombstone) {
  Open();
  PutLetters();
  ASSERT_TRUE(DeleteRange("a", "z").ok());
  SstFileWriter writer(options_);
  ASSERT_TRUE(writer.Open("/table").ok());
  ASSERT_TRUE(writer.Put("d", "2").ok());
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(db_->IngestExternalFiles({"/table"}, IngestOptions()).ok());
  EXPECT_EQ(Scan(), "d=2 ");
  EXPECT_EQ(Get("d"), "2");
  ASSERT_TRUE(DeleteRange("d", "e").ok());
  EXPECT_EQ(Scan(), "");
  Compact();
  EXPECT_EQ(Scan(), "");
}

// Each batch clears all and puts one key, so whoever looks finds one, and none older than
// the last.
TEST_F(DeleteRangeTest, ReadersBesideTheWriter) {
  Open();
  constexpr int kBatches = 400;
  const auto write = [this](int i) {
    WriteBatch batch;
    batch.DeleteRange("a", "z");
    batch.Put("k", Key(i));
    batch.Put(i % 2 == 0 ? "e" : "o", Key(i));
    return db_->Write(WriteOptions(), &batch);
  };
  ASSERT_TRUE(write(0).ok());
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      std::string last;
      while (!done.load(std::memory_order_relaxed)) {
        std::string value;
        const absl::Status status = db_->Get(ReadOptions(), "k", &value);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_GE(value, last);
        last = value;
        const auto it = db_->NewIterator(ReadOptions());
        std::vector<std::string> seen;
        for (it->SeekToFirst(); it->Valid(); it->Next()) seen.emplace_back(it->value());
        ASSERT_TRUE(it->status().ok()) << it->status();
        ASSERT_EQ(seen.size(), 2u);
        ASSERT_EQ(seen[0], seen[1]);
        ASSERT_GE(seen[0], last);
        last = seen[0];
      }
    });
  }
  for (int i = 1; i < kBatches; ++i) {
    EXPECT_TRUE(write(i).ok());
    if (i % 100 == 0) {
      EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
    }
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(DeleteRangeTest, CacheOnlyReadsNeedNoIoForTombstones) {
  Open();
  PutLetters();
  Flush();
  ASSERT_TRUE(DeleteRange("b", "e").ok());
  Flush();
  EXPECT_EQ(Get("b"), "(absent)");  // opens the tables
  ReadOptions options;
  options.cache_only = true;
  EXPECT_EQ(Get("c", options), "(absent)");
}

// Many tombstones that overlap, in memtables and tables, with snapshots between.
TEST_F(DeleteRangeTest, ManyOverlappingTombstones) {
  Open();
  std::map<std::string, std::string> state;
  std::vector<std::pair<std::shared_ptr<const Snapshot>, std::map<std::string, std::string>>> seen;
  for (int round = 0; round < 60; ++round) {
    for (int i = round % 3; i < 300; i += 3) {
      const std::string value = std::to_string(round);
      ASSERT_TRUE(Put(Key(i), value).ok());
      state[Key(i)] = value;
    }
    for (int i = 0; i < 5; ++i) {
      const int begin = (round * 37 + i * 53) % 280;
      const int end = begin + 1 + (round * 11 + i * 7) % 60;
      ASSERT_TRUE(DeleteRange(Key(begin), Key(end)).ok());
      state.erase(state.lower_bound(Key(begin)), state.lower_bound(Key(end)));
    }
    if (round % 10 == 3) seen.emplace_back(db_->GetSnapshot(), state);
    if (round % 7 == 2) Flush();
    if (round % 20 == 19) Compact();
    if (round == 50) seen.erase(seen.begin(), seen.begin() + 2);
    seen.emplace_back(nullptr, state);
    for (const auto& [snapshot, expected] : seen) {
      ReadOptions options;
      options.snapshot = snapshot;
      std::string text;
      for (const auto& [key, value] : expected) text += key + "=" + value + " ";
      ASSERT_EQ(Scan(options), text) << round;
    }
    seen.pop_back();
  }
}

}  // namespace
}  // namespace sievedb
