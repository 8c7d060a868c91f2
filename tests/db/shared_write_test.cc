// That a warm lookup takes no lock and writes no memory that another thread's lookup
// touches: counted, instruction by instruction.

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "sievedb/comparator.h"
#include "sievedb/db.h"
#include "tests/db/db_test_util.h"
#include "tests/memory_trace.h"
#include "util/mutex.h"

namespace sievedb {
namespace {

#define SKIP_WHERE_UNSUPPORTED(writes) \
  if (!(writes).unsupported.empty()) GTEST_SKIP() << (writes).unsupported

// --- what the count is worth

constexpr uint64_t kTimes = 10;

// What f does, kTimes on each of two threads.
template <typename F>
SharedWrites Traced(F f) {
  return CountSharedWrites([&f](MemoryTrace* trace) {
    for (uint64_t i = 0; i < kTimes; ++i) f();
    trace->Begin();
    for (uint64_t i = 0; i < kTimes; ++i) f();
    trace->End();
  });
}

TEST(MemoryTraceTest, ASharedCounterIsCounted) {
  alignas(64) static std::atomic<uint64_t> counter{0};
  const SharedWrites add = Traced([] { counter.fetch_add(1, std::memory_order_relaxed); });
  SKIP_WHERE_UNSUPPORTED(add);
  EXPECT_EQ(add.failed, "");
  EXPECT_EQ(add.shared, 2 * kTimes);
  EXPECT_NE(add.where.find("db_test+0x"), std::string::npos) << add.where;
  const SharedWrites store = Traced([] { counter.store(1, std::memory_order_relaxed); });
  EXPECT_EQ(store.shared, 2 * kTimes);
}

TEST(MemoryTraceTest, ALockIsCounted) {
  alignas(64) static Mutex mu;
  const SharedWrites lock = Traced([] { const MutexLock guard(&mu); });
  SKIP_WHERE_UNSUPPORTED(lock);
  EXPECT_EQ(lock.failed, "");
  EXPECT_GE(lock.shared, 2 * 2 * kTimes);
}

TEST(MemoryTraceTest, MemoryOfOneThreadAndReadsAreNotCounted) {
  struct alignas(64) Line {
    uint64_t value = 0;
  };
  static const auto shared = std::make_unique<Line>();
  static thread_local std::unique_ptr<Line> mine;
  static thread_local uint64_t local = 0;
  const SharedWrites writes = Traced([] {
    if (mine == nullptr) mine = std::make_unique<Line>();
    mine->value += shared->value + local;
    ++local;
  });
  SKIP_WHERE_UNSUPPORTED(writes);
  EXPECT_EQ(writes.failed, "");
  EXPECT_EQ(writes.shared, 0u) << writes.where;
  EXPECT_GE(writes.writes, 2 * kTimes);
  EXPECT_GE(writes.reads, 2 * kTimes);
}

// A line that one thread writes and the other only reads is as bad.
TEST(MemoryTraceTest, AWriteToWhatAnotherThreadReadsIsCounted) {
  alignas(64) static std::atomic<uint64_t> value{0};
  static std::atomic<int> threads{0};
  const SharedWrites writes = CountSharedWrites([](MemoryTrace* trace) {
    const bool writer = threads.fetch_add(1) == 0;
    uint64_t sum = 0;
    trace->Begin();
    if (writer) {
      value.store(7, std::memory_order_relaxed);
    } else {
      sum += value.load(std::memory_order_relaxed);
    }
    trace->End();
    trace->Require(writer || sum == 7);
  });
  SKIP_WHERE_UNSUPPORTED(writes);
  EXPECT_EQ(writes.failed, "");
  EXPECT_EQ(writes.shared, 1u);
}

TEST(MemoryTraceTest, ABodyThatFailsIsNoResult) {
  const SharedWrites writes = CountSharedWrites([](MemoryTrace* trace) {
    trace->Begin();
    trace->End();
    trace->Require(false);
  });
  SKIP_WHERE_UNSUPPORTED(writes);
  EXPECT_NE(writes.failed, "");
}

// --- the database

// Counts its comparisons where all threads can see: the mutant.
class CountingComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    comparisons_.fetch_add(1, std::memory_order_relaxed);
    return a.compare(b);
  }
  const char* Name() const override { return "test.Counting"; }

 private:
  alignas(64) mutable std::atomic<uint64_t> comparisons_{0};
};

class SharedWriteTest : public DBTest {
 protected:
  static constexpr int kKeys = 3000;

  // Keys of every third number: in the last level, in a newer run, in the memtable. Each
  // run covers all.
  void Build() {
    options_.disable_auto_compaction = true;
    db_ = nullptr;
    options_.file_system = NewMemoryFileSystem();
    Open();
    for (int run = 0; run < 3; ++run) {
      for (int i = run; i < kKeys; i += 3) ASSERT_TRUE(Put(Key(i), Small(i)).ok());
      if (run == 2) break;
      ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
      if (run == 0) {
        ASSERT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
      }
    }
    ASSERT_EQ(Files(0), 1);
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  }
  // In a string, it lies where the string does.
  static std::string Small(int i) { return "v" + std::to_string(i); }

  // f(i) for some keys, as often as caches want it, then traced.
  template <typename F>
  SharedWrites TraceKeys(F f) {
    return CountSharedWrites([&f](MemoryTrace* trace) {
      std::vector<int> keys;
      for (int i = 100; i < kKeys - 1; i += 97) keys.push_back(i);
      bool right = true;
      for (int round = 0; round < 20; ++round) {
        for (const int i : keys) right = f(i) && right;
      }
      trace->Require(right);
      trace->Begin();
      for (const int i : keys) right = f(i) && right;
      trace->End();
      trace->Require(right);
    });
  }

  SharedWrites TraceGets(bool present) {
    return TraceKeys([this, present](int i) {
      char key[32];
      const int n = std::snprintf(key, sizeof(key), "key%08d%s", i, present ? "" : "x");
      std::string value;
      const absl::Status status =
          db_->Get(ReadOptions(), std::string_view(key, static_cast<size_t>(n)), &value);
      return present ? status.ok() && value[0] == 'v' : absl::IsNotFound(status);
    });
  }
};

void ExpectNoneShared(const SharedWrites& writes) {
  EXPECT_EQ(writes.failed, "");
  EXPECT_GT(writes.reads, 1000u);
  EXPECT_GT(writes.writes, 0u);  // at least of the epoch's record
  EXPECT_EQ(writes.shared, 0u) << writes.where;
}

TEST_F(SharedWriteTest, WarmGetsWriteNothingShared) {
  for (const bool counted : {false, true}) {
    options_.statistics = counted ? NewStatistics() : nullptr;
    Build();
    for (const bool present : {true, false}) {
      SCOPED_TRACE(present ? "present" : "absent");
      const SharedWrites writes = TraceGets(present);
      SKIP_WHERE_UNSUPPORTED(writes);
      ExpectNoneShared(writes);
    }
  }
}

TEST_F(SharedWriteTest, NeitherDoesAskingForAbsentKeysInOtherWays) {
  Build();
  const SharedWrites may_contain = TraceKeys([this](int i) {
    char key[32];
    const int n = std::snprintf(key, sizeof(key), "key%08d", i);
    return db_->MayContain(ReadOptions(), std::string_view(key, static_cast<size_t>(n)));
  });
  SKIP_WHERE_UNSUPPORTED(may_contain);
  ExpectNoneShared(may_contain);
  const SharedWrites many = TraceKeys([this](int i) {
    constexpr size_t kBatch = 4;
    char text[kBatch][32];
    std::string_view keys[kBatch];
    PinnedValue values[kBatch];
    absl::Status statuses[kBatch];
    for (size_t k = 0; k < kBatch; ++k) {
      const int n =
          std::snprintf(text[k], sizeof(text[k]), "key%08d%c", i, static_cast<int>('a' + k));
      keys[k] = std::string_view(text[k], static_cast<size_t>(n));
    }
    db_->MultiGet(ReadOptions(), keys, absl::MakeSpan(values), absl::MakeSpan(statuses));
    for (const absl::Status& status : statuses) {
      if (!absl::IsNotFound(status)) return false;
    }
    return true;
  });
  ExpectNoneShared(many);
}

// Why the header says so: the block's count of references, up and down, and nothing else.
TEST_F(SharedWriteTest, APinnedValueCountsAReferenceOnItsBlock) {
  options_.disable_auto_compaction = true;
  Open();
  Fill(0, kKeys);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  uint64_t gets = 0;
  for (int i = 100; i < kKeys - 1; i += 97) ++gets;
  const SharedWrites pinned = TraceKeys([this](int i) {
    char key[32];
    const int n = std::snprintf(key, sizeof(key), "key%08d", i);
    PinnedValue value;
    return db_->Get(ReadOptions(), std::string_view(key, static_cast<size_t>(n)), &value).ok() &&
           value.view().size() == 100;
  });
  SKIP_WHERE_UNSUPPORTED(pinned);
  EXPECT_EQ(pinned.failed, "");
  EXPECT_EQ(pinned.shared, 2 * 2 * gets) << pinned.where;
}

// The same lookups with one shared write in them are found out.
TEST_F(SharedWriteTest, OneThatIsAddedIsSeen) {
  static const CountingComparator comparator;
  options_.comparator = &comparator;
  Build();
  for (const bool present : {true, false}) {
    const SharedWrites writes = TraceGets(present);
    SKIP_WHERE_UNSUPPORTED(writes);
    EXPECT_EQ(writes.failed, "");
    EXPECT_GE(writes.shared, 2u * 29) << "at least one a lookup";
  }
}

}  // namespace
}  // namespace sievedb
