// The database through its public API, on the in-memory file system.

#include "sievedb/db.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sievedb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Key(int i) {
  char text[32];
  std::snprintf(text, sizeof(text), "key%08d", i);
  return text;
}

class DBTest : public testing::Test {
 protected:
  DBTest() {
    options_.file_system = NewMemoryFileSystem();
    options_.write_buffer_bytes = 256 << 10;
    options_.level_base_bytes = 512 << 10;
    options_.target_file_bytes = 256 << 10;
    options_.statistics = NewStatistics();
  }

  void Open() {
    db_ = nullptr;
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options_, "/db");
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }

  absl::Status Put(std::string_view key, std::string_view value) {
    return db_->Put(WriteOptions(), key, value);
  }
  absl::Status Delete(std::string_view key) { return db_->Delete(WriteOptions(), key); }

  std::string Get(std::string_view key, const ReadOptions& options = ReadOptions()) {
    std::string value;
    const absl::Status status = db_->Get(options, key, &value);
    if (status.code() == absl::StatusCode::kNotFound) return "(absent)";
    return status.ok() ? value : status.ToString();
  }

  // Keys first to last - 1, each with a value of 100 bytes that names it.
  void Fill(int first, int last) {
    for (int i = first; i < last; ++i) ASSERT_TRUE(Put(Key(i), Value(i)).ok());
  }
  static std::string Value(int i) {
    std::string value = "value of " + Key(i);
    value.resize(100, '.');
    return value;
  }

  std::string Scan(const ReadOptions& options = ReadOptions()) {
    std::string text;
    const auto it = db_->NewIterator(options);
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      text += std::string(it->key()) + "=" + std::string(it->value()) + " ";
    }
    return it->status().ok() ? text : it->status().ToString();
  }

  int Files(int level) {
    return std::stoi(*db_->GetProperty("sievedb.num-files-at-level" + std::to_string(level)));
  }
  int TotalFiles() {
    int files = 0;
    for (int level = 0; level < 7; ++level) files += Files(level);
    return files;
  }
  std::vector<std::string> FilesEndingWith(const std::string& ending) {
    std::vector<std::string> found;
    const std::vector<std::string> names = *options_.file_system->GetChildren("/db");
    for (const std::string& name : names) {
      if (name.size() >= ending.size() &&
          name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
        found.push_back("/db/" + name);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string ReadFile(const std::string& path) {
    const uint64_t size = *options_.file_system->FileSize(path);
    std::string bytes(size, '\0');
    const auto file = *options_.file_system->NewRandomAccessFile(path);
    std::string_view result;
    EXPECT_TRUE(file->Read(0, size, bytes.data(), &result).ok());
    return std::string(result);
  }
  void WriteFile(const std::string& path, std::string_view bytes) {
    const auto file = *options_.file_system->NewWritableFile(path);
    ASSERT_TRUE(file->Append(bytes).ok());
    ASSERT_TRUE(file->Close().ok());
  }
  void FlipByte(const std::string& path, size_t offset) {
    std::string bytes = ReadFile(path);
    bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ 0x40);
    WriteFile(path, bytes);
  }

  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_F(DBTest, AnEmptyDatabaseHoldsNothing) {
  Open();
  EXPECT_EQ(Get("anything"), "(absent)");
  EXPECT_EQ(Scan(), "");
  EXPECT_EQ(db_->LatestSequence(), 0u);
  EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
  EXPECT_EQ(TotalFiles(), 0);
}

TEST_F(DBTest, PutGetDeleteOverwrite) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  ASSERT_TRUE(Put("b", "2").ok());
  ASSERT_TRUE(Put("a", "3").ok());
  ASSERT_TRUE(Delete("b").ok());
  ASSERT_TRUE(Delete("never there").ok());
  EXPECT_EQ(Get("a"), "3");
  EXPECT_EQ(Get("b"), "(absent)");
  EXPECT_EQ(db_->LatestSequence(), 5u);
}

TEST_F(DBTest, TheEmptyKeyAndValueAreLegal) {
  Open();
  ASSERT_TRUE(Put("", "of the empty key").ok());
  ASSERT_TRUE(Put("k", "").ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get(""), "of the empty key");
    EXPECT_EQ(Get("k"), "");
    EXPECT_EQ(Scan(), "=of the empty key k= ");
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  }
  Open();
  EXPECT_EQ(Get(""), "of the empty key");
}

TEST_F(DBTest, KeysBeyondTheLimitAreRefusedAndNothingIsWritten) {
  Open();
  const std::string key(kMaxKeyBytes + 1, 'k');
  EXPECT_EQ(Put(key, "v").code(), absl::StatusCode::kInvalidArgument);
  WriteBatch batch;
  batch.Put("small", "v");
  batch.Put(key, "v");
  EXPECT_EQ(db_->Write(WriteOptions(), &batch).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get("small"), "(absent)");
  EXPECT_EQ(db_->LatestSequence(), 0u);
}

TEST_F(DBTest, AKeyOfTheGreatestSizeWorks) {
  Open();
  const std::string key(kMaxKeyBytes, 'k');
  ASSERT_TRUE(Put(key, "v").ok());
  EXPECT_EQ(Get(key), "v");
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  EXPECT_EQ(Get(key), "v");
  EXPECT_EQ(Get(key.substr(1)), "(absent)");
}

TEST_F(DBTest, ABatchIsAppliedInOrder) {
  Open();
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Delete("a");
  batch.Put("b", "2");
  batch.Put("b", "3");
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
  EXPECT_EQ(Scan(), "b=3 ");
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok()) << "the batch is left as it was";
  batch.Clear();
  ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok()) << "an empty batch";
  EXPECT_EQ(db_->LatestSequence(), 8u);
}

TEST_F(DBTest, ReopeningReplaysTheWal) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  Open();
  EXPECT_EQ(Get("a"), "1");
  ASSERT_TRUE(Put("b", "2").ok());
  ASSERT_TRUE(Delete("a").ok());
  Open();
  Open();
  EXPECT_EQ(Scan(), "b=2 ");
  EXPECT_EQ(db_->LatestSequence(), 3u);
}

TEST_F(DBTest, DataSurvivesFlushCompactionAndReopening) {
  Open();
  Fill(0, 20000);
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_GT(TotalFiles(), 3);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20000; i += 7) ASSERT_EQ(Get(Key(i)), Value(i));
    EXPECT_EQ(Get(Key(20000)), "(absent)");
    EXPECT_EQ(Get("key"), "(absent)");
    if (round == 0) {
      ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
      EXPECT_EQ(Files(0), 0);
    } else {
      Open();
    }
  }
}

TEST_F(DBTest, CompactionDropsWhatNobodySees) {
  Open();
  Fill(0, 5000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(Delete(Key(i)).ok());
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(Scan(), "");
  EXPECT_EQ(TotalFiles(), 0);
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_TRUE(FilesEndingWith(".sst").empty()) << "obsolete tables are deleted";
}

TEST_F(DBTest, ASnapshotSeesItsMomentThroughFlushAndCompaction) {
  Open();
  ASSERT_TRUE(Put("a", "old").ok());
  ASSERT_TRUE(Put("b", "old").ok());
  ReadOptions at_snapshot;
  at_snapshot.snapshot = db_->GetSnapshot();
  ASSERT_TRUE(Put("a", "new").ok());
  ASSERT_TRUE(Delete("b").ok());
  ASSERT_TRUE(Put("c", "new").ok());
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Get("a", at_snapshot), "old");
    EXPECT_EQ(Get("c", at_snapshot), "(absent)");
    EXPECT_EQ(Scan(at_snapshot), "a=old b=old ");
    EXPECT_EQ(Scan(), "a=new c=new ");
    if (round == 0) {
      ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    }
    CompactRangeOptions compact;
    compact.rewrite_bottommost = true;
    if (round == 1) {
      ASSERT_TRUE(db_->CompactRange(compact, nullptr, nullptr).ok());
    }
  }
  at_snapshot.snapshot = nullptr;
  EXPECT_EQ(*db_->GetProperty("sievedb.num-snapshots"), "0");
}

TEST_F(DBTest, ASnapshotMayOutliveItsDatabase) {
  Open();
  const auto snapshot = db_->GetSnapshot();
  db_ = nullptr;
  EXPECT_EQ(snapshot->sequence(), 0u);
}

TEST_F(DBTest, AnIteratorSeesItsMomentAndRefreshes) {
  Open();
  Fill(0, 100);
  const auto it = db_->NewIterator(ReadOptions());
  Fill(100, 6000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  int seen = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++seen;
  EXPECT_EQ(seen, 100);
  ASSERT_TRUE(it->Refresh().ok());
  EXPECT_FALSE(it->Valid());
  seen = 0;
  for (it->SeekToLast(); it->Valid(); it->Prev()) ++seen;
  EXPECT_EQ(seen, 6000);

  ReadOptions at_snapshot;
  at_snapshot.snapshot = db_->GetSnapshot();
  EXPECT_EQ(db_->NewIterator(at_snapshot)->Refresh().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DBTest, TablesThatAnIteratorReadsStayOnTheDisk) {
  Open();
  Fill(0, 5000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  const std::vector<std::string> before = FilesEndingWith(".sst");
  auto it = db_->NewIterator(ReadOptions());
  CompactRangeOptions rewrite;
  rewrite.rewrite_bottommost = true;
  ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  for (const std::string& path : before) EXPECT_TRUE(*options_.file_system->FileExists(path));
  it = nullptr;
  for (const std::string& path : before) EXPECT_FALSE(*options_.file_system->FileExists(path));
  EXPECT_EQ(FilesEndingWith(".sst").size(), static_cast<size_t>(TotalFiles()));
}

TEST_F(DBTest, MultiGetReadsAllKeysAtOneMoment) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put(Key(1), "newer").ok());
  const std::string keys[] = {Key(2999), Key(1), "absent", Key(1), ""};
  const std::vector<std::string_view> views(std::begin(keys), std::end(keys));
  std::vector<PinnedValue> values(views.size());
  std::vector<absl::Status> statuses(views.size());
  db_->MultiGet(ReadOptions(), views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  EXPECT_EQ(values[0].view(), Value(2999));
  EXPECT_EQ(values[1].view(), "newer");
  EXPECT_EQ(statuses[2].code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(values[3].view(), "newer");
  EXPECT_EQ(statuses[4].code(), absl::StatusCode::kNotFound);
}

TEST_F(DBTest, APinnedValueOutlivesCompactionCacheAndDatabase) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  PinnedValue pinned;
  ASSERT_TRUE(db_->Get(ReadOptions(), Key(5), &pinned).ok());
  ASSERT_TRUE(Delete(Key(5)).ok());
  CompactRangeOptions rewrite;
  rewrite.rewrite_bottommost = true;
  ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  db_ = nullptr;
  EXPECT_EQ(pinned.view(), Value(5));
}

TEST_F(DBTest, MayContainIsCertainWhereItSaysNo) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put("in the memtable", "v").ok());
  ASSERT_TRUE(Delete(Key(7)).ok());
  const uint64_t reads = options_.statistics->Get(Counter::kBlockReads);
  for (int i = 0; i < 3000; ++i) {
    EXPECT_EQ(db_->MayContain(ReadOptions(), Key(i)), i != 7) << i;
  }
  EXPECT_TRUE(db_->MayContain(ReadOptions(), "in the memtable"));
  int maybe = 0;
  for (int i = 0; i < 3000; ++i) maybe += db_->MayContain(ReadOptions(), Key(i) + "x") ? 1 : 0;
  EXPECT_LT(maybe, 3000 / 20);
  EXPECT_EQ(options_.statistics->Get(Counter::kBlockReads), reads) << "it reads no block";
}

TEST_F(DBTest, FiltersTurnAbsentKeysAwayBeforeAnyBlock) {
  Open();
  Fill(0, 10000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  options_.statistics->Reset();
  for (int i = 0; i < 9999; ++i) ASSERT_EQ(Get(Key(i) + "x"), "(absent)");
  FilterLevelCounts counts;
  for (int level = 0; level < Statistics::kLevels; ++level) {
    const FilterLevelCounts at = options_.statistics->GetFilterCounts(level);
    counts.checked += at.checked;
    counts.said_no += at.said_no;
    counts.maybe_absent += at.maybe_absent;
    counts.maybe_present += at.maybe_present;
  }
  EXPECT_GE(counts.checked, 9900u);
  EXPECT_EQ(counts.checked, counts.said_no + counts.maybe_absent);
  EXPECT_EQ(counts.maybe_present, 0u);
  // 0.96 % are expected at 10 bits per key.
  EXPECT_LT(counts.maybe_absent, 200u);
  EXPECT_GT(counts.maybe_absent, 30u);
  EXPECT_LE(options_.statistics->Get(Counter::kBlockReads) +
                options_.statistics->Get(Counter::kBlockCacheHits),
            counts.maybe_absent);
}

TEST_F(DBTest, CacheOnlyReadsNeverTouchTheDisk) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ReadOptions cache_only;
  cache_only.cache_only = true;
  std::string value;
  EXPECT_EQ(db_->Get(cache_only, Key(5), &value).code(), absl::StatusCode::kUnavailable);
  ASSERT_EQ(Get(Key(5)), Value(5));
  EXPECT_TRUE(db_->Get(cache_only, Key(5), &value).ok());
  const auto it = db_->NewIterator(cache_only);
  it->Seek(Key(2000));
  EXPECT_FALSE(it->Valid());
  EXPECT_EQ(it->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DBTest, FillCacheFalseLeavesTheCacheAlone) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  options_.statistics->Reset();
  ReadOptions no_fill;
  no_fill.fill_cache = false;
  EXPECT_EQ(Get(Key(5), no_fill), Value(5));
  EXPECT_EQ(Get(Key(5), no_fill), Value(5));
  EXPECT_EQ(options_.statistics->Get(Counter::kBlockReads), 2u);
  EXPECT_EQ(options_.statistics->Get(Counter::kBlockCacheHits), 0u);
}

TEST_F(DBTest, ASharedBlockCacheIsBounded) {
  options_.block_cache = NewBlockCache(128 << 10);
  Open();
  Fill(0, 10000);
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  for (int i = 0; i < 10000; i += 3) ASSERT_EQ(Get(Key(i)), Value(i));
  EXPECT_LE(options_.block_cache->UsageBytes(), size_t{128} << 10);
  EXPECT_GT(options_.block_cache->UsageBytes(), size_t{32} << 10);
}

// --- errors of opening

TEST_F(DBTest, OpenSaysWhatIsMissingOrInTheWay) {
  options_.create_if_missing = false;
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DB::OpenReadOnly(options_, "/db").status().code(), absl::StatusCode::kNotFound);
  options_.create_if_missing = true;
  Open();
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kFailedPrecondition)
      << "it is open already";
  db_ = nullptr;
  options_.error_if_exists = true;
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kAlreadyExists);
  options_.error_if_exists = false;
  options_.comparator = ReverseBytewiseComparator();
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kInvalidArgument);
  options_.comparator = BytewiseComparator();
  options_.block_bytes = 0;
  const absl::Status invalid = DB::Open(options_, "/db").status();
  EXPECT_EQ(invalid.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(invalid.message(), HasSubstr("block_bytes"));
}

TEST_F(DBTest, TheReverseOrderWorks) {
  options_.comparator = ReverseBytewiseComparator();
  Open();
  Fill(0, 4000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  for (int i = 0; i < 4000; i += 11) ASSERT_EQ(Get(Key(i)), Value(i));
  const auto it = db_->NewIterator(ReadOptions());
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Key(3999));
}

class CaseFolding : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    return Fold(a).compare(Fold(b));
  }
  const char* Name() const override { return "test.CaseFolding"; }
  bool EqualKeysHaveEqualBytes() const override { return false; }
  static std::string Fold(std::string_view key) {
    std::string folded(key);
    for (char& c : folded) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return folded;
  }
};

TEST_F(DBTest, KeysThatAreEqualWithOtherBytesAreOneKey) {
  static const CaseFolding comparator;
  options_.comparator = &comparator;
  Open();
  ASSERT_TRUE(Put("Apple", "1").ok());
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(Put(Key(i), Value(i)).ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get("aPPLE"), "1");
    EXPECT_EQ(Get("KEY00000012"), Value(12));
    EXPECT_TRUE(db_->MayContain(ReadOptions(), "APPLE"));
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  }
  ASSERT_TRUE(Put("APPLE", "2").ok());
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(Get("apple"), "2");
}

// --- WALs

TEST_F(DBTest, ATornTailIsCutAndTheRestIsKept) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  ASSERT_TRUE(Put("b", "2").ok());
  db_ = nullptr;
  const std::vector<std::string> wals = FilesEndingWith(".wal");
  ASSERT_FALSE(wals.empty());
  const std::string bytes = ReadFile(wals.back());
  WriteFile(wals.back(), bytes.substr(0, bytes.size() - 3));
  Open();
  EXPECT_EQ(Scan(), "a=1 ");
  ASSERT_TRUE(Put("c", "3").ok());
  Open();
  EXPECT_EQ(Scan(), "a=1 c=3 ");
}

TEST_F(DBTest, DamageBeforeTheTailOfAWalIsDataLoss) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  ASSERT_TRUE(Put("b", "2").ok());
  ASSERT_TRUE(Put("c", "3").ok());
  db_ = nullptr;
  const std::string wal = FilesEndingWith(".wal").back();
  FlipByte(wal, 48 + 17 + 3);  // in the first record's payload
  const absl::Status status = DB::Open(options_, "/db").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(wal), HasSubstr("offset")));
  options_.wal_recovery = WalRecovery::kSalvage;
  Open();
  EXPECT_EQ(Scan(), "");
  ASSERT_TRUE(Put("d", "4").ok());
  options_.wal_recovery = WalRecovery::kStrict;
  Open();
  EXPECT_EQ(Scan(), "d=4 ");
}

TEST_F(DBTest, WritesWithoutAWalSurviveACleanClose) {
  Open();
  WriteOptions unlogged;
  unlogged.disable_wal = true;
  ASSERT_TRUE(db_->Put(unlogged, "a", "1").ok());
  unlogged.sync = true;
  EXPECT_EQ(db_->Put(unlogged, "a", "1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(db_->Close().ok());
  Open();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(DBTest, AFlushLetsGoOfItsWals) {
  Open();
  Fill(0, 30000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_LE(FilesEndingWith(".wal").size(), 3u) << "the active one and two to be reused";
  db_ = nullptr;
  Open();
  ASSERT_EQ(Get(Key(29999)), Value(29999));
}

// --- damage

TEST_F(DBTest, DamageInATableIsNamedAndOtherTablesStayReadable) {
  options_.compression = Compression::kNone;
  Open();
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put("other table", "v").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  db_ = nullptr;
  const std::string table = FilesEndingWith(".sst").front();
  FlipByte(table, 20);
  Open();
  EXPECT_THAT(Get(Key(0)), AllOf(HasSubstr("DATA_LOSS"), HasSubstr(table), HasSubstr("offset 0")));
  EXPECT_EQ(Get("other table"), "v");
  const absl::Status verified = db_->VerifyChecksums();
  EXPECT_EQ(verified.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(verified.message(), HasSubstr(table));
}

TEST_F(DBTest, AMissingTableIsFoundWhenOpening) {
  Open();
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  db_ = nullptr;
  const std::string table = FilesEndingWith(".sst").front();
  ASSERT_TRUE(options_.file_system->DeleteFile(table).ok());
  const absl::Status status = DB::Open(options_, "/db").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(table));
  options_.paranoid_checks = false;
  Open();
  EXPECT_NE(Get(Key(0)), "(absent)") << "an error, not a wrong no";
  ASSERT_TRUE(Put("new", "v").ok());
  EXPECT_EQ(Get("new"), "v");
}

// --- other ways in

TEST_F(DBTest, ReadOnlySeesWhatALiveWriterWrote) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put("only in the WAL", "v").ok());
  absl::StatusOr<std::unique_ptr<DB>> reader = DB::OpenReadOnly(options_, "/db");
  ASSERT_TRUE(reader.ok()) << reader.status();
  // The writer replaces every table; the reader keeps what it opened.
  CompactRangeOptions rewrite;
  rewrite.rewrite_bottommost = true;
  ASSERT_TRUE(Put(Key(0), "changed").ok());
  ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  std::string value;
  EXPECT_TRUE((*reader)->Get(ReadOptions(), Key(0), &value).ok());
  EXPECT_EQ(value, Value(0));
  EXPECT_TRUE((*reader)->Get(ReadOptions(), "only in the WAL", &value).ok());
  EXPECT_EQ((*reader)->Put(WriteOptions(), "a", "b").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*reader)->Flush(FlushOptions()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*reader)->CompactRange(rewrite, nullptr, nullptr).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(DBTest, DestroyDeletesTheDatabaseAndNothingElse) {
  Open();
  Fill(0, 3000);
  EXPECT_EQ(DestroyDB(options_, "/db").code(), absl::StatusCode::kFailedPrecondition);
  db_ = nullptr;
  WriteFile("/db/somebody's notes", "keep");
  EXPECT_TRUE(DestroyDB(options_, "/db").ok());
  EXPECT_EQ(*options_.file_system->GetChildren("/db"),
            std::vector<std::string>{"somebody's notes"});
  EXPECT_TRUE(DestroyDB(options_, "/never there").ok());
}

TEST_F(DBTest, AfterCloseCallsAreRefused) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  EXPECT_TRUE(db_->Close().ok());
  EXPECT_TRUE(db_->Close().ok());
  EXPECT_EQ(Put("a", "1").code(), absl::StatusCode::kFailedPrecondition);
  std::string value;
  EXPECT_EQ(db_->Get(ReadOptions(), "a", &value).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(db_->NewIterator(ReadOptions())->status().ok());
}

TEST_F(DBTest, PropertiesAnswer) {
  Open();
  Fill(0, 5000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_EQ(*db_->GetProperty("sievedb.estimate-num-keys"), "5000");
  EXPECT_THAT(*db_->GetProperty("sievedb.levels"), HasSubstr("tables"));
  EXPECT_THAT(*db_->GetProperty("sievedb.filters"), HasSubstr("expected fpr"));
  EXPECT_THAT(*db_->GetProperty("sievedb.memory"), HasSubstr("block cache bytes"));
  EXPECT_THAT(*db_->GetProperty("sievedb.stats"), HasSubstr("sequence 5000"));
  EXPECT_FALSE(db_->GetProperty("sievedb.num-files-at-level7").has_value());
  EXPECT_FALSE(db_->GetProperty("sievedb.num-files-at-levelx").has_value());
  EXPECT_FALSE(db_->GetProperty("sievedb.nonsense").has_value());
  EXPECT_FALSE(db_->GetProperty("rocksdb.stats").has_value());
}

TEST_F(DBTest, ApproximateSizesAddUp) {
  options_.compression = Compression::kNone;
  Open();
  Fill(0, 10000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  const std::string middle = Key(5000);
  const KeyRange ranges[] = {{"", "z"}, {"", middle}, {middle, "z"}, {"z", "zz"}};
  const std::vector<uint64_t> sizes = db_->GetApproximateSizes(ranges);
  ASSERT_EQ(sizes.size(), 4u);
  EXPECT_GT(sizes[0], 1000000u);
  EXPECT_NEAR(static_cast<double>(sizes[1] + sizes[2]), static_cast<double>(sizes[0]), 20000);
  EXPECT_NEAR(static_cast<double>(sizes[1]), static_cast<double>(sizes[2]), 200000);
  EXPECT_EQ(sizes[3], 0u);
}

class RecordingListener : public EventListener {
 public:
  void OnFlushCompleted(const FlushEvent& event) override { Add("flush", event.status); }
  void OnCompactionCompleted(const CompactionEvent& event) override {
    Add(event.trivial_move ? "move" : "compaction", event.status);
  }
  void OnTableFileCreated(const TableFileEvent&) override { Add("created", absl::OkStatus()); }
  void OnTableFileDeleted(const TableFileEvent&) override { Add("deleted", absl::OkStatus()); }
  int Count(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mu_);
    return counts_[what];
  }

 private:
  void Add(const std::string& what, const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mu_);
    ++counts_[status.ok() ? what : what + " failed"];
  }
  std::mutex mu_;
  std::map<std::string, int> counts_;
};

TEST_F(DBTest, ListenersHearOfEveryTable) {
  const auto listener = std::make_shared<RecordingListener>();
  options_.listeners = {listener};
  Open();
  for (int round = 0; round < 4; ++round) Fill(0, 6000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  db_ = nullptr;
  EXPECT_GT(listener->Count("flush"), 4);
  EXPECT_GT(listener->Count("compaction") + listener->Count("move"), 0);
  EXPECT_EQ(listener->Count("flush failed") + listener->Count("compaction failed"), 0);
  EXPECT_EQ(static_cast<size_t>(listener->Count("created") - listener->Count("deleted")),
            FilesEndingWith(".sst").size());
}

TEST_F(DBTest, SequentialFillIsNeverRewritten) {
  Open();
  Fill(0, 60000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_EQ(options_.statistics->Get(Counter::kCompactionBytesWritten), 0u);
  EXPECT_GT(options_.statistics->Get(Counter::kTrivialMoves), 0u);
  EXPECT_LT(Files(0), options_.level0_file_trigger);
}

TEST_F(DBTest, NoSlowdownIsAbortedInsteadOfWaiting) {
  options_.disable_auto_compaction = false;
  options_.level0_file_trigger = 2;
  options_.level0_slowdown_trigger = 2;
  options_.level0_stop_trigger = 2;
  // A compaction that never gets a byte to write.
  class Blocked : public RateLimiter {
   public:
    void Request(int64_t, Priority priority) override {
      std::unique_lock<std::mutex> lock(mu);
      if (priority == Priority::kLow) cv.wait(lock, [this] { return open; });
    }
    void SetBytesPerSecond(int64_t) override {}
    int64_t BytesPerSecond() const override { return 1; }
    int64_t TotalBytes() const override { return 0; }
    std::mutex mu;
    std::condition_variable cv;
    bool open = false;
  };
  const auto limiter = std::make_shared<Blocked>();
  options_.rate_limiter = limiter;
  Open();
  WriteOptions no_slowdown;
  no_slowdown.no_slowdown = true;
  absl::Status status;
  for (int i = 0; i < 8 && status.ok(); ++i) {
    // Overlapping tables, so that they can't simply be moved.
    for (const std::string key : {"a", "b", "c"}) {
      status.Update(db_->Put(no_slowdown, key, std::to_string(i)));
    }
    if (status.ok()) status = db_->Flush(FlushOptions());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  {
    const std::lock_guard<std::mutex> lock(limiter->mu);
    limiter->open = true;
    limiter->cv.notify_all();
  }
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_TRUE(db_->Put(no_slowdown, "a", "again").ok());
}

TEST_F(DBTest, ConcurrentWritersAndReadersAgree) {
  Open();
  constexpr int kThreads = 4;
  constexpr int kKeys = 3000;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      WriteOptions write;
      for (int i = 0; i < kKeys; ++i) {
        // Both keys of a batch change together.
        WriteBatch batch;
        batch.Put("left" + std::to_string(t), std::to_string(i));
        batch.Put("right" + std::to_string(t), std::to_string(i));
        batch.Put(Key(t * kKeys + i), Value(i));
        ASSERT_TRUE(db_->Write(write, &batch).ok());
      }
    });
  }
  std::thread reader([this, &done] {
    while (!done.load()) {
      for (int t = 0; t < kThreads; ++t) {
        ReadOptions options;
        options.snapshot = db_->GetSnapshot();
        EXPECT_EQ(Get("left" + std::to_string(t), options),
                  Get("right" + std::to_string(t), options));
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  reader.join();
  for (int i = 0; i < kThreads * kKeys; ++i) ASSERT_EQ(Get(Key(i)), Value(i % kKeys));
  EXPECT_EQ(db_->LatestSequence(), uint64_t{3} * kThreads * kKeys);
}

TEST_F(DBTest, SeveralDatabasesShareTheirResources) {
  options_.background_pool = NewThreadPool(2);
  options_.block_cache = NewBlockCache(1 << 20);
  options_.rate_limiter = NewRateLimiter(int64_t{1} << 30);
  Open();
  absl::StatusOr<std::unique_ptr<DB>> other = DB::Open(options_, "/other");
  ASSERT_TRUE(other.ok());
  Fill(0, 10000);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE((*other)->Put(WriteOptions(), Key(i), "other").ok());
  }
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  ASSERT_TRUE((*other)->WaitForBackgroundWork().ok());
  for (int i = 0; i < 10000; i += 100) {
    std::string value;
    ASSERT_TRUE((*other)->Get(ReadOptions(), Key(i), &value).ok());
    EXPECT_EQ(value, "other");
    EXPECT_EQ(Get(Key(i)), Value(i));
  }
  EXPECT_GT(options_.rate_limiter->TotalBytes(), 0);
}

}  // namespace
}  // namespace sievedb
