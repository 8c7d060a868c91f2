// Reading and writing a database through its public API.

#include "sievedb/db.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/db_test_util.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;

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
  const FilterLevelCounts counts = FilterCounts();
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

TEST_F(DBTest, RateLimiterHearsOfTheDebtUntilClose) {
  options_.disable_auto_compaction = false;
  options_.level0_file_trigger = 10;
  options_.level0_slowdown_trigger = 10;
  options_.rate_limiter = NewAdaptiveRateLimiter(1 << 20, 11 << 20);
  Open();
  EXPECT_EQ(options_.rate_limiter->BytesPerSecond(), 1 << 20);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(db_->Put(WriteOptions(), "key", "value").ok());
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    EXPECT_EQ(options_.rate_limiter->BytesPerSecond(), (1 + i) << 20);
  }
  ASSERT_TRUE(db_->Close().ok());
  EXPECT_EQ(options_.rate_limiter->BytesPerSecond(), 1 << 20);
}

}  // namespace
}  // namespace sievedb
