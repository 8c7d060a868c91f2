#include "tools/latency_series.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "absl/strings/str_format.h"

namespace sievedb {

LatencySeries::LatencySeries(uint64_t start_nanos, uint64_t interval_nanos, int threads)
    : start_nanos_(start_nanos),
      interval_nanos_(std::max<uint64_t>(interval_nanos, 1)),
      at_(static_cast<size_t>(threads), 0) {
  assert(threads > 0);
}

void LatencySeries::Recorder::Add(uint64_t now_nanos, uint64_t latency_nanos, uint64_t operations) {
  // A clock that is read in another thread may be a little behind the start.
  const uint64_t since_start = now_nanos - std::min(now_nanos, series_->start_nanos_);
  const uint64_t interval = std::max(since_start / series_->interval_nanos_, interval_);
  if (interval != interval_) {
    series_->Take(index_, interval_, interval, histogram_, operations_);
    histogram_.Clear();
    operations_ = 0;
    interval_ = interval;
  }
  histogram_.Add(latency_nanos);
  operations_ += operations;
}

void LatencySeries::Take(int index, uint64_t interval, uint64_t next, const Histogram& histogram,
                         uint64_t operations) {
  const MutexLock lock(&mu_);
  if (operations > 0) {
    Open& open = open_[interval];
    open.histogram.Merge(histogram);
    open.operations += operations;
  }
  at_[static_cast<size_t>(index)] = next;
  const uint64_t reached = *std::min_element(at_.begin(), at_.end());
  while (!open_.empty() && open_.begin()->first < reached) {
    points_.emplace(open_.begin()->first, Reduce(open_.begin()->first, open_.begin()->second));
    open_.erase(open_.begin());
  }
}

LatencySeries::Point LatencySeries::Reduce(uint64_t interval, const Open& open) const {
  Point point;
  const double seconds = static_cast<double>(interval_nanos_) / 1e9;
  point.end_seconds = static_cast<double>(interval + 1) * seconds;
  point.operations = open.operations;
  point.operations_per_s = static_cast<double>(open.operations) / seconds;
  point.p50_ns = open.histogram.Percentile(50);
  point.p99_ns = open.histogram.Percentile(99);
  point.p999_ns = open.histogram.Percentile(99.9);
  point.max_ns = open.histogram.Max();
  return point;
}

std::vector<LatencySeries::Point> LatencySeries::Points() const {
  const MutexLock lock(&mu_);
  assert(open_.empty());
  std::vector<Point> points;
  for (const auto& [interval, point] : points_) {
    while (points.size() < interval) points.push_back(Reduce(points.size(), Open()));
    points.push_back(point);
  }
  return points;
}

std::string LatencySeries::ToText(const std::vector<Point>& points) {
  std::string text = absl::StrFormat("%9s %11s %9s %9s %9s %11s\n", "seconds", "ops/sec", "p50 us",
                                     "p99 us", "p99.9 us", "max us");
  for (const Point& point : points) {
    absl::StrAppendFormat(&text, "%9.2f %11d %9.2f %9.2f %9.2f %11.2f\n", point.end_seconds,
                          std::llround(point.operations_per_s), point.p50_ns / 1e3,
                          point.p99_ns / 1e3, point.p999_ns / 1e3,
                          static_cast<double>(point.max_ns) / 1e3);
  }
  return text;
}

std::vector<LatencySeries::Point> LatencySeries::FromJson(const nlohmann::json& json) {
  std::vector<Point> points;
  for (const nlohmann::json& item : json) {
    Point& point = points.emplace_back();
    point.end_seconds = item.value("end_seconds", 0.0);
    point.operations = item.value("operations", uint64_t{0});
    point.operations_per_s = item.value("ops_per_s", 0.0);
    point.p50_ns = item.value("p50_ns", 0.0);
    point.p99_ns = item.value("p99_ns", 0.0);
    point.p999_ns = item.value("p999_ns", 0.0);
    point.max_ns = item.value("max_ns", uint64_t{0});
  }
  return points;
}

nlohmann::json LatencySeries::ToJson(const std::vector<Point>& points) {
  nlohmann::json json = nlohmann::json::array();
  for (const Point& point : points) {
    json.push_back({{"end_seconds", point.end_seconds},
                    {"operations", point.operations},
                    {"ops_per_s", point.operations_per_s},
                    {"p50_ns", point.p50_ns},
                    {"p99_ns", point.p99_ns},
                    {"p999_ns", point.p999_ns},
                    {"max_ns", point.max_ns}});
  }
  return json;
}

}  // namespace sievedb
