#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/db_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

class MultiGetTest : public DBTest {};

TEST_F(MultiGetTest, ReadsAllKeysAtOneMoment) {
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(Put(Key(1), "newer").ok());
  const std::string keys[] = {Key(2999), Key(1), "absent", Key(1), ""};
  const std::vector<std::string_view> views(std::begin(keys), std::end(keys));
  std::vector<PinnedValue> values(views.size());
  std::vector<absl::Status> statuses(views.size());
  db_->MultiGet(ReadOptions(), views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  EXPECT_EQ(values[0].view(), Value(2999));
  EXPECT_EQ(values[1].view(), "newer");
  EXPECT_EQ(statuses[2].code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(values[3].view(), "newer");
  EXPECT_EQ(statuses[4].code(), absl::StatusCode::kNotFound);
}

// More keys than go together, over memtables and levels, open tables and such that are
// not, with and without a cache; a snapshot; and all of it as Get says.
TEST_F(MultiGetTest, SaysWhatGetSays) {
  for (const bool with_cache : {true, false}) {
    options_.block_cache = with_cache ? NewBlockCache(1 << 20) : nullptr;
    Open();
    std::mt19937_64 random(5);
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 400; ++i) {
        const int key = static_cast<int>(random() % 3000);
        if (random() % 5 == 0) {
          ASSERT_TRUE(Delete(Key(key)).ok());
        } else {
          ASSERT_TRUE(Put(Key(key), Value(key + round)).ok());
        }
      }
      if (round == 2) {
        ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
      } else if (round != 5) {
        ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
      }
      if (round == 4) Open();  // none of the tables is open then
      ReadOptions options;
      if (round == 3) {
        options.snapshot = db_->GetSnapshot();
        ASSERT_TRUE(Put(Key(1), "not in the snapshot").ok());
      }
      std::vector<std::string> keys;
      for (int i = 0; i < 100; ++i) keys.push_back(Key(static_cast<int>(random() % 4000)));
      keys.push_back("");
      keys.push_back(keys[0]);
      keys.push_back(Key(1));
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      std::vector<PinnedValue> values(keys.size());
      std::vector<absl::Status> statuses(keys.size(), absl::UnknownError("not set"));
      db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
      for (size_t i = 0; i < keys.size(); ++i) {
        std::string value;
        ASSERT_EQ(db_->Get(options, keys[i], &value), statuses[i]);
        if (!statuses[i].ok()) continue;
        ASSERT_EQ(values[i].view(), value);
      }
    }
    db_ = nullptr;
    ASSERT_TRUE(DestroyDB(options_, "/db").ok());
  }
}

TEST_F(MultiGetTest, GivesAnErrorToTheKeysItConcerns) {
  Open();
  Fill(0, 2000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  ASSERT_TRUE(Put(Key(3), "in the memtable").ok());
  db_ = nullptr;
  const std::vector<std::string> tables = FilesEndingWith(".sst");
  ASSERT_FALSE(tables.empty());
  FlipByte(tables[0], 100);  // in its first block
  Open();
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; i += 40) keys.push_back(Key(i));
  keys.push_back("absent");
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<PinnedValue> values(keys.size());
  std::vector<absl::Status> statuses(keys.size());
  db_->MultiGet(ReadOptions(), views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  size_t damaged = 0;
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    if (statuses[i].ok()) {
      EXPECT_EQ(values[i].view(), Value(static_cast<int>(i) * 40));
    } else {
      EXPECT_TRUE(absl::IsDataLoss(statuses[i])) << statuses[i];
      ++damaged;
    }
  }
  EXPECT_GE(damaged, 1u);
  EXPECT_LT(damaged, keys.size() / 2);
  EXPECT_TRUE(absl::IsNotFound(statuses.back())) << statuses.back();
}

TEST_F(MultiGetTest, AsyncIoTellsOfTheBlocksThatAreNotCached) {
  const auto counting = std::make_shared<FaultFileSystem>(options_.file_system, "/");
  options_.file_system = counting;
  Open();
  Fill(0, 3000);
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; i += 100) keys.push_back(Key(i));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<PinnedValue> values(keys.size());
  std::vector<absl::Status> statuses(keys.size());
  ReadOptions options;
  options.fill_cache = false;
  const uint64_t before = counting->readaheads();
  db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  EXPECT_EQ(counting->readaheads(), before);
  options.async_io = true;
  db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  EXPECT_GE(counting->readaheads(), before + keys.size() / 2);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(statuses[i].ok()) << statuses[i];
    EXPECT_EQ(values[i].view(), Value(static_cast<int>(i) * 100));
  }
  // What is cached needs no disk.
  options.fill_cache = true;
  db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  const uint64_t after = counting->readaheads();
  db_->MultiGet(options, views, absl::MakeSpan(values), absl::MakeSpan(statuses));
  EXPECT_EQ(counting->readaheads(), after);
}

}  // namespace
}  // namespace sievedb
