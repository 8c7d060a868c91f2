// That filters are used at all: after reopening, under other policies, for the keys that
// are really there, from memory.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/filter.h"
#include "tests/db/db_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

class FilterUseTest : public DBTest {
 protected:
  FilterUseTest() {
    options_.disable_auto_compaction = true;
    options_.write_buffer_bytes = 64 << 20;
    options_.target_file_bytes = 64 << 20;  // one table a run, with no gaps
    options_.compression = Compression::kNone;
  }

  void Flush() { ASSERT_TRUE(db_->Flush(FlushOptions()).ok()); }
  // All tables written anew, with what the options say now.
  void Rewrite() {
    CompactRangeOptions rewrite;
    rewrite.rewrite_bottommost = true;
    ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
  }
  // Open, and all that opening leaves to the background.
  void OpenWarm() {
    Open();
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  }
  uint64_t Counted(Counter counter) { return options_.statistics->Get(counter); }
  // Lookups of absent keys between those that Fill(0, n) wrote, and of the present ones.
  FilterLevelCounts Ask(int n) {
    options_.statistics->Reset();
    for (int i = 0; i < n - 1; ++i) {
      EXPECT_EQ(Get(Key(i) + "x"), "(absent)");
      if (i % 10 == 0) {
        EXPECT_EQ(Get(Key(i)), Value(i));
      }
    }
    return FilterCounts();
  }
  uint64_t FilterBytes() {
    const std::string text = *db_->GetProperty("sievedb.memory");
    const std::string_view name = "filters bytes";
    const size_t at = text.find(name) + name.size();
    uint64_t bytes = 0;
    EXPECT_TRUE(absl::SimpleAtoi(text.substr(at, text.find('\n', at) - at), &bytes)) << text;
    return bytes;
  }
};

// An old table's filter is asked whatever the policy is now, and a new one's has the new kind.
TEST_F(FilterUseTest, AReopenedDatabaseAndAnotherPolicyStillUseFilters) {
  constexpr int kKeys = 3000;
  Open();
  Fill(0, kKeys);
  Flush();
  std::vector<std::shared_ptr<const FilterPolicy>> policies = {NewBlockedBloomPolicy(10),
                                                               NewBlockedBloomPolicy(12),
                                                               NewBloomPolicy(10),
                                                               NewRibbonPolicy(10),
                                                               NewDenseBlockedBloomPolicy(10),
                                                               NewBinaryFusePolicy(),
                                                               nullptr};
  for (const bool rewritten : {false, true}) {
    for (const auto& policy : policies) {
      if (rewritten && policy == nullptr) continue;
      SCOPED_TRACE(absl::StrFormat("%s, %s", policy == nullptr ? "none" : policy->Name(),
                                   rewritten ? "rewritten" : "as before"));
      options_.filter_policy = policy;
      OpenWarm();
      if (rewritten) Rewrite();
      const FilterLevelCounts counts = Ask(kKeys);
      EXPECT_EQ(counts.checked, kKeys - 1u + (kKeys + 8) / 10);
      EXPECT_GT(counts.said_no, kKeys * 97u / 100);
      EXPECT_EQ(counts.maybe_present, (kKeys + 8u) / 10);
    }
  }
  // Only who writes without a policy goes without.
  options_.filter_policy = nullptr;
  OpenWarm();
  Rewrite();
  EXPECT_EQ(Ask(kKeys).checked, 0u);
  EXPECT_EQ(FilterBytes(), 0u);
}

TEST_F(FilterUseTest, AnyBitsPerKeyServe) {
  constexpr int kKeys = 1000;
  for (const double bits :
       {0.0, 0.5, -1.0, 1000.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const auto& policy : {NewBlockedBloomPolicy(bits), NewDenseBlockedBloomPolicy(bits),
                               NewBloomPolicy(bits), NewRibbonPolicy(bits)}) {
      SCOPED_TRACE(absl::StrFormat("%s, %f", policy->Name(), bits));
      db_ = nullptr;
      options_.file_system = NewMemoryFileSystem();
      options_.filter_policy = policy;
      Open();
      Fill(0, kKeys);
      Flush();
      const FilterLevelCounts counts = Ask(kKeys);
      EXPECT_EQ(counts.maybe_present, 100u);
      // Even one bit a key is good for something.
      EXPECT_GT(counts.said_no, 200u);
      EXPECT_LE(FilterBytes(), kKeys * 64u / 8 + 1024);
    }
  }
}

// Neither the writes that were planned nor the entries that a compaction read.
TEST_F(FilterUseTest, SizedFromTheKeysThatACompactionKept) {
  constexpr int kKeys = 20'000;
  Open();
  Fill(0, kKeys);
  Fill(0, kKeys);  // each key twice in a table is one key
  Flush();
  const uint64_t full = FilterBytes();
  EXPECT_GE(full, kKeys * 10u / 8);
  EXPECT_LE(full, kKeys * 11u / 8);
  for (int i = 0; i < kKeys; ++i) {
    if (i % 100 != 0) {
      ASSERT_TRUE(Delete(Key(i)).ok());
    }
  }
  ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
  ASSERT_EQ(TotalFiles(), 1);
  EXPECT_LE(FilterBytes(), full / 100 + 256);
  options_.statistics->Reset();
  for (int i = 0; i < kKeys - 100; ++i) {
    ASSERT_EQ(Get(Key(i)), i % 100 == 0 ? Value(i) : "(absent)");
  }
  EXPECT_EQ(FilterCounts().maybe_present, (kKeys - 100u) / 100);
  EXPECT_LT(FilterCounts().maybe_absent, kKeys * 2u / 100);
}

// With no block cache to speak of and nearly no file handles, lookups that a filter answers
// read nothing, now and later.
TEST_F(FilterUseTest, FiltersAreCountedInMemoryAndNeverReadAgain) {
  constexpr int kKeys = 6000;
  const auto faults = std::make_shared<FaultFileSystem>();
  options_.file_system = faults;
  options_.block_cache_bytes = 8 << 10;
  options_.max_open_files = 1;
  options_.plan_filter_memory = false;
  Open();
  for (int i = 0; i < 6; ++i) {
    // Each covers the range of all.
    for (int key = i; key < kKeys; key += 6) ASSERT_TRUE(Put(Key(key), Value(key)).ok());
    Flush();
  }
  OpenWarm();
  ASSERT_EQ(Files(0), 6);
  EXPECT_GE(FilterBytes(), kKeys * 10u / 8);
  EXPECT_LE(FilterBytes(), kKeys * 12u / 8 + 6 * 256);
  const uint64_t opened = Counted(Counter::kTablesOpened);
  // A scan goes through all blocks, and would drive out whatever can be.
  for (int round = 0; round < 3; ++round) {
    ReadOptions scan;
    EXPECT_GT(Scan(scan).size(), 100u * kKeys);
    options_.statistics->Reset();
    const uint64_t reads = faults->operations(FileOp::kRead);
    for (int i = 0; i < kKeys - 6; ++i) ASSERT_EQ(Get(Key(i) + "x"), "(absent)");
    const FilterLevelCounts counts = FilterCounts();
    EXPECT_GT(counts.checked, 6u * (kKeys - 12));
    EXPECT_GT(counts.said_no, counts.checked * 98 / 100);
    // One block at most where a filter was wrong, and nothing else.
    EXPECT_LE(faults->operations(FileOp::kRead) - reads, counts.maybe_absent);
    EXPECT_EQ(Counted(Counter::kTablesOpened), 0u);
  }
  EXPECT_GE(opened, 6u);
}

// A table's filter is read when the table is opened, which no Get waits for. A first Get
// costs its block, however large the filter is.
TEST_F(FilterUseTest, TheFirstGetReadsNoFilter) {
  constexpr int kKeys = 50'000;
  const auto faults = std::make_shared<FaultFileSystem>();
  options_.file_system = faults;
  options_.filter_policy = NewBlockedBloomPolicy(24);
  Open();
  Fill(0, kKeys);
  Flush();
  EXPECT_GT(FilterBytes(), 140'000u);
  OpenWarm();
  options_.statistics->Reset();
  uint64_t reads = faults->operations(FileOp::kRead);
  EXPECT_EQ(Get(Key(7) + "x"), "(absent)");
  EXPECT_EQ(faults->operations(FileOp::kRead), reads);
  EXPECT_EQ(FilterCounts().said_no, 1u);
  EXPECT_EQ(Get(Key(7)), Value(7));
  EXPECT_EQ(faults->operations(FileOp::kRead), reads + 1);
  EXPECT_LE(Counted(Counter::kBlockReadBytes), 5000u);
}

// Four runs, and of each of 81 keys every way to be put, deleted or not mentioned in each:
// one run's "no" says nothing about the next one, and the newest that has the key decides.
TEST_F(FilterUseTest, ANoSkipsItsRunAndNoOther) {
  Open();
  constexpr int kRuns = 4;
  std::vector<std::string> want(81, "(absent)");
  for (int run = 0, unit = 1; run < kRuns; ++run, unit *= 3) {
    for (int i = 0; i < 81; ++i) {
      const int fate = i / unit % 3;
      if (fate == 1) {
        want[static_cast<size_t>(i)] = absl::StrFormat("of %d", run);
        ASSERT_TRUE(Put(Key(i), want[static_cast<size_t>(i)]).ok());
      } else if (fate == 2) {
        want[static_cast<size_t>(i)] = "(absent)";
        ASSERT_TRUE(Delete(Key(i)).ok());
      }
    }
    // So that every run covers every key.
    ASSERT_TRUE(Put("a", "first").ok());
    ASSERT_TRUE(Put("z", "last").ok());
    Flush();
    if (run == 0) {
      ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    }
  }
  ASSERT_EQ(Files(0), kRuns - 1);
  std::vector<std::string> keys;
  for (int i = 0; i < 81; ++i) keys.push_back(Key(i));
  const std::vector<std::string_view> asked(keys.begin(), keys.end());
  std::vector<PinnedValue> values(keys.size());
  std::vector<absl::Status> statuses(keys.size());
  db_->MultiGet(ReadOptions(), asked, absl::MakeSpan(values), absl::MakeSpan(statuses));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(Get(keys[i]), want[i]) << keys[i];
    if (want[i] == "(absent)") {
      EXPECT_EQ(statuses[i].code(), absl::StatusCode::kNotFound) << keys[i];
    } else {
      ASSERT_TRUE(statuses[i].ok()) << keys[i] << statuses[i];
      EXPECT_EQ(values[i].view(), want[i]) << keys[i];
      EXPECT_TRUE(db_->MayContain(ReadOptions(), keys[i])) << keys[i];
    }
  }
  EXPECT_GT(FilterCounts().said_no, 50u);
}

}  // namespace
}  // namespace sievedb
