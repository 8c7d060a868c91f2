#include "db/filter_audit.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tests/db/db_test_util.h"
#include "util/mutex.h"

namespace sievedb {
namespace {

using testing::HasSubstr;
using testing::Not;

// What is wrong with filters that are otherwise blocked Bloom filters.
struct Lie {
  std::atomic<bool> always_maybe{false};
  Mutex mu;
  std::vector<std::string_view> loaded;  // the filters' bytes in memory
};

class LyingReader final : public FilterReader {
 public:
  LyingReader(std::unique_ptr<FilterReader> honest, std::shared_ptr<const Lie> lie)
      : honest_(std::move(honest)), lie_(std::move(lie)) {}
  bool MayContain(uint64_t hash) const override {
    return lie_->always_maybe.load(std::memory_order_relaxed) || honest_->MayContain(hash);
  }
  FilterFigures Figures() const override { return honest_->Figures(); }
  size_t MemoryBytes() const override { return honest_->MemoryBytes(); }

 private:
  const std::unique_ptr<FilterReader> honest_;
  const std::shared_ptr<const Lie> lie_;
};

class LyingPolicy final : public FilterPolicy {
 public:
  explicit LyingPolicy(std::shared_ptr<Lie> lie) : lie_(std::move(lie)) {}
  uint8_t Kind() const override { return 200; }
  const char* Name() const override { return "test.Lying"; }
  double BitsPerKey(const FilterContext& context) const override {
    return honest_->BitsPerKey(context);
  }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    return honest_->NewBuilder(context);
  }
  absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view bytes) const override {
    absl::StatusOr<std::unique_ptr<FilterReader>> honest = honest_->NewReader(bytes);
    if (!honest.ok()) return honest.status();
    MutexLock lock(&lie_->mu);
    lie_->loaded.push_back(bytes);
    return std::make_unique<LyingReader>(*std::move(honest), lie_);
  }

 private:
  const std::shared_ptr<const FilterPolicy> honest_ = NewBlockedBloomPolicy(10);
  const std::shared_ptr<Lie> lie_;
};

// Builders whose filters are made for a tenth of the keys that they get.
class OverfullPolicy final : public FilterPolicy {
 public:
  uint8_t Kind() const override { return honest_->Kind(); }
  const char* Name() const override { return "test.Overfull"; }
  double BitsPerKey(const FilterContext&) const override { return 10; }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    return honest_->NewBuilder(context);
  }
  absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view bytes) const override {
    return honest_->NewReader(bytes);
  }

 private:
  const std::shared_ptr<const FilterPolicy> honest_ = NewBlockedBloomPolicy(3);
};

class Recorder final : public EventListener {
 public:
  void OnFilterAboveExpectation(const FilterEvent& event) override {
    MutexLock lock(&mu_);
    events_.push_back(event);
  }
  std::vector<FilterEvent> events() {
    MutexLock lock(&mu_);
    return events_;
  }

 private:
  Mutex mu_;
  std::vector<FilterEvent> events_ ABSL_GUARDED_BY(mu_);
};

class FilterAuditTest : public DBTest {
 protected:
  FilterAuditTest() {
    options_.disable_auto_compaction = true;
    options_.write_buffer_bytes = 64 << 20;
    options_.plan_filter_memory = false;
    options_.statistics = nullptr;  // the audit does without
    options_.listeners.push_back(recorder_);
  }
  // Three tables of level 0, each with every third key: each covers all keys.
  void FillThreeTables(int keys) {
    for (int table = 0; table < 3; ++table) {
      for (int i = table; i < keys; i += 3) ASSERT_TRUE(Put(Key(i), Value(i)).ok());
      ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    }
  }
  // Of keys between those that are there.
  void AskForAbsent(int first, int last) {
    std::string value;
    for (int i = first; i < last; ++i) {
      ASSERT_EQ(db_->Get(ReadOptions(), Key(i % 2900) + "x" + std::to_string(i), &value).code(),
                absl::StatusCode::kNotFound);
    }
  }
  long FalseMaybes() {
    const std::string text = *db_->GetProperty("sievedb.filters");
    const size_t end = text.find('\n', text.find('\n') + 1);
    return std::stol(text.substr(text.rfind(' ', end)));
  }
  std::string Log() { return ReadFile("/db/LOG"); }

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

TEST_F(FilterAuditTest, HealthyFiltersAreShownAndNotTold) {
  Open();
  FillThreeTables(3000);
  AskForAbsent(0, 300'000);
  for (int i = 0; i < 30'000; ++i) ASSERT_EQ(Get(Key(i % 3000)), Value(i % 3000));
  const std::string text = *db_->GetProperty("sievedb.filters");
  int level = -1, tables = 0, filters = 0;
  long keys = 0;
  double bits = 0, plan = 0, mib = 0, expected = 0, observed = 0, low = 0, high = 0, no = 0,
         there = 0;
  long false_maybe = 0;
  ASSERT_EQ(std::sscanf(text.c_str() + text.find('\n') + 1,
                        "%d %d %d %ld %lf %lf %lf %lf%% %lf%% %lf-%lf%% %lf %lf %ld", &level,
                        &tables, &filters, &keys, &bits, &plan, &mib, &expected, &observed, &low,
                        &high, &no, &there, &false_maybe),
            14)
      << text;
  EXPECT_EQ(level, 0);
  EXPECT_EQ(filters, 3);
  EXPECT_EQ(keys, 3000);
  EXPECT_NEAR(expected, 0.95, 0.25);
  EXPECT_NEAR(observed, expected, 0.2 * expected);
  EXPECT_LE(low, observed);
  EXPECT_LE(observed, high);
  EXPECT_LT(high - low, 0.6 * expected);
  // Three tables are asked for each absent key, and fewer for one that is found early.
  EXPECT_NEAR(no, 900'000 + 30'000, 93'000);
  EXPECT_NEAR(there, 30'000, 9'000);
  EXPECT_NEAR(static_cast<double>(false_maybe), 9'000, 2'000);
  EXPECT_THAT(text, Not(HasSubstr("more pass than they should")));
  EXPECT_THAT(*db_->GetProperty("sievedb.filter-tables"), Not(HasSubstr("ABOVE")));
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_TRUE(recorder_->events().empty());
}

TEST_F(FilterAuditTest, AFilterThatAlwaysSaysMaybeIsToldOfOnceATable) {
  const auto lie = std::make_shared<Lie>();
  options_.filter_policy = std::make_shared<LyingPolicy>(lie);
  Open();
  FillThreeTables(3000);
  AskForAbsent(0, 20'000);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  EXPECT_TRUE(recorder_->events().empty());
  lie->always_maybe = true;
  AskForAbsent(20'000, 30'000);
  // Nobody asks for the audit but the reads themselves.
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  const std::vector<FilterEvent> events = recorder_->events();
  ASSERT_EQ(events.size(), 3u);
  for (const FilterEvent& event : events) {
    EXPECT_EQ(event.db_path, "/db");
    EXPECT_EQ(event.level, 0);
    EXPECT_EQ(event.filter_name, "test.Lying");
    EXPECT_EQ(event.keys, 1000u);
    EXPECT_EQ(event.promised_fpr, 0);
    EXPECT_NEAR(event.expected_fpr, 0.01, 0.004);
    EXPECT_GT(event.observed_fpr_low, 1.5 * event.expected_fpr);
    EXPECT_LE(event.observed_fpr_low, event.observed_fpr);
    EXPECT_LE(event.observed_fpr, event.observed_fpr_high);
    EXPECT_GE(event.false_positives, FilterTally::kLookAgain);
    EXPECT_THAT(event.advice, HasSubstr("CompactRange"));
  }
  AskForAbsent(30'000, 40'000);
  EXPECT_THAT(*db_->GetProperty("sievedb.filters"), HasSubstr("3 filters let more pass"));
  EXPECT_THAT(*db_->GetProperty("sievedb.filter-tables"), HasSubstr("ABOVE EXPECTATION"));
  EXPECT_EQ(recorder_->events().size(), 3u);
  EXPECT_THAT(Log(), HasSubstr("lets"));
  EXPECT_THAT(Log(), HasSubstr("of absent keys pass"));
}

TEST_F(FilterAuditTest, AnOverfullFilterIsToldOfThoughItsBitsExplainTheRate) {
  options_.filter_policy = std::make_shared<OverfullPolicy>();
  Open();
  FillThreeTables(3000);
  AskForAbsent(0, 20'000);
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  const std::vector<FilterEvent> events = recorder_->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_GT(events[0].expected_fpr, 0.1);
  EXPECT_NEAR(events[0].promised_fpr, 0.0096, 0.001);
  EXPECT_THAT(events[0].advice, HasSubstr("overfull"));
}

// A stray write: the bits in memory are no longer those of the file.
TEST_F(FilterAuditTest, DamagedMemoryIsToldOfAsSuch) {
  const auto lie = std::make_shared<Lie>();
  options_.filter_policy = std::make_shared<LyingPolicy>(lie);
  Open();
  FillThreeTables(3000);
  AskForAbsent(0, 10'000);
  EXPECT_THAT(*db_->GetProperty("sievedb.filters"), HasSubstr("expected"));  // counts the bits
  ASSERT_TRUE(recorder_->events().empty());
  // A builder opens what it made once, to describe it; what a table opens comes after.
  ASSERT_EQ(lie->loaded.size(), 6u);
  for (const size_t i : {1, 3, 5}) {
    const std::string_view bytes = lie->loaded[i];
    std::memset(const_cast<char*>(bytes.data()), 0xff, bytes.size() / 2);
  }
  AskForAbsent(10'000, 20'000);
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  const std::vector<FilterEvent> events = recorder_->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[0].advice, HasSubstr("the filter in memory is not what the file has"));
  EXPECT_GT(events[0].observed_fpr_low, events[0].expected_fpr);
}

// One absent key in a hundred is unlucky by design. Where it is a popular one, the rate
// that lookups see is far above the expected one, and no filter is to blame.
TEST_F(FilterAuditTest, AnUnluckyKeyThatIsAskedForAgainAndAgainIsNoFault) {
  Open();
  FillThreeTables(3000);
  AskForAbsent(0, 20'000);
  int unlucky = 0;
  for (long before = FalseMaybes();; ++unlucky) {
    ASSERT_LT(unlucky, 2000);
    AskForAbsent(unlucky, unlucky + 1);
    if (FalseMaybes() > before) break;
  }
  for (int again = 0; again < 20'000; ++again) AskForAbsent(unlucky, unlucky + 1);
  EXPECT_GT(FalseMaybes(), 20'000);
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_TRUE(recorder_->events().empty());
}

// What was written after a snapshot is in the filter, and a read of the snapshot does
// not find it.
TEST_F(FilterAuditTest, ReadsOfOldSnapshotsAreNotCounted) {
  Open();
  const auto snapshot = db_->GetSnapshot();
  FillThreeTables(3000);
  ReadOptions old;
  old.snapshot = snapshot;
  for (int i = 0; i < 30'000; ++i) ASSERT_EQ(Get(Key(i % 3000), old), "(absent)");
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_EQ(FalseMaybes(), 0);
  EXPECT_TRUE(recorder_->events().empty());
}

TEST_F(FilterAuditTest, CountsGoOnWhileTablesComeAndGo) {
  options_.filter_policy = NewBlockedBloomPolicy(4);
  Open();
  FillThreeTables(3000);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([this, t, &stop] {
      std::string value;
      for (int i = t; !stop.load(std::memory_order_relaxed); ++i) {
        EXPECT_FALSE(db_->Get(ReadOptions(), Key(i % 2900) + "y", &value).ok());
      }
    });
  }
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(db_->CompactRange(CompactRangeOptions(), nullptr, nullptr).ok());
    EXPECT_THAT(*db_->GetProperty("sievedb.filter-tables"), HasSubstr("expected"));
    for (int i = 0; i < 300; ++i) EXPECT_TRUE(Put(Key(10 * i), Value(i)).ok());
    EXPECT_TRUE(db_->Flush(FlushOptions()).ok());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(recorder_->events().empty());
}

TEST(FilterAuditRuleTest, OnlyMuchMoreThanChanceIsAbove) {
  FilterCounts counts;
  counts.sampled_no = 10'000;  // of 1.28 million
  counts.false_maybe = counts.false_maybe_keys = 13'000;
  EXPECT_FALSE(IsAboveExpectation(counts, 0.01, 0));
  counts.false_maybe = counts.false_maybe_keys = 18'000;  // 1.4 times
  EXPECT_FALSE(IsAboveExpectation(counts, 0.01, 0));
  counts.false_maybe = counts.false_maybe_keys = 26'000;
  EXPECT_TRUE(IsAboveExpectation(counts, 0.01, 0));
  // The promise counts where the bits that are set explain the rate.
  EXPECT_FALSE(IsAboveExpectation(counts, 0.02, 0.01));
  EXPECT_TRUE(IsAboveExpectation(counts, 0.02, 0.005));
  // A few keys that are asked for again and again.
  counts.false_maybe_keys = 100;
  EXPECT_FALSE(IsAboveExpectation(counts, 0.01, 0));
  // Nothing is known of the filter: only one that never says no is above that, and it
  // may be meant so.
  EXPECT_FALSE(IsAboveExpectation(counts, 0, 0));
  EXPECT_FALSE(IsAboveExpectation(FilterCounts(), 0.01, 0.01));
}

}  // namespace
}  // namespace sievedb
