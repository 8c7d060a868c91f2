// Databases whose levels hold several sorted runs.

#include "util/compaction_style.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/db/db_test_util.h"

namespace sievedb {
namespace {

constexpr int kLastLevel = 6;

struct LevelState {
  size_t runs = 0;
  uint64_t bytes = 0;
  uint64_t oldest_bytes = 0;  // of its oldest run
};

class CompactionStyleTest : public DBTest, public testing::WithParamInterface<CompactionStyle> {
 protected:
  CompactionStyleTest() {
    options_.compaction_style = GetParam();
    options_.write_buffer_bytes = 64 << 10;
    options_.level_base_bytes = 192 << 10;
    options_.target_file_bytes = 64 << 10;
    options_.level_size_multiplier = 4;
    options_.level0_file_trigger = 2;
    options_.compression = Compression::kNone;
  }

  // Of "sievedb.sstables", where a level's runs have a line each: no key holds "]".
  std::map<int, LevelState> Levels() {
    std::map<int, LevelState> levels;
    std::istringstream lines(db_->GetProperty("sievedb.sstables").value());
    for (std::string line; std::getline(lines, line);) {
      LevelState& level = levels[line[1] - '0'];
      ++level.runs;
      level.oldest_bytes = 0;
      for (size_t at = line.find(']'); at != line.npos; at = line.find(']', at + 1)) {
        level.oldest_bytes += std::strtoull(line.c_str() + at + 1, nullptr, 10);
      }
      level.bytes += level.oldest_bytes;
    }
    return levels;
  }

  void WaitUntilIdle() { ASSERT_TRUE(db_->WaitForBackgroundWork().ok()); }

  void PutRandom(int keys, int count) {
    for (int i = 0; i < count; ++i) {
      const int key = static_cast<int>(random_() % static_cast<uint64_t>(keys));
      expected_[Key(key)] = Value(i) + std::to_string(random_());
      ASSERT_TRUE(Put(Key(key), expected_[Key(key)]).ok());
    }
  }

  void CheckAll() {
    const auto it = db_->NewIterator(ReadOptions());
    auto expected = expected_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
      ASSERT_NE(expected, expected_.end()) << it->key();
      ASSERT_EQ(it->key(), expected->first);
      ASSERT_EQ(it->value(), expected->second);
    }
    ASSERT_TRUE(it->status().ok()) << it->status();
    ASSERT_EQ(expected, expected_.end());
    auto backward = expected_.rbegin();
    for (it->SeekToLast(); it->Valid(); it->Prev(), ++backward) {
      ASSERT_NE(backward, expected_.rend()) << it->key();
      ASSERT_EQ(it->key(), backward->first);
    }
    ASSERT_EQ(backward, expected_.rend());
    for (const auto& [key, value] : expected_) ASSERT_EQ(Get(key), value);
  }

  std::mt19937_64 random_{7};
  std::map<std::string, std::string> expected_;
};

TEST_P(CompactionStyleTest, OverwritesStayWithinTheSpaceBound) {
  options_.max_space_amplification = 1.5;
  Open();
  size_t most_runs = 0;
  for (int round = 0; round < 12; ++round) {
    PutRandom(12'000, 5000);
    WaitUntilIdle();
    std::map<int, LevelState> levels = Levels();
    uint64_t upper_bytes = 0;
    for (int level = 1; level <= kLastLevel; ++level) {
      upper_bytes += levels[level].bytes;
      most_runs = std::max(most_runs, levels[level].runs);
      EXPECT_LE(levels[level].runs, 3u);
    }
    EXPECT_LE(levels[kLastLevel].runs, GetParam() == CompactionStyle::kLazyLeveling ? 1u : 3u);
    const uint64_t oldest_bytes = levels[kLastLevel].oldest_bytes;
    upper_bytes -= oldest_bytes;
    if (upper_bytes >= options_.level_base_bytes) {
      EXPECT_LE(static_cast<double>(upper_bytes), 0.5 * static_cast<double>(oldest_bytes))
          << *db_->GetProperty("sievedb.levels");
    }
  }
  EXPECT_GT(most_runs, 1u);
  CheckAll();
}

// An older run of the same level holds the value: a tombstone that is dropped brings it back.
TEST_P(CompactionStyleTest, DeletedKeysStayDeletedAboveOlderRuns) {
  options_.max_space_amplification = 3;
  Open();
  bool was_deep = false;
  for (int round = 0; round < 30; ++round) {
    PutRandom(6000, 900);
    for (int i = 0; i < 900; ++i) {
      const std::string key = Key(static_cast<int>(random_() % 6000));
      ASSERT_TRUE(Delete(key).ok());
      expected_.erase(key);
    }
    if (round % 7 == 3) {
      const std::string end = Key(round * 150 + 400);
      ASSERT_TRUE(db_->DeleteRange(WriteOptions(), Key(round * 150), end).ok());
      expected_.erase(expected_.lower_bound(Key(round * 150)), expected_.lower_bound(end));
    }
    WaitUntilIdle();
    size_t runs = 0;
    for (const auto& [level, state] : Levels()) runs += level > 0 ? state.runs : 0;
    was_deep |= runs > 2;
    CheckAll();
  }
  EXPECT_TRUE(was_deep);
}

TEST_P(CompactionStyleTest, CompactRangeLeavesOneRunWithoutTombstones) {
  Open();
  PutRandom(5000, 8000);
  for (int i = 0; i < 5000; i += 3) {
    ASSERT_TRUE(Delete(Key(i)).ok());
    expected_.erase(Key(i));
  }
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  size_t runs = 0;
  for (const auto& [level, state] : Levels()) runs += state.runs;
  EXPECT_EQ(runs, 1u);
  EXPECT_EQ(*db_->GetProperty("sievedb.estimate-num-keys"), std::to_string(expected_.size()));
  CheckAll();
}

TEST_P(CompactionStyleTest, AnotherStyleTakesTheTreeOver) {
  Open();
  PutRandom(10'000, 20'000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  WaitUntilIdle();
  options_.compaction_style = CompactionStyle::kLeveled;
  Open();
  CheckAll();
  PutRandom(10'000, 3000);
  WaitUntilIdle();
  for (const auto& [level, state] : Levels()) {
    EXPECT_TRUE(level == 0 || state.runs == 1) << "level " << level << ": " << state.runs;
  }
  CheckAll();
  options_.compaction_style = GetParam();
  Open();
  PutRandom(10'000, 20'000);
  WaitUntilIdle();
  CheckAll();
}

TEST_P(CompactionStyleTest, LoadsInOrderMakeOneRunALevel) {
  Open();
  Fill(0, 30'000);
  WaitUntilIdle();
  for (const auto& [level, state] : Levels()) {
    EXPECT_TRUE(level == 0 || state.runs == 1) << "level " << level << ": " << state.runs;
  }
  EXPECT_EQ(Get(Key(12'345)), Value(12'345));
}

TEST_P(CompactionStyleTest, ASnapshotSeesWhatItSaw) {
  Open();
  PutRandom(3000, 6000);
  const auto before = expected_;
  ReadOptions old;
  old.snapshot = db_->GetSnapshot();
  for (int i = 0; i < 3000; i += 2) ASSERT_TRUE(Delete(Key(i)).ok());
  PutRandom(3000, 20'000);
  WaitUntilIdle();
  for (const auto& [key, value] : before) ASSERT_EQ(Get(key, old), value);
}

INSTANTIATE_TEST_SUITE_P(Styles, CompactionStyleTest,
                         testing::Values(CompactionStyle::kLazyLeveling, CompactionStyle::kTiered),
                         [](const auto& style) -> std::string {
                           return CompactionStyleName(style.param);
                         });

}  // namespace
}  // namespace sievedb
