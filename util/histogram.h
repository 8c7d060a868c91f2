#ifndef SIEVEDB_UTIL_HISTOGRAM_H_
#define SIEVEDB_UTIL_HISTOGRAM_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace sievedb {

// The buckets that latencies are counted in: 16 of one width for each power of two,
// so a value is known to within a sixteenth of itself, whatever its size.
struct HistogramBuckets {
  static constexpr int kSubBits = 4;
  static constexpr size_t kSubBuckets = size_t{1} << kSubBits;
  // Values below kSubBuckets have a bucket each; the other 60 powers of two have
  // kSubBuckets.
  static constexpr size_t kCount = (64 - kSubBits + 1) * kSubBuckets;

  static size_t IndexOf(uint64_t value) {
    if (value < kSubBuckets) return value;
    const int shift = std::bit_width(value) - 1 - kSubBits;
    // The bits below the leading one say which of the sixteen it is.
    return static_cast<size_t>(shift + 1) * kSubBuckets + ((value >> shift) & (kSubBuckets - 1));
  }
  // The least value of a bucket, and the number of values in it.
  static uint64_t LowerBound(size_t bucket) {
    if (bucket < kSubBuckets) return bucket;
    return (kSubBuckets + bucket % kSubBuckets) << (bucket / kSubBuckets - 1);
  }
  static uint64_t Width(size_t bucket) {
    return bucket < kSubBuckets ? 1 : uint64_t{1} << (bucket / kSubBuckets - 1);
  }

  // The value that p percent of the samples do not exceed, interpolated inside its
  // bucket. 0 where there are no samples.
  // Requires: counts.size() == kCount.
  static double Percentile(absl::Span<const uint64_t> counts, double p);
};

// Counts values, nanoseconds as a rule. Percentiles are off by at most a sixteenth,
// all else is exact.
//
// Threads: not safe for concurrent use; give each thread one and merge them.
class Histogram {
 public:
  void Add(uint64_t nanos);
  void Merge(const Histogram& other);
  void Clear();

  uint64_t count() const { return count_; }
  // All are 0 where there are no samples.
  double Average() const;
  double StandardDeviation() const;
  uint64_t Min() const { return count_ == 0 ? 0 : min_; }
  uint64_t Max() const { return max_; }
  double Percentile(double p) const;  // 0..100; p outside counts as the nearer end

  // Count, average and percentiles in microseconds on one line.
  std::string ToString() const;

 private:
  std::array<uint64_t, HistogramBuckets::kCount> buckets_ = {};
  uint64_t count_ = 0;
  uint64_t min_ = ~uint64_t{0};
  uint64_t max_ = 0;
  double sum_ = 0;
  // The sum of squared distances from the mean (Welford 1962): a sum of squares
  // would lose everything to cancellation where values are large and alike.
  double mean_ = 0;
  double squared_distances_ = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_HISTOGRAM_H_
