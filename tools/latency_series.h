#ifndef SIEVEDB_TOOLS_LATENCY_SERIES_H_
#define SIEVEDB_TOOLS_LATENCY_SERIES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "util/histogram.h"
#include "util/mutex.h"

namespace sievedb {

// How latencies change while a workload runs: the operations that ended in each
// interval, and their percentiles. A stall shows as intervals of few operations or
// none, and as the maximum of the one that it ends in.
//
//   LatencySeries series(NowNanos(), interval_nanos, /*threads=*/2);
//   LatencySeries::Recorder recorder(&series, index);     // in each thread
//   recorder.Add(NowNanos(), latency_nanos, 1);
//   ...                                                    // recorders are gone
//   series.Points()
//
// Memory follows the number of intervals, not of operations: an interval's histogram is
// reduced to its Point once all threads are past it.
class LatencySeries {
 public:
  // Operations that ended in one interval.
  struct Point {
    double end_seconds = 0;  // since the start
    uint64_t operations = 0;
    double operations_per_s = 0;
    double p50_ns = 0;
    double p99_ns = 0;
    double p999_ns = 0;
    uint64_t max_ns = 0;
  };

  // threads: how many recorders there will be; their indexes are below it.
  LatencySeries(uint64_t start_nanos, uint64_t interval_nanos, int threads);

  // One thread's operations. Threads: not safe; each thread has its own.
  class Recorder {
   public:
    Recorder(LatencySeries* series, int index) : series_(series), index_(index) {}
    ~Recorder() { series_->Take(index_, interval_, kNoMore, histogram_, operations_); }
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    // A call that ended now, took latency_nanos and did so many operations.
    void Add(uint64_t now_nanos, uint64_t latency_nanos, uint64_t operations);

   private:
    LatencySeries* const series_;
    const int index_;
    uint64_t interval_ = 0;
    Histogram histogram_;  // of calls in interval_
    uint64_t operations_ = 0;
  };

  // All intervals from the first to the last in which something ended, those without an
  // operation included.
  // Requires: all recorders are gone.
  std::vector<Point> Points() const;

  // One line for each point, in microseconds, under a line of titles.
  static std::string ToText(const std::vector<Point>& points);
  // FromJson takes back what ToJson made of points; missing fields are 0.
  static std::vector<Point> FromJson(const nlohmann::json& json);
  static nlohmann::json ToJson(const std::vector<Point>& points);

 private:
  static constexpr uint64_t kNoMore = ~uint64_t{0};

  struct Open {
    Histogram histogram;
    uint64_t operations = 0;
  };

  // What a thread did in interval, which it has left for next.
  void Take(int index, uint64_t interval, uint64_t next, const Histogram& histogram,
            uint64_t operations);
  Point Reduce(uint64_t interval, const Open& open) const;

  const uint64_t start_nanos_;
  const uint64_t interval_nanos_;

  mutable Mutex mu_;
  std::vector<uint64_t> at_ ABSL_GUARDED_BY(mu_);  // the interval that each thread is in
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Point> points_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_LATENCY_SERIES_H_
