#include "db/write_controller.h"

#include <string>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

WritePressure Level0(int files) {
  WritePressure pressure;
  pressure.level0_files = files;
  return pressure;
}

WritePressure Pending(uint64_t bytes) {
  WritePressure pressure;
  pressure.pending_compaction_bytes = bytes;
  return pressure;
}

WritePressure Memtables(int waiting) {
  WritePressure pressure;
  pressure.immutable_memtables = waiting;
  return pressure;
}

TEST(DecideStallTest, NothingBelowTheTriggers) {
  const Options options;
  EXPECT_EQ(DecideStall(options, {}).state, StallState::kNone);
  EXPECT_TRUE(DecideStall(options, {}).reason.empty());
  EXPECT_EQ(DecideStall(options, Level0(options.level0_slowdown_trigger - 1)).state,
            StallState::kNone);
  EXPECT_EQ(DecideStall(options, Pending(options.soft_pending_compaction_bytes - 1)).state,
            StallState::kNone);
  EXPECT_EQ(DecideStall(options, Memtables(options.max_write_buffers - 2)).state,
            StallState::kNone);
}

TEST(DecideStallTest, Level0IsASlope) {
  const Options options;
  double last = kMaxDelayedBytesPerSecond + 1;
  double step = 0;
  for (int files = options.level0_slowdown_trigger; files < options.level0_stop_trigger; ++files) {
    const StallDecision decision = DecideStall(options, Level0(files));
    ASSERT_EQ(decision.state, StallState::kDelayed) << files;
    EXPECT_LT(decision.bytes_per_second, last);
    EXPECT_LE(decision.bytes_per_second, kMaxDelayedBytesPerSecond);
    EXPECT_GE(decision.bytes_per_second, kMinDelayedBytesPerSecond);
    // No step is greater than another.
    if (files == options.level0_slowdown_trigger) {
      EXPECT_EQ(decision.bytes_per_second, kMaxDelayedBytesPerSecond);
    } else if (files == options.level0_slowdown_trigger + 1) {
      step = last - decision.bytes_per_second;
    } else {
      EXPECT_NEAR(last - decision.bytes_per_second, step, 1);
    }
    last = decision.bytes_per_second;
  }
  // The last one is no cliff either.
  EXPECT_NEAR(last - kMinDelayedBytesPerSecond, step, 1);
  const StallDecision stopped = DecideStall(options, Level0(options.level0_stop_trigger));
  EXPECT_EQ(stopped.state, StallState::kStopped);
  EXPECT_EQ(stopped.reason, "36 tables are in level 0, stopped at 36");
}

TEST(DecideStallTest, PendingBytesAreASlope) {
  Options options;
  options.soft_pending_compaction_bytes = 1000;
  options.hard_pending_compaction_bytes = 2000;
  double last = kMaxDelayedBytesPerSecond + 1;
  for (uint64_t bytes = 1000; bytes < 2000; bytes += 10) {
    const StallDecision decision = DecideStall(options, Pending(bytes));
    ASSERT_EQ(decision.state, StallState::kDelayed) << bytes;
    EXPECT_LT(decision.bytes_per_second, last);
    last = decision.bytes_per_second;
  }
  EXPECT_NEAR(last, kMinDelayedBytesPerSecond,
              (kMaxDelayedBytesPerSecond - kMinDelayedBytesPerSecond) / 90);
  EXPECT_EQ(DecideStall(options, Pending(2000)).state, StallState::kStopped);
  EXPECT_EQ(DecideStall(options, Pending(~uint64_t{0})).state, StallState::kStopped);
}

TEST(DecideStallTest, TriggersAtOnePlaceStop) {
  Options options;
  options.level0_slowdown_trigger = options.level0_stop_trigger = 8;
  EXPECT_EQ(DecideStall(options, Level0(7)).state, StallState::kNone);
  EXPECT_EQ(DecideStall(options, Level0(8)).state, StallState::kStopped);
}

TEST(DecideStallTest, LastMemtableIsFilledMoreSlowly) {
  Options options;
  options.max_write_buffers = 4;
  EXPECT_EQ(DecideStall(options, Memtables(2)).state, StallState::kNone);
  EXPECT_EQ(DecideStall(options, Memtables(3)).state, StallState::kDelayed);
  EXPECT_EQ(DecideStall(options, Memtables(4)).state, StallState::kStopped);
  // With two there is always one that waits.
  options.max_write_buffers = 2;
  EXPECT_EQ(DecideStall(options, Memtables(1)).state, StallState::kNone);
}

TEST(DecideStallTest, HardestDecides) {
  const Options options;
  WritePressure pressure = Level0(options.level0_slowdown_trigger + 1);
  const double rate = DecideStall(options, pressure).bytes_per_second;
  pressure.pending_compaction_bytes = options.soft_pending_compaction_bytes;  // a milder one
  EXPECT_EQ(DecideStall(options, pressure).bytes_per_second, rate);
  EXPECT_NE(DecideStall(options, pressure).reason.find("level 0"), std::string::npos);
  pressure.pending_compaction_bytes = options.hard_pending_compaction_bytes;
  EXPECT_EQ(DecideStall(options, pressure).state, StallState::kStopped);
  EXPECT_NE(DecideStall(options, pressure).reason.find("compaction"), std::string::npos);
}

// Writes of size bytes for a second at rate; each sleep takes oversleep longer than
// asked for. Returns the rate that came out.
double Simulate(uint64_t bytes, double rate, uint64_t oversleep_micros) {
  DelayClock clock;
  const uint64_t start = 5'000'000;
  uint64_t now = start;
  double written = 0;
  while (now < start + 20'000'000) {
    const uint64_t delay = clock.DelayMicros(now, bytes, rate);
    if (delay > 0) now += delay + oversleep_micros;
    now += 1;  // the write itself
    written += static_cast<double>(bytes);
  }
  return written / (static_cast<double>(now - start) / 1e6);
}

TEST(BackgroundDebtTest, IsHowFarItIsToTheSlowdown) {
  Options options;
  options.max_write_buffers = 3;
  options.level0_slowdown_trigger = 20;
  options.soft_pending_compaction_bytes = 1000;
  EXPECT_EQ(BackgroundDebt(options, {}), 0);
  EXPECT_EQ(BackgroundDebt(options, Memtables(1)), 0.5);
  EXPECT_EQ(BackgroundDebt(options, Memtables(2)), 1);
  EXPECT_EQ(BackgroundDebt(options, Level0(5)), 0.25);
  EXPECT_EQ(BackgroundDebt(options, Level0(50)), 1);
  EXPECT_EQ(BackgroundDebt(options, Pending(750)), 0.75);
  WritePressure both = Level0(5);
  both.pending_compaction_bytes = 750;
  EXPECT_EQ(BackgroundDebt(options, both), 0.75);
  // One memtable, so each flush holds writes up.
  options.max_write_buffers = 1;
  EXPECT_EQ(BackgroundDebt(options, Memtables(1)), 1);
}

TEST(DelayClockTest, RateIsKept) {
  for (const double rate : {kMinDelayedBytesPerSecond, 4e6, kMaxDelayedBytesPerSecond}) {
    for (const uint64_t bytes : {1'000, 10'000, 100'000}) {
      EXPECT_NEAR(Simulate(bytes, rate, 0), rate, rate * 0.03) << bytes;
      EXPECT_NEAR(Simulate(bytes, rate, 60), rate, rate * 0.03) << bytes;
    }
  }
}

TEST(DelayClockTest, FasterWriterThanTheRateIsNotDelayed) {
  DelayClock clock;
  for (uint64_t now = 1'000'000; now < 2'000'000; now += 1000) {
    EXPECT_EQ(clock.DelayMicros(now, 900, 1e6), 0u);
  }
}

TEST(DelayClockTest, PauseIsNoLicense) {
  DelayClock clock;
  EXPECT_EQ(clock.DelayMicros(1'000'000, 1, 1e6), 0u);
  // An hour later: 10 ms worth of credit, not an hour's.
  const uint64_t later = 3'600'000'000;
  EXPECT_EQ(clock.DelayMicros(later, 10'000, 1e6), 0u);
  EXPECT_GE(clock.DelayMicros(later, 10'000, 1e6), 9'000u);
}

TEST(DelayClockTest, HugeWriteWaitsNotForHours) {
  DelayClock clock;
  EXPECT_EQ(clock.DelayMicros(1'000'000, uint64_t{3} << 30, 1000), 1'000'000u);
  EXPECT_EQ(clock.DelayMicros(2'000'000, 0, 1000), 0u);
}

}  // namespace
}  // namespace sievedb
