// Ingestion that is cut off: by a disk that fails, a process that dies, and a machine that
// loses its power, at each file-system operation.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/sst_file_writer.h"
#include "tests/db/db_test_util.h"
#include "tests/db/fault_test_util.h"
#include "tests/db/history.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

constexpr int kTables = 3;
constexpr int kKeysPerTable = 40;

std::string PathOf(int table) { return "/in/" + std::to_string(table); }

// What the database has of it, beside what was written before.
struct Found {
  bool ingested = false;
  bool before = false;  // the write before
  bool after = false;   // the write after
};

// A scene on a file system: a database with a little in it, and tables to ingest, of
// which some keys are in a memtable, some in level 0, some nowhere.
class Scene {
 public:
  explicit Scene(bool link) { ingest_.link_files = link; }

  void SetUp() {
    options_ = SmallOptions(fs_);
    options_.background_pool = NewThreadPool(1);
    ASSERT_TRUE(fs_->CreateDirectory("/in").ok());
    ASSERT_TRUE(fs_->SyncDirectory("/").ok());
    for (int table = 0; table < kTables; ++table) {
      SstFileWriter writer(options_);
      ASSERT_TRUE(writer.Open(PathOf(table)).ok());
      for (int i = 0; i < kKeysPerTable; ++i) {
        const std::string key = Key(table * kKeysPerTable + i);
        ASSERT_TRUE((i % 7 == 3 ? writer.Delete(key) : writer.Put(key, "new")).ok());
      }
      ASSERT_TRUE(writer.Finish().ok());
    }
    ASSERT_TRUE(fs_->SyncDirectory("/in").ok());
    Open();
    // In level 0.
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(db_->Put(WriteOptions(), Key(i), "old").ok());
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
    WriteOptions sync;
    sync.sync = true;
    ASSERT_TRUE(db_->Put(sync, Key(45), "old").ok());
  }

  void Open() {
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options_, kPath);
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  }

  absl::Status Ingest() {
    std::vector<std::string> paths;
    for (int table = 0; table < kTables; ++table) paths.push_back(PathOf(table));
    return db_->IngestExternalFiles(paths, ingest_);
  }

  // An unsynced write, ingestion, an unsynced write.
  absl::Status Act() {
    before_ = db_->Put(WriteOptions(), "zz before", "x").ok();
    const absl::Status status = Ingest();
    ingested_ = status.ok();
    after_ = db_->Put(WriteOptions(), "zz after", "x").ok();
    return status;
  }

  FaultFileSystem* fs() { return fs_.get(); }
  const std::shared_ptr<FaultFileSystem>& shared_fs() { return fs_; }
  DB* db() { return db_.get(); }
  void Close() { db_.reset(); }
  bool before() const { return before_; }
  bool ingested() const { return ingested_; }
  bool after() const { return after_; }

 private:
  const std::shared_ptr<FaultFileSystem> fs_ = std::make_shared<FaultFileSystem>();
  IngestOptions ingest_;
  Options options_;
  std::unique_ptr<DB> db_;
  bool before_ = false;
  bool ingested_ = false;
  bool after_ = false;
};

// Reads all keys: either every one is as after the ingestion, or every one as before.
Found Look(DB* db) {
  Found found;
  std::string value;
  const auto get = [&](const std::string& key) -> std::string {
    const absl::Status status = db->Get(ReadOptions(), key, &value);
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    return status.ok() ? value : "";
  };
  found.ingested = get(Key(kTables * kKeysPerTable - 1)) == "new";
  for (int i = 0; i < kTables * kKeysPerTable; ++i) {
    const std::string is_new = i % kKeysPerTable % 7 == 3 ? "" : "new";
    const std::string is_old = i < 50 ? "old" : "";
    EXPECT_EQ(get(Key(i)), found.ingested ? is_new : is_old) << Key(i);
  }
  found.before = get("zz before") == "x";
  found.after = get("zz after") == "x";
  EXPECT_TRUE(db->VerifyChecksums().ok()) << db->VerifyChecksums();
  return found;
}

// The tables to ingest are whole: another database takes them.
void CheckInputs(const std::shared_ptr<FileSystem>& fs) {
  for (int table = 0; table < kTables; ++table) {
    const Options options = SmallOptions(fs);
    auto db = DB::Open(options, "/check");
    ASSERT_TRUE(db.ok()) << db.status();
    IngestOptions copy;
    copy.link_files = false;
    const absl::Status status = (*db)->IngestExternalFiles({PathOf(table)}, copy);
    EXPECT_TRUE(status.ok()) << status;
    db->reset();
    ASSERT_TRUE(DestroyDB(options, "/check").ok());
  }
}

// Opens it again: all or nothing, nothing else left in the directory, the inputs whole,
// and it takes what it did not take.
Found Recover(const std::shared_ptr<FileSystem>& fs) {
  absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(SmallOptions(fs), kPath);
  EXPECT_TRUE(db.ok()) << db.status();
  if (!db.ok()) return Found();
  const Found found = Look(db->get());
  EXPECT_TRUE((*db)->WaitForBackgroundWork().ok());
  EXPECT_TRUE(CloseAndCheckDirectory(*std::move(db), fs.get(), kPath));
  CheckInputs(fs);
  db = DB::Open(SmallOptions(fs), kPath);
  EXPECT_TRUE(db.ok()) << db.status();
  if (!db.ok()) return Found();
  std::vector<std::string> paths;
  for (int table = 0; table < kTables; ++table) paths.push_back(PathOf(table));
  const absl::Status again = (*db)->IngestExternalFiles(paths, IngestOptions());
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_TRUE(Look(db->get()).ingested);
  return found;
}

uint64_t CountOperations(bool link) {
  Scene scene(link);
  scene.SetUp();
  const uint64_t before = scene.fs()->operations();
  EXPECT_TRUE(scene.Act().ok());
  EXPECT_TRUE(scene.db()->WaitForBackgroundWork().ok());
  return scene.fs()->operations() - before;
}

void EnumerateCrashes(bool link) {
  const uint64_t operations = CountOperations(link);
  ASSERT_GT(operations, 20u);
  int with = 0;
  int without = 0;
  for (uint64_t n = 1; n <= operations && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("power off at operation " + std::to_string(n));
    Scene scene(link);
    scene.SetUp();
    scene.fs()->PowerOffAtNth(n, [] {});
    scene.Act().IgnoreError();
    scene.Close();
    for (const CrashMode mode : {CrashMode::kLoseUnsynced, CrashMode::kKeepUnsynced,
                                 CrashMode::kTornUnsynced, CrashMode::kRandom}) {
      SCOPED_TRACE(static_cast<int>(mode));
      const Found found = Recover(scene.fs()->CrashClone(mode, n));
      EXPECT_TRUE(found.ingested || !scene.ingested()) << "what was promised is lost";
      // Recovery yields a prefix.
      EXPECT_TRUE(found.before || !found.ingested) << "a write before it is lost";
      EXPECT_TRUE(found.before || !found.after);
      EXPECT_TRUE(found.ingested || !found.after || !scene.ingested());
      ++(found.ingested ? with : without);
    }
    const Found found = Recover(scene.fs()->AfterProcessDeath());
    EXPECT_TRUE(found.ingested || !scene.ingested());
    EXPECT_TRUE(found.before || !scene.before());
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

TEST(IngestFaultTest, AllOrNothingSurvivesACrashWhereFilesAreLinked) { EnumerateCrashes(true); }
TEST(IngestFaultTest, AllOrNothingSurvivesACrashWhereFilesAreCopied) { EnumerateCrashes(false); }

void EnumerateFailures(bool link, const absl::Status& error) {
  const uint64_t operations = CountOperations(link);
  int failed = 0;
  for (uint64_t n = 1; n <= operations && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("operation " + std::to_string(n) + " fails");
    Scene scene(link);
    scene.SetUp();
    scene.fs()->FailNth(n, error);
    const absl::Status status = scene.Act();
    failed += status.ok() ? 0 : 1;
    scene.fs()->ClearFaults();
    {
      // What it says is what reads see.
      const Found live = Look(scene.db());
      EXPECT_EQ(live.ingested, status.ok()) << status;
    }
    const std::string refused = scene.db()->GetProperty("sievedb.background-error").value();
    if (refused.empty() && !status.ok()) {
      // Nothing is left of it, and it can be done again.
      EXPECT_TRUE(scene.db()->WaitForBackgroundWork().ok());
      const absl::Status again = scene.Ingest();
      EXPECT_TRUE(again.ok()) << again;
      EXPECT_TRUE(Look(scene.db()).ingested);
    }
    scene.Close();
    const Found found = Recover(scene.shared_fs());
    EXPECT_TRUE(found.ingested || !scene.ingested());
    EXPECT_TRUE(found.before || !scene.before());
    EXPECT_TRUE(found.after || !scene.after());
  }
  EXPECT_GT(failed, 10);
}

TEST(IngestFaultTest, AnyOperationFailsWhereFilesAreLinked) { EnumerateFailures(true, kBroken); }
TEST(IngestFaultTest, AnyOperationFailsWhereFilesAreCopied) { EnumerateFailures(false, kBroken); }
TEST(IngestFaultTest, TheDiskIsFull) { EnumerateFailures(false, kFull); }

// Where it can't be linked, it is copied.
TEST(IngestFaultTest, AFileSystemWithoutLinksCopies) {
  Scene scene(/*link=*/true);
  scene.SetUp();
  scene.fs()->Fail(FileOp::kLink, "", absl::UnimplementedError("link: Invalid cross-device link"),
                   FaultFileSystem::Repeat::kAlways);
  ASSERT_TRUE(scene.Act().ok());
  EXPECT_EQ(scene.fs()->faults(), static_cast<uint64_t>(kTables));
  EXPECT_TRUE(Look(scene.db()).ingested);
  EXPECT_TRUE(Recover(scene.fs()->CrashClone(CrashMode::kLoseUnsynced, 1)).ingested);
}

// The names are on the disk before the MANIFEST tells of them.
TEST(IngestFaultTest, NothingOfTheManifestIsWrittenBeforeTheDirectoryIsSynced) {
  Scene scene(/*link=*/true);
  scene.SetUp();
  // SyncDirectory fails: the MANIFEST must not have been touched.
  scene.fs()->Fail(FileOp::kSyncDirectory, kPath, kBroken);
  const absl::Status status = scene.Ingest();
  EXPECT_EQ(status, kBroken) << status;
  EXPECT_EQ(scene.db()->GetProperty("sievedb.background-error").value(), "");
  EXPECT_FALSE(Look(scene.db()).ingested);
  EXPECT_FALSE(Recover(scene.fs()->CrashClone(CrashMode::kKeepUnsynced, 1)).ingested);
}

}  // namespace
}  // namespace sievedb
