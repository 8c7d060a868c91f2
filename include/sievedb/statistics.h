#ifndef SIEVEDB_STATISTICS_H_
#define SIEVEDB_STATISTICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "sievedb/export.h"

namespace sievedb {

enum class Counter : uint32_t {
  kKeysWritten,
  kBytesWritten,
  kWriteGroups,
  kWalBytes,
  kWalSyncs,
  kStallMicros,
  kStallStops,
  kGets,
  kGetHits,
  kGetMemtableHits,
  kMultiGetKeys,
  kSeeks,
  kNexts,
  kPrevs,
  kBlockCacheHits,
  kBlockCacheMisses,
  kBlockReads,
  kBlockReadBytes,
  kFlushes,
  kFlushBytes,
  kCompactions,
  kTrivialMoves,
  kCompactionBytesRead,
  kCompactionBytesWritten,
  kEntriesDroppedHidden,
  kEntriesDroppedTombstone,
  kTablesIngested,
  kIngestedBytes,
  kTablesOpened,
  kFilterLoadErrors,
  kPrefixChecks,  // of tables' filters by iterators; none of them counts in FilterLevelCounts
  kPrefixSkips,   // of them, those that ruled the table out
  kCount,
};

enum class Latency : uint32_t {
  kGet,
  kMultiGet,
  kWrite,
  kSeek,
  kWalSync,
  kFlush,
  kCompaction,
  kBlockRead,
  kCount,
};

// What the filters of one level answered, point lookups only.
struct FilterLevelCounts {
  uint64_t checked = 0;
  uint64_t said_no = 0;
  uint64_t maybe_present = 0;  // said maybe, and the key was there
  uint64_t maybe_absent = 0;   // said maybe, and it was not: a false positive
};

struct LatencySummary {
  uint64_t count = 0;  // samples
  double average_nanos = 0;
  double p50_nanos = 0, p95_nanos = 0, p99_nanos = 0, p999_nanos = 0;
  double max_nanos = 0;
};

// Counts what a database does, for one or for several (Options::statistics).
// Latencies of Get, Write and Seek are sampled, one operation in 32.
//
// Threads: safe.
// Cost:    each thread adds to a cache line of its own; reading sums them up.
class SIEVEDB_EXPORT Statistics {
 public:
  static constexpr int kLevels = 7;

  virtual ~Statistics();
  virtual uint64_t Get(Counter counter) const = 0;
  virtual FilterLevelCounts GetFilterCounts(int level) const = 0;
  virtual LatencySummary GetLatency(Latency latency) const = 0;
  virtual std::string ToString() const = 0;  // one line each, those that are not zero
  virtual void Reset() = 0;                  // what is counted meanwhile may be lost

 private:
  friend class StatisticsImpl;  // the only implementation: hot paths call it directly
  Statistics() = default;
};

SIEVEDB_EXPORT std::shared_ptr<Statistics> NewStatistics();
SIEVEDB_EXPORT const char* CounterName(Counter counter);
SIEVEDB_EXPORT const char* LatencyName(Latency latency);

}  // namespace sievedb

#endif  // SIEVEDB_STATISTICS_H_
