// What DB::IngestExternalFiles does to a database.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/sst_file_writer.h"
#include "tests/db/ingest_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

TEST_F(IngestTest, AnEmptyDatabaseTakesItIntoTheLastLevel) {
  Open();
  MakeTable("/a.sst", 0, 1000, "a");
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  EXPECT_EQ(Files(6), 1);
  EXPECT_EQ(TotalFiles(), 1);
  EXPECT_EQ(db_->LatestSequence(), 1u);
  EXPECT_EQ(options_.statistics->Get(Counter::kTablesIngested), 1u);
  EXPECT_EQ(options_.statistics->Get(Counter::kIngestedBytes),
            *options_.file_system->FileSize("/a.sst"));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; i += 7) ASSERT_EQ(Get(Key(i)), "a " + std::to_string(i));
    EXPECT_EQ(Get(Key(1000)), "(absent)");
    EXPECT_EQ(Get("key"), "(absent)");
    EXPECT_TRUE(db_->VerifyChecksums().ok());
    auto it = db_->NewIterator(ReadOptions());
    int n = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++n) ASSERT_EQ(it->key(), Key(n));
    EXPECT_EQ(n, 1000);
    for (it->SeekToLast(); it->Valid(); it->Prev()) ASSERT_EQ(it->key(), Key(--n));
    EXPECT_EQ(n, 0);
    it = nullptr;
    Open();
    EXPECT_EQ(db_->LatestSequence(), 1u);
  }
}

TEST_F(IngestTest, TellsItsListenersAndTheLog) {
  Open();
  MakeTable("/a.sst", 0, 10, "a");
  MakeTable("/b.sst", 10, 30, "b");
  ASSERT_TRUE(Ingest({"/b.sst", "/a.sst"}).ok());
  const std::vector<IngestEvent> events = listener_->Take();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].status.ok());
  EXPECT_EQ(events[0].db_path, "/db");
  EXPECT_EQ(events[0].sequence, 1u);
  ASSERT_EQ(events[0].tables.size(), 2u);
  EXPECT_EQ(events[0].tables[0].external_path, "/a.sst");
  EXPECT_EQ(events[0].tables[0].entries, 10u);
  EXPECT_EQ(events[0].tables[0].level, 6);
  EXPECT_EQ(events[0].tables[1].external_path, "/b.sst");
  EXPECT_EQ(events[0].tables[1].file_bytes, *options_.file_system->FileSize("/b.sst"));
  EXPECT_FALSE(Ingest({"/none.sst"}).ok());
  const std::vector<IngestEvent> failed = listener_->Take();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(failed[0].status)) << failed[0].status;
  EXPECT_TRUE(failed[0].tables.empty());
  const std::string log = ReadFile("/db/LOG");
  EXPECT_NE(log.find("ingested 2 tables"), log.npos) << log;
  EXPECT_NE(log.find("/a.sst as table"), log.npos) << log;
  EXPECT_NE(log.find("ingesting failed"), log.npos) << log;
}

TEST_F(IngestTest, GoesToTheLowestLevelThatFits) {
  Open();
  const std::string_view from = "";
  MakeTable("/a.sst", 100, 200, "bottom");
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  EXPECT_EQ(LastLevel(), 6);
  MakeTable("/b.sst", 150, 160, "second");  // over it
  ASSERT_TRUE(Ingest({"/b.sst"}).ok());
  EXPECT_EQ(LastLevel(), 5);
  MakeTable("/c.sst", 155, 170, "third");  // over both
  ASSERT_TRUE(Ingest({"/c.sst"}).ok());
  EXPECT_EQ(LastLevel(), 4);
  MakeTable("/d.sst", 161, 165, "fourth");
  ASSERT_TRUE(Ingest({"/d.sst"}).ok());
  EXPECT_EQ(LastLevel(), 3);
  MakeTable("/e.sst", 200, 300, "beside");
  ASSERT_TRUE(Ingest({"/e.sst"}).ok());
  EXPECT_EQ(LastLevel(), 6);
  ASSERT_TRUE(Put(Key(250), "from a memtable").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  EXPECT_EQ(Files(0), 1);
  MakeTable("/f.sst", 240, 260, "over level 0");
  ASSERT_TRUE(Ingest({"/f.sst"}).ok());
  EXPECT_EQ(LastLevel(), 0);
  MakeTable("/g.sst", 251, 260, "over level 0 again");
  ASSERT_TRUE(Ingest({"/g.sst"}).ok());
  EXPECT_EQ(LastLevel(), 0);
  const auto check = [&] {
    EXPECT_EQ(Get(Key(140)), "bottom 140");
    EXPECT_EQ(Get(Key(150)), "second 150");
    EXPECT_EQ(Get(Key(155)), "third 155");
    EXPECT_EQ(Get(Key(161)), "fourth 161");
    EXPECT_EQ(Get(Key(165)), "third 165");
    EXPECT_EQ(Get(Key(170)), "bottom 170");
    EXPECT_EQ(Get(Key(239)), "beside 239");
    EXPECT_EQ(Get(Key(250)), "over level 0 250");
    EXPECT_EQ(Get(Key(259)), "over level 0 again 259");
    EXPECT_EQ(Get(Key(299)), "beside 299");
    EXPECT_TRUE(db_->VerifyChecksums().ok());
  };
  check();
  const std::string scan = Scan();
  Open();
  check();
  EXPECT_EQ(Scan(), scan);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), &from, nullptr).ok());
  check();
  EXPECT_EQ(Scan(), scan);
}

TEST_F(IngestTest, IsNewerThanTheMemtableAndOlderThanWhatFollows) {
  Open();
  ASSERT_TRUE(Put(Key(5), "before").ok());
  ASSERT_TRUE(Put(Key(50), "beside").ok());
  MakeTable("/a.sst", 0, 10, "a");
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  EXPECT_EQ(LastLevel(), 0);
  EXPECT_EQ(Files(0), 2) << "the memtable is flushed first";
  EXPECT_EQ(Get(Key(5)), "a 5");
  ASSERT_TRUE(Put(Key(6), "after").ok());
  ASSERT_TRUE(Delete(Key(7)).ok());
  const auto check = [&] {
    EXPECT_EQ(Get(Key(5)), "a 5");
    EXPECT_EQ(Get(Key(6)), "after");
    EXPECT_EQ(Get(Key(7)), "(absent)");
    EXPECT_EQ(Get(Key(8)), "a 8");
    EXPECT_EQ(Get(Key(50)), "beside");
  };
  check();
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  check();
  Open();
  check();
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  check();
}

TEST_F(IngestTest, AMemtableWithOtherKeysIsNotFlushed) {
  Open();
  ASSERT_TRUE(Put(Key(5), "below").ok());
  ASSERT_TRUE(Put(Key(20), "above").ok());
  MakeTable("/a.sst", 6, 20, "a");
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  EXPECT_EQ(LastLevel(), 6);
  EXPECT_EQ(TotalFiles(), 1);
  ASSERT_TRUE(Put(Key(6), "after").ok());  // into the memtable that is older in part
  Open();
  EXPECT_EQ(Get(Key(5)), "below");
  EXPECT_EQ(Get(Key(6)), "after");
  EXPECT_EQ(Get(Key(7)), "a 7");
  EXPECT_EQ(Get(Key(20)), "above");
}

TEST_F(IngestTest, SnapshotsAndIteratorsStayAsTheyAre) {
  Open();
  Fill(0, 20);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  const auto snapshot = db_->GetSnapshot();
  ReadOptions then;
  then.snapshot = snapshot;
  const std::string before = Scan();
  const auto iterator = db_->NewIterator(ReadOptions());
  iterator->SeekToFirst();
  SstFileWriter writer(options_);
  ASSERT_TRUE(writer.Open("/a.sst").ok());
  for (int i = 10; i < 30; ++i) {
    ASSERT_TRUE((i % 5 == 0 ? writer.Delete(Key(i)) : writer.Put(Key(i), "new")).ok());
  }
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  const auto check = [&] {
    EXPECT_EQ(Get(Key(11)), "new");
    EXPECT_EQ(Get(Key(15)), "(absent)");
    EXPECT_EQ(Get(Key(21)), "new");
    EXPECT_EQ(Get(Key(11), then), Value(11));
    EXPECT_EQ(Get(Key(15), then), Value(15));
    EXPECT_EQ(Get(Key(21), then), "(absent)");
    EXPECT_EQ(Scan(then), before);
    // Seeks whose target is on either side of the entry that the snapshot does not see.
    const auto it = db_->NewIterator(then);
    it->Seek(Key(15));
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key(), Key(15));
    it->SeekForPrev(Key(25));
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key(), Key(19));
    const std::vector<std::string> keys = {Key(11), Key(15), Key(21)};
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<PinnedValue> values(3);
    std::vector<absl::Status> statuses(3);
    db_->MultiGet(then, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
    EXPECT_EQ(values[0].view(), Value(11));
    EXPECT_EQ(values[1].view(), Value(15));
    EXPECT_TRUE(absl::IsNotFound(statuses[2]));
  };
  check();
  std::string seen;
  for (; iterator->Valid(); iterator->Next()) {
    seen += std::string(iterator->key()) + "=" + std::string(iterator->value()) + " ";
  }
  EXPECT_EQ(seen, before);
  ASSERT_TRUE(iterator->Refresh().ok());
  iterator->Seek(Key(21));
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value(), "new");
  CompactRangeOptions rewrite;
  rewrite.rewrite_bottommost = true;
  ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  check();
}

TEST_F(IngestTest, EveryIteratorStepOverItIsAsOverAnyTable) {
  Open();
  Fill(0, 300);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  SstFileWriter writer(options_);
  ASSERT_TRUE(writer.Open("/a.sst").ok());
  for (int i = 0; i < 400; i += 3) {
    ASSERT_TRUE((i % 2 == 0 ? writer.Delete(Key(i)) : writer.Put(Key(i), "new")).ok());
  }
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  const auto expected = [](int i) -> std::string {
    if (i < 0 || i >= 400) return "";
    if (i % 3 == 0) return i % 2 == 0 ? "" : "new";
    return i < 300 ? Value(i) : "";
  };
  const auto it = db_->NewIterator(ReadOptions());
  for (int i = -1; i <= 400; ++i) {
    int next = std::max(i, 0);
    while (next < 400 && expected(next).empty()) ++next;
    it->Seek(i < 0 ? "" : Key(i));
    ASSERT_EQ(it->Valid(), next < 400) << i;
    if (it->Valid()) {
      ASSERT_EQ(it->key(), Key(next));
      ASSERT_EQ(it->value(), expected(next));
    }
    int before = std::min(i, 399);
    while (before >= 0 && expected(before).empty()) --before;
    it->SeekForPrev(i < 0 ? "" : Key(i));
    ASSERT_EQ(it->Valid(), before >= 0) << i;
    if (it->Valid()) {
      ASSERT_EQ(it->key(), Key(before));
    }
    ASSERT_EQ(Get(i < 0 ? "" : Key(i)), expected(i).empty() ? "(absent)" : expected(i));
  }
}

TEST_F(IngestTest, CompactionsMakeItTheDatabasesOwn) {
  options_.level_base_bytes = 1;  // nothing may stay above the last level
  Open();
  ASSERT_TRUE(Put(Key(15), "old").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  MakeTable("/a.sst", 0, 20, "a");
  MakeTable("/b.sst", 5, 10, "b");
  MakeTable("/c.sst", 100, 110, "c");
  MakeTable("/d.sst", 90, 120, "d");
  for (const char* path : {"/a.sst", "/b.sst", "/d.sst", "/c.sst"}) {
    ASSERT_TRUE(Ingest({path}).ok());
  }
  const auto check = [&] {
    EXPECT_EQ(Get(Key(4)), "a 4");
    EXPECT_EQ(Get(Key(15)), "a 15");
    EXPECT_EQ(Get(Key(5)), "b 5");
    EXPECT_EQ(Get(Key(100)), "c 100");
    EXPECT_EQ(Get(Key(95)), "d 95");
    EXPECT_TRUE(db_->VerifyChecksums().ok());
  };
  check();
  EXPECT_NE(db_->GetProperty("sievedb.levels"), std::nullopt);
  options_.disable_auto_compaction = false;
  Open();
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  check();
  CompactRangeOptions rewrite;
  rewrite.rewrite_bottommost = true;
  ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  check();
  Open();
  check();
  // Now they are tables like any other, and no writer's.
  const absl::Status again = Ingest(FilesEndingWith(".sst"));
  EXPECT_TRUE(absl::IsInvalidArgument(again)) << again;
}

TEST_F(IngestTest, AMovedTableIsStillReadByItsOwnNumber) {
  Open();
  const auto compact = [&](int first, int last) {
    const std::string first_key = Key(first);
    const std::string last_key = Key(last);
    const std::string_view begin = first_key;
    const std::string_view end = last_key;
    return db_->CompactRange(CompactRangeOptions(), &begin, &end);
  };
  SstFileWriter writer(options_);
  ASSERT_TRUE(writer.Open("/wide.sst").ok());
  ASSERT_TRUE(writer.Put(Key(0), "wide").ok());
  ASSERT_TRUE(writer.Put(Key(1000), "wide").ok());
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(Ingest({"/wide.sst"}).ok());
  EXPECT_EQ(LastLevel(), 6);
  MakeTable("/a.sst", 10, 20, "a");
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  EXPECT_EQ(LastLevel(), 5);
  // The deletion of its last key makes the wide one narrow, so that nothing is below the
  // other one any more.
  ASSERT_TRUE(writer.Open("/delete.sst").ok());
  ASSERT_TRUE(writer.Delete(Key(1000)).ok());
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(Ingest({"/delete.sst"}).ok());
  EXPECT_EQ(LastLevel(), 5);
  ASSERT_TRUE(compact(1000, 1001).ok());
  EXPECT_EQ(options_.statistics->Get(Counter::kTrivialMoves), 0u);
  EXPECT_EQ(Files(5), 1);
  ASSERT_TRUE(compact(10, 20).ok());
  EXPECT_EQ(options_.statistics->Get(Counter::kTrivialMoves), 1u);
  EXPECT_EQ(Files(5), 0);
  EXPECT_EQ(Files(6), 2);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get(Key(0)), "wide");
    EXPECT_EQ(Get(Key(10)), "a 10");
    EXPECT_EQ(Get(Key(1000)), "(absent)");
    EXPECT_TRUE(db_->VerifyChecksums().ok());
    Open();
  }
}

TEST_F(IngestTest, AReadOnlyDatabaseAndAClosedOneRefuse) {
  Open();
  MakeTable("/a.sst", 0, 10, "a");
  ASSERT_TRUE(Put("k", "v").ok());
  {
    auto reader = DB::OpenReadOnly(options_, "/db");
    ASSERT_TRUE(reader.ok());
    EXPECT_TRUE(
        absl::IsFailedPrecondition((*reader)->IngestExternalFiles({"/a.sst"}, IngestOptions())));
  }
  ASSERT_TRUE(db_->Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Ingest({"/a.sst"})));
}

TEST_F(IngestTest, ReadersBesideTheWriterSeeIt) {
  Open();
  MakeTable("/a.sst", 0, 10, "a");
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  auto reader = DB::OpenReadOnly(options_, "/db");
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::string value;
  ASSERT_TRUE((*reader)->Get(ReadOptions(), Key(3), &value).ok());
  EXPECT_EQ(value, "a 3");
  EXPECT_TRUE((*reader)->VerifyChecksums().ok());
}

TEST_F(IngestTest, PrefixesAndOtherFiltersWork) {
  options_.prefix_extractor = NewFixedPrefixExtractor(8);
  for (const auto& policy : {NewRibbonPolicy(10), NewBinaryFusePolicy(), NewBloomPolicy(8),
                             std::shared_ptr<const FilterPolicy>()}) {
    options_.filter_policy = policy;
    const auto file_system = std::make_shared<FaultFileSystem>();
    options_.file_system = file_system;
    Open();
    // Its hashes have another seed than those of the database.
    file_system->SetRandomSeed(12345);
    MakeTable("/a.sst", 0, 4000, "a");
    ASSERT_TRUE(Ingest({"/a.sst"}).ok());
    ReadOptions prefix;
    prefix.prefix_same_as_start = true;
    const auto it = db_->NewIterator(prefix);
    int n = 0;
    for (it->Seek("key00000"); it->Valid(); it->Next()) ++n;
    EXPECT_EQ(n, 1000);
    it->Seek("other000");
    EXPECT_FALSE(it->Valid());
    EXPECT_EQ(Get(Key(17)), "a 17");
    EXPECT_EQ(Get("absent"), "(absent)");
  }
}

// Writers, readers, flushes, compactions and ingestion at once. Each round's table sets all
// of a block of keys to the round; writers set a counter of their own before and after.
TEST_F(IngestTest, RunsBesideWritersReadersAndCompactions) {
  options_.disable_auto_compaction = false;
  options_.write_buffer_bytes = 64 << 10;
  options_.level_base_bytes = 64 << 10;
  options_.target_file_bytes = 32 << 10;
  options_.level0_file_trigger = 2;
  options_.max_background_jobs = 3;
  Open();
  constexpr int kRounds = 30;
  constexpr int kKeys = 200;
  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    // Keys between those of the tables, so that memtables always overlap them.
    threads.emplace_back([&, t] {
      for (int i = 0; !stop.load(); ++i) {
        const std::string key = Key(i % kKeys) + "." + std::to_string(t);
        ASSERT_TRUE(Put(key, std::to_string(i) + std::string(200, 'v')).ok());
        const std::string value = Get(key);
        ASSERT_EQ(value.substr(0, value.find('v')), std::to_string(i));
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop.load()) {
      const int at_least = done.load();
      const auto snapshot = db_->GetSnapshot();
      ReadOptions options;
      options.snapshot = snapshot;
      // All of a table or none of it, in two reads of one snapshot.
      const std::string first = Get(Key(0), options);
      ASSERT_EQ(Get(Key(kKeys - 1), options).substr(0, 3), first.substr(0, 3));
      if (at_least > 0) {
        ASSERT_NE(first, "(absent)");
        ASSERT_GE(std::stoi(first), at_least + 100);
      }
    }
  });
  // Who sees what was written after an ingestion sees the ingestion, in one look.
  threads.emplace_back([&] {
    std::vector<PinnedValue> values(2);
    std::vector<absl::Status> statuses(2);
    const std::string key = Key(5);
    const std::vector<std::string_view> keys = {"after the last", key};
    for (int i = 0; !stop.load(); ++i) {
      if (i % 2 == 0) {
        db_->MultiGet(ReadOptions(), keys, absl::MakeSpan(values), absl::MakeSpan(statuses));
        if (!statuses[0].ok()) continue;
        ASSERT_TRUE(statuses[1].ok()) << statuses[1];
        ASSERT_GE(std::stoi(std::string(values[1].view())),
                  std::stoi(std::string(values[0].view())));
      } else {
        const auto it = db_->NewIterator(ReadOptions());
        it->Seek(keys[0]);
        if (!it->Valid() || it->key() != keys[0]) continue;
        const int after = std::stoi(std::string(it->value()));
        it->Seek(key);
        ASSERT_TRUE(it->Valid());
        ASSERT_GE(std::stoi(std::string(it->value())), after);
      }
    }
  });
  for (int round = 1; round <= kRounds && !HasFailure(); ++round) {
    const std::string path = "/r" + std::to_string(round);
    MakeTable(path, 0, kKeys, std::to_string(100 + round));
    const absl::Status status = Ingest({path});
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(Put("after the last", std::to_string(100 + round)).ok());
    done.store(round);
    for (int i = 0; i < kKeys; i += 13) {
      ASSERT_EQ(Get(Key(i)), std::to_string(100 + round) + " " + std::to_string(i));
    }
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  ASSERT_TRUE(db_->VerifyChecksums().ok());
  const std::string scan = Scan();
  Open();
  EXPECT_EQ(Scan(), scan);
  EXPECT_EQ(Get(Key(7)), std::to_string(100 + kRounds) + " 7");
}

TEST_F(IngestTest, ManyTablesOfOneCallMakeOneRun) {
  Open();
  std::vector<std::string> paths;
  for (int i = 0; i < 50; ++i) {
    paths.push_back("/t" + std::to_string(i));
    MakeTable(paths.back(), 100 * i, 100 * i + 100, "a");
  }
  std::reverse(paths.begin(), paths.end());
  ASSERT_TRUE(Ingest(paths).ok());
  EXPECT_EQ(Files(6), 50);
  for (int i = 0; i < 5000; i += 37) ASSERT_EQ(Get(Key(i)), "a " + std::to_string(i));
}

}  // namespace
}  // namespace sievedb
