#ifndef SIEVEDB_RATE_LIMITER_H_
#define SIEVEDB_RATE_LIMITER_H_

#include <cstdint>
#include <memory>

#include "sievedb/export.h"

namespace sievedb {

// Bounds the bytes per second that flushes and compactions write, for one
// database or for several that share it (Options::rate_limiter).
//
// Threads: safe.
class SIEVEDB_EXPORT RateLimiter {
 public:
  enum class Priority { kHigh, kLow };  // flushes pass before compactions

  virtual ~RateLimiter();

  // Blocks until bytes may be written. Requests larger than a refill are served
  // in pieces, so any size is legal.
  virtual void Request(int64_t bytes, Priority priority) = 0;

  virtual void SetBytesPerSecond(int64_t bytes_per_second) = 0;
  virtual int64_t BytesPerSecond() const = 0;
  virtual int64_t TotalBytes() const = 0;  // granted so far

  // What database, a name for one of those that share the limiter, has left to flush and
  // compact: from 0, nothing waits, to 1, its writes are about to be slowed down. Called
  // whenever that changes, with a lock of the database held; 0 when it closes. The
  // default ignores it.
  virtual void SetDebt(const void* database, double debt);
};

// Requires: bytes_per_second > 0.
SIEVEDB_EXPORT std::shared_ptr<RateLimiter> NewRateLimiter(int64_t bytes_per_second);

// Its rate follows the debt: min_bytes_per_second where no database has any, in
// proportion up to max_bytes_per_second where one is about to slow its writes down.
// Background work so takes as little of the disk from reads as it can afford to, and
// is not in the way of writes. SetBytesPerSecond sets the upper rate.
// Requires: 0 < min_bytes_per_second <= max_bytes_per_second.
SIEVEDB_EXPORT std::shared_ptr<RateLimiter> NewAdaptiveRateLimiter(int64_t min_bytes_per_second,
                                                                   int64_t max_bytes_per_second);

}  // namespace sievedb

#endif  // SIEVEDB_RATE_LIMITER_H_
