#ifndef SIEVEDB_DB_WRITE_CONTROLLER_H_
#define SIEVEDB_DB_WRITE_CONTROLLER_H_

#include <cstdint>
#include <string>

#include "sievedb/listener.h"
#include "sievedb/options.h"

namespace sievedb {

// What writes wait for.
struct WritePressure {
  int immutable_memtables = 0;  // waiting for their flush
  int level0_files = 0;
  uint64_t pending_compaction_bytes = 0;
};

// What a writer should do, and why.
struct StallDecision {
  StallState state = StallState::kNone;
  double bytes_per_second = 0;  // where kDelayed
  std::string reason;           // empty where kNone
};

// A pure function: how hard writers are slowed down. From the slowdown trigger on
// the rate falls in proportion to the debt, from kMaxDelayedBytesPerSecond down
// to kMinDelayedBytesPerSecond at the stop trigger: a slope, not a cliff.
StallDecision DecideStall(const Options& options, const WritePressure& pressure);
inline constexpr double kMaxDelayedBytesPerSecond = 64 << 20;
inline constexpr double kMinDelayedBytesPerSecond = 256 << 10;

// A pure function: how far background work is behind, for the rate limiter. 0: nothing
// waits; 1: writes are slowed down, or would be by the next flush that is late.
double BackgroundDebt(const Options& options, const WritePressure& pressure);

// Turns a rate into waits: each write of a delayed group sleeps as long as its
// bytes take at the rate, with credit for time that passed.
//
// Threads: not safe; the commit path's leader owns it.
class DelayClock {
 public:
  // Micros to wait before writing bytes at rate, asked at now_micros. Waits of less
  // than a millisecond are saved up until they are worth a sleep; none is longer
  // than a second.
  uint64_t DelayMicros(uint64_t now_micros, uint64_t bytes, double bytes_per_second);

 private:
  double paid_micros_ = 0;  // when all that was written is paid for
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_WRITE_CONTROLLER_H_
