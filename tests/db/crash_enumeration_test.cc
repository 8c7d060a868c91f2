// The power goes off at one file-system operation after another, and the process
// dies there: each time the database opens again by itself, with a prefix of what
// was written that has all that was promised. SIEVEDB_CRASH_POINTS asks for more of
// the operations than the sample.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/history.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

constexpr char kPath[] = "/db";

// A run that was cut off, and what had been promised by then.
struct CutOff {
  std::shared_ptr<FaultFileSystem> file_system = std::make_shared<FaultFileSystem>();
  uint64_t issued = 0;
  uint64_t acknowledged = 0;
  uint64_t synced = 0;
  bool crashed = false;
  CompactionStyle style = CompactionStyle::kLeveled;
};

bool StopAtError(StepKind, const std::function<absl::Status()>& run) { return run().ok(); }

CutOff RunUntil(uint64_t operation, CompactionStyle style) {
  CutOff cut;
  cut.style = style;
  HistoryProgress progress;
  cut.file_system->PowerOffAtNth(operation, [&] {
    // What returns after this was not promised before it; what was handed over
    // before may be there.
    cut.acknowledged = progress.acknowledged.load();
    cut.synced = progress.synced.load();
    cut.issued = progress.issued.load();
  });
  std::unique_ptr<DB> db;
  RunHistory(SmallOptions(cut.file_system, style), kPath, &progress, &db, StopAtError);
  db.reset();
  cut.crashed = cut.file_system->is_off();
  return cut;
}

// Opens the database, and checks that the batches it has are at least so many, and
// no more than were written.
std::unique_ptr<DB> OpenAndCheck(const std::shared_ptr<FileSystem>& file_system,
                                 CompactionStyle style, uint64_t at_least, uint64_t at_most,
                                 uint64_t* found) {
  absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(SmallOptions(file_system, style), kPath);
  EXPECT_TRUE(db.ok()) << db.status();
  if (!db.ok()) return nullptr;
  EXPECT_TRUE(ReadHistory(db->get(), found));
  EXPECT_GE(*found, at_least) << "a batch is lost that was promised to be there";
  EXPECT_LE(*found, at_most);
  return *std::move(db);
}

bool WriteOn(DB* db, uint64_t first, uint64_t count) {
  for (uint64_t number = first; number < first + count; ++number) {
    WriteBatch batch = HistoryBatch(number);
    WriteOptions write;
    write.sync = number == first + count - 1;
    const absl::Status status = db->Write(write, &batch);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return false;
  }
  return true;
}

// It opens, is whole, leaves nothing behind, takes writes, and opens again.
void CheckRecovery(const std::shared_ptr<FileSystem>& file_system, CompactionStyle style,
                   uint64_t at_least, uint64_t at_most) {
  uint64_t found = 0;
  std::unique_ptr<DB> db = OpenAndCheck(file_system, style, at_least, at_most, &found);
  if (db == nullptr) return;
  ASSERT_TRUE(WriteOn(db.get(), found + 1, 3));
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  ASSERT_TRUE(CloseAndCheckDirectory(std::move(db), file_system.get(), kPath));
  db = OpenAndCheck(file_system, style, found + 3, found + 3, &found);
}

// The process dies; it is started again and writes on; then the power goes off. What
// the first life left unsynced must not take along what the second one synced.
void CheckDeathThenPowerLoss(const CutOff& cut, uint64_t seed) {
  const std::shared_ptr<FaultFileSystem> second = cut.file_system->AfterProcessDeath();
  uint64_t found = 0;
  std::unique_ptr<DB> db = OpenAndCheck(second, cut.style, cut.acknowledged, cut.issued, &found);
  if (db == nullptr) return;
  ASSERT_TRUE(WriteOn(db.get(), found + 1, 1));
  for (const CrashMode mode : {CrashMode::kLoseUnsynced, CrashMode::kRandom}) {
    uint64_t after = 0;
    OpenAndCheck(second->CrashClone(mode, seed), cut.style, found + 1, found + 1, &after);
  }
}

// The process dies, and while its successor recovers, the power goes off too.
void CheckPowerLossInRecovery(const CutOff& cut, uint64_t seed) {
  const std::shared_ptr<FaultFileSystem> second = cut.file_system->AfterProcessDeath();
  second->PowerOffAtNth(1 + seed * 7 % 60, nullptr);
  { const auto db = DB::Open(SmallOptions(second, cut.style), kPath); }
  for (const CrashMode mode : {CrashMode::kLoseUnsynced, CrashMode::kRandom}) {
    uint64_t found = 0;
    OpenAndCheck(second->CrashClone(mode, seed), cut.style, cut.synced, cut.issued, &found);
  }
}

TEST(CrashEnumerationTest, EveryOperationMayBeTheLastOne) {
  const char* points_text = std::getenv("SIEVEDB_CRASH_POINTS");
  const uint64_t points = points_text == nullptr ? 40 : std::strtoull(points_text, nullptr, 10);
  std::map<CompactionStyle, uint64_t> operations_of;
  for (const CompactionStyle style : {StyleOf(0), StyleOf(1), StyleOf(2)}) {
    const CutOff whole = RunUntil(UINT64_MAX, style);
    ASSERT_FALSE(whole.crashed);
    operations_of[style] = whole.file_system->operations();
  }
  ASSERT_GT(points, 0u);
  // Not a multiple of any rhythm in the workload, and from the first on.
  for (uint64_t point = 0; point < points; ++point) {
    const CompactionStyle style = StyleOf(point);
    const uint64_t operations = operations_of[style];
    if (point >= operations) break;
    const uint64_t operation = 1 + point * operations / std::min(points, operations);
    SCOPED_TRACE("power off at operation " + std::to_string(operation) + " of about " +
                 std::to_string(operations));
    const CutOff cut = RunUntil(operation, style);
    if (!cut.crashed) continue;  // this run was a little shorter
    const auto clone = [&](CrashMode mode) { return cut.file_system->CrashClone(mode, operation); };
    {
      SCOPED_TRACE("nothing is left of what was not synced");
      CheckRecovery(clone(CrashMode::kLoseUnsynced), style, cut.synced, cut.issued);
    }
    {
      SCOPED_TRACE("all is left of what was not synced");
      CheckRecovery(clone(CrashMode::kKeepUnsynced), style, cut.acknowledged, cut.issued);
    }
    {
      SCOPED_TRACE("unsynced bytes are torn");
      CheckRecovery(clone(CrashMode::kTornUnsynced), style, cut.synced, cut.issued);
    }
    {
      SCOPED_TRACE("unsynced bytes have holes");
      CheckRecovery(clone(CrashMode::kHoles), style, cut.synced, cut.issued);
    }
    {
      SCOPED_TRACE("a random part is left of what was not synced");
      CheckRecovery(clone(CrashMode::kRandom), style, cut.synced, cut.issued);
    }
    {
      SCOPED_TRACE("the process dies, and a later one loses its power");
      CheckDeathThenPowerLoss(cut, operation);
    }
    {
      SCOPED_TRACE("the process dies, and the next one loses its power in recovery");
      CheckPowerLossInRecovery(cut, operation);
    }
    if (HasFailure()) break;  // the rest would say the same
  }
}

}  // namespace
}  // namespace sievedb
