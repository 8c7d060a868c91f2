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
};

// Requires: bytes_per_second > 0.
SIEVEDB_EXPORT std::shared_ptr<RateLimiter> NewRateLimiter(int64_t bytes_per_second);

}  // namespace sievedb

#endif  // SIEVEDB_RATE_LIMITER_H_
