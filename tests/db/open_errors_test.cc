// Opening what is no sound database: each fault gives the code that the contract
// names and a message that names the file, and costs nothing but what it damaged.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/file_names.h"
#include "db/log_format.h"
#include "db/log_writer.h"
#include "db/version_edit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "table/internal_key.h"
#include "tests/db/open_test_util.h"
#include "tests/fault_file_system.h"
#include "util/coding.h"

namespace sievedb {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnknown = absl::StatusCode::kUnknown;

// A MANIFEST of these records.
void WriteManifest(const std::string& path, uint64_t number,
                   const std::vector<std::string>& records) {
  auto file = PosixFileSystem()->NewWritableFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  auto log = LogWriter::Create(*std::move(file), LogKind::kManifest, number);
  ASSERT_TRUE(log.ok()) << log.status();
  for (const std::string& record : records) ASSERT_TRUE((*log)->AddRecord(record).ok());
  ASSERT_TRUE((*log)->Close().ok());
}

// Of a version edit that adds a table, the record as version_edit.cc describes it.
struct AddedTable {
  uint64_t level = 0;
  uint64_t number = 100;
  uint64_t file_bytes = 1000;
  uint64_t tail_bytes = 200;
  uint64_t largest_sequence = 2;
  std::string Encode() const {
    std::string to;
    const auto key = [](uint64_t sequence) {
      std::string internal;
      AppendInternalKey(&internal, "k", MakeTag(sequence, EntryType::kPut));
      return internal;
    };
    AppendVarint64(&to, 0);
    AppendVarint64(&to, 0x07);
    for (const uint64_t value : {level, number, file_bytes, tail_bytes}) {
      AppendVarint64(&to, value);
    }
    AppendLengthPrefixed(&to, key(2));
    AppendLengthPrefixed(&to, key(1));
    for (const uint64_t value :
         {uint64_t{1}, largest_sequence, uint64_t{2}, uint64_t{0}, uint64_t{20}}) {
      AppendVarint64(&to, value);
    }
    return to;
  }
};

std::string SnapshotRecord() {
  VersionEdit edit;
  edit.comparator_name = BytewiseComparator()->Name();
  edit.db_id = 1;
  edit.log_number = 0;
  edit.next_file_number = 200;
  edit.last_sequence = 2;
  return edit.Encode();
}

class OpenErrorsTest : public OpenTest {};

TEST_F(OpenErrorsTest, MissingAndExistingDatabases) {
  options_.create_if_missing = false;
  EXPECT_EQ(DB::Open(options_, path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DB::OpenReadOnly(options_, path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path_));
  options_.create_if_missing = true;
  EXPECT_EQ(DB::OpenReadOnly(options_, path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(path_));
  Create();
  options_.error_if_exists = true;
  const absl::Status exists = DB::Open(options_, path_).status();
  EXPECT_EQ(exists.code(), absl::StatusCode::kAlreadyExists) << exists;
  EXPECT_THAT(std::string(exists.message()), HasSubstr(path_));
}

TEST_F(OpenErrorsTest, PathsThatCannotBeADatabase) {
  EXPECT_EQ(DB::Open(options_, "").status().code(), kInvalidArgument);
  const absl::Status orphan = DB::Open(options_, path_ + "/no/parent").status();
  EXPECT_THAT(std::string(orphan.message()), HasSubstr(path_ + "/no/parent"));
  WriteFile(path_, "a file");
  const absl::Status file = DB::Open(options_, path_).status();
  EXPECT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.message()), HasSubstr(path_));
  EXPECT_EQ(ReadFile(path_), "a file");
}

TEST_F(OpenErrorsTest, OptionsThatContradictEachOtherTouchNothing) {
  options_.level0_stop_trigger = options_.level0_slowdown_trigger - 1;
  const absl::Status status = DB::Open(options_, path_).status();
  EXPECT_EQ(status.code(), kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("level0_stop_trigger"));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(OpenErrorsTest, DirectoryWithoutRights) {
  Create();
  // The superuser may do anything, so this test is somebody else for a while.
  const bool root = geteuid() == 0;
  const auto become = [](uid_t uid) { ASSERT_EQ(seteuid(uid), 0); };
  fs::permissions(path_, fs::perms::none);
  if (root) become(65534);
  const absl::Status hidden = DB::Open(options_, path_).status();
  const absl::Status hidden_read = DB::OpenReadOnly(options_, path_).status();
  if (root) become(0);
  for (const absl::Status& status : {hidden, hidden_read}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(current_), HasSubstr("Permission denied")));
  }

  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                             fs::perms::group_exec | fs::perms::others_read |
                             fs::perms::others_exec);
  if (root) become(65534);
  const absl::Status locked = DB::Open(options_, path_).status();
  const auto reader = DB::OpenReadOnly(options_, path_);
  if (root) become(0);
  if (root) {  // the owner could still write LOCK, which is there
    EXPECT_EQ(locked.code(), absl::StatusCode::kUnavailable) << locked;
    EXPECT_THAT(std::string(locked.message()), HasSubstr(path_ + "/LOCK"));
  }
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectKeys(reader->get(), 0, keys_);
  fs::permissions(path_, fs::perms::owner_all);
  ExpectWhole();
}

TEST_F(OpenErrorsTest, DamagedCurrent) {
  Create();
  const std::string wanted = "expected the name of a MANIFEST";
  Run({
      // A new database in its place would delete all tables.
      {"missing", [&] { fs::remove(current_); }, kDataLoss, {current_, "missing"}},
      {"a link that leads nowhere", [&] { Dangle(current_); }, kDataLoss, {current_, "missing"}},
      {"empty", [&] { WriteFile(current_, ""); }, kDataLoss, {current_, wanted}},
      {"garbage",
       [&] {
         WriteFile(current_,
                   "\x7f"
                   "ELF\n");
       },
       kDataLoss,
       {current_, wanted}},
      {"no newline",
       [&] { WriteFile(current_, "MANIFEST-000001"); },
       kDataLoss,
       {current_, wanted}},
      {"another directory",
       [&] { WriteFile(current_, "../MANIFEST-000001\n"); },
       kDataLoss,
       {current_, wanted}},
      {"a table", [&] { WriteFile(current_, "000005.sst\n"); }, kDataLoss, {current_, wanted}},
      {"a MANIFEST that is not there",
       [&] { WriteFile(current_, "MANIFEST-000999\n"); },
       kDataLoss,
       {current_, "MANIFEST-000999"}},
      // Larger than the memory of the machine.
      {"huge",
       [&] { fs::resize_file(current_, uint64_t{1} << 42); },
       kDataLoss,
       {current_, wanted, "4398046511104"}},
      {"a directory", [&] { MakeDirectory(current_); }, kUnknown, {current_, "Is a directory"}},
  });
}

TEST_F(OpenErrorsTest, DamagedManifest) {
  Create();
  Run({
      {"missing", [&] { fs::remove(manifest_); }, kDataLoss, {"names MANIFEST"}},
      {"a link that leads nowhere", [&] { Dangle(manifest_); }, kDataLoss, {"names MANIFEST"}},
      {"empty", [&] { WriteFile(manifest_, ""); }, kDataLoss, {manifest_, "found no record"}},
      {"only its header",
       [&] { fs::resize_file(manifest_, kLogHeaderBytes); },
       kDataLoss,
       {manifest_, "offset 56", "found no record"}},
      {"cut in its first record",
       [&] { fs::resize_file(manifest_, kLogHeaderBytes + 20); },
       kDataLoss,
       {manifest_, "offset 56"}},
      {"zeros",
       [&] { WriteFile(manifest_, std::string(fs::file_size(manifest_), '\0')); },
       kDataLoss,
       {manifest_}},
      {"foreign",
       [&] { WriteFile(manifest_, std::string(500, 'x')); },
       kDataLoss,
       {manifest_, "offset 0", "SIEVELOG", "xxxxxxxx"}},
      {"a flipped bit in its first record",
       [&] { FlipBit(manifest_, kLogHeaderBytes + 30); },
       kDataLoss,
       {manifest_, "offset 56"}},
      {"a newer version",
       [&] { SetLogHeaderField(manifest_, 8, kLogFormatVersion + 1); },
       kInvalidArgument,
       {manifest_, "version 2", "newer"}},
      {"a WAL", [&] { SetLogHeaderField(manifest_, 12, 1); }, kDataLoss, {manifest_, "kind"}},
      {"another number",
       [&] {
         fs::rename(manifest_, path_ + "/MANIFEST-000077");
         WriteFile(current_, "MANIFEST-000077\n");
       },
       kDataLoss,
       {"MANIFEST-000077", "offset 16", "file number 77"}},
      {"a directory", [&] { MakeDirectory(manifest_); }, kUnknown, {manifest_, "Is a directory"}},
  });
}

TEST_F(OpenErrorsTest, ManifestsThatSayWhatCannotBe) {
  Create();
  const uint64_t number = ParseFileName(fs::path(manifest_).filename().string())->number;
  const auto records = [&](const std::vector<std::string>& list) {
    return [this, number, list] { WriteManifest(manifest_, number, list); };
  };
  const auto table = [&](const AddedTable& added) {
    return records({SnapshotRecord(), added.Encode()});
  };
  std::string next_file;
  AppendVarint64(&next_file, 0);
  AppendVarint64(&next_file, 0x04);
  AppendVarint64(&next_file, UINT64_MAX);
  std::string newer;
  AppendVarint64(&newer, 0);
  AppendVarint64(&newer, 0x3f);
  std::string family;
  AppendVarint64(&family, 7);
  std::string skippable;
  AppendVarint64(&skippable, 0);
  AppendVarint64(&skippable, 0x41);
  AppendVarint64(&skippable, uint64_t{1} << 60);  // a length without bytes
  Run({
      {"no snapshot", records({next_file}), kDataLoss, {manifest_, "next file number"}},
      {"garbage", records({"\x01\x02\x03garbage"}), kInvalidArgument, {manifest_, "newer"}},
      {"a tag of a newer version",
       records({SnapshotRecord(), newer}),
       kInvalidArgument,
       {manifest_, "0x3f", "newer"}},
      {"a column family", records({SnapshotRecord(), family}), kInvalidArgument, {manifest_}},
      {"a length without bytes", records({SnapshotRecord(), skippable}), kDataLoss, {manifest_}},
      {"a file number that would wrap",
       records({SnapshotRecord(), next_file}),
       kDataLoss,
       {manifest_, "next file number"}},
      {"a table of 2^63 bytes",
       table({.file_bytes = uint64_t{1} << 63}),
       kDataLoss,
       {manifest_, "table 100"}},
      {"a tail larger than its table",
       table({.file_bytes = 1000, .tail_bytes = 1001}),
       kDataLoss,
       {manifest_, "tail of 1001"}},
      {"a level that is not", table({.level = 7}), kDataLoss, {manifest_, "level is 7"}},
      {"a table without number", table({.number = 0}), kDataLoss, {manifest_, "number is 0"}},
      {"a sequence that is not",
       table({.largest_sequence = uint64_t{1} << 60}),
       kDataLoss,
       {manifest_, "sequences"}},
      {"a table that is not there", table({}), kDataLoss, {"000100.sst", "missing"}},
  });
}

// A MANIFEST that was begun while opening is one record, which is there or not, and
// the one that ends it.
TEST_F(OpenErrorsTest, LastRecordOfANewManifestIsNoTornTail) {
  Create();
  ExpectWhole();  // opens it, so what the WAL had is in a table now
  const std::string name = ReadFile(current_);
  manifest_ = path_ + "/" + name.substr(0, name.size() - 1);
  saved_ = Files();
  const size_t bytes = fs::file_size(manifest_) - kLogRecordHeaderBytes;
  Run({
      {"its last byte", [&] { FlipBit(manifest_, bytes - 1); }, kDataLoss, {manifest_}},
      {"cut by a byte", [&] { fs::resize_file(manifest_, bytes - 1); }, kDataLoss, {manifest_}},
  });
}

TEST_F(OpenErrorsTest, LockNamesItsHolder) {
  Create();
  const auto db = DB::Open(options_, path_);
  ASSERT_TRUE(db.ok()) << db.status();
  const absl::Status second = DB::Open(options_, path_).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()),
              AllOf(HasSubstr(path_ + "/LOCK"), HasSubstr(std::to_string(getpid()))));
  const absl::Status destroyed = DestroyDB(options_, path_);
  EXPECT_EQ(destroyed.code(), absl::StatusCode::kFailedPrecondition) << destroyed;
  const auto reader = DB::OpenReadOnly(options_, path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ExpectKeys(reader->get(), 0, keys_);
  ExpectKeys(db->get(), 0, keys_);
}

TEST_F(OpenErrorsTest, LockThatIsNoFile) {
  Create();
  for (const bool link : {false, true}) {
    fs::remove(path_ + "/LOCK");
    if (link) {
      WriteFile(path_ + "/target", "precious");
      fs::create_symlink("target", path_ + "/LOCK");
    } else {
      fs::create_directory(path_ + "/LOCK");
    }
    const absl::Status status = DB::Open(options_, path_).status();
    EXPECT_EQ(status.code(), kUnknown) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + "/LOCK"));
  }
  EXPECT_EQ(ReadFile(path_ + "/target"), "precious");
}

TEST_F(OpenErrorsTest, AnotherComparator) {
  Create();
  options_.comparator = ReverseBytewiseComparator();
  const auto before = Files();
  for (const absl::Status& status :
       {DB::Open(options_, path_).status(), DB::OpenReadOnly(options_, path_).status()}) {
    EXPECT_EQ(status.code(), kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(manifest_), HasSubstr(BytewiseComparator()->Name()),
                      HasSubstr(ReverseBytewiseComparator()->Name())));
  }
  EXPECT_TRUE(Files() == before);
}

TEST_F(OpenErrorsTest, FilesOfStrangersAreLeftAlone) {
  Create();
  // To count on from the largest number would wrap, and new files would replace old.
  const std::vector<std::string> names = {"18446744073709551615.wal", "18446744073709551615.sst",
                                          "MANIFEST-18446744073709551614", "notes.txt", "foo.sst"};
  for (const std::string& name : names) WriteFile(path_ + "/" + name, "");
  fs::create_directory(path_ + "/sub");
  for (int round = 0; round < 3; ++round) {
    ExpectWhole();
    const auto db = DB::Open(options_, path_);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put(WriteOptions(), Key(keys_), Value(keys_)).ok());
    ++keys_;
  }
  ExpectWhole();
  EXPECT_TRUE(fs::exists(path_ + "/notes.txt"));
  EXPECT_TRUE(fs::exists(path_ + "/foo.sst"));
  EXPECT_TRUE(fs::exists(path_ + "/sub"));
  EXPECT_LT(Numbered(FileKind::kManifest).begin()->first, 1000u);
}

TEST_F(OpenErrorsTest, FilesThatNobodyReadsMayBeAnything) {
  Create();
  for (const char* name : {"LOG", "LOG.old"}) {
    fs::remove(path_ + "/" + name);
    fs::create_directory(path_ + "/" + name);
  }
  for (const auto& [number, name] : Numbered(FileKind::kOptions)) {
    WriteFile(name, "option_of_a_newer_version = 1\n");
  }
  ExpectWhole();
}

TEST_F(OpenErrorsTest, LinksToFilesServeAsFiles) {
  Create();
  const std::string elsewhere = path_ + "/elsewhere";
  fs::create_directory(elsewhere);
  for (const std::string& file : {tables_[0], manifest_, current_, wal_}) {
    const std::string target = elsewhere + "/" + fs::path(file).filename().string();
    fs::rename(file, target);
    fs::create_symlink(target, file);
  }
  ExpectWhole();
}

// The room that a WAL asks for is a wish: a disk that has less still takes writes.
TEST_F(OpenErrorsTest, DiskWithoutRoomForAWholeWal) {
  auto faults = std::make_shared<FaultFileSystem>();
  options_.file_system = faults;
  faults->Fail(FileOp::kPreallocate, "", absl::ResourceExhaustedError("no space"),
               FaultFileSystem::Repeat::kAlways);
  const auto db = DB::Open(options_, "/db");
  ASSERT_TRUE(db.ok()) << db.status();
  EXPECT_TRUE((*db)->Put(WriteOptions(), "k", "v").ok());
  EXPECT_GT(faults->faults(), 0u);
}

// Two processes that create the same database: the second to get the lock finds
// what the first has made, though it looked before it was there.
TEST_F(OpenErrorsTest, DatabaseThatAppearsWhileItIsOpened) {
  class LateFileSystem final : public FaultFileSystem {
   public:
    using FaultFileSystem::FaultFileSystem;
    absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) override {
      if (before_lock != nullptr) std::exchange(before_lock, nullptr)();
      return FaultFileSystem::LockFile(path);
    }
    std::function<void()> before_lock;
  };
  auto late = std::make_shared<LateFileSystem>();
  options_.file_system = late;
  late->before_lock = [&] {
    const auto db = DB::Open(options_, "/db");
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put(WriteOptions(), "k", "v").ok());
    ASSERT_TRUE((*db)->Close().ok());
  };
  const auto db = DB::Open(options_, "/db");
  ASSERT_TRUE(db.ok()) << db.status();
  std::string value;
  EXPECT_TRUE((*db)->Get(ReadOptions(), "k", &value).ok());
  EXPECT_EQ(value, "v");
}

}  // namespace
}  // namespace sievedb
