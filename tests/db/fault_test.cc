// Disks that fill up and disks that fail: the cases that have a name.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/fault_test_util.h"
#include "tests/db/history.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

using Repeat = FaultFileSystem::Repeat;

class FaultTest : public testing::Test {
 protected:
  Options options() const {
    Options options = SmallOptions(file_system_);
    options.listeners = {listener_};
    return options;
  }
  absl::Status Open() {
    db_.reset();
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options(), kPath);
    if (db.ok()) db_ = *std::move(db);
    return db.status();
  }
  absl::Status Put(std::string_view key, bool sync = false) {
    WriteOptions write;
    write.sync = sync;
    return db_->Put(write, key, "value of " + std::string(key));
  }
  bool Has(DB* db, std::string_view key) {
    std::string value;
    const absl::Status status = db->Get(ReadOptions(), key, &value);
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
    return status.ok() && value == "value of " + std::string(key);
  }
  bool Has(std::string_view key) { return Has(db_.get(), key); }
  bool HasTables() { return !db_->GetProperty("sievedb.sstables")->empty(); }
  // Writes are refused, with the first error's text; what is there is read.
  void ExpectStopped(std::string_view text, std::string_view readable) {
    const absl::Status refused = Put("refused");
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_TRUE(Tells(refused, text)) << refused;
    EXPECT_TRUE(Has(readable));
    EXPECT_TRUE(Await([&] { return Tells(listener_->last(), text); })) << listener_->last();
  }
  void ExpectResumes() {
    EXPECT_TRUE(Await([&] { return Put("after").ok(); }));
    EXPECT_NE(listener_->events().find("ER"), std::string::npos) << listener_->events();
  }
  // It stays stopped for longer than it takes a full disk to be looked at again.
  void ExpectStaysStopped() {
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_TRUE(absl::IsFailedPrecondition(Put("refused")));
    }
    EXPECT_EQ(listener_->events().find('R'), std::string::npos);
  }
  void ExpectAfterReopening(const std::vector<std::string>& keys) {
    file_system_->ClearFaults();
    ASSERT_TRUE(Open().ok());
    for (const std::string& key : keys) EXPECT_TRUE(Has(key)) << key;
    EXPECT_TRUE(db_->VerifyChecksums().ok());
  }

  std::shared_ptr<FaultFileSystem> file_system_ = std::make_shared<FaultFileSystem>();
  std::shared_ptr<ErrorListener> listener_ = std::make_shared<ErrorListener>();
  std::unique_ptr<DB> db_;
};

TEST_F(FaultTest, FullDiskAtFlush) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a").ok());
  file_system_->Fail(FileOp::kAppend, ".sst", kFull);
  const absl::Status flushed = db_->Flush(FlushOptions());
  EXPECT_TRUE(Tells(flushed, "flushing a memtable: " + std::string(kFullText))) << flushed;
  ExpectStopped(kFullText, "a");
  ExpectResumes();
  EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
  EXPECT_TRUE(HasTables());
  ExpectAfterReopening({"a", "after"});
}

TEST_F(FaultTest, FullDiskAtCompaction) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put("a").ok());
  ASSERT_TRUE(Put("b").ok());
  // The first table from here is the flush's, the second the compaction's.
  file_system_->FailWhen(
      [n = 0](FileOp op, std::string_view path) mutable {
        return op == FileOp::kCreate && path.ends_with(".sst") && ++n == 2;
      },
      kFull);
  FlushOptions no_wait;
  no_wait.wait = false;
  ASSERT_TRUE(db_->Flush(no_wait).ok());
  ASSERT_TRUE(Await([&] { return !listener_->events().empty(); }));
  EXPECT_TRUE(Tells(listener_->last(), "compacting: " + std::string(kFullText)));
  EXPECT_TRUE(Has("a"));
  ExpectResumes();
  EXPECT_TRUE(Await([&] {
    return db_->WaitForBackgroundWork().ok() &&
           db_->GetProperty("sievedb.num-files-at-level0") == "0";
  }));
  ExpectAfterReopening({"a", "b", "after"});
}

TEST_F(FaultTest, FullDiskAtWalAppend) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a", /*sync=*/true).ok());
  file_system_->Fail(FileOp::kAppend, ".wal", kFull);
  EXPECT_EQ(Put("failed"), kFull);
  EXPECT_FALSE(Has("failed"));
  ExpectStopped(kFullText, "a");
  ExpectResumes();
  ExpectAfterReopening({"a", "after"});
}

// The WALs that a full disk cut short before their first record are no gap.
TEST_F(FaultTest, FullDiskAtSeveralNewWals) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a").ok());
  file_system_->FailWhen(
      [n = 0](FileOp op, std::string_view path) mutable {
        // A record; then the header of the next WAL; then of the one after it.
        return op == FileOp::kAppend && path.ends_with(".wal") && ++n <= 3;
      },
      kFull, Repeat::kAlways);
  EXPECT_EQ(Put("failed"), kFull);
  EXPECT_TRUE(Await([&] { return Put("after").ok(); }));
  EXPECT_EQ(listener_->events(), "ERERER");
  // The process dies: nothing is flushed, all hangs on the WALs.
  const std::shared_ptr<FaultFileSystem> later = file_system_->AfterProcessDeath();
  absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(SmallOptions(later), kPath);
  ASSERT_TRUE(db.ok()) << db.status();
  EXPECT_TRUE(Has(db->get(), "a"));
  EXPECT_TRUE(Has(db->get(), "after"));
  EXPECT_FALSE(Has(db->get(), "failed"));
}

TEST_F(FaultTest, FullDiskAtManifestWrite) {
  for (const FileOp op : {FileOp::kAppend, FileOp::kSync}) {
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(Put("a").ok());
    file_system_->Fail(op, "MANIFEST", kFull);
    const uint64_t deletions = file_system_->operations(FileOp::kDeleteFile);
    EXPECT_TRUE(Tells(db_->Flush(FlushOptions()), kFullText));
    ExpectStopped(kFullText, "a");
    // An edit that is not known to be on the disk or not may name the table.
    EXPECT_EQ(file_system_->operations(FileOp::kDeleteFile), deletions);
    ExpectResumes();
    EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
    ExpectAfterReopening({"a", "after"});
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
    ASSERT_TRUE(CloseAndCheckDirectory(std::move(db_), file_system_.get(), kPath));
    file_system_ = std::make_shared<FaultFileSystem>();
    listener_ = std::make_shared<ErrorListener>();
  }
}

TEST_F(FaultTest, FullDiskAtRenameToCurrent) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a").ok());
  // The MANIFEST is given up, and its successor cannot be named at first.
  file_system_->Fail(FileOp::kAppend, "MANIFEST", kFull);
  file_system_->Fail(FileOp::kRename, "CURRENT", kFull);
  EXPECT_TRUE(Tells(db_->Flush(FlushOptions()), kFullText));
  EXPECT_TRUE(Await([&] { return db_->Flush(FlushOptions()).ok() && HasTables(); }));
  EXPECT_EQ(listener_->events(), "ERER");
  ASSERT_TRUE(Put("b").ok());
  ExpectAfterReopening({"a", "b"});
}

// At each write of Open in turn, of a new database and of one that has to recover.
TEST_F(FaultTest, FullDiskAtOpen) {
  int failures = 0;
  for (const bool recovers : {false, true}) {
    bool ok = false;
    for (uint64_t n = 1; n < 200 && !ok; ++n) {
      file_system_ = std::make_shared<FaultFileSystem>();
      if (recovers) {
        ASSERT_TRUE(Open().ok());
        ASSERT_TRUE(Put("a").ok());
        db_.reset();
      }
      const uint64_t before = file_system_->faults();
      file_system_->FailWhen(
          [n](FileOp op, std::string_view) mutable { return IsWrite(op) && --n == 0; }, kFull);
      const absl::Status status = Open();
      if (!status.ok()) {
        EXPECT_EQ(status, kFull) << "at write " << n;
        ++failures;
      }
      ok = status.ok() && file_system_->faults() == before;
      if (recovers) ExpectAfterReopening({"a"});
      file_system_->ClearFaults();
      ASSERT_TRUE(Open().ok());
      ASSERT_TRUE(Put("b", /*sync=*/true).ok());
      ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
      ASSERT_TRUE(CloseAndCheckDirectory(std::move(db_), file_system_.get(), kPath)) << n;
    }
    EXPECT_TRUE(ok);
  }
  EXPECT_GT(failures, 20);
}

TEST_F(FaultTest, FailedWalSyncIsFinal) {
  for (const absl::Status& error : {kBroken, kFull}) {
    file_system_ = std::make_shared<FaultFileSystem>();
    listener_ = std::make_shared<ErrorListener>();
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(Put("synced", /*sync=*/true).ok());
    ASSERT_TRUE(Put("unsynced").ok());
    file_system_->Fail(FileOp::kSync, ".wal", error);
    EXPECT_EQ(Put("failed", /*sync=*/true), error);
    EXPECT_FALSE(Has("failed"));
    ExpectStopped("syncing the WAL: " + std::string(error.message()), "synced");
    EXPECT_TRUE(Has("unsynced"));
    ExpectStaysStopped();
    EXPECT_FALSE(db_->Flush(FlushOptions()).ok());
    const absl::Status closed = db_->Close();
    EXPECT_TRUE(Tells(closed, std::string(error.message())))
        << "Close could not sync either: " << closed;
    // Not even a later sync that succeeds may be relied on, as after a loss of power.
    ExpectAfterReopening({"synced", "unsynced"});
    ASSERT_TRUE(Put("later", /*sync=*/true).ok());
    const auto clone = file_system_->CrashClone(CrashMode::kLoseUnsynced, 1);
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(SmallOptions(clone), kPath);
    ASSERT_TRUE(db.ok()) << db.status();
    for (const char* key : {"synced", "unsynced", "later"}) EXPECT_TRUE(Has(db->get(), key)) << key;
  }
}

TEST_F(FaultTest, FailedDirectorySyncIsFinal) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a").ok());
  file_system_->Fail(FileOp::kSyncDirectory, kPath, kBroken);
  EXPECT_EQ(Put("failed", /*sync=*/true), kBroken);
  ExpectStopped(kBrokenText, "a");
  ExpectStaysStopped();
  ExpectAfterReopening({"a"});
}

// Open leaves the last sync of the directory to the background. Until then a crash of
// the machine may bring the old MANIFEST back, and with it WALs that lost what was not
// synced; the writes since must not show up behind such a gap.
TEST_F(FaultTest, ACrashJustAfterOpenLeavesAPrefix) {
  auto disk = std::make_shared<FaultFileSystem>();
  std::unique_ptr<DB> db;
  Options options = SmallOptions(disk);
  const auto write = [&db](uint64_t from, uint64_t to, bool sync) {
    for (uint64_t number = from; number <= to; ++number) {
      WriteBatch batch = HistoryBatch(number);
      WriteOptions write_options;
      write_options.sync = sync;
      ASSERT_TRUE(db->Write(write_options, &batch).ok());
    }
  };
  const auto open = [&](const Options& with) {
    auto opened = DB::Open(with, kPath);
    ASSERT_TRUE(opened.ok()) << opened.status();
    db = *std::move(opened);
  };
  open(options);
  ASSERT_NO_FATAL_FAILURE(write(1, 5, /*sync=*/true));
  ASSERT_NO_FATAL_FAILURE(write(6, 10, /*sync=*/false));
  disk = disk->AfterProcessDeath();
  db.reset();

  // Nothing runs in the background before `go`.
  std::promise<void> go;
  options = SmallOptions(disk);
  options.background_pool = NewThreadPool(1);
  options.background_pool->Schedule(ThreadPool::Priority::kHigh,
                                    [wait = go.get_future().share()] { wait.wait(); });
  const uint64_t syncs = disk->operations(FileOp::kSyncDirectory);
  open(options);
  // For the table of what was replayed, and for the MANIFEST before CURRENT names it.
  EXPECT_EQ(disk->operations(FileOp::kSyncDirectory), syncs + 2);
  ASSERT_NO_FATAL_FAILURE(write(11, 15, /*sync=*/false));

  const auto batches_after_crash = [&disk](uint64_t seed) {
    Options on_clone = SmallOptions(disk->CrashClone(CrashMode::kRandom, seed));
    auto after = DB::Open(on_clone, kPath);
    EXPECT_TRUE(after.ok()) << after.status();
    uint64_t batches = 0;
    if (after.ok()) {
      EXPECT_TRUE(ReadHistory(after->get(), &batches));
    }
    return batches;
  };
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const uint64_t batches = batches_after_crash(seed);
    EXPECT_GE(batches, 5);
    seen.insert(batches);
  }
  EXPECT_GT(seen.size(), 2);  // the crashes differ

  // A write that is synced makes all of it last.
  ASSERT_NO_FATAL_FAILURE(write(16, 16, /*sync=*/true));
  for (uint64_t seed = 0; seed < 30 && !HasFailure(); ++seed) {
    EXPECT_EQ(batches_after_crash(seed), 16);
  }
  go.set_value();
  EXPECT_TRUE(db->Close().ok());
}

TEST_F(FaultTest, FailedDirectorySyncAfterFlushLeavesNoTable) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a", /*sync=*/true).ok());
  file_system_->Fail(FileOp::kSyncDirectory, kPath, kBroken);
  EXPECT_TRUE(Tells(db_->Flush(FlushOptions()), kBrokenText));
  ExpectStopped("flushing a memtable: " + std::string(kBrokenText), "a");
  const std::vector<std::string> names = file_system_->GetChildren(kPath).value();
  EXPECT_FALSE(std::any_of(names.begin(), names.end(),
                           [](const std::string& name) { return name.ends_with(".sst"); }));
  ExpectAfterReopening({"a"});
}

TEST_F(FaultTest, UnreadableDirectoryAtOpen) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a", /*sync=*/true).ok());
  db_.reset();
  const absl::Status error = absl::UnavailableError("opendir /db: Permission denied");
  file_system_->Fail(FileOp::kGetChildren, kPath, error, Repeat::kAlways);
  EXPECT_EQ(Open(), error);
  EXPECT_EQ(DB::OpenReadOnly(options(), kPath).status(), error);
  EXPECT_EQ(DestroyDB(options(), kPath), error);
  ExpectAfterReopening({"a"});
}

// A flush meets a full disk, and while that is not over a sync of the WAL fails.
TEST_F(FaultTest, ALastingErrorIsNotForgottenOverAFullDisk) {
  std::atomic<bool> flush_failed{false};
  std::atomic<bool> go_on{false};
  listener_->on_failed_flush = [&] {
    flush_failed.store(true);
    Await([&] { return go_on.load(); });
  };
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Put("a", /*sync=*/true).ok());
  file_system_->Fail(FileOp::kAppend, ".sst", kFull);
  FlushOptions no_wait;
  no_wait.wait = false;
  ASSERT_TRUE(db_->Flush(no_wait).ok());
  ASSERT_TRUE(Await([&] { return flush_failed.load(); }));
  file_system_->FailWhen(
      [&](FileOp op, std::string_view path) {
        if (op != FileOp::kSync || !path.ends_with(".wal")) return false;
        go_on.store(true);
        // Asking for a property needs no file.
        Await([&] { return !db_->GetProperty("sievedb.background-error")->empty(); });
        return true;
      },
      kBroken);
  EXPECT_EQ(Put("failed", /*sync=*/true), kBroken);
  const absl::Status refused = Put("refused");
  EXPECT_TRUE(Tells(refused, kBrokenText)) << refused;
  ExpectStaysStopped();
  EXPECT_EQ(listener_->events(), "EE");
  ExpectAfterReopening({"a"});
}

// Forwards everything, and does something else first where a directory is listed.
class ListingHook final : public FileSystem {
 public:
  ListingHook(std::shared_ptr<FileSystem> base, std::function<void()> before_listing)
      : base_(std::move(base)), before_listing_(std::move(before_listing)) {}

  absl::StatusOr<std::vector<std::string>> GetChildren(const std::string& directory) override {
    before_listing_();
    return base_->GetChildren(directory);
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) override {
    return base_->NewRandomAccessFile(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    return base_->NewWritableFile(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(
      const std::string& path, const std::string& old_path) override {
    return base_->ReuseWritableFile(path, old_path);
  }
  absl::StatusOr<bool> FileExists(const std::string& path) override {
    return base_->FileExists(path);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    return base_->FileSize(path);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return base_->CreateDirectory(path);
  }
  absl::Status DeleteDirectory(const std::string& path) override {
    return base_->DeleteDirectory(path);
  }
  absl::Status DeleteFile(const std::string& path) override { return base_->DeleteFile(path); }
  absl::Status RenameFile(const std::string& from, const std::string& to) override {
    return base_->RenameFile(from, to);
  }
  absl::Status SyncDirectory(const std::string& directory) override {
    return base_->SyncDirectory(directory);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) override {
    return base_->LockFile(path);
  }
  absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) override {
    return base_->FreeSpaceBytes(directory);
  }

 private:
  const std::shared_ptr<FileSystem> base_;
  const std::function<void()> before_listing_;
};

// A reader has read the MANIFEST; before it looks for WALs and tables, the writer
// flushes, compacts and writes on. What was written before the opening must be seen.
TEST_F(FaultTest, OpenReadOnlyWhileTheDirectoryChanges) {
  for (int changes = 1; changes <= 4; ++changes) {
    file_system_ = std::make_shared<FaultFileSystem>();
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(Put("flushed").ok());
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    ASSERT_TRUE(Put("logged").ok());
    int left = changes;
    Options reading = SmallOptions(std::make_shared<ListingHook>(file_system_, [&] {
      if (left == 0) return;
      --left;
      const std::string key = "during" + std::to_string(left);
      EXPECT_TRUE(Put(key).ok());
      EXPECT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
      EXPECT_TRUE(Put(key).ok());
    }));
    absl::StatusOr<std::unique_ptr<DB>> reader = DB::OpenReadOnly(reading, kPath);
    ASSERT_TRUE(reader.ok()) << changes << ": " << reader.status();
    EXPECT_TRUE(Has(reader->get(), "flushed")) << changes;
    EXPECT_TRUE(Has(reader->get(), "logged")) << changes;
    // It holds its files open, whatever becomes of their names.
    EXPECT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    EXPECT_TRUE(Has(reader->get(), "flushed")) << changes;
    EXPECT_TRUE((*reader)->VerifyChecksums().ok());
    EXPECT_TRUE(absl::IsFailedPrecondition((*reader)->Put(WriteOptions(), "x", "y")));
    db_.reset();
  }
}

}  // namespace
}  // namespace sievedb
