#include "db/write_controller.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

// Waits shorter than this are saved up: the system sleeps too long by about as much.
constexpr double kMinWaitMicros = 1000;
// What time that passed unused earns at most, so that a sleep that took too long
// is made up for, but a pause is no license for a flood.
constexpr double kMaxCreditMicros = 10'000;
// What one write may have to wait. A single huge batch does not block the others
// for hours, and a stall that ended is noticed.
constexpr double kMaxDebtMicros = 1'000'000;

constexpr double kMicrosPerSecond = 1e6;

// One kind of debt on its way from where writes slow down to where they stop.
StallDecision Decide(double debt, double slowdown, double stop, const char* what) {
  StallDecision decision;
  if (debt <= 0) return decision;
  if (debt >= stop) {
    decision.state = StallState::kStopped;
    decision.reason = absl::StrFormat("%.0f %s, stopped at %.0f", debt, what, stop);
  } else if (debt >= slowdown) {
    const double way = (debt - slowdown) / (stop - slowdown);  // in [0, 1)
    decision.state = StallState::kDelayed;
    decision.bytes_per_second =
        kMaxDelayedBytesPerSecond + way * (kMinDelayedBytesPerSecond - kMaxDelayedBytesPerSecond);
    decision.reason = absl::StrFormat("%.0f %s, slowed down from %.0f and stopped at %.0f", debt,
                                      what, slowdown, stop);
  }
  return decision;
}

bool IsHarder(const StallDecision& a, const StallDecision& b) {
  if (a.state != b.state) return a.state > b.state;
  return a.state == StallState::kDelayed && a.bytes_per_second < b.bytes_per_second;
}

}  // namespace

StallDecision DecideStall(const Options& options, const WritePressure& pressure) {
  // All memtables but the active one wait for their flush: slow down while there
  // still is one to write to. With two in all that is what every flush looks like.
  const double memtables = options.max_write_buffers;
  StallDecision hardest = Decide(pressure.immutable_memtables, std::max(2.0, memtables - 1),
                                 memtables, "memtables wait for their flush");
  StallDecision others[] = {
      Decide(pressure.level0_files, options.level0_slowdown_trigger, options.level0_stop_trigger,
             "tables are in level 0"),
      Decide(static_cast<double>(pressure.pending_compaction_bytes),
             static_cast<double>(options.soft_pending_compaction_bytes),
             static_cast<double>(options.hard_pending_compaction_bytes),
             "bytes wait for compaction"),
  };
  for (StallDecision& other : others) {
    if (IsHarder(other, hardest)) hardest = std::move(other);
  }
  return hardest;
}

double BackgroundDebt(const Options& options, const WritePressure& pressure) {
  const double parts[] = {
      // All but the active one are waiting: the next switch stops writes.
      static_cast<double>(pressure.immutable_memtables) /
          std::max(1, options.max_write_buffers - 1),
      static_cast<double>(pressure.level0_files) / std::max(1, options.level0_slowdown_trigger),
      static_cast<double>(pressure.pending_compaction_bytes) /
          static_cast<double>(std::max<uint64_t>(1, options.soft_pending_compaction_bytes)),
  };
  return std::min(1.0, *std::max_element(std::begin(parts), std::end(parts)));
}

uint64_t DelayClock::DelayMicros(uint64_t now_micros, uint64_t bytes, double bytes_per_second) {
  const double now = static_cast<double>(now_micros);
  const double cost = static_cast<double>(bytes) / std::max(bytes_per_second, 1.0);
  // When what was written before, and this, is paid for.
  paid_micros_ = std::max(paid_micros_, now - kMaxCreditMicros) + cost * kMicrosPerSecond;
  paid_micros_ = std::min(paid_micros_, now + kMaxDebtMicros);
  const double wait = paid_micros_ - now;
  return wait < kMinWaitMicros ? 0 : static_cast<uint64_t>(wait);
}

}  // namespace sievedb
