// Opening a database: what is refused, what is recovered from WALs, what damage does.

#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "db/file_names.h"
#include "db/log_format.h"
#include "db/log_writer.h"
#include "db/write_batch_internal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/db_test_util.h"

namespace sievedb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DBOpenTest : public DBTest {};

// --- errors of opening

TEST_F(DBOpenTest, OpenSaysWhatIsMissingOrInTheWay) {
  options_.create_if_missing = false;
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(DB::OpenReadOnly(options_, "/db").status().code(), absl::StatusCode::kNotFound);
  options_.create_if_missing = true;
  Open();
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kFailedPrecondition)
      << "it is open already";
  db_ = nullptr;
  options_.error_if_exists = true;
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kAlreadyExists);
  options_.error_if_exists = false;
  options_.comparator = ReverseBytewiseComparator();
  EXPECT_EQ(DB::Open(options_, "/db").status().code(), absl::StatusCode::kInvalidArgument);
  options_.comparator = BytewiseComparator();
  options_.block_bytes = 0;
  const absl::Status invalid = DB::Open(options_, "/db").status();
  EXPECT_EQ(invalid.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(invalid.message(), HasSubstr("block_bytes"));
}

TEST_F(DBOpenTest, TheReverseOrderWorks) {
  options_.comparator = ReverseBytewiseComparator();
  Open();
  Fill(0, 4000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  for (int i = 0; i < 4000; i += 11) ASSERT_EQ(Get(Key(i)), Value(i));
  const auto it = db_->NewIterator(ReadOptions());
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), Key(3999));
}

class CaseFolding : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    return Fold(a).compare(Fold(b));
  }
  const char* Name() const override { return "test.CaseFolding"; }
  bool EqualKeysHaveEqualBytes() const override { return false; }
  static std::string Fold(std::string_view key) {
    std::string folded(key);
    for (char& c : folded) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return folded;
  }
};

TEST_F(DBOpenTest, KeysThatAreEqualWithOtherBytesAreOneKey) {
  static const CaseFolding comparator;
  options_.comparator = &comparator;
  Open();
  ASSERT_TRUE(Put("Apple", "1").ok());
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(Put(Key(i), Value(i)).ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get("aPPLE"), "1");
    EXPECT_EQ(Get("KEY00000012"), Value(12));
    EXPECT_TRUE(db_->MayContain(ReadOptions(), "APPLE"));
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  }
  ASSERT_TRUE(Put("APPLE", "2").ok());
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_EQ(Get("apple"), "2");
}

// --- WALs

TEST_F(DBOpenTest, ATornTailIsCutAndTheRestIsKept) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  ASSERT_TRUE(Put("b", "2").ok());
  db_ = nullptr;
  const std::vector<std::string> wals = FilesEndingWith(".wal");
  ASSERT_FALSE(wals.empty());
  const std::string bytes = ReadFile(wals.back());
  WriteFile(wals.back(), bytes.substr(0, bytes.size() - kLogRecordHeaderBytes - 3));
  Open();
  EXPECT_EQ(Scan(), "a=1 ");
  ASSERT_TRUE(Put("c", "3").ok());
  Open();
  EXPECT_EQ(Scan(), "a=1 c=3 ");
}

// A sync covers all WALs up to then. So an older one whose tail is gone was damaged
// where a newer one says that something was synced, and torn where it does not.
TEST_F(DBOpenTest, AnOlderWalWithoutItsTailIsDamageWhereANewerOneWasSynced) {
  enum class Left { kFirstRecord, kHeader, kName };
  for (const auto& [sync, left] : std::vector<std::pair<bool, Left>>{{false, Left::kFirstRecord},
                                                                     {false, Left::kHeader},
                                                                     {false, Left::kName},
                                                                     {true, Left::kFirstRecord},
                                                                     {true, Left::kHeader},
                                                                     {true, Left::kName}}) {
    SCOPED_TRACE(sync ? "the newer WAL was synced" : "nothing was synced");
    SCOPED_TRACE(static_cast<int>(left));
    options_.wal_recovery = WalRecovery::kStrict;
    Open();
    ASSERT_TRUE(Put("a", "1").ok());
    ASSERT_TRUE(Put("b", "2").ok());
    const uint64_t last = db_->LatestSequence();
    db_ = nullptr;
    const std::string older = FilesEndingWith(".wal").back();
    const uint64_t number = ParseFileName(older.substr(std::string("/db/").size()))->number;
    const std::string bytes = ReadFile(older);
    const uint64_t end = bytes.size() - kLogRecordHeaderBytes;  // without what ends it

    // The next one, as it would be after a memtable switch and a crash.
    auto writer =
        LogWriter::Create(*options_.file_system->NewWritableFile(WalFileName("/db", number + 100)),
                          LogKind::kWal, number + 100, {number, end});
    ASSERT_TRUE(writer.ok()) << writer.status();
    const absl::Status synced = sync ? (*writer)->Sync() : absl::OkStatus();
    ASSERT_TRUE(synced.ok()) << synced;
    WriteBatch batch;
    batch.Put("c", "3");
    WriteBatchInternal::SetSequence(&batch, last + 1);
    ASSERT_TRUE((*writer)->AddRecord(WriteBatchInternal::Bytes(batch)).ok());
    WriteFile(older, bytes.substr(0, left == Left::kFirstRecord ? end - 3
                                     : left == Left::kHeader    ? kLogHeaderBytes
                                                                : 0));

    if (sync) {
      const absl::Status status = DB::Open(options_, "/db").status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(older), HasSubstr("which were synced")));
      options_.wal_recovery = WalRecovery::kSalvage;
    }
    Open();
    EXPECT_EQ(Scan(), left == Left::kFirstRecord ? "a=1 " : "");
    db_ = nullptr;
    ASSERT_TRUE(DestroyDB(options_, "/db").ok());
  }
}

TEST_F(DBOpenTest, DamageBeforeTheTailOfAWalIsDataLoss) {
  Open();
  ASSERT_TRUE(Put("a", "1").ok());
  ASSERT_TRUE(Put("b", "2").ok());
  ASSERT_TRUE(Put("c", "3").ok());
  db_ = nullptr;
  const std::string wal = FilesEndingWith(".wal").back();
  FlipByte(wal, kLogHeaderBytes + kLogRecordHeaderBytes + 3);  // in the first record's payload
  const absl::Status status = DB::Open(options_, "/db").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(wal), HasSubstr("offset")));
  options_.wal_recovery = WalRecovery::kSalvage;
  Open();
  EXPECT_EQ(Scan(), "");
  ASSERT_TRUE(Put("d", "4").ok());
  options_.wal_recovery = WalRecovery::kStrict;
  Open();
  EXPECT_EQ(Scan(), "d=4 ");
}

TEST_F(DBOpenTest, WritesWithoutAWalSurviveACleanClose) {
  Open();
  WriteOptions unlogged;
  unlogged.disable_wal = true;
  ASSERT_TRUE(db_->Put(unlogged, "a", "1").ok());
  unlogged.sync = true;
  EXPECT_EQ(db_->Put(unlogged, "a", "1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(db_->Close().ok());
  Open();
  EXPECT_EQ(Get("a"), "1");
}

TEST_F(DBOpenTest, AFlushLetsGoOfItsWals) {
  Open();
  Fill(0, 30000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_LE(FilesEndingWith(".wal").size(), 3u) << "the active one and two to be reused";
  db_ = nullptr;
  Open();
  ASSERT_EQ(Get(Key(29999)), Value(29999));
}

// --- damage

TEST_F(DBOpenTest, DamageInATableIsNamedAndOtherTablesStayReadable) {
  options_.compression = Compression::kNone;
  Open();
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put("other table", "v").ok());
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  db_ = nullptr;
  const std::string table = FilesEndingWith(".sst").front();
  FlipByte(table, 20);
  Open();
  EXPECT_THAT(Get(Key(0)), AllOf(HasSubstr("DATA_LOSS"), HasSubstr(table), HasSubstr("offset 0")));
  EXPECT_EQ(Get("other table"), "v");
  const absl::Status verified = db_->VerifyChecksums();
  EXPECT_EQ(verified.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(verified.message(), HasSubstr(table));
}

TEST_F(DBOpenTest, AMissingTableIsFoundWhenOpening) {
  Open();
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  db_ = nullptr;
  const std::string table = FilesEndingWith(".sst").front();
  ASSERT_TRUE(options_.file_system->DeleteFile(table).ok());
  const absl::Status status = DB::Open(options_, "/db").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(table));
  options_.paranoid_checks = false;
  Open();
  EXPECT_NE(Get(Key(0)), "(absent)") << "an error, not a wrong no";
  ASSERT_TRUE(Put("new", "v").ok());
  EXPECT_EQ(Get("new"), "v");
}

}  // namespace
}  // namespace sievedb
