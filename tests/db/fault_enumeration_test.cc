// Disks that fill up and disks that fail, at one file-system operation after another.
// SIEVEDB_FAULT_POINTS asks for more of the operations than the sample.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/fault_test_util.h"
#include "tests/db/history.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

using Repeat = FaultFileSystem::Repeat;

// Runs the history on a file system whose n-th operation, or n-th write, fails.
class FaultRun {
 public:
  FaultRun(absl::Status error, Repeat repeat, CompactionStyle style)
      : error_(std::move(error)), repeat_(repeat), style_(style) {}

  void RunAndCheck(uint64_t n) {
    Options options = SmallOptions(file_system_, style_);
    options.listeners = {listener_};
    InjectAt(n);
    std::unique_ptr<DB> db;
    RunHistory(options, kPath, &progress_, &db,
               [this](StepKind kind, const std::function<absl::Status()>& run) {
                 return Step(kind, run);
               });
    const bool finished = progress_.acknowledged.load() == kHistoryBatches && !stopped_;
    if (IsFullDisk() && !lasting_.load()) {
      EXPECT_TRUE(finished) << "a full disk that has room again, but writes are not taken";
    }
    const std::string events = listener_->events();
    EXPECT_TRUE(events.empty() || events[0] == 'E') << events;
    if (db != nullptr && !closed_) CheckLive(db.get(), finished);
    db.reset();
    CheckAfterwards();
  }

 private:
  bool WritesOnly() const { return repeat_ == Repeat::kAlways || IsFullDisk(); }
  bool IsFullDisk() const { return absl::IsResourceExhausted(error_); }

  void InjectAt(uint64_t n) {
    file_system_->FailWhen(
        [this, n](FileOp op, std::string_view path) mutable {
          if (WritesOnly() && !IsWrite(op)) return false;
          if (n > 1) {
            --n;
            return false;
          }
          // After these nobody knows what the disk holds; writes stay stopped.
          const bool of_wal = path.ends_with(".wal");
          if (op == FileOp::kSyncDirectory ||
              (of_wal && (op == FileOp::kSync || op == FileOp::kClose))) {
            lasting_.store(true);
          }
          return true;
        },
        error_, repeat_);
  }

  bool Step(StepKind kind, const std::function<absl::Status()>& run) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const absl::Status status = run();
      if (status.ok()) {
        if (kind == StepKind::kClose) listener_->Forget();  // it may have been stopped still
        return true;
      }
      EXPECT_TRUE(Tells(status, text_)) << status;
      if (kind == StepKind::kOpen) {
        EXPECT_EQ(attempt, 0) << status;
        if (attempt > 0) break;
        file_system_->ClearFaults();
        continue;
      }
      if (kind == StepKind::kClose) {
        closed_ = true;
        break;
      }
      if (attempt == 3) {
        // By now it is an error in the background, or the operation is over it.
        if (IsFullDisk()) file_system_->ClearFaults();
        EXPECT_TRUE(kind != StepKind::kWrite || absl::IsFailedPrecondition(status)) << status;
        if (!IsFullDisk() || lasting_.load()) break;
      }
      if (attempt > 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stopped_ = true;
    return false;
  }

  void CheckLive(DB* db, bool finished) {
    // Writes that fail don't keep reads from going on; a read that fails would.
    if (!WritesOnly() || finished) file_system_->ClearFaults();
    uint64_t found = 0;
    EXPECT_TRUE(ReadHistory(db, &found)) << "reads go on whatever happens to writes";
    EXPECT_EQ(found, progress_.acknowledged.load());
    if (finished && IsFullDisk() && !lasting_.load()) {
      EXPECT_TRUE(Await([&] { return db->WaitForBackgroundWork().ok(); }));
      const std::string events = listener_->events();
      EXPECT_TRUE(events.empty() || events.find('R') != events.npos) << events;
      return;
    }
    const std::string error = db->GetProperty("sievedb.background-error").value();
    if (error.empty()) return;
    EXPECT_TRUE(Await([&] { return !listener_->events().empty(); }));
    EXPECT_NE(error.find(text_), error.npos) << error;
    const absl::Status refused = db->Put(WriteOptions(), "refused", "x");
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_TRUE(Tells(refused, text_)) << refused;
  }

  // With a disk that works, as it is and after a loss of power.
  void CheckAfterwards() {
    file_system_->ClearFaults();
    uint64_t found = 0;
    OpenAndCheck(file_system_->CrashClone(CrashMode::kLoseUnsynced, 1), progress_.synced.load(),
                 &found);
    std::unique_ptr<DB> db = OpenAndCheck(file_system_, progress_.acknowledged.load(), &found);
    if (db == nullptr) return;
    WriteOptions write;
    write.sync = true;
    WriteBatch batch = HistoryBatch(found + 1);
    EXPECT_TRUE(db->Write(write, &batch).ok());
    progress_.issued.store(found + 1);
    // What a failed sync left behind must not take this one along.
    uint64_t after = 0;
    OpenAndCheck(file_system_->CrashClone(CrashMode::kLoseUnsynced, 2), found + 1, &after);
    EXPECT_TRUE(db->WaitForBackgroundWork().ok());
    EXPECT_TRUE(CloseAndCheckDirectory(std::move(db), file_system_.get(), kPath));
  }

  std::unique_ptr<DB> OpenAndCheck(const std::shared_ptr<FileSystem>& file_system,
                                   uint64_t at_least, uint64_t* found) {
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(SmallOptions(file_system, style_), kPath);
    EXPECT_TRUE(db.ok()) << db.status();
    if (!db.ok()) return nullptr;
    EXPECT_TRUE(ReadHistory(db->get(), found));
    EXPECT_GE(*found, at_least) << "lost";
    EXPECT_LE(*found, progress_.issued.load());
    return *std::move(db);
  }

  const absl::Status error_;
  const std::string text_{error_.message()};
  const Repeat repeat_;
  const CompactionStyle style_;
  const std::shared_ptr<FaultFileSystem> file_system_ = std::make_shared<FaultFileSystem>();
  const std::shared_ptr<ErrorListener> listener_ = std::make_shared<ErrorListener>();
  HistoryProgress progress_;
  std::atomic<bool> lasting_{false};
  bool stopped_ = false;
  bool closed_ = false;
};

uint64_t CountOperations(bool writes_only, CompactionStyle style) {
  auto file_system = std::make_shared<FaultFileSystem>();
  HistoryProgress progress;
  std::unique_ptr<DB> db;
  RunHistory(SmallOptions(file_system, style), kPath, &progress, &db,
             [](StepKind, const std::function<absl::Status()>& run) { return run().ok(); });
  db.reset();
  if (!writes_only) return file_system->operations();
  uint64_t count = 0;
  for (int op = 0; op < kFileOps; ++op) {
    if (IsWrite(static_cast<FileOp>(op))) count += file_system->operations(static_cast<FileOp>(op));
  }
  return count;
}

void EnumerateFaults(const absl::Status& error, Repeat repeat, uint64_t points) {
  if (const char* text = std::getenv("SIEVEDB_FAULT_POINTS"); text != nullptr) {
    points = std::strtoull(text, nullptr, 10);
  }
  const bool writes_only = repeat == Repeat::kAlways || absl::IsResourceExhausted(error);
  std::map<CompactionStyle, uint64_t> operations_of;
  for (const CompactionStyle style : {StyleOf(0), StyleOf(1), StyleOf(2)}) {
    operations_of[style] = CountOperations(writes_only, style);
    points = std::min(points, operations_of[style]);
  }
  ASSERT_GT(points, 0u);
  for (uint64_t point = 0; point < points && !testing::Test::HasFailure(); ++point) {
    const CompactionStyle style = StyleOf(point);
    const uint64_t operations = operations_of[style];
    const uint64_t n = 1 + point * operations / points;
    SCOPED_TRACE("fault at " + std::to_string(n) + " of about " + std::to_string(operations));
    FaultRun(error, repeat, style).RunAndCheck(n);
  }
}

TEST(FaultEnumerationTest, AnyOperationFailsOnce) { EnumerateFaults(kBroken, Repeat::kOnce, 50); }

TEST(FaultEnumerationTest, WritesFailFromSomeOperationOn) {
  EnumerateFaults(kBroken, Repeat::kAlways, 20);
}

TEST(FaultEnumerationTest, TheDiskIsFullOnce) { EnumerateFaults(kFull, Repeat::kOnce, 8); }

TEST(FaultEnumerationTest, TheDiskIsFullForAWhile) { EnumerateFaults(kFull, Repeat::kAlways, 5); }

}  // namespace
}  // namespace sievedb
