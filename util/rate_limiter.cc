#include "sievedb/rate_limiter.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <deque>
#include <map>

#include "util/clock.h"
#include "util/mutex.h"

namespace sievedb {
namespace {

// Bytes may be saved up for this long, so this is also how coarse the limit is.
constexpr double kBurstSeconds = 0.05;
// While low requests wait, every so many grants one of them passes before the high
// ones, so that a steady stream of flushes does not stop compactions for good.
constexpr int kHighGrantsInARow = 8;

// A token bucket (tokens are bytes) with two queues. Only the request whose turn it is
// waits for the clock; the others wait to be woken by the one before them.
class TokenBucket final : public RateLimiter {
 public:
  explicit TokenBucket(int64_t bytes_per_second)
      : bytes_per_second_(std::max<int64_t>(bytes_per_second, 1)), refilled_nanos_(NowNanos()) {
    assert(bytes_per_second > 0);
  }

  void Request(int64_t bytes, Priority priority) override {
    const MutexLock lock(&mu_);
    // Each piece queues up anew, so that a large request does not hold up small ones.
    while (bytes > 0) bytes -= RequestPiece(bytes, priority);
  }

  void SetBytesPerSecond(int64_t bytes_per_second) override {
    assert(bytes_per_second > 0);
    const MutexLock lock(&mu_);
    Refill();  // the time until now counts at the old rate
    bytes_per_second_.store(std::max<int64_t>(bytes_per_second, 1), std::memory_order_relaxed);
    tokens_ = std::min(tokens_, Burst());
    WakeNext();
  }

  int64_t BytesPerSecond() const override {
    return bytes_per_second_.load(std::memory_order_relaxed);
  }
  int64_t TotalBytes() const override { return total_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Waiter {
    CondVar turn;
  };

  // Waits its turn and for tokens, and returns the bytes granted: at most bytes and at
  // most a burst.
  int64_t RequestPiece(int64_t bytes, Priority priority) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Waiter self;
    std::deque<Waiter*>& queue = priority == Priority::kHigh ? high_ : low_;
    queue.push_back(&self);
    while (true) {
      if (Next() != &self) {
        self.turn.Wait(&mu_);
        continue;
      }
      Refill();
      // The rate may have changed while it waited.
      const double piece = std::min(static_cast<double>(bytes), Burst());
      if (tokens_ >= piece) {
        tokens_ -= piece;
        queue.pop_front();
        high_in_a_row_ = priority == Priority::kHigh && !low_.empty() ? high_in_a_row_ + 1 : 0;
        const auto granted = static_cast<int64_t>(piece);
        total_bytes_.fetch_add(granted, std::memory_order_relaxed);
        WakeNext();
        return granted;
      }
      const double seconds = (piece - tokens_) / static_cast<double>(BytesPerSecond());
      self.turn.WaitFor(&mu_, static_cast<int64_t>(seconds * 1e6) + 1);
    }
  }

  // Whose turn it is; null where nobody waits. Changes only where a request comes or
  // is granted: the one that comes looks itself, the one that is granted wakes the next.
  Waiter* Next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (low_.empty()) return high_.empty() ? nullptr : high_.front();
    if (high_.empty() || high_in_a_row_ >= kHighGrantsInARow) return low_.front();
    return high_.front();
  }

  void WakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (Waiter* const next = Next(); next != nullptr) next->turn.Signal();
  }

  // Whole bytes, at least one, so that every rate lets something through.
  double Burst() const {
    return static_cast<double>(std::max<int64_t>(
        static_cast<int64_t>(static_cast<double>(BytesPerSecond()) * kBurstSeconds), 1));
  }

  void Refill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const uint64_t now = NowNanos();
    tokens_ +=
        static_cast<double>(now - refilled_nanos_) * 1e-9 * static_cast<double>(BytesPerSecond());
    tokens_ = std::min(tokens_, Burst());
    refilled_nanos_ = now;
  }

  // Written under mu_; relaxed as each is a figure by itself.
  std::atomic<int64_t> bytes_per_second_;
  std::atomic<int64_t> total_bytes_{0};

  Mutex mu_;
  std::deque<Waiter*> high_ ABSL_GUARDED_BY(mu_);
  std::deque<Waiter*> low_ ABSL_GUARDED_BY(mu_);
  int high_in_a_row_ ABSL_GUARDED_BY(mu_) = 0;  // grants, while low requests waited
  double tokens_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t refilled_nanos_ ABSL_GUARDED_BY(mu_);
};

class AdaptiveLimiter final : public RateLimiter {
 public:
  AdaptiveLimiter(int64_t min_bytes_per_second, int64_t max_bytes_per_second)
      : min_(min_bytes_per_second), bucket_(min_bytes_per_second), max_(max_bytes_per_second) {
    assert(min_bytes_per_second <= max_bytes_per_second);
  }

  void Request(int64_t bytes, Priority priority) override { bucket_.Request(bytes, priority); }
  int64_t BytesPerSecond() const override { return bucket_.BytesPerSecond(); }
  int64_t TotalBytes() const override { return bucket_.TotalBytes(); }

  void SetBytesPerSecond(int64_t bytes_per_second) override {
    const MutexLock lock(&mu_);
    max_ = std::max(bytes_per_second, min_);
    Adapt();
  }

  void SetDebt(const void* database, double debt) override {
    const MutexLock lock(&mu_);
    if (debt > 0) {
      debts_[database] = std::min(debt, 1.0);
    } else if (debts_.erase(database) == 0) {
      return;
    }
    Adapt();
  }

 private:
  void Adapt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    double debt = 0;
    for (const auto& [database, one] : debts_) debt = std::max(debt, one);
    const int64_t rate = min_ + static_cast<int64_t>(debt * static_cast<double>(max_ - min_));
    if (rate != bucket_.BytesPerSecond()) bucket_.SetBytesPerSecond(rate);
  }

  const int64_t min_;
  TokenBucket bucket_;
  Mutex mu_;
  int64_t max_ ABSL_GUARDED_BY(mu_);
  std::map<const void*, double> debts_ ABSL_GUARDED_BY(mu_);  // only those above 0
};

}  // namespace

std::shared_ptr<RateLimiter> NewRateLimiter(int64_t bytes_per_second) {
  return std::make_shared<TokenBucket>(bytes_per_second);
}

std::shared_ptr<RateLimiter> NewAdaptiveRateLimiter(int64_t min_bytes_per_second,
                                                    int64_t max_bytes_per_second) {
  return std::make_shared<AdaptiveLimiter>(min_bytes_per_second, max_bytes_per_second);
}

}  // namespace sievedb
