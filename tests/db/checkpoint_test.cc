// Checkpoints: what is in them, and that nothing of half a one is ever seen.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/db_test_util.h"
#include "tests/db/fault_test_util.h"
#include "tests/db/history.h"
#include "tests/db/ingest_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

constexpr char kCopy[] = "/copy";

class CheckpointTest : public IngestTest {
 protected:
  void OpenCopy(const std::string& path = kCopy) {
    absl::StatusOr<std::unique_ptr<DB>> copy = DB::Open(options_, path);
    ASSERT_TRUE(copy.ok()) << copy.status();
    copy_ = *std::move(copy);
  }

  std::string ScanCopy() {
    std::swap(db_, copy_);
    const std::string text = Scan();
    std::swap(db_, copy_);
    return text;
  }

  std::unique_ptr<DB> copy_;
};

TEST_F(CheckpointTest, HasWhatWasWrittenAndGoesItsOwnWay) {
  Open();
  Fill(0, 3000);  // several tables
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  Fill(1000, 1500);
  ASSERT_TRUE(Delete(Key(7)).ok());
  ASSERT_TRUE(db_->DeleteRange(WriteOptions(), Key(20), Key(40)).ok());
  WriteOptions unlogged;
  unlogged.disable_wal = true;
  ASSERT_TRUE(db_->Put(unlogged, "unlogged", "x").ok());
  const std::string before = Scan();
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  ASSERT_TRUE(Put(Key(8), "later").ok());
  OpenCopy();
  EXPECT_EQ(ScanCopy(), before);
  EXPECT_TRUE(copy_->VerifyChecksums().ok());

  // What one writes, the other has not.
  ASSERT_TRUE(copy_->Put(WriteOptions(), Key(9), "the copy's").ok());
  ASSERT_TRUE(copy_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(Get(Key(9)), Value(9));
  EXPECT_EQ(Get(Key(8)), "later");
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  db_ = nullptr;
  ASSERT_TRUE(DestroyDB(options_, "/db").ok());
  EXPECT_TRUE(copy_->VerifyChecksums().ok());
  EXPECT_TRUE(CloseAndCheckDirectory(std::move(copy_), options_.file_system.get(), kCopy));
  EXPECT_FALSE(*options_.file_system->FileExists("/copy.tmp"));
}

// Its own sequences go on above the old ones.
TEST_F(CheckpointTest, SequencesGoOn) {
  Open();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Put("k", std::to_string(i)).ok());
  const uint64_t sequence = db_->LatestSequence();
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  OpenCopy();
  EXPECT_EQ(copy_->LatestSequence(), sequence);
  ASSERT_TRUE(copy_->Put(WriteOptions(), "k", "new").ok());
  EXPECT_EQ(ScanCopy(), "k=new ");
}

TEST_F(CheckpointTest, OfAnEmptyDatabase) {
  Open();
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  OpenCopy();
  EXPECT_EQ(ScanCopy(), "");
}

TEST_F(CheckpointTest, OfACheckpoint) {
  Open();
  Fill(0, 10);
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  OpenCopy();
  ASSERT_TRUE(copy_->Delete(WriteOptions(), Key(3)).ok());
  ASSERT_TRUE(copy_->CreateCheckpoint("/second").ok());
  const std::string expected = ScanCopy();
  copy_ = nullptr;
  OpenCopy("/second");
  EXPECT_EQ(ScanCopy(), expected);
}

TEST_F(CheckpointTest, HasIngestedTables) {
  Open();
  Fill(0, 50);
  MakeTable("/in", 40, 60, "ingested");
  ASSERT_TRUE(Ingest({"/in"}).ok());
  ASSERT_TRUE(Put(Key(45), "newest").ok());
  const std::string before = Scan();
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  OpenCopy();
  EXPECT_EQ(ScanCopy(), before);
  EXPECT_TRUE(copy_->VerifyChecksums().ok());
}

// A table that was ingested is newer than a key that then was in memory only.
TEST_F(CheckpointTest, NothingOlderThanAnIngestedTableIsMissing) {
  Open();
  MakeTable("/in", 40, 60, "ingested");
  ASSERT_TRUE(Put("a key far from the table", "x").ok());
  ASSERT_TRUE(Ingest({"/in"}).ok());
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  OpenCopy();
  std::string value;
  EXPECT_TRUE(copy_->Get(ReadOptions(), "a key far from the table", &value).ok());
  EXPECT_TRUE(copy_->Get(ReadOptions(), Key(50), &value).ok());
}

TEST_F(CheckpointTest, IteratorsAndSnapshotsDoNotMatter) {
  Open();
  Fill(0, 2000);
  const auto snapshot = db_->GetSnapshot();
  ASSERT_TRUE(db_->DeleteRange(WriteOptions(), Key(0), Key(2000)).ok());
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  OpenCopy();
  EXPECT_EQ(ScanCopy(), "");
}

TEST_F(CheckpointTest, Refusals) {
  Open();
  Fill(0, 10);
  ASSERT_TRUE(options_.file_system->CreateDirectory("/there").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(db_->CreateCheckpoint("/there")));
  EXPECT_TRUE(absl::IsAlreadyExists(db_->CreateCheckpoint("/there/")));
  EXPECT_TRUE(absl::IsAlreadyExists(db_->CreateCheckpoint("/db")));
  EXPECT_TRUE(absl::IsNotFound(db_->CreateCheckpoint("/none/copy")));
  EXPECT_TRUE(absl::IsInvalidArgument(db_->CreateCheckpoint("")));
  // What is not of a checkpoint is left alone.
  ASSERT_TRUE(options_.file_system->CreateDirectory("/copy.tmp").ok());
  WriteFile("/copy.tmp/thesis", "years of work");
  const absl::Status taken = db_->CreateCheckpoint(kCopy);
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  ASSERT_TRUE(options_.file_system->CreateDirectory(kCopy).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(db_->CreateCheckpoint(kCopy)));
  EXPECT_EQ(ReadFile("/copy.tmp/thesis"), "years of work");
  {
    auto reader = DB::OpenReadOnly(options_, "/db");
    ASSERT_TRUE(reader.ok());
    EXPECT_TRUE(absl::IsFailedPrecondition((*reader)->CreateCheckpoint("/other")));
  }
  for (const char* path : {"/there.tmp", "/db.tmp", "/other", "/other.tmp"}) {
    EXPECT_FALSE(*options_.file_system->FileExists(path)) << path;
  }
  EXPECT_TRUE(Put("still", "writable").ok());
}

TEST_F(CheckpointTest, OfTwoForOneDirectoryTheSecondIsRefused) {
  Open();
  ASSERT_TRUE(options_.file_system->CreateDirectory("/copy.tmp").ok());
  const auto held = options_.file_system->LockFile("/copy.tmp/LOCK");
  ASSERT_TRUE(held.ok());
  const absl::Status second = db_->CreateCheckpoint(kCopy);
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_TRUE(*options_.file_system->FileExists("/copy.tmp")) << "the first one's";
}

// What a crash left of an earlier one is no obstacle.
TEST_F(CheckpointTest, TakesOverWhatACrashLeft) {
  Open();
  Fill(0, 10);
  ASSERT_TRUE(options_.file_system->CreateDirectory("/copy.tmp").ok());
  WriteFile("/copy.tmp/000004.sst", "torn");
  WriteFile("/copy.tmp/999999.sst", "torn");
  WriteFile("/copy.tmp/CURRENT", "MANIFEST-000001\n");
  const std::string before = Scan();
  ASSERT_TRUE(db_->CreateCheckpoint(kCopy).ok());
  EXPECT_FALSE(*options_.file_system->FileExists("/copy/999999.sst"));
  OpenCopy();
  EXPECT_EQ(ScanCopy(), before);
}

// Each is a prefix of what was written, that has all that was acknowledged before.
TEST_F(CheckpointTest, BesideWriters) {
  options_.disable_auto_compaction = false;
  options_.write_buffer_bytes = 64 << 10;
  options_.level0_file_trigger = 2;
  Open();
  constexpr int kThreads = 3;
  constexpr int kWrites = 1500;
  constexpr int kCheckpoints = 4;
  std::atomic<int> acknowledged[kThreads] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= kWrites; ++i) {
        // The last number under one key; each number under its own.
        WriteBatch batch;
        const std::string thread = std::to_string(t);
        batch.Put("last" + thread, std::to_string(i));
        batch.Put("all" + thread + Key(i), std::string(100, 'x'));
        ASSERT_TRUE(db_->Write(WriteOptions(), &batch).ok());
        acknowledged[t].store(i);
      }
    });
  }
  // Ingested beside them, each as a whole.
  threads.emplace_back([&] {
    for (int i = 0; i < 6; ++i) {
      const std::string path = "/in" + std::to_string(i);
      MakeTable(path, 0, 20, std::to_string(i));
      ASSERT_TRUE(Ingest({path}).ok());
    }
  });
  int before[kCheckpoints][kThreads];
  for (int c = 0; c < kCheckpoints; ++c) {
    for (int t = 0; t < kThreads; ++t) before[c][t] = acknowledged[t].load();
    const absl::Status status = db_->CreateCheckpoint(kCopy + std::to_string(c));
    EXPECT_TRUE(status.ok()) << status;
  }
  for (std::thread& thread : threads) thread.join();
  for (int c = 0; c < kCheckpoints; ++c) {
    SCOPED_TRACE(c);
    copy_ = nullptr;
    OpenCopy(kCopy + std::to_string(c));
    ASSERT_TRUE(copy_->VerifyChecksums().ok());
    std::swap(db_, copy_);
    for (int t = 0; t < kThreads; ++t) {
      const std::string thread = std::to_string(t);
      const std::string last = Get("last" + thread);
      const int found = last == "(absent)" ? 0 : std::stoi(last);
      EXPECT_GE(found, before[c][t]);
      for (int i = 1; i <= kWrites; i += 37) {
        EXPECT_EQ(Get("all" + thread + Key(i)) != "(absent)", i <= found) << i;
      }
    }
    const std::string first = Get(Key(0));
    for (int i = 1; i < 20; ++i) {
      const std::string other = Get(Key(i));
      EXPECT_EQ(other.substr(0, other.find(' ')), first.substr(0, first.find(' ')));
    }
    std::swap(db_, copy_);
  }
}

// --- faults

class Scene {
 public:
  Scene() {
    options_ = SmallOptions(fs_);
    options_.background_pool = NewThreadPool(1);
    options_.disable_auto_compaction = true;
    auto db = DB::Open(options_, kPath);
    EXPECT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
    for (uint64_t number = 1; number <= 40; ++number) {
      WriteBatch batch = HistoryBatch(number);
      EXPECT_TRUE(db_->Write(WriteOptions(), &batch).ok());
    }
    EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
    WriteBatch batch = HistoryBatch(41);
    WriteOptions sync;
    sync.sync = true;
    EXPECT_TRUE(db_->Write(sync, &batch).ok());
    EXPECT_TRUE(db_->WaitForBackgroundWork().ok());
  }

  FaultFileSystem* fs() { return fs_.get(); }
  DB* db() { return db_.get(); }
  void Close() { db_.reset(); }
  const std::shared_ptr<FaultFileSystem>& shared_fs() { return fs_; }
  void NoLinks() {
    fs_->Fail(FileOp::kLink, "", absl::UnimplementedError("link: Invalid cross-device link"),
              FaultFileSystem::Repeat::kAlways);
  }

 private:
  const std::shared_ptr<FaultFileSystem> fs_ = std::make_shared<FaultFileSystem>();
  Options options_;
  std::unique_ptr<DB> db_;
};

// Opens path where it is there; whether it is.
bool CheckWhole(const std::shared_ptr<FileSystem>& fs, const std::string& path) {
  const absl::StatusOr<bool> exists = fs->FileExists(path);
  EXPECT_TRUE(exists.ok());
  if (!*exists) return false;
  Options options = SmallOptions(fs);
  options.create_if_missing = false;
  auto db = DB::Open(options, path);
  EXPECT_TRUE(db.ok()) << path << ": " << db.status();
  if (!db.ok()) return false;
  uint64_t found = 0;
  EXPECT_TRUE(ReadHistory(db->get(), &found));
  EXPECT_EQ(found, 41u);
  EXPECT_TRUE((*db)->WaitForBackgroundWork().ok());
  EXPECT_TRUE(CloseAndCheckDirectory(*std::move(db), fs.get(), path));
  return true;
}

uint64_t CountOperations(bool link) {
  Scene scene;
  if (!link) scene.NoLinks();
  const uint64_t before = scene.fs()->operations();
  EXPECT_TRUE(scene.db()->CreateCheckpoint(kCopy).ok());
  EXPECT_TRUE(scene.db()->WaitForBackgroundWork().ok());
  return scene.fs()->operations() - before;
}

class CheckpointFaultTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(LinkedOrCopied, CheckpointFaultTest, testing::Bool());

TEST_P(CheckpointFaultTest, ACrashLeavesAWholeOneOrNone) {
  const uint64_t operations = CountOperations(GetParam());
  ASSERT_GT(operations, 15u);
  int with = 0;
  int without = 0;
  for (uint64_t n = 1; n <= operations && !HasFailure(); ++n) {
    SCOPED_TRACE("power off at operation " + std::to_string(n));
    Scene scene;
    if (!GetParam()) scene.NoLinks();
    scene.fs()->PowerOffAtNth(n, [] {});
    const bool made = scene.db()->CreateCheckpoint(kCopy).ok();
    scene.Close();
    for (const CrashMode mode : {CrashMode::kLoseUnsynced, CrashMode::kKeepUnsynced,
                                 CrashMode::kTornUnsynced, CrashMode::kRandom}) {
      SCOPED_TRACE(static_cast<int>(mode));
      const std::shared_ptr<FileSystem> fs = scene.fs()->CrashClone(mode, n);
      const bool there = CheckWhole(fs, kCopy);
      EXPECT_TRUE(there || !made) << "what was promised is lost";
      ++(there ? with : without);
      EXPECT_TRUE(CheckWhole(fs, kPath)) << "the database itself";
      if (there) continue;
      // It can be made now, whatever was left of it.
      auto db = DB::Open(SmallOptions(fs), kPath);
      ASSERT_TRUE(db.ok());
      const absl::Status again = (*db)->CreateCheckpoint(kCopy);
      EXPECT_TRUE(again.ok()) << again;
      EXPECT_TRUE(CheckWhole(fs, kCopy));
      EXPECT_FALSE(*fs->FileExists(std::string(kCopy) + ".tmp"));
    }
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

TEST_P(CheckpointFaultTest, AnyOperationFails) {
  const uint64_t operations = CountOperations(GetParam());
  int failed = 0;
  for (uint64_t n = 1; n <= operations && !HasFailure(); ++n) {
    SCOPED_TRACE("operation " + std::to_string(n) + " fails");
    Scene scene;
    scene.fs()->FailNth(n, kBroken);
    if (!GetParam()) scene.NoLinks();
    const absl::Status status = scene.db()->CreateCheckpoint(kCopy);
    scene.fs()->ClearFaults();
    failed += status.ok() ? 0 : 1;
    uint64_t found = 0;
    EXPECT_TRUE(ReadHistory(scene.db(), &found));
    const bool there = CheckWhole(scene.shared_fs(), kCopy);
    EXPECT_TRUE(there || !status.ok());
    const bool stopped = !scene.db()->GetProperty("sievedb.background-error").value().empty();
    if (!there && !stopped) {
      const absl::Status again = scene.db()->CreateCheckpoint(kCopy);
      EXPECT_TRUE(again.ok()) << again;
      EXPECT_TRUE(CheckWhole(scene.shared_fs(), kCopy));
    }
    scene.Close();
    EXPECT_TRUE(CheckWhole(scene.shared_fs(), kPath));
  }
  EXPECT_GT(failed, 10);
}

// Nothing is copied where it can be linked.
TEST(CheckpointCostTest, TablesAreLinked) {
  Scene scene;
  ASSERT_TRUE(scene.db()->Flush(FlushOptions()).ok());
  const uint64_t reads = scene.fs()->operations(FileOp::kRead);
  const uint64_t links = scene.fs()->operations(FileOp::kLink);
  const uint64_t appends = scene.fs()->operations(FileOp::kAppend);
  ASSERT_TRUE(scene.db()->CreateCheckpoint(kCopy).ok());
  EXPECT_EQ(scene.fs()->operations(FileOp::kRead), reads);
  EXPECT_GE(scene.fs()->operations(FileOp::kLink), links + 2);
  // CURRENT, and the MANIFEST with its end; LOG goes past the counted ones or not.
  EXPECT_LE(scene.fs()->operations(FileOp::kAppend), appends + 6);
}

// On a real file system, with a real second one where there is one.
TEST(CheckpointPosixTest, LinksOnOneFileSystemAndCopiesToAnother) {
  namespace fs = std::filesystem;
  const fs::path base = fs::path(testing::TempDir()) / ("checkpoint" + std::to_string(getpid()));
  const fs::path other = fs::path("/dev/shm") / base.filename();
  fs::create_directories(base);
  std::vector<fs::path> targets = {base / "copy"};
  std::error_code error;
  if (fs::create_directories(other, error)) targets.push_back(other / "copy");
  {
    Options options;
    auto db = DB::Open(options, (base / "db").string());
    ASSERT_TRUE(db.ok()) << db.status();
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE((*db)->Put(WriteOptions(), Key(i), std::string(100, 'v')).ok());
    }
    for (const fs::path& target : targets) {
      const absl::Status status = (*db)->CreateCheckpoint(target.string());
      ASSERT_TRUE(status.ok()) << status;
      auto copy = DB::Open(options, target.string());
      ASSERT_TRUE(copy.ok()) << copy.status();
      std::string value;
      for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE((*copy)->Get(ReadOptions(), Key(i), &value).ok());
      }
      EXPECT_TRUE((*copy)->VerifyChecksums().ok());
    }
  }
  int linked = 0;
  for (const auto& entry : fs::directory_iterator(base / "copy")) {
    if (entry.path().extension() == ".sst") linked += fs::hard_link_count(entry.path()) == 2;
  }
  EXPECT_EQ(linked, 1);
  fs::remove_all(base);
  fs::remove_all(other, error);
}

}  // namespace
}  // namespace sievedb
