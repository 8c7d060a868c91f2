#ifndef SIEVEDB_UTIL_CLOCK_H_
#define SIEVEDB_UTIL_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace sievedb {

// Monotonic.
inline uint64_t NowNanos() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}
inline uint64_t NowMicros() { return NowNanos() / 1000; }

// Seconds since 1970.
inline uint64_t WallSeconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_CLOCK_H_
