#ifndef SIEVEDB_TOOLS_DB_BENCH_REPORT_H_
#define SIEVEDB_TOOLS_DB_BENCH_REPORT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/db_bench_settings.h"
#include "tools/latency_series.h"
#include "tools/progress.h"
#include "util/histogram.h"

namespace sievedb {

// What one thread did in one workload. Threads: not safe; each has its own.
struct ThreadFigures {
  uint64_t start_nanos = 0;
  uint64_t finish_nanos = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;  // of keys and values that were written or found
  uint64_t found = 0;
  std::optional<Histogram> latency;  // only where it was asked for
  LatencySeries* series = nullptr;   // null where it was not asked for
  int thread = 0;                    // its index in series
};

// What all threads did in one workload.
struct WorkloadReport {
  // Requires: threads is not empty.
  static WorkloadReport Merge(std::string_view name, const std::vector<ThreadFigures>& threads);

  double MicrosPerOperation() const;
  double OperationsPerSecond() const;
  double MegabytesPerSecond() const;

  // The line that users of the peers' db_bench know:
  //   readmissing  :       0.412 micros/op 2427184 ops/sec 0.412 seconds 1000000 operations;   (0
  //   of 1000000 found)
  // with MB/s before the parenthesis where bytes moved.
  std::string Line() const;

  nlohmann::json ToJson() const;

  std::string name;
  int threads = 0;
  uint64_t operations = 0;
  double elapsed_seconds = 0;  // from the first start to the last end
  double busy_seconds = 0;     // the sum over threads
  uint64_t bytes = 0;
  bool counts_found = false;  // whether operations looked for keys
  uint64_t found = 0;
  std::optional<Histogram> latency;
  std::vector<LatencySeries::Point> series;  // empty where it was not asked for
};

// Counts one thread's operations, and says when it has done its share.
//
//   while (meter.Continue()) {
//     ...
//     meter.Done(1, bytes);
//   }
//
// Threads: not safe; each has its own.
class OperationMeter {
 public:
  // Ends after operations, or where duration_seconds is not 0 after that time,
  // whichever comes first.
  OperationMeter(uint64_t operations, int duration_seconds, ThreadFigures* figures,
                 ProgressBar* progress);
  ~OperationMeter();  // notes the end
  OperationMeter(const OperationMeter&) = delete;
  OperationMeter& operator=(const OperationMeter&) = delete;

  bool Continue() {
    if (figures_->operations >= operations_) return false;
    return deadline_nanos_ == 0 || !DeadlinePassed();
  }

  // The operations that are left, at most limit.
  uint64_t Left(uint64_t limit) const {
    return std::min(limit, operations_ - figures_->operations);
  }

  void Done(uint64_t operations, uint64_t bytes) {
    figures_->operations += operations;
    figures_->bytes += bytes;
    if (times_calls_) AddLatency(operations);
    if (figures_->operations >= next_report_) ReportProgress();
  }

 private:
  static constexpr uint64_t kOperationsPerReport = 512;
  static constexpr int kCallsPerClock = 32;  // asking for the time costs as much as a read

  bool DeadlinePassed();
  void AddLatency(uint64_t operations);
  void ReportProgress();

  const uint64_t operations_;
  ThreadFigures* const figures_;
  ProgressBar* const progress_;
  const bool times_calls_;
  std::optional<LatencySeries::Recorder> recorder_;
  uint64_t deadline_nanos_ = 0;
  int calls_until_clock_ = kCallsPerClock;
  uint64_t last_nanos_ = 0;
  uint64_t reported_ = 0;
  uint64_t next_report_ = kOperationsPerReport;
};

// What the run measures with, for the eye and for --json.
std::string BenchHeader(const BenchSettings& settings);
nlohmann::json SettingsJson(const BenchSettings& settings);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_DB_BENCH_REPORT_H_
