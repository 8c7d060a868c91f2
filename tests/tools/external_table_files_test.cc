#include "tools/external_table_files.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "sievedb/db.h"

namespace sievedb {
namespace {

std::string Key(int i) { return "key" + std::to_string(100000 + i); }

class ExternalTableFilesTest : public testing::Test {
 protected:
  ExternalTableFilesTest() {
    options_.file_system = NewMemoryFileSystem();
    options_.compression = Compression::kNone;
    options_.target_file_bytes = 64 << 10;
    auto db = DB::Open(options_, "/db");
    EXPECT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }

  // That of the database, and of nothing else.
  void ExpectNothingLeft() { EXPECT_EQ(options_.file_system->GetChildren("/")->size(), 1u); }

  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_F(ExternalTableFilesTest, CutsAtTheTargetSize) {
  {
    ExternalTableFiles files(options_, "/db///", 3);
    EXPECT_EQ(files.tables(), 0u);
    for (int i = 0; i < 3000; ++i) {
      ASSERT_TRUE(files.Put(Key(i), std::string(100, 'v')).ok());
    }
    EXPECT_TRUE(*options_.file_system->FileExists("/db.load-3-0.sst"));
    ASSERT_TRUE(files.Ingest(db_.get()).ok());
    EXPECT_GE(files.tables(), 5u);
    EXPECT_LE(files.tables(), 7u);
    EXPECT_EQ(*db_->GetProperty("sievedb.num-files-at-level6"), std::to_string(files.tables()));
  }
  ExpectNothingLeft();
  const auto it = db_->NewIterator(ReadOptions());
  int n = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++n) ASSERT_EQ(it->key(), Key(n));
  EXPECT_EQ(n, 3000);
  EXPECT_TRUE(db_->VerifyChecksums().ok());
}

TEST_F(ExternalTableFilesTest, WhatIsNotIngestedIsDeleted) {
  for (const int entries : {0, 1, 3000}) {
    {
      ExternalTableFiles files(options_, "/db", 0);
      for (int i = 0; i < entries; ++i) {
        ASSERT_TRUE(files.Put(Key(i), std::string(100, 'v')).ok());
      }
      EXPECT_TRUE(absl::IsInvalidArgument(files.Put(Key(0), "again")) || entries == 0);
    }
    ExpectNothingLeft();
  }
  EXPECT_EQ(*db_->GetProperty("sievedb.total-sst-bytes"), "0");
}

TEST_F(ExternalTableFilesTest, NothingIsNothingToIngest) {
  ExternalTableFiles files(options_, "/db", 0);
  EXPECT_TRUE(files.Ingest(db_.get()).ok());
  EXPECT_EQ(db_->LatestSequence(), 0u);
}

}  // namespace
}  // namespace sievedb
