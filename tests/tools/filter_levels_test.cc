#include "tools/filter_levels.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlacedFilter Placed(std::string database, int level, uint64_t keys, uint64_t bytes, double fpr) {
  return {{std::move(database), level}, keys, bytes, fpr};
}

TEST(FilterLevelsTest, LevelZeroAddsUpAndADeeperLevelIsAMean) {
  const std::vector<DatabaseFilters> sums = SumFilters({
      Placed("db", 2, 300, 600, 0.01),
      Placed("db", 0, 100, 125, 0.02),
      Placed("db", 2, 100, 100, 0.05),
      Placed("db", 0, 50, 0, 1),  // no filter: always read
      Placed("db", kUnlisted, 1000, 10, 0.5),
  });
  ASSERT_EQ(sums.size(), 1u);
  const DatabaseFilters& db = sums[0];
  ASSERT_EQ(db.levels.size(), 3u);
  EXPECT_EQ(db.levels[0].level, 0);
  EXPECT_EQ(db.levels[0].tables, 2u);
  EXPECT_EQ(db.levels[0].keys, 150u);
  EXPECT_DOUBLE_EQ(db.levels[0].bits_per_key, 8.0 * 125 / 150);
  EXPECT_DOUBLE_EQ(db.levels[0].expected_fpr, (100 * 0.02 + 50) / 150);
  EXPECT_DOUBLE_EQ(db.levels[0].false_reads, 1.02);
  EXPECT_EQ(db.levels[1].level, 2);
  EXPECT_DOUBLE_EQ(db.levels[1].bits_per_key, 14);
  EXPECT_DOUBLE_EQ(db.levels[1].expected_fpr, 0.02);
  EXPECT_DOUBLE_EQ(db.levels[1].false_reads, 0.02);
  EXPECT_EQ(db.levels[2].level, kUnlisted);
  EXPECT_EQ(db.levels[2].false_reads, 0);
  EXPECT_DOUBLE_EQ(db.false_reads, 1.04);
  EXPECT_EQ(db.tables, 4u);
}

TEST(FilterLevelsTest, DatabasesAreApart) {
  const std::vector<DatabaseFilters> sums =
      SumFilters({Placed("b", 1, 10, 10, 0.1), Placed("", kNoDatabase, 10, 10, 0.3),
                  Placed("a", 1, 10, 10, 0.2), Placed("", kNoDatabase, 30, 10, 0.1)});
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0].database, "b");
  EXPECT_DOUBLE_EQ(sums[0].false_reads, 0.1);
  EXPECT_EQ(sums[1].database, "");
  EXPECT_DOUBLE_EQ(sums[1].false_reads, 0.4);
  EXPECT_DOUBLE_EQ(sums[1].levels[0].expected_fpr, 0.15);
  EXPECT_TRUE(DatabaseFiltersJson(sums[1])["database"].is_null());
  EXPECT_EQ(DatabaseFiltersJson(sums[1])["levels"][0]["level"], "-");
  EXPECT_EQ(sums[2].database, "a");
  EXPECT_TRUE(SumFilters({}).empty());
}

TEST(FilterLevelsTest, NoKeysAreNoDivision) {
  const DatabaseFilters sum = SumFilters({Placed("db", 1, 0, 32, 0)})[0];
  EXPECT_EQ(sum.levels[0].bits_per_key, 0);
  EXPECT_EQ(sum.false_reads, 0);
}

TEST(FilterLevelsTest, TheTextSaysWhatIsMissing) {
  DatabaseFilters sum = SumFilters({Placed("db", 1, 10, 10, 0.1)})[0];
  sum.manifest_tables = 1;
  EXPECT_THAT(DatabaseFiltersText(sum), Not(HasSubstr("are not in these figures")));
  sum.manifest_tables = 3;
  EXPECT_THAT(DatabaseFiltersText(sum), HasSubstr("2 of the 3 tables of the MANIFEST"));
}

class TablePlacesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(path_);
    Options options;
    options.create_if_missing = true;
    auto db = DB::Open(options, path_);
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
    for (const char* key : {"a", "b"}) {
      ASSERT_TRUE(db_->Put(WriteOptions(), key, "1").ok());
    }
    ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  }
  void TearDown() override {
    db_.reset();
    std::filesystem::remove_all(path_);
  }
  std::string Table() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().extension() == ".sst") return entry.path().string();
    }
    return "";
  }

  const std::string path_ = testing::TempDir() + "sievedb_table_places_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
  std::unique_ptr<DB> db_;
};

TEST_F(TablePlacesTest, ReadsTheLevelsBesideAWriter) {
  TablePlaces places;
  const TablePlace place = places.Of(Table());
  EXPECT_EQ(place.database, path_);
  EXPECT_GE(place.level, 0);
  EXPECT_EQ(places.TablesOf(path_), 1u);
  EXPECT_EQ(places.Of(path_ + "/999999.sst").level, kUnlisted);
  EXPECT_EQ(places.Of(path_ + "/other.sst").level, kUnlisted);
  EXPECT_EQ(places.Of(path_ + "//other.sst").database, path_);
  EXPECT_TRUE(places.status().ok()) << places.status();
}

TEST_F(TablePlacesTest, WithoutCurrentItIsNoDatabase) {
  const std::string table = Table();
  db_.reset();
  std::filesystem::remove(path_ + "/CURRENT");
  TablePlaces places;
  EXPECT_EQ(places.Of(table).level, kNoDatabase);
  EXPECT_EQ(places.Of(table).database, "");
  EXPECT_EQ(places.Of("no_such_directory/000001.sst").level, kNoDatabase);
  EXPECT_TRUE(places.status().ok()) << places.status();
}

TEST_F(TablePlacesTest, ADamagedCurrentIsTold) {
  const std::string table = Table();
  db_.reset();
  std::ofstream(path_ + "/CURRENT") << "nonsense\n";
  TablePlaces places;
  EXPECT_EQ(places.Of(table).level, kNoDatabase);
  EXPECT_EQ(places.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(places.status().message()), HasSubstr("CURRENT"));
}

}  // namespace
}  // namespace sievedb
