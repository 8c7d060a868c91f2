#include "db/table_opener.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using version_test::TableStore;

TEST(TableOpenerTest, OpensOnceAndBelongsToTheFile) {
  TableStore store;
  const auto written = store.Write({{"a", 1, "v"}});
  ASSERT_NE(written->table.load(), nullptr);  // who wrote it has opened it
  const auto file = TableStore::Closed(*written);
  const uint64_t opened = store.options.statistics->Get(Counter::kTablesOpened);
  const auto table = store.opener->Get(*file);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(*table, file->table.load());
  EXPECT_EQ((*table)->properties().entries, 1u);
  EXPECT_EQ(*store.opener->Get(*file), *table);
  EXPECT_EQ(*store.opener->Open(*file), *table);
  EXPECT_EQ(store.options.statistics->Get(Counter::kTablesOpened), opened + 1);
}

TEST(TableOpenerTest, MissingTableIsDataLossNotNotFound) {
  TableStore store;
  const auto file = version_test::MakeFile(77, "a", "b");
  const absl::Status status = store.opener->Get(*file).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("db/000077.sst"));
}

TEST(TableOpenerTest, AnErrorIsNotKept) {
  auto faults = std::make_shared<FaultFileSystem>();
  TableStore store(faults);
  const auto file = TableStore::Closed(*store.Write({{"a", 1, "v"}}));
  faults->Fail(FileOp::kRead, ".sst", absl::UnavailableError("I/O error"));
  EXPECT_TRUE(absl::IsUnavailable(store.opener->Get(*file).status()));
  EXPECT_EQ(file->table.load(), nullptr);
  EXPECT_TRUE(store.opener->Get(*file).ok());
}

TEST(TableOpenerTest, OfAnotherSizeOrNumberIsDamage) {
  TableStore store;
  const auto written = store.Write({{"a", 1, "v"}});
  const auto longer = TableStore::Closed(*written);
  longer->file_bytes += 1;
  EXPECT_TRUE(absl::IsDataLoss(store.opener->Get(*longer).status()));
  const auto other = TableStore::Closed(*written);
  other->number = 50;
  ASSERT_TRUE(store.options.file_system->RenameFile("db/000001.sst", "db/000050.sst").ok());
  EXPECT_TRUE(absl::IsDataLoss(store.opener->Get(*other).status()));
}

TEST(TableOpenerTest, ManyThreadsGetOneTable) {
  TableStore store;
  std::vector<std::shared_ptr<FileMeta>> files;
  for (uint64_t i = 1; i <= 20; ++i) {
    files.push_back(TableStore::Closed(*store.Write({{"key", i, "v"}})));
  }
  std::vector<std::vector<const TableReader*>> seen(4);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&] {
      for (const auto& file : files) {
        const auto table = store.opener->Get(*file);
        ASSERT_TRUE(table.ok()) << table.status();
        EXPECT_EQ((*table)->properties().largest_sequence, file->largest_sequence);
        mine.push_back(*table);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : seen) EXPECT_EQ(mine, seen[0]);
}

}  // namespace
}  // namespace sievedb
