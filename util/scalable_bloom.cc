#include "util/scalable_bloom.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "sievedb/filter.h"
#include "util/blocked_bloom.h"

namespace sievedb {
namespace {

// Each layer's rate beside that of the one before. The first has the bound's share
// 1 - kTightening, so that all of them sum up to it. Closer to 1, a filter that does
// not grow would be dear; closer to 0, one that does.
constexpr double kTightening = 0.7;

// Fewer would make a filter of thousands of keys a row of many layers.
constexpr uint64_t kMinCapacity = 256;

double BlockedFpr(double bits_per_key) {
  return FilterSizing::ExpectedBlockedFpr(bits_per_key,
                                          FilterSizing::OptimalBlockedProbes(bits_per_key));
}

}  // namespace

ScalableBloom::Layer ScalableBloom::LayerFor(uint64_t keys, double bound, int i) {
  assert(i >= 0 && i < kMaxLayers);
  const double bits_per_key =
      BlockedBitsPerKeyFor(bound * (1 - kTightening) * std::pow(kTightening, i));
  const uint64_t first = std::clamp<uint64_t>(keys, kMinCapacity, uint64_t{1} << 57);
  Layer layer;
  // More than this has no memory anyway.
  layer.capacity =
      static_cast<uint64_t>(std::min(std::ldexp(static_cast<double>(first), i), 0x1p57));
  layer.num_blocks = BlockedBloom::BlocksFor(layer.capacity, bits_per_key);
  layer.probes = FilterSizing::OptimalBlockedProbes(bits_per_key);
  return layer;
}

double ScalableBloom::BlockedBitsPerKeyFor(double fpr) {
  double low = 1;
  double high = 64;
  for (int step = 0; step < 24; ++step) {
    const double middle = (low + high) / 2;
    (BlockedFpr(middle) > fpr ? low : high) = middle;
  }
  return high;
}

}  // namespace sievedb
