// Opening a database whose WAL or tables are damaged: each fault gives the code that
// the contract names and a message that names the file, and costs nothing but what
// it damaged.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "db/file_names.h"
#include "db/log_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "table/format.h"
#include "tests/db/open_test_util.h"
#include "util/coding.h"

namespace sievedb {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnknown = absl::StatusCode::kUnknown;

class OpenDamagedFilesTest : public OpenTest {};

TEST_F(OpenDamagedFilesTest, DamagedWal) {
  Create();
  Run({
      {"missing", [&] { fs::remove(wal_); }, kDataLoss, {wal_, "missing"}},
      {"a link that leads nowhere", [&] { Dangle(wal_); }, kDataLoss, {wal_, "missing"}},
      {"foreign",
       [&] { WriteFile(wal_, std::string(500, 'x')); },
       kDataLoss,
       {wal_, "offset 0", "SIEVELOG"}},
      {"a flipped bit of its magic", [&] { FlipBit(wal_, 0); }, kDataLoss, {wal_, "offset 0"}},
      {"a flipped bit of its version", [&] { FlipBit(wal_, 9); }, kDataLoss, {wal_, "offset 48"}},
      {"a flipped bit in its first record",
       [&] { FlipBit(wal_, kLogHeaderBytes + kLogRecordHeaderBytes + 4); },
       kDataLoss,
       {wal_, "offset 56", "expected record checksum", "found"}},
      {"a newer version",
       [&] { SetLogHeaderField(wal_, 8, kLogFormatVersion + 1); },
       kInvalidArgument,
       {wal_, "version 2", "newer"}},
      {"a MANIFEST", [&] { SetLogHeaderField(wal_, 12, 2); }, kDataLoss, {wal_, "kind"}},
      {"another number",
       [&] { fs::rename(wal_, WalFileName(path_, 999)); },
       kDataLoss,
       {wal_, "missing"}},
      {"a directory", [&] { MakeDirectory(wal_); }, kUnknown, {wal_, "Is a directory"}},
  });
  fs::remove(wal_);
  options_.wal_recovery = WalRecovery::kSalvage;
  const auto db = DB::Open(options_, path_);
  ASSERT_TRUE(db.ok()) << db.status();
  ExpectKeys(db->get(), 0, 2 * kTableKeys);
}

TEST_F(OpenDamagedFilesTest, TornTailOfAWalCostsItsLastRecordOnly) {
  Create();
  fs::resize_file(wal_, fs::file_size(wal_) - kLogRecordHeaderBytes - 1);
  const auto db = DB::Open(options_, path_);
  ASSERT_TRUE(db.ok()) << db.status();
  ExpectKeys(db->get(), 0, keys_ - 1);
  std::string value;
  EXPECT_EQ((*db)->Get(ReadOptions(), Key(keys_ - 1), &value).code(), absl::StatusCode::kNotFound);
}

TEST_F(OpenDamagedFilesTest, TablesThatAreNotThere) {
  Create();
  const std::string& table = tables_[0];
  Run({
      {"missing", [&] { fs::remove(table); }, kDataLoss, {table, "missing"}},
  });
}

// A table that is not what it should be is found when it is opened, which a writer
// does in the background, or when it is read. All other keys stay.
TEST_F(OpenDamagedFilesTest, TablesWithOtherBytes) {
  Create();
  const std::string table = tables_[0];
  const size_t bytes = fs::file_size(table);
  const std::vector<Case> cases = {
      {"a link that leads nowhere", [&] { Dangle(table); }, kDataLoss, {table, "missing"}},
      {"empty", [&] { WriteFile(table, ""); }, kDataLoss, {table, "found 0"}},
      {"cut", [&] { fs::resize_file(table, bytes - 1); }, kDataLoss, {table, "expected"}},
      {"extended", [&] { fs::resize_file(table, bytes + 1); }, kDataLoss, {table, "expected"}},
      {"huge", [&] { fs::resize_file(table, uint64_t{1} << 42); }, kDataLoss, {table}},
      {"a directory", [&] { MakeDirectory(table); }, kDataLoss, {table}},
      {"foreign",
       [&] { WriteFile(table, std::string(bytes, 'x')); },
       kDataLoss,
       {table, "not a table", "magic"}},
      {"zeros", [&] { WriteFile(table, std::string(bytes, '\0')); }, kDataLoss, {table, "magic"}},
      {"a newer version",
       [&] {
         std::string contents = ReadFile(table);
         EncodeFixed32(contents.data() + bytes - 16, kTableFormatVersion + 1);
         EncodeFixed32(contents.data() + bytes - 12, ~(kTableFormatVersion + 1));
         WriteFile(table, contents);
       },
       kInvalidArgument,
       {table, "format 3", "newer"}},
      {"another table's footer",
       [&] {
         std::string contents = ReadFile(table);
         auto footer =
             DecodeFooter({contents.data() + bytes - kFooterBytes, kFooterBytes}, bytes, table);
         ASSERT_TRUE(footer.ok()) << footer.status();
         ++footer->file_number;
         contents.resize(bytes - kFooterBytes);
         AppendFooter(&contents, *footer);
         WriteFile(table, contents);
       },
       kDataLoss,
       {table, "wrong file"}},
      {"a flipped bit of its footer", [&] { FlipBit(table, bytes - 60); }, kDataLoss, {table}},
      {"a flipped bit of its first block",
       [&] { FlipBit(table, 5); },
       kDataLoss,
       {table, "offset 0", "checksum"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    one.damage();
    for (const bool read_only : {false, true}) {
      auto db = read_only ? DB::OpenReadOnly(options_, path_) : DB::Open(options_, path_);
      absl::Status status = db.status();
      if (status.ok()) {
        ExpectKeys(db->get(), kTableKeys, keys_);
        std::string value;
        status = (*db)->Get(ReadOptions(), Key(0), &value);
        const absl::Status verified = (*db)->VerifyChecksums();
        EXPECT_EQ(verified.code(), one.code) << verified;
        EXPECT_THAT(std::string(verified.message()), HasSubstr(table));
        const auto it = (*db)->NewIterator(ReadOptions());
        it->SeekToFirst();
        EXPECT_FALSE(it->Valid());
        EXPECT_EQ(it->status().code(), one.code) << it->status();
      }
      // Its background work must not meet the files being put back.
      if (db.ok()) db->reset();
      EXPECT_EQ(status.code(), one.code) << status;
      for (const std::string& part : one.parts) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(part));
      }
      Restore();
      one.damage();
    }
    Restore();
    ExpectWhole();
    Restore();
  }
}

}  // namespace
}  // namespace sievedb
