#include "sievedb/rate_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "util/clock.h"

namespace sievedb {
namespace {

using Priority = RateLimiter::Priority;

TEST(RateLimiterTest, GrantsAnySizeAndCounts) {
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(int64_t{1} << 40);
  EXPECT_EQ(limiter->BytesPerSecond(), int64_t{1} << 40);
  limiter->Request(0, Priority::kHigh);
  limiter->Request(-5, Priority::kHigh);
  EXPECT_EQ(limiter->TotalBytes(), 0);
  limiter->Request(1, Priority::kLow);
  limiter->Request(int64_t{100} << 30, Priority::kHigh);  // far above a refill
  EXPECT_EQ(limiter->TotalBytes(), (int64_t{100} << 30) + 1);
}

// Only a lower bound can be certain: a slow machine takes longer.
TEST(RateLimiterTest, IsNotFasterThanTheRate) {
  constexpr int64_t kRate = 10 << 20;
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(kRate);
  const uint64_t start = NowNanos();
  constexpr int64_t kBytes = 3 << 20;
  for (int64_t bytes = 0; bytes < kBytes; bytes += 64 << 10) {
    limiter->Request(64 << 10, Priority::kLow);
  }
  const double seconds = static_cast<double>(NowNanos() - start) * 1e-9;
  // What was saved up at most: 0.05 seconds' worth. Here nothing was.
  EXPECT_GE(seconds, static_cast<double>(kBytes) / kRate - 0.06);
  EXPECT_EQ(limiter->TotalBytes(), kBytes);
}

TEST(RateLimiterTest, ThreadsShareTheRate) {
  constexpr int64_t kRate = 20 << 20;
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(kRate);
  const uint64_t start = NowNanos();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        limiter->Request(50000 + t, t % 2 == 0 ? Priority::kHigh : Priority::kLow);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(limiter->TotalBytes(), 4 * 20 * 50000 + 20 * (0 + 1 + 2 + 3));
  const double seconds = static_cast<double>(NowNanos() - start) * 1e-9;
  EXPECT_GE(seconds, 4.0 * 20 * 50000 / kRate - 0.06);
}

TEST(RateLimiterTest, SpeedingUpWakesWhoWaits) {
  // At this rate the request would take 17 minutes.
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(1000);
  std::thread waiter([&] { limiter->Request(1000000, Priority::kLow); });
  std::thread other([&] { limiter->Request(1000000, Priority::kHigh); });
  while (limiter->TotalBytes() == 0) std::this_thread::yield();
  limiter->SetBytesPerSecond(int64_t{1} << 40);
  waiter.join();
  other.join();
  EXPECT_EQ(limiter->TotalBytes(), 2000000);
  EXPECT_EQ(limiter->BytesPerSecond(), int64_t{1} << 40);
}

TEST(RateLimiterTest, HighPassesLow) {
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(1000000);
  // The low request alone takes half an hour. The high one, in four pieces, comes later
  // and does not wait for it.
  std::atomic<bool> low_done = false;
  std::thread low([&] {
    limiter->Request(2000000000, Priority::kLow);
    low_done = true;
  });
  while (limiter->TotalBytes() == 0) std::this_thread::yield();
  limiter->Request(200000, Priority::kHigh);
  EXPECT_FALSE(low_done);
  limiter->SetBytesPerSecond(int64_t{1} << 40);
  low.join();
  EXPECT_EQ(limiter->TotalBytes(), 2000200000);
}

TEST(RateLimiterTest, LowIsNotStarved) {
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(1000000);
  std::atomic<bool> stop = false;
  std::vector<std::thread> high;
  for (int t = 0; t < 2; ++t) {
    high.emplace_back([&] {
      while (!stop) limiter->Request(10000, Priority::kHigh);
    });
  }
  // With two threads there is always a high request waiting; this returns all the same.
  limiter->Request(20000, Priority::kLow);
  stop = true;
  for (std::thread& thread : high) thread.join();
  EXPECT_GE(limiter->TotalBytes(), 20000);
}

TEST(RateLimiterTest, TheSlowestRateStillMoves) {
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(20);
  limiter->Request(2, Priority::kHigh);  // a byte at a time
  EXPECT_EQ(limiter->TotalBytes(), 2);
}

TEST(AdaptiveRateLimiterTest, RateFollowsTheLargestDebt) {
  const std::shared_ptr<RateLimiter> limiter = NewAdaptiveRateLimiter(1000, 5000);
  const int first = 0;
  const int second = 0;
  EXPECT_EQ(limiter->BytesPerSecond(), 1000);
  limiter->SetDebt(&first, 0.5);
  EXPECT_EQ(limiter->BytesPerSecond(), 3000);
  limiter->SetDebt(&second, 0.25);
  EXPECT_EQ(limiter->BytesPerSecond(), 3000);
  limiter->SetDebt(&second, 7);
  EXPECT_EQ(limiter->BytesPerSecond(), 5000);
  limiter->SetDebt(&second, 0);
  EXPECT_EQ(limiter->BytesPerSecond(), 3000);
  limiter->SetBytesPerSecond(9000);
  EXPECT_EQ(limiter->BytesPerSecond(), 5000);
  limiter->SetDebt(&first, 0);
  limiter->SetDebt(&first, 0);
  EXPECT_EQ(limiter->BytesPerSecond(), 1000);
  limiter->SetBytesPerSecond(10);  // below the lower rate
  limiter->SetDebt(&first, 1);
  EXPECT_EQ(limiter->BytesPerSecond(), 1000);
}

// At the lower rate the request would take hours.
TEST(AdaptiveRateLimiterTest, DebtWakesWhoWaits) {
  const std::shared_ptr<RateLimiter> limiter = NewAdaptiveRateLimiter(1000, int64_t{1} << 40);
  std::thread waiter([&] { limiter->Request(10 << 20, Priority::kHigh); });
  const int database = 0;
  limiter->SetDebt(&database, 1);
  waiter.join();
  EXPECT_EQ(limiter->TotalBytes(), 10 << 20);
}

// A limiter of the user's own need not know of debts.
TEST(AdaptiveRateLimiterTest, OthersIgnoreDebt) {
  const std::shared_ptr<RateLimiter> limiter = NewRateLimiter(1000);
  limiter->SetDebt(limiter.get(), 1);
  EXPECT_EQ(limiter->BytesPerSecond(), 1000);
}

}  // namespace
}  // namespace sievedb
