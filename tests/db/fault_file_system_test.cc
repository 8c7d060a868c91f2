#include "tests/fault_file_system.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "sievedb/file_system.h"

namespace sievedb {
namespace {

using Repeat = FaultFileSystem::Repeat;

const absl::Status kFull = absl::ResourceExhaustedError("no space left");

std::string Content(FileSystem* fs, const std::string& path) {
  auto file = fs->NewRandomAccessFile(path);
  if (!file.ok()) return "missing";
  std::string scratch(1000, '\0');
  std::string_view result;
  EXPECT_TRUE((*file)->Read(0, scratch.size(), scratch.data(), &result).ok());
  return std::string(result);
}

std::unique_ptr<WritableFile> Create(FileSystem* fs, const std::string& path,
                                     std::string_view synced = {}) {
  auto file = fs->NewWritableFile(path);
  EXPECT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Append(synced).ok());
  EXPECT_TRUE((*file)->Sync().ok());
  return *std::move(file);
}

TEST(FaultFileSystemTest, CountsOperations) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "x");
  EXPECT_EQ(Content(&fs, "/a"), "x");
  EXPECT_EQ(fs.operations(), 5u);
  EXPECT_EQ(fs.operations(FileOp::kCreate), 1u);
  EXPECT_EQ(fs.operations(FileOp::kAppend), 1u);
  EXPECT_EQ(fs.operations(FileOp::kSync), 1u);
  EXPECT_EQ(fs.operations(FileOp::kOpenForReading), 1u);
  EXPECT_EQ(fs.operations(FileOp::kRead), 1u);
  EXPECT_EQ(fs.faults(), 0u);
}

TEST(FaultFileSystemTest, FailsTheNthOperationOnce) {
  FaultFileSystem fs;
  fs.FailNth(2, kFull);
  EXPECT_TRUE(fs.CreateDirectory("/a").ok());
  EXPECT_EQ(fs.CreateDirectory("/b"), kFull);
  EXPECT_TRUE(fs.CreateDirectory("/c").ok());
  EXPECT_EQ(fs.faults(), 1u);
  EXPECT_FALSE(fs.FileExists("/b").value());
}

TEST(FaultFileSystemTest, FailsFromTheNthOperationOn) {
  FaultFileSystem fs;
  fs.FailNth(2, kFull, Repeat::kAlways);
  EXPECT_TRUE(fs.CreateDirectory("/a").ok());
  EXPECT_EQ(fs.CreateDirectory("/b"), kFull);
  EXPECT_EQ(fs.FileExists("/a").status(), kFull);
  fs.ClearFaults();
  EXPECT_TRUE(fs.CreateDirectory("/b").ok());
  EXPECT_EQ(fs.faults(), 2u);
}

TEST(FaultFileSystemTest, FailsWhatMatches) {
  FaultFileSystem fs;
  fs.Fail(FileOp::kCreate, ".wal", kFull);
  fs.FailWhen([](FileOp op, std::string_view path) { return op == FileOp::kLock && path == "/L"; },
              kFull, Repeat::kAlways);
  EXPECT_TRUE(fs.NewWritableFile("/a.sst").ok());
  EXPECT_EQ(fs.NewWritableFile("/a.wal").status(), kFull);
  EXPECT_TRUE(fs.NewWritableFile("/a.wal").ok());
  EXPECT_EQ(fs.LockFile("/L").status(), kFull);
  EXPECT_EQ(fs.LockFile("/L").status(), kFull);
  EXPECT_TRUE(fs.LockFile("/M").ok());
}

TEST(FaultFileSystemTest, EveryOperationCanFail) {
  for (int i = 0; i < kFileOps; ++i) {
    const FileOp op = static_cast<FileOp>(i);
    FaultFileSystem fs;
    auto file = Create(&fs, "/a", "x");
    Create(&fs, "/b");
    ASSERT_TRUE(fs.CreateDirectory("/d").ok());
    auto reader = fs.NewRandomAccessFile("/a");
    ASSERT_TRUE(reader.ok());
    fs.Fail(op, "", kFull);
    char scratch[4];
    std::string_view result;
    std::multiset<bool> failed;
    for (const absl::Status& status : {fs.NewRandomAccessFile("/a").status(),
                                       (*reader)->Read(0, 1, scratch, &result),
                                       fs.NewWritableFile("/n").status(),
                                       fs.ReuseWritableFile("/c", "/b").status(),
                                       file->Append("yy"),
                                       file->Sync(),
                                       file->Preallocate(10),
                                       file->Close(),
                                       fs.GetChildren("/").status(),
                                       fs.FileExists("/a").status(),
                                       fs.FileSize("/a").status(),
                                       fs.CreateDirectory("/e"),
                                       fs.DeleteDirectory("/d"),
                                       fs.LinkFile("/a", "/l"),
                                       fs.DeleteFile("/a"),
                                       fs.CreateDirectory("/r"),
                                       fs.RenameFile("/r", "/s"),
                                       fs.SyncDirectory("/"),
                                       fs.LockFile("/L").status(),
                                       fs.FreeSpaceBytes("/").status()}) {
      failed.insert(status == kFull);
      EXPECT_TRUE(status == kFull || status.ok()) << i << " " << status;
    }
    EXPECT_EQ(failed.count(true), 1u) << i;
    EXPECT_EQ(fs.faults(), 1u);
  }
}

TEST(FaultFileSystemTest, FailingAppendWritesHalf) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "x");
  fs.Fail(FileOp::kAppend, "/a", kFull);
  EXPECT_EQ(file->Append("1234"), kFull);
  EXPECT_EQ(Content(&fs, "/a"), "x12");
}

TEST(FaultFileSystemTest, CrashLosesWhatWasNotSynced) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "safe");
  ASSERT_TRUE(file->Append(" unsafe").ok());
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  Create(&fs, "/unnamed", "bytes without a name");
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/a"), "safe");
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/unnamed"), "missing");
  const auto kept = fs.CrashClone(CrashMode::kKeepUnsynced, 1);
  EXPECT_EQ(Content(kept.get(), "/a"), "safe unsafe");
  EXPECT_EQ(Content(kept.get(), "/unnamed"), "bytes without a name");
  // The original lives on.
  EXPECT_EQ(Content(&fs, "/a"), "safe unsafe");
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/a"), "safe unsafe");
}

TEST(FaultFileSystemTest, ALinkedFileIsSyncedAndItsNameIsNot) {
  FaultFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectory("/d").ok());
  Create(&fs, "/a", "bytes");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(fs.LinkFile("/a", "/d/l").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/d/l"), "missing");
  ASSERT_TRUE(fs.SyncDirectory("/d").ok());
  ASSERT_TRUE(fs.DeleteFile("/a").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/d/l"), "bytes");
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kKeepUnsynced, 1).get(), "/a"), "missing");
}

TEST(FaultFileSystemTest, TornCrashKeepsAPrefix) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "safe");
  ASSERT_TRUE(file->Append("0123456789").ok());
  std::set<size_t> sizes;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string left = Content(fs.CrashClone(CrashMode::kTornUnsynced, seed).get(), "/a");
    EXPECT_TRUE(std::string("safe0123456789").starts_with(left)) << left;
    EXPECT_EQ(left, Content(fs.CrashClone(CrashMode::kTornUnsynced, seed).get(), "/a"));
    sizes.insert(left.size());
  }
  EXPECT_EQ(sizes.size(), 11u);  // every length from 4 to 14
}

TEST(FaultFileSystemTest, TornRecycledFileHasOldBytesBehind) {
  FaultFileSystem fs;
  Create(&fs, "/old", "oooooooo");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  auto file = fs.ReuseWritableFile("/new", "/old");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("nnnn").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/old"), "oooooooo");
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto clone = fs.CrashClone(CrashMode::kTornUnsynced, seed);
    EXPECT_EQ(Content(clone.get(), "/old"), "missing");
    seen.insert(Content(clone.get(), "/new"));
  }
  EXPECT_EQ(seen,
            (std::set<std::string>{"oooooooo", "nooooooo", "nnoooooo", "nnnooooo", "nnnnoooo"}));
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Content(&fs, "/new"), "nnnn");
  // Cutting the rest off was not synced.
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/old"), "nnnnoooo");
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kKeepUnsynced, 0).get(), "/new"), "nnnn");
}

TEST(FaultFileSystemTest, RenameIsSafeOnlyAfterItsDirectoryIsSynced) {
  FaultFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectory("/db").ok());
  Create(&fs, "/db/CURRENT", "old");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(fs.SyncDirectory("/db").ok());
  Create(&fs, "/db/tmp", "new");
  ASSERT_TRUE(fs.RenameFile("/db/tmp", "/db/CURRENT").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/db/CURRENT"), "old");
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kKeepUnsynced, 0).get(), "/db/CURRENT"), "new");
  ASSERT_TRUE(fs.SyncDirectory("/db").ok());
  const auto clone = fs.CrashClone(CrashMode::kLoseUnsynced, 0);
  EXPECT_EQ(Content(clone.get(), "/db/CURRENT"), "new");
  EXPECT_EQ(Content(clone.get(), "/db/tmp"), "missing");
}

TEST(FaultFileSystemTest, DeletionIsUndoneByACrash) {
  FaultFileSystem fs;
  Create(&fs, "/a", "x");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(fs.DeleteFile("/a").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/a"), "x");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/a"), "missing");
}

TEST(FaultFileSystemTest, LostDirectoryTakesItsFilesAlong) {
  FaultFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectory("/d").ok());
  Create(&fs, "/d/a", "x");
  ASSERT_TRUE(fs.SyncDirectory("/d").ok());
  EXPECT_FALSE(fs.CrashClone(CrashMode::kLoseUnsynced, 0)->FileExists("/d").value());
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/d/a"), "x");
}

TEST(FaultFileSystemTest, FailedSyncIsNeverMadeGood) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "safe");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(file->Append(" lost").ok());
  fs.Fail(FileOp::kSync, "/a", absl::UnavailableError("I/O error"));
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/a"), "safe");
}

TEST(FaultFileSystemTest, TruncationOfAFileIsNotSafeBeforeItsSync) {
  FaultFileSystem fs;
  Create(&fs, "/a", "old content");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  auto file = fs.NewWritableFile("/a");
  ASSERT_TRUE((*file)->Append("new").ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/a"), "old content");
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 0).get(), "/a"), "new");
}

TEST(FaultFileSystemTest, RandomCrashMeetsEveryOutcome) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "safe");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(file->Append("1234").ok());
  Create(&fs, "/b");
  std::map<std::string, int> seen;
  int named = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto clone = fs.CrashClone(CrashMode::kRandom, seed);
    ++seen[Content(clone.get(), "/a")];
    if (clone->FileExists("/b").value()) ++named;
  }
  EXPECT_GT(seen["safe"], 0);
  EXPECT_GT(seen["safe1234"], 0);
  EXPECT_GT(seen["safe12"], 0);
  EXPECT_GT(seen[std::string("safe12\0\0", 8)], 0);
  EXPECT_GT(named, 50);
  EXPECT_LT(named, 250);
}

TEST(FaultFileSystemTest, ACrashCanFollowACrash) {
  FaultFileSystem first;
  ASSERT_TRUE(first.CreateDirectory("/db").ok());
  auto lock = first.LockFile("/db/LOCK");
  ASSERT_TRUE(lock.ok());
  Create(&first, "/db/a", "kept");
  FaultFileSystem second(first.CrashClone(CrashMode::kKeepUnsynced, 0), "/");
  EXPECT_TRUE(second.LockFile("/db/LOCK").ok());  // no lock survives a crash
  Create(&second, "/db/b", "new");
  const auto third = second.CrashClone(CrashMode::kLoseUnsynced, 0);
  EXPECT_EQ(Content(third.get(), "/db/a"), "kept");
  EXPECT_EQ(Content(third.get(), "/db/b"), "missing");
}

TEST(FaultFileSystemTest, FilesOutliveIt) {
  auto fs = std::make_unique<FaultFileSystem>();
  auto file = Create(fs.get(), "/a", "x");
  fs.reset();
  EXPECT_TRUE(file->Append("y").ok());
  EXPECT_TRUE(file->Close().ok());
}

TEST(FaultFileSystemTest, NothingChangesAfterThePowerIsOff) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "synced");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(file->Append(" kept").ok());
  bool called = false;
  fs.PowerOffAtNth(2, [&] { called = true; });
  ASSERT_TRUE(fs.FileExists("/a").ok());
  EXPECT_FALSE(fs.is_off());
  EXPECT_FALSE(file->Append(" never written").ok());
  EXPECT_TRUE(called);
  EXPECT_TRUE(fs.is_off());
  EXPECT_FALSE(file->Sync().ok());
  EXPECT_FALSE(fs.DeleteFile("/a").ok());
  EXPECT_FALSE(fs.FileExists("/a").ok());
  file = nullptr;
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kKeepUnsynced, 1).get(), "/a"), "synced kept");
  EXPECT_EQ(Content(fs.CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/a"), "synced");
}

TEST(FaultFileSystemTest, AfterTheDeathOfTheProcessUnsyncedBytesCanStillBeLost) {
  FaultFileSystem fs;
  auto file = Create(&fs, "/a", "synced");
  ASSERT_TRUE(fs.SyncDirectory("/").ok());
  ASSERT_TRUE(file->Append(" not").ok());
  ASSERT_TRUE(fs.RenameFile("/a", "/b").ok());
  fs.Fail(FileOp::kSync, "", kFull, Repeat::kAlways);
  const std::shared_ptr<FaultFileSystem> later = fs.AfterProcessDeath();
  EXPECT_EQ(Content(later.get(), "/b"), "synced not");
  EXPECT_EQ(Content(later.get(), "/a"), "missing");
  EXPECT_EQ(Content(later->CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/a"), "synced");
  ASSERT_TRUE(later->SyncDirectory("/").ok());
  EXPECT_EQ(Content(later->CrashClone(CrashMode::kLoseUnsynced, 1).get(), "/b"), "synced");
  Create(later.get(), "/c", "no faults, and not a part of the first");
  EXPECT_EQ(Content(&fs, "/c"), "missing");
}

}  // namespace
}  // namespace sievedb
