#include "util/histogram.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "absl/strings/str_format.h"

namespace sievedb {

double HistogramBuckets::Percentile(absl::Span<const uint64_t> counts, double p) {
  assert(counts.size() == kCount);
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0) return 0;
  // Written so that NaN counts as 0.
  const double fraction = p > 0 ? std::min(p, 100.0) / 100 : 0;
  const double rank = fraction * static_cast<double>(total);
  double before = 0;
  size_t last = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (counts[i] == 0) continue;
    last = i;
    const auto in_bucket = static_cast<double>(counts[i]);
    if (before + in_bucket >= rank) {
      // The samples are taken as spread evenly from the bucket's least value to its
      // greatest.
      const double position = std::clamp((rank - before) / in_bucket, 0.0, 1.0);
      return static_cast<double>(LowerBound(i)) + position * static_cast<double>(Width(i) - 1);
    }
    before += in_bucket;
  }
  // Only by rounding: the ranks of more than 2^53 samples are not exact.
  return static_cast<double>(LowerBound(last)) + static_cast<double>(Width(last) - 1);
}

void Histogram::Add(uint64_t nanos) {
  ++buckets_[HistogramBuckets::IndexOf(nanos)];
  ++count_;
  min_ = std::min(min_, nanos);
  max_ = std::max(max_, nanos);
  const auto value = static_cast<double>(nanos);
  sum_ += value;
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squared_distances_ += distance * (value - mean_);
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  const auto mine = static_cast<double>(count_);
  const auto theirs = static_cast<double>(other.count_);
  const double distance = other.mean_ - mean_;
  squared_distances_ +=
      other.squared_distances_ + distance * distance * mine * theirs / (mine + theirs);
  mean_ += distance * theirs / (mine + theirs);
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

void Histogram::Clear() { *this = Histogram(); }

double Histogram::Average() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

double Histogram::StandardDeviation() const {
  if (count_ == 0) return 0;
  return std::sqrt(squared_distances_ / static_cast<double>(count_));
}

double Histogram::Percentile(double p) const {
  if (count_ == 0) return 0;
  return std::clamp(HistogramBuckets::Percentile(buckets_, p), static_cast<double>(Min()),
                    static_cast<double>(Max()));
}

std::string Histogram::ToString() const {
  const auto micros = [](double nanos) { return nanos / 1000; };
  return absl::StrFormat(
      "count %u average %.3f us stddev %.3f min %.3f p50 %.3f p95 %.3f p99 %.3f p99.9 %.3f "
      "max %.3f",
      count_, micros(Average()), micros(StandardDeviation()), micros(static_cast<double>(Min())),
      micros(Percentile(50)), micros(Percentile(95)), micros(Percentile(99)),
      micros(Percentile(99.9)), micros(static_cast<double>(Max())));
}

}  // namespace sievedb
