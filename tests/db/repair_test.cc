// RepairDB: each file lost or damaged, and all of them.

#include "sievedb/repair.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/file_names.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/sst_file_writer.h"
#include "tests/db/db_test_util.h"
#include "tests/db/history.h"

namespace sievedb {
namespace {

constexpr char kPath[] = "/db";
constexpr uint64_t kBatches = 90;

class RepairTest : public DBTest {
 protected:
  RepairTest() { options_ = SmallOptions(NewMemoryFileSystem()); }

  // The history, with tables in several levels, range tombstones among them, and its end
  // in WALs only.
  void MakeHistory(uint64_t batches = kBatches) {
    options_.level0_file_trigger = 3;
    Open();
    WriteHistory(1, batches);
    Close();
    ASSERT_GT(FilesEndingWith(".sst").size(), 2u);
  }
  void WriteHistory(uint64_t first, uint64_t last) {
    for (uint64_t number = first; number <= last; ++number) {
      WriteBatch batch = HistoryBatch(number);
      ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
      if (number == 40 || number == 60) {
        ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
      }
    }
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  }
  void Close() {
    ASSERT_TRUE(db_->Close().ok());
    db_ = nullptr;
  }

  void Remove(const std::string& path) { ASSERT_TRUE(options_.file_system->DeleteFile(path).ok()); }
  void RemoveAll(const std::string& ending) {
    for (const std::string& path : FilesEndingWith(ending)) Remove(path);
  }
  std::vector<std::string> Manifests() {
    std::vector<std::string> paths;
    for (const std::string& path : FilesEndingWith("")) {
      const auto parsed = ParseFileName(path.substr(4));
      if (parsed.has_value() && parsed->kind == FileKind::kManifest) paths.push_back(path);
    }
    return paths;
  }
  bool Exists(const std::string& path) { return *options_.file_system->FileExists(path); }

  // Names and bytes of all but LOG and LOCK.
  std::map<std::string, std::string> Contents(const std::string& directory = kPath) {
    std::map<std::string, std::string> contents;
    const std::vector<std::string> names = *options_.file_system->GetChildren(directory);
    for (const std::string& name : names) {
      if (name.starts_with("LO")) continue;
      if (name == "lost") {
        contents.merge(Contents(directory + "/lost"));
      } else {
        contents[directory + "/" + name] = ReadFile(directory + "/" + name);
      }
    }
    return contents;
  }
  void Restore(const std::map<std::string, std::string>& contents) {
    for (const auto& [path, bytes] : Contents()) Remove(path);
    for (const auto& [path, bytes] : contents) WriteFile(path, bytes);
  }

  RepairReport Repair() {
    RepairReport report;
    const absl::Status status = RepairDB(options_, kPath, &report);
    EXPECT_TRUE(status.ok()) << status;
    return report;
  }
  // A second one finds nothing to do.
  RepairReport RepairTwice() {
    const RepairReport report = Repair();
    EXPECT_TRUE(report.changed);
    EXPECT_FALSE(report.findings.empty());
    const auto before = Contents();
    const RepairReport second = Repair();
    EXPECT_FALSE(second.changed);
    EXPECT_TRUE(second.findings.empty()) << second.findings.front();
    EXPECT_EQ(second.tables, report.tables);
    EXPECT_EQ(second.last_sequence, report.last_sequence);
    EXPECT_TRUE(Contents() == before);
    return report;
  }

  // It opens, holds so many batches of the history, takes more, and opens again.
  void ExpectHistory(uint64_t batches) {
    Open();
    ASSERT_NE(db_, nullptr);
    uint64_t found = 0;
    EXPECT_TRUE(ReadHistory(db_.get(), &found));
    EXPECT_EQ(found, batches);
    if (HasFailure()) return;
    WriteHistory(batches + 1, batches + 30);
    ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    Open();
    EXPECT_TRUE(ReadHistory(db_.get(), &found));
    EXPECT_EQ(found, batches + 30);
    Close();
  }
};

TEST_F(RepairTest, AHealthyDatabaseIsNotTouched) {
  MakeHistory();
  const auto before = Contents();
  const RepairReport report = Repair();
  EXPECT_FALSE(report.changed);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_GT(report.tables, 2u);
  EXPECT_TRUE(Contents() == before);
  ExpectHistory(kBatches);
}

TEST_F(RepairTest, CurrentIsLostOrDamaged) {
  MakeHistory();
  const auto before = Contents();
  for (const char* contents :
       {"(lost)", "", "MANIFEST-000001", "MANIFEST-999999\n", "nonsense\n"}) {
    SCOPED_TRACE(contents);
    Restore(before);
    contents == std::string("(lost)") ? Remove("/db/CURRENT") : WriteFile("/db/CURRENT", contents);
    const RepairReport report = RepairTwice();
    EXPECT_EQ("/db/" + report.manifest,
              Manifests().empty() ? "" : before.lower_bound("/db/MANIFEST")->first);
    EXPECT_EQ(report.tables_merged, 0u);
    ExpectHistory(kBatches);
  }
}

TEST_F(RepairTest, TheManifestIsLost) {
  MakeHistory();
  const auto before = Contents();
  for (const bool current_too : {false, true}) {
    Restore(before);
    for (const std::string& path : Manifests()) Remove(path);
    if (current_too) Remove("/db/CURRENT");
    const RepairReport report = RepairTwice();
    EXPECT_EQ(report.manifest, "");
    EXPECT_GT(report.wal_records, 0u);
    ExpectHistory(kBatches);
  }
}

// Wherever it is damaged, or cut, nothing of the data is.
TEST_F(RepairTest, TheManifestIsDamaged) {
  MakeHistory();
  const auto before = Contents();
  ASSERT_EQ(Manifests().size(), 1u);
  const std::string path = Manifests().front();
  const std::string bytes = before.at(path);
  for (size_t at = 0; at < bytes.size() && !HasFailure(); at += 1 + bytes.size() / 60) {
    SCOPED_TRACE(at);
    Restore(before);
    FlipByte(path, at);
    Repair();
    EXPECT_FALSE(Repair().changed);
    ExpectHistory(kBatches);
    Restore(before);
    WriteFile(path, bytes.substr(0, at));
    Repair();
    EXPECT_FALSE(Repair().changed);
    ExpectHistory(kBatches);
  }
}

// Of each key the newest of what is left is found, and nothing that was never there.
TEST_F(RepairTest, EachTableIsLostOrDamaged) {
  Open();
  options_.disable_auto_compaction = true;
  Open();
  // Three layers over each other; values say the layer.
  for (int layer = 0; layer < 3; ++layer) {
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(Put(Key(i), std::to_string(layer)).ok());
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    if (layer == 0) {
      ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    }
  }
  ASSERT_TRUE(Put(Key(5), "WAL").ok());
  Close();
  const auto before = Contents();
  const std::vector<std::string> tables = FilesEndingWith(".sst");
  ASSERT_EQ(tables.size(), 3u);
  for (size_t t = 0; t < tables.size(); ++t) {
    for (const bool damaged : {false, true}) {
      for (const bool manifest_too : {false, true}) {
        SCOPED_TRACE(tables[t]);
        Restore(before);
        damaged ? FlipByte(tables[t], 100) : Remove(tables[t]);
        const std::string bytes = damaged ? ReadFile(tables[t]) : "";
        if (manifest_too) Remove(Manifests().front());
        const RepairReport report = RepairTwice();
        const std::string lost = "/db/lost/" + tables[t].substr(4);
        EXPECT_EQ(Exists(lost), damaged);
        if (damaged) {
          EXPECT_EQ(ReadFile(lost), bytes);
          EXPECT_EQ(report.set_aside, std::vector<std::string>{tables[t].substr(4)});
        }
        Open();
        EXPECT_EQ(Get(Key(5)), "WAL");
        EXPECT_EQ(Get(Key(6)), t == 2 ? "1" : "2");
        EXPECT_EQ(Get(Key(299)), t == 2 ? "1" : "2");
        EXPECT_TRUE(db_->VerifyChecksums().ok());
        ASSERT_TRUE(Put(Key(6), "new").ok());
        ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
        EXPECT_EQ(Get(Key(6)), "new");
        Close();
      }
    }
  }
}

// A damaged filter loses nothing.
TEST_F(RepairTest, ADamagedFilterIsMadeAnew) {
  MakeHistory();
  const auto before = Contents();
  for (const std::string& table : FilesEndingWith(".sst")) {
    for (const bool manifest_too : {false, true}) {
      SCOPED_TRACE(table);
      Restore(before);
      // The filter is the first block of the tail where there are no range tombstones, and
      // the block before the index in any case: find a byte whose flipping only it notices.
      const std::string bytes = ReadFile(table);
      uint64_t filter_offset = 0;
      std::memcpy(&filter_offset, bytes.data() + bytes.size() - 128, sizeof(filter_offset));
      FlipByte(table, filter_offset + 3);
      if (manifest_too) Remove(Manifests().front());
      const RepairReport report = RepairTwice();
      EXPECT_EQ(report.set_aside.size(), 1u);
      ExpectHistory(kBatches);
    }
  }
}

// Records behind the damage of one WAL are lost, those of others are not.
TEST_F(RepairTest, EachWalIsLostOrDamaged) {
  options_.write_buffer_bytes = 1 << 20;
  options_.max_write_buffers = 10;
  Open();
  ASSERT_TRUE(Put("flushed", "x").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  Close();
  Open();
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Put(Key(i), std::string(50, 'v')).ok());
  const std::vector<std::string> wals = FilesEndingWith(".wal");
  ASSERT_EQ(wals.size(), 1u);
  const auto before = Contents();  // as a process that died would leave it
  const std::string bytes = before.at(wals[0]);
  Close();
  for (const bool manifest_too : {false, true}) {
    for (size_t at = 0; at < bytes.size() && bytes.substr(at).find('v') != bytes.npos; at += 211) {
      SCOPED_TRACE(at);
      Restore(before);
      FlipByte(wals[0], at);
      if (manifest_too) Remove(Manifests().front());
      Repair();
      EXPECT_FALSE(Repair().changed);
      EXPECT_EQ(Exists("/db/lost/" + wals[0].substr(4)), Exists("/db/lost"));
      Open();
      EXPECT_EQ(Get("flushed"), "x");
      // A prefix, as far as it was whole.
      int found = 0;
      while (found < 50 && Get(Key(found)) != "(absent)") ++found;
      const size_t record = (bytes.size() > 0) ? bytes.find(Key(found)) : 0;
      if (found < 50) {
        EXPECT_GE(record + 100, at) << "a record before the damage is lost";
      }
      for (int i = found; i < 50; ++i) EXPECT_EQ(Get(Key(i)), "(absent)");
      ASSERT_TRUE(Put(Key(7), "new").ok());
      EXPECT_EQ(Get(Key(7)), "new");
      Close();
    }
    Restore(before);
    Remove(wals[0]);
    if (manifest_too) Remove(Manifests().front());
    RepairTwice();
    Open();
    EXPECT_EQ(Scan(), "flushed=x ");
    Close();
  }
}

// Several WALs of one life, which wait for a flush that never comes.
TEST_F(RepairTest, OfSeveralWalsTheOthersAreKept) {
  options_.write_buffer_bytes = 64 << 10;
  options_.max_write_buffers = 20;
  // Nothing is flushed: no thread has time.
  const std::shared_ptr<ThreadPool> pool = NewThreadPool(1);
  options_.background_pool = pool;
  std::map<std::string, std::string> before;
  {
    Open();
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
    std::atomic<bool> go{false};
    pool->Schedule(ThreadPool::Priority::kHigh, [&go] {
      while (!go.load()) std::this_thread::yield();
    });
    for (int i = 0; i < 400; ++i) ASSERT_TRUE(Put(Key(i), std::string(1000, 'v')).ok());
    before = Contents();
    go.store(true);
    Close();
  }
  options_.background_pool = nullptr;
  std::vector<std::string> wals;
  for (const auto& [path, bytes] : before) {
    if (path.ends_with(".wal")) wals.push_back(path);
  }
  ASSERT_GT(wals.size(), 3u);
  for (const bool manifest_too : {false, true}) {
    for (size_t w = 0; w < wals.size(); ++w) {
      for (const bool damaged : {false, true}) {
        SCOPED_TRACE(wals[w] + (damaged ? " damaged" : " lost"));
        Restore(before);
        damaged ? FlipByte(wals[w], before.at(wals[w]).find('v') + 100) : Remove(wals[w]);
        if (manifest_too) Remove(Manifests().front());
        Repair();
        EXPECT_FALSE(Repair().changed);
        Open();
        int missing = 0;
        for (int i = 0; i < 400; ++i) missing += Get(Key(i)) == "(absent)" ? 1 : 0;
        EXPECT_LE(missing, damaged ? 60 : 80);
        const bool last_is_short = w + 1 == wals.size();
        EXPECT_TRUE(missing > 0 || last_is_short);
        if (w > 0) {
          EXPECT_NE(Get(Key(0)), "(absent)");
        }
        if (w + 1 < wals.size()) {
          EXPECT_NE(Get(Key(399)), "(absent)");
        }
        Close();
      }
    }
  }
}

TEST_F(RepairTest, NearlyAllIsLost) {
  MakeHistory();
  const std::string survivor = FilesEndingWith(".sst").back();
  for (const std::string& path : FilesEndingWith("")) {
    if (path != survivor && !path.starts_with("/db/LO")) Remove(path);
  }
  RepairTwice();
  Open();
  EXPECT_TRUE(db_->VerifyChecksums().ok());
  EXPECT_NE(Scan(), "");
  ASSERT_TRUE(Put("k", "v").ok());
  EXPECT_EQ(Get("k"), "v");
}

TEST_F(RepairTest, OnlyAWalIsLeft) {
  Open();
  ASSERT_TRUE(Put("k", "v").ok());
  Close();
  Remove("/db/CURRENT");
  Remove(Manifests().front());
  RepairTwice();
  Open();
  EXPECT_EQ(Scan(), "k=v ");
}

// The newest data wins in whatever level it was, range tombstones included.
TEST_F(RepairTest, TheNewestWinsWhereverItStood) {
  options_.disable_auto_compaction = true;
  Open();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Put(Key(i), "old").ok());
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  // Above it, with sequences below those of what follows.
  ASSERT_TRUE(Put(Key(10), "newer").ok());
  ASSERT_TRUE(db_->DeleteRange(WriteOptions(), Key(50), Key(60)).ok());
  ASSERT_TRUE(Delete(Key(70)).ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  // The last level is rewritten in a part and gets higher sequences than what lies above.
  for (int i = 100; i < 200; ++i) ASSERT_TRUE(Put(Key(i), "newest").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  const std::string first = Key(100);
  const std::string_view begin = first;
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), &begin, nullptr).ok());
  ASSERT_EQ(Files(0), 1);
  ASSERT_EQ(TotalFiles(), 2);
  ASSERT_TRUE(Put(Key(55), "newest").ok());
  const std::string before = Scan();
  Close();
  Remove(Manifests().front());
  EXPECT_EQ(RepairTwice().tables_merged, 2u);
  Open();
  EXPECT_EQ(Scan(), before);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(Scan(), before);
}

// A WAL that is kept to be used again holds what may have been deleted since.
TEST_F(RepairTest, AWalThatIsNotNeededAnyMoreSaysNothing) {
  options_.max_write_buffers = 10;
  const std::shared_ptr<ThreadPool> pool = NewThreadPool(1);
  options_.background_pool = pool;
  Open();
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  // Two memtables are flushed at once, so that two WALs are done with.
  std::atomic<bool> go{false};
  pool->Schedule(ThreadPool::Priority::kHigh, [&go] {
    while (!go.load()) std::this_thread::yield();
  });
  FlushOptions do_not_wait;
  do_not_wait.wait = false;
  ASSERT_TRUE(Put("deleted", "x").ok());
  ASSERT_TRUE(db_->Flush(do_not_wait).ok());
  ASSERT_TRUE(Delete("deleted").ok());
  ASSERT_TRUE(Put("kept", "x").ok());
  ASSERT_TRUE(db_->Flush(do_not_wait).ok());
  go.store(true);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  ASSERT_EQ(Scan(), "kept=x ");
  const auto as_after_a_death = Contents();
  Close();
  Restore(as_after_a_death);
  Remove(Manifests().front());
  RepairTwice();
  Open();
  EXPECT_EQ(Scan(), "kept=x ");
}

TEST_F(RepairTest, SequencesGoOnAboveEverythingFound) {
  MakeHistory();
  Open();
  const uint64_t before = db_->LatestSequence();
  Close();
  Remove(Manifests().front());
  const RepairReport report = RepairTwice();
  EXPECT_GE(report.last_sequence, before);
  Open();
  EXPECT_GE(db_->LatestSequence(), before);
}

// --- ingested tables

class RepairIngestedTest : public RepairTest {
 protected:
  // Key(0..99): 0..19 newer than the ingested table, 20..59 of it, others older.
  void MakeDatabase() {
    options_.disable_auto_compaction = true;
    Open();
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put(Key(i), "older").ok());
    SstFileWriter writer(options_);
    ASSERT_TRUE(writer.Open("/in").ok());
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(writer.Put(Key(i), "ingested").ok());
    ASSERT_TRUE(writer.Finish().ok());
    ASSERT_TRUE(db_->IngestExternalFiles({"/in"}, IngestOptions()).ok());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(Put(Key(i), "newer").ok());
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    expected_ = Scan();
    Close();
  }
  std::string expected_;
};

TEST_F(RepairIngestedTest, KeepsItsMeaningWithAManifest) {
  MakeDatabase();
  Remove("/db/CURRENT");
  RepairTwice();
  Open();
  EXPECT_EQ(Scan(), expected_);
}

// What of the MANIFEST can be read is enough.
TEST_F(RepairIngestedTest, KeepsItsMeaningWithWhatIsLeftOfAManifest) {
  MakeDatabase();
  const std::string path = Manifests().front();
  FlipByte(path, ReadFile(path).size() - 60);  // of the last flush
  const RepairReport report = Repair();
  EXPECT_EQ(report.manifest, "");
  Open();
  EXPECT_EQ(Scan(), expected_);
}

// Without, it is set aside, and can be ingested again.
TEST_F(RepairIngestedTest, IsSetAsideWithoutAManifest) {
  MakeDatabase();
  Remove(Manifests().front());
  const RepairReport report = RepairTwice();
  ASSERT_EQ(report.set_aside.size(), 1u);
  Open();
  EXPECT_EQ(Get(Key(5)), "newer");
  EXPECT_EQ(Get(Key(30)), "older");
  const std::string lost = "/db/lost/" + report.set_aside[0];
  ASSERT_TRUE(db_->IngestExternalFiles({lost}, IngestOptions()).ok());
  EXPECT_EQ(Get(Key(30)), "ingested");
}

// --- refusals

TEST_F(RepairTest, Refusals) {
  EXPECT_TRUE(absl::IsNotFound(RepairDB(options_, "/none")));
  ASSERT_TRUE(options_.file_system->CreateDirectory("/empty").ok());
  EXPECT_TRUE(absl::IsNotFound(RepairDB(options_, "/empty")));
  EXPECT_TRUE(absl::IsInvalidArgument(RepairDB(options_, "")));
  MakeHistory();
  {
    Open();
    EXPECT_TRUE(absl::IsFailedPrecondition(RepairDB(options_, kPath)));
    Close();
  }
  // Another order: nothing is touched, whatever is lost.
  for (int round = 0; round < 2; ++round) {
    const auto before = Contents();
    Options reversed = options_;
    reversed.comparator = ReverseBytewiseComparator();
    const absl::Status status = RepairDB(reversed, kPath);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(Contents() == before);
    if (round == 0) Remove(Manifests().front());
  }
  RepairTwice();
  ExpectHistory(kBatches);
}

}  // namespace
}  // namespace sievedb
