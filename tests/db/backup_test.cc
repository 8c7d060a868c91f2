#include "sievedb/backup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "db/backup_description.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/db_test_util.h"
#include "tests/db/fault_test_util.h"
#include "tests/db/history.h"
#include "tests/db/ingest_test_util.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"
#include "util/escape.h"

namespace sievedb {
namespace {

constexpr char kBackups[] = "/backups";

class BackupTest : public IngestTest {
 protected:
  void OpenBackups() {
    backups_ = nullptr;
    BackupOptions options;
    options.file_system = options_.file_system;
    auto backups = BackupEngine::Open(options, kBackups);
    ASSERT_TRUE(backups.ok()) << backups.status();
    backups_ = *std::move(backups);
  }
  BackupInfo Backup() {
    const absl::StatusOr<BackupInfo> info = backups_->Create(db_.get());
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : BackupInfo();
  }
  std::string Restored(uint64_t id) {
    const std::string path = "/restored" + std::to_string(++restored_);
    const absl::Status status = backups_->Restore(id, path);
    if (!status.ok()) return status.ToString();
    auto db = DB::Open(options_, path);
    if (!db.ok()) return db.status().ToString();
    EXPECT_TRUE((*db)->VerifyChecksums().ok());
    std::swap(db_, *db);
    const std::string text = Scan();
    EXPECT_TRUE(Put("still", "writable").ok());
    std::swap(db_, *db);
    return text;
  }
  std::vector<std::string> Children() {
    std::vector<std::string> names = *options_.file_system->GetChildren(kBackups);
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string FirstTable() {
    for (const std::string& name : Children()) {
      if (IsBackupTableName(name)) return std::string(kBackups) + "/" + name;
    }
    return "";
  }

  std::unique_ptr<BackupEngine> backups_;
  int restored_ = 0;
};

TEST_F(BackupTest, EachIsTheDatabaseAsItWas) {
  Open();
  OpenBackups();
  std::vector<std::string> states;
  Fill(0, 2000);
  states.push_back(Scan());
  const BackupInfo first = Backup();
  EXPECT_EQ(first.id, 1u);
  EXPECT_EQ(first.sequence, db_->LatestSequence());
  EXPECT_EQ(first.new_bytes, first.bytes);
  EXPECT_GT(first.created_seconds, 1'500'000'000u);
  ASSERT_TRUE(db_->DeleteRange(WriteOptions(), Key(10), Key(20)).ok());
  MakeTable("/in", 15, 18, "ingested");
  ASSERT_TRUE(Ingest({"/in"}).ok());
  ASSERT_TRUE(Put(Key(16), "newest").ok());
  states.push_back(Scan());
  const BackupInfo second = Backup();
  EXPECT_LT(second.new_bytes, second.bytes / 10);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  states.push_back(Scan());
  Backup();
  states.push_back(Scan());
  EXPECT_EQ(Backup().new_bytes, 0u);
  OpenBackups();  // from what is on the disk
  const std::vector<BackupInfo> infos = backups_->List();
  ASSERT_EQ(infos.size(), states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_TRUE(infos[i].status.ok());
    EXPECT_TRUE(backups_->Verify(infos[i].id).ok());
    EXPECT_EQ(Restored(infos[i].id), states[i]) << i;
  }
}

TEST_F(BackupTest, DeletingOneLeavesTheTablesOfOthers) {
  Open();
  OpenBackups();
  Fill(0, 1000);
  Backup();
  const size_t of_first = Children().size();
  Fill(1000, 1100);
  Backup();
  const std::string state = Scan();
  ASSERT_TRUE(backups_->Delete(1).ok());
  EXPECT_TRUE(backups_->Verify(2).ok());
  EXPECT_EQ(Restored(2), state);
  EXPECT_GE(Children().size(), of_first);
  EXPECT_TRUE(absl::IsNotFound(backups_->Delete(1)));
  EXPECT_TRUE(absl::IsNotFound(backups_->Verify(1)));
  EXPECT_TRUE(absl::IsNotFound(backups_->Restore(1, "/none")));
  // Numbers are not used again while a later one is there.
  EXPECT_EQ(Backup().id, 3u);
  ASSERT_TRUE(backups_->DeleteAllBut(1).ok());
  EXPECT_EQ(backups_->List().size(), 1u);
  EXPECT_EQ(Restored(3), state);
  ASSERT_TRUE(backups_->DeleteAllBut(0).ok());
  EXPECT_EQ(Children(), std::vector<std::string>{"LOCK"});
}

// Two databases, of which one began as the other: numbers of tables are the same, tables
// are not.
TEST_F(BackupTest, TablesOfOneNumberAreToldApart) {
  Open();
  OpenBackups();
  ASSERT_TRUE(Put("a", "common").ok());
  ASSERT_TRUE(db_->CreateCheckpoint("/copy").ok());
  auto copy = DB::Open(options_, "/copy");
  ASSERT_TRUE(copy.ok());
  ASSERT_TRUE(Put("b", "1").ok());
  ASSERT_TRUE((*copy)->Put(WriteOptions(), "b", "2").ok());
  Backup();
  const absl::StatusOr<BackupInfo> other = backups_->Create(copy->get());
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_LT(other->new_bytes, other->bytes) << "what they have in common is there once";
  EXPECT_EQ(Restored(1), "a=common b=1 ");
  EXPECT_EQ(Restored(2), "a=common b=2 ");
}

TEST_F(BackupTest, OfAnEmptyDatabase) {
  Open();
  OpenBackups();
  EXPECT_EQ(Backup().tables, 0u);
  EXPECT_EQ(Restored(1), "");
}

TEST_F(BackupTest, EveryFlippedByteOfATableIsFound) {
  Open();
  OpenBackups();
  ASSERT_TRUE(Put("k", "v").ok());
  Backup();
  const std::string table = FirstTable();
  const std::string bytes = ReadFile(table);
  for (size_t at = 0; at < bytes.size(); at += 7) {
    FlipByte(table, at);
    EXPECT_EQ(backups_->Verify(1).code(), absl::StatusCode::kDataLoss) << at;
    WriteFile(table, bytes);
  }
  for (const std::string& other : {bytes.substr(1), bytes + "x", std::string()}) {
    WriteFile(table, other);
    EXPECT_EQ(backups_->Verify(1).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(backups_->Restore(1, "/damaged").code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(*options_.file_system->FileExists("/damaged"));
    EXPECT_FALSE(*options_.file_system->FileExists("/damaged.tmp"));
  }
  ASSERT_TRUE(options_.file_system->DeleteFile(table).ok());
  EXPECT_EQ(backups_->Verify(1).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(backups_->Restore(1, "/damaged").code(), absl::StatusCode::kDataLoss);
}

TEST_F(BackupTest, ADamagedDescriptionHidesNoOtherAndDeletesNothing) {
  Open();
  OpenBackups();
  ASSERT_TRUE(Put("k", "1").ok());
  Backup();
  ASSERT_TRUE(Put("k", "2").ok());
  Backup();
  const auto before = Children();
  FlipByte("/backups/BACKUP-000001", 20);
  OpenBackups();
  EXPECT_EQ(Children(), before) << "whose tables these are nobody knows";
  const std::vector<BackupInfo> infos = backups_->List();
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(backups_->Verify(1).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(backups_->Restore(1, "/damaged").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Restored(2), "k=2 ");
  ASSERT_TRUE(backups_->Delete(1).ok());
  EXPECT_EQ(Restored(2), "k=2 ");
  EXPECT_EQ(Backup().id, 3u);
}

// A table that is damaged in the database does not become a backup.
TEST_F(BackupTest, ADamagedTableIsNotBackedUp) {
  Open();
  OpenBackups();
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  const std::string table = FilesEndingWith(".sst").front();
  FlipByte(table, 50);
  const absl::Status status = backups_->Create(db_.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ(Children(), std::vector<std::string>{"LOCK"});
  EXPECT_TRUE(backups_->List().empty());
}

TEST_F(BackupTest, Refusals) {
  Open();
  OpenBackups();
  BackupOptions options;
  options.file_system = options_.file_system;
  EXPECT_TRUE(absl::IsFailedPrecondition(BackupEngine::Open(options, kBackups).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(BackupEngine::Open(options, "").status()));
  Backup();
  EXPECT_TRUE(absl::IsAlreadyExists(backups_->Restore(1, "/db")));
  db_ = nullptr;
  auto reader = DB::OpenReadOnly(options_, "/db");
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(backups_->Create(reader->get()).status()));
}

// --- the format

BackupDescription SomeDescription() {
  BackupDescription description;
  description.created_seconds = 1'700'000'000;
  description.new_bytes = 1000;
  description.snapshot.comparator_name = "sievedb.bytewise";
  description.snapshot.db_id = 7;
  description.snapshot.log_number = 0;
  description.snapshot.next_file_number = 30;
  description.snapshot.last_sequence = 99;
  description.snapshot.added_files.emplace_back(0, version_test::MakeFile(7, "a", "b", 9, 1000));
  description.snapshot.added_files.emplace_back(6, version_test::MakeFile(8, "a", "z", 5, 2000));
  description.tables = {{0x0123456789abcdef, 1}, {2, 0xfedcba9876543210}};
  return description;
}

TEST(BackupDescriptionTest, GoldenFile) {
  const std::string now = SomeDescription().Encode();
  const std::string path = std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/backup_v1.bin";
  if (std::getenv("SIEVEDB_REWRITE") != nullptr) {
    std::ofstream(path, std::ios::binary) << now;
  }
  std::ifstream in(path, std::ios::binary);
  std::stringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(ToHex(now), ToHex(golden.str()));
  const auto read = BackupDescription::Decode(golden.str());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->snapshot.DebugString(), SomeDescription().snapshot.DebugString());
  EXPECT_EQ(read->created_seconds, 1'700'000'000u);
  EXPECT_EQ(read->new_bytes, 1000u);
  EXPECT_EQ(read->tables[0].fingerprint, 0x0123456789abcdefu);
  EXPECT_EQ(read->tables[1].checksum, 0xfedcba9876543210u);
}

TEST(BackupDescriptionTest, EveryFlippedOrMissingByteIsFound) {
  const std::string bytes = SomeDescription().Encode();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_EQ(BackupDescription::Decode(flipped).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(BackupDescription::Decode(bytes.substr(0, at)).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(BackupDescriptionTest, Names) {
  EXPECT_EQ(BackupFileName(7), "BACKUP-000007");
  EXPECT_EQ(ParseBackupFileName("BACKUP-1234567"), 1234567u);
  for (const char* name : {"BACKUP-7", "BACKUP-", "BACKUP-0000007", "BACKUP-00000x", "000007"}) {
    EXPECT_FALSE(ParseBackupFileName(name).has_value()) << name;
  }
  EXPECT_TRUE(IsBackupTableName(BackupTableName(7, 1)));
  EXPECT_TRUE(IsBackupTableName(BackupTableName(1234567, ~uint64_t{0})));
  for (const char* name : {"000007.sst", "000007-1.sst", "7-0123456789abcdef.sst", "notes.sst",
                           "000007-0123456789abcdeF.sst", "000007-0123456789abcdef.txt"}) {
    EXPECT_FALSE(IsBackupTableName(name)) << name;
  }
}

// --- faults

class Scene {
 public:
  Scene() {
    options_ = SmallOptions(fs_);
    options_.background_pool = NewThreadPool(1);
    options_.disable_auto_compaction = true;
    db_ = *DB::Open(options_, kPath);
    Write(1, 20);
    backup_options_.file_system = fs_;
    backups_ = *BackupEngine::Open(backup_options_, kBackups);
    EXPECT_TRUE(backups_->Create(db_.get()).ok());
    Write(21, 40);
    EXPECT_TRUE(db_->WaitForBackgroundWork().ok());
  }
  void Write(uint64_t first, uint64_t last) {
    for (uint64_t number = first; number <= last; ++number) {
      WriteBatch batch = HistoryBatch(number);
      EXPECT_TRUE(db_->Write(WriteOptions(), &batch).ok());
    }
  }
  // A backup, the first one deleted, and one restored.
  struct Done {
    bool created = false, deleted = false, restored = false;
  };
  Done Act() {
    Done done;
    done.created = backups_->Create(db_.get()).ok();
    done.deleted = backups_->Delete(1).ok();
    done.restored = backups_->Restore(2, "/restored").ok();
    return done;
  }
  void Close() {
    backups_.reset();
    db_.reset();
  }
  const std::shared_ptr<FaultFileSystem>& fs() { return fs_; }

 private:
  const std::shared_ptr<FaultFileSystem> fs_ = std::make_shared<FaultFileSystem>();
  Options options_;
  BackupOptions backup_options_;
  std::unique_ptr<DB> db_;
  std::unique_ptr<BackupEngine> backups_;
};

void CheckDatabase(const std::shared_ptr<FileSystem>& fs, const std::string& path,
                   uint64_t batches) {
  auto db = DB::Open(SmallOptions(fs), path);
  ASSERT_TRUE(db.ok()) << db.status();
  uint64_t found = 0;
  EXPECT_TRUE(ReadHistory(db->get(), &found));
  EXPECT_EQ(found, batches);
}

// Every backup that is there is whole, what was promised is there, and nothing else is.
void CheckBackups(const std::shared_ptr<FileSystem>& fs, const Scene::Done& done) {
  BackupOptions options;
  options.file_system = fs;
  auto opened = BackupEngine::Open(options, kBackups);
  ASSERT_TRUE(opened.ok()) << opened.status();
  BackupEngine& backups = **opened;
  bool has[3] = {};
  for (const BackupInfo& info : backups.List()) {
    ASSERT_TRUE(info.status.ok()) << info.status;
    EXPECT_TRUE(backups.Verify(info.id).ok()) << backups.Verify(info.id);
    const std::string path = "/check" + std::to_string(info.id);
    ASSERT_TRUE(backups.Restore(info.id, path).ok());
    CheckDatabase(fs, path, info.id == 1 ? 20 : 40);
    has[info.id] = true;
  }
  EXPECT_TRUE(has[2] || !done.created) << "what was promised is lost";
  EXPECT_FALSE(has[1] && done.deleted) << "it is back";
  const bool restored = *fs->FileExists("/restored");
  EXPECT_TRUE(restored || !done.restored);
  if (restored) CheckDatabase(fs, "/restored", 40);
  ASSERT_TRUE(backups.DeleteAllBut(0).ok());
  EXPECT_EQ(*fs->GetChildren(kBackups), std::vector<std::string>{"LOCK"});
}

uint64_t CountOperations() {
  Scene scene;
  const uint64_t before = scene.fs()->operations();
  const Scene::Done done = scene.Act();
  EXPECT_TRUE(done.created && done.deleted && done.restored);
  return scene.fs()->operations() - before;
}

TEST(BackupFaultTest, APowerLossAtAnyOperation) {
  const uint64_t operations = CountOperations();
  ASSERT_GT(operations, 40u);
  for (uint64_t n = 1; n <= operations && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("power off at operation " + std::to_string(n));
    Scene scene;
    scene.fs()->PowerOffAtNth(n, nullptr);
    const Scene::Done done = scene.Act();
    scene.Close();
    for (const CrashMode mode :
         {CrashMode::kLoseUnsynced, CrashMode::kKeepUnsynced, CrashMode::kRandom}) {
      SCOPED_TRACE(static_cast<int>(mode));
      CheckBackups(scene.fs()->CrashClone(mode, n), done);
    }
  }
}

TEST(BackupFaultTest, AnyOperationFails) {
  const uint64_t operations = CountOperations();
  int failed = 0;
  for (uint64_t n = 1; n <= operations && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("operation " + std::to_string(n) + " fails");
    Scene scene;
    scene.fs()->FailNth(n, kBroken);
    const Scene::Done done = scene.Act();
    scene.fs()->ClearFaults();
    failed += done.created && done.deleted && done.restored ? 0 : 1;
    scene.Close();
    CheckBackups(scene.fs(), done);
  }
  EXPECT_GT(failed, 30);
}

}  // namespace
}  // namespace sievedb
