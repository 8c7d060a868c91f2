// The seed of a database's hashes: drawn once, kept, and of no consequence for what is
// found.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/version.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"
#include "util/coding.h"
#include "util/epoch.h"
#include "util/hash.h"

namespace sievedb {
namespace {

using version_test::Entry;
using version_test::TableStore;

TEST(HashSeedTest, TheOperatingSystemGivesDifferentOnes) {
  EXPECT_NE(PosixFileSystem()->RandomSeed(), PosixFileSystem()->RandomSeed());
  EXPECT_EQ(NewMemoryFileSystem()->RandomSeed(), NewMemoryFileSystem()->RandomSeed());
}

// Tables from other databases beside one's own, in one lookup and in a batch.
TEST(HashSeedTest, TablesOfSeveralSeedsServeOneLookup) {
  constexpr int kKeys = 300;
  constexpr uint64_t kSeed = 77;
  TableStore store;
  store.opener->SetHashSeed(kSeed);
  const auto key = [](int i) { return absl::StrFormat("%05d", i); };
  VersionEdit edit;
  const uint64_t seeds[] = {kSeed, 5, 0, 5};
  for (int run = 0; run < 4; ++run) {
    std::vector<Entry> entries = {{key(0), static_cast<uint64_t>(run + 1), "first"}};
    for (int i = 1 + run; i < kKeys; i += 5) {
      entries.push_back({key(i), static_cast<uint64_t>(run + 1), absl::StrFormat("run %d", run)});
    }
    entries.push_back({key(kKeys), static_cast<uint64_t>(run + 1), "last"});
    edit.added_files.emplace_back(run == 0 ? 0 : 7 - run, store.Write(entries, seeds[run]));
  }
  const Version empty(store.context.order, store.opener.get());
  const auto version = Version::Apply(empty, edit);
  ASSERT_TRUE(version.ok()) << version.status();

  const ReadOptions options;
  const EpochGuard guard;
  std::vector<std::string> keys;
  for (int i = 1; i < kKeys; ++i) keys.push_back(key(i));
  std::vector<std::string> values;
  for (const std::string& k : keys) {
    Lookup lookup(k, kMaxSequence, store.context.order.user(), options, store.statistics(), kSeed);
    Version::Candidates candidates;
    (*version)->FindCandidates(lookup, &candidates);
    EXPECT_EQ(candidates.size(), 4u);
    ASSERT_TRUE((*version)->Get(&candidates, &lookup).ok());
    EXPECT_TRUE(!lookup.decided() || (*version)->MayContain(lookup));
    values.emplace_back(lookup.value);
  }
  for (int i = 1; i < kKeys; ++i) {
    const std::string& value = values[static_cast<size_t>(i - 1)];
    EXPECT_EQ(value, i % 5 == 0 ? "" : absl::StrFormat("run %d", i % 5 - 1)) << i;
  }
  uint64_t said_no = 0;
  uint64_t false_positives = 0;
  for (int level = 0; level < kNumLevels; ++level) {
    said_no += store.options.statistics->GetFilterCounts(level).said_no;
    false_positives += store.options.statistics->GetFilterCounts(level).maybe_absent;
  }
  EXPECT_GT(said_no, 500u);
  EXPECT_LT(false_positives, 40u);

  for (size_t begin = 0; begin < keys.size(); begin += Version::kMaxBatch) {
    const size_t n = std::min(keys.size() - begin, Version::kMaxBatch);
    std::vector<Lookup> lookups;
    for (size_t i = 0; i < n; ++i) {
      lookups.emplace_back(keys[begin + i], kMaxSequence, store.context.order.user(), options,
                           store.statistics(), kSeed);
    }
    std::vector<absl::Status> statuses(n);
    (*version)->MultiGet(absl::MakeSpan(lookups), absl::MakeSpan(statuses));
    for (size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(statuses[i].ok()) << statuses[i];
      EXPECT_EQ(lookups[i].value, values[begin + i]);
    }
  }
}

// Keys whose hash with seed 0 falls into the first 1024th of every filter.
std::vector<std::string> CollidingKeys(size_t count) {
  std::vector<std::string> keys;
  for (uint64_t i = 0; keys.size() < count; ++i) {
    std::string key;
    AppendFixed64(&key, i);
    if (Hash64(key) >> 54 == 0) keys.push_back(std::move(key));
  }
  return keys;
}

class FloodingTest : public testing::Test {
 protected:
  FloodingTest() {
    options_.file_system = file_system_;
    options_.statistics = NewStatistics();
  }
  void Open() {
    db_ = nullptr;
    auto db = DB::Open(options_, "/db");
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }
  // Every second key is written, every other one asked for. How many of those were not
  // denied by the table's filter.
  uint64_t WriteAndAsk() {
    const std::vector<std::string> keys = CollidingKeys(kKeys);
    for (size_t i = 0; i < keys.size(); i += 2) {
      EXPECT_TRUE(db_->Put(WriteOptions(), keys[i], "v").ok());
    }
    EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
    return Ask(keys);
  }
  uint64_t Ask(const std::vector<std::string>& keys) {
    options_.statistics->Reset();
    std::string value;
    for (size_t i = 0; i < keys.size(); ++i) {
      const absl::Status status = db_->Get(ReadOptions(), keys[i], &value);
      EXPECT_EQ(status.ok(), i % 2 == 0) << i << " " << status;
    }
    uint64_t false_positives = 0;
    for (int level = 0; level < kNumLevels; ++level) {
      false_positives += options_.statistics->GetFilterCounts(level).maybe_absent;
    }
    return false_positives;
  }

  static constexpr size_t kKeys = 4000;
  const std::shared_ptr<FaultFileSystem> file_system_ = std::make_shared<FaultFileSystem>();
  Options options_;
  std::unique_ptr<DB> db_;
};

TEST_F(FloodingTest, KeysMadeToCollideDoNotWithTheSeed) {
  Open();
  EXPECT_LT(WriteAndAsk(), kKeys / 2 / 40);  // about 20 of 2000
  // The seed is kept: all is found after the file system would give another.
  file_system_->SetRandomSeed(12345);
  Open();
  EXPECT_LT(Ask(CollidingKeys(kKeys)), kKeys / 2 / 40);
}

TEST_F(FloodingTest, ADatabaseFromBeforeTheSeedStaysWithoutOne) {
  file_system_->SetRandomSeed(0);
  Open();
  // What the seed is for: nearly no absent key is denied.
  EXPECT_GT(WriteAndAsk(), kKeys / 2 * 9 / 10);
  file_system_->SetRandomSeed(12345);
  Open();
  EXPECT_GT(Ask(CollidingKeys(kKeys)), kKeys / 2 * 9 / 10);
  ASSERT_TRUE(db_->Put(WriteOptions(), "new", "v").ok());
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  Ask(CollidingKeys(kKeys));
  std::string value;
  EXPECT_TRUE(db_->Get(ReadOptions(), "new", &value).ok());
}

}  // namespace
}  // namespace sievedb
