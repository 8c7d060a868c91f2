// A repair that is cut off, by a disk that fails or loses its power at each file-system
// operation: the next one comes to the same result.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/file_names.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/repair.h"
#include "tests/db/fault_test_util.h"
#include "tests/db/history.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

constexpr uint64_t kBatches = 45;

// A database of which CURRENT, and on demand the MANIFEST, is lost, with a table beside it
// that is damaged and belongs to nobody.
std::shared_ptr<FaultFileSystem> MakeScene(bool manifest_too) {
  auto files = std::make_shared<FaultFileSystem>();
  Options options = SmallOptions(files);
  options.disable_auto_compaction = true;
  auto db = DB::Open(options, kPath);
  EXPECT_TRUE(db.ok()) << db.status();
  for (uint64_t number = 1; number <= kBatches; ++number) {
    WriteBatch batch = HistoryBatch(number);
    EXPECT_TRUE((*db)->Write(WriteOptions(), &batch).ok());
    if (number == 20) {
      EXPECT_TRUE((*db)->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    }
  }
  EXPECT_TRUE((*db)->Close().ok());
  db->reset();
  const std::vector<std::string> names = *files->GetChildren(kPath);
  for (const std::string& name : names) {
    const FileKind kind = ParseFileName(name)->kind;
    if (kind == FileKind::kCurrent || (manifest_too && kind == FileKind::kManifest)) {
      EXPECT_TRUE(files->DeleteFile(std::string(kPath) + "/" + name).ok());
    }
  }
  auto file = files->NewWritableFile(TableFileName(kPath, 999));
  EXPECT_TRUE((*file)->Append("damaged").ok());
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE(files->SyncDirectory(kPath).ok());
  EXPECT_TRUE(files->SyncDirectory("/").ok());
  return files;
}

// It may be repaired, and then has all.
void CheckRepaired(const std::shared_ptr<FileSystem>& files, bool must_be_already) {
  RepairReport report;
  const absl::Status status = RepairDB(SmallOptions(files), kPath, &report);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(must_be_already && report.changed);
  const absl::Status again = RepairDB(SmallOptions(files), kPath, &report);
  ASSERT_TRUE(again.ok()) << again;
  EXPECT_FALSE(report.changed);
  auto db = DB::Open(SmallOptions(files), kPath);
  ASSERT_TRUE(db.ok()) << db.status();
  uint64_t found = 0;
  EXPECT_TRUE(ReadHistory(db->get(), &found));
  EXPECT_EQ(found, kBatches);
  EXPECT_TRUE((*db)->WaitForBackgroundWork().ok());
}

class RepairFaultTest : public testing::TestWithParam<bool> {
 protected:
  uint64_t CountOperations() {
    const auto files = MakeScene(GetParam());
    const uint64_t before = files->operations();
    EXPECT_TRUE(RepairDB(SmallOptions(files), kPath).ok());
    return files->operations() - before;
  }
};
INSTANTIATE_TEST_SUITE_P(ManifestLost, RepairFaultTest, testing::Bool());

TEST_P(RepairFaultTest, APowerLossAtAnyOperation) {
  const uint64_t operations = CountOperations();
  ASSERT_GT(operations, 40u);
  for (uint64_t n = 1; n <= operations && !HasFailure(); n += n % 3 == 0 ? 2 : 1) {
    SCOPED_TRACE("power off at operation " + std::to_string(n));
    const auto files = MakeScene(GetParam());
    files->PowerOffAtNth(n, nullptr);
    const bool done = RepairDB(SmallOptions(files), kPath).ok();
    for (const CrashMode mode :
         {CrashMode::kLoseUnsynced, CrashMode::kKeepUnsynced, CrashMode::kRandom}) {
      SCOPED_TRACE(static_cast<int>(mode));
      CheckRepaired(files->CrashClone(mode, n), done);
    }
  }
}

TEST_P(RepairFaultTest, AnyOperationFails) {
  const uint64_t operations = CountOperations();
  int failed = 0;
  for (uint64_t n = 1; n <= operations && !HasFailure(); ++n) {
    SCOPED_TRACE("operation " + std::to_string(n) + " fails");
    const auto files = MakeScene(GetParam());
    files->FailNth(n, kBroken);
    const absl::Status status = RepairDB(SmallOptions(files), kPath);
    files->ClearFaults();
    failed += status.ok() ? 0 : 1;
    EXPECT_TRUE(status.ok() || Tells(status, kBrokenText)) << status;
    CheckRepaired(files, status.ok());
  }
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace sievedb
