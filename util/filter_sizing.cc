#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "sievedb/filter.h"
#include "util/blocked_bloom.h"
#include "util/hash.h"

namespace sievedb {
namespace {

constexpr double kLn2 = std::numbers::ln2;

// ln(n!) for a whole n. Not lgamma, which writes a global variable that another thread
// may be writing.
double LogFactorial(double n) {
  if (n < 32) {
    double sum = 0;
    for (double i = 2; i <= n; ++i) sum += std::log(i);
    return sum;
  }
  // Stirling's series: right to 1e-12 from here on.
  return (n + 0.5) * std::log(n) - n + 0.5 * std::log(2 * std::numbers::pi) + 1 / (12 * n) -
         1 / (360 * n * n * n);
}

// The false-positive rate of one block of 512 bits that holds keys keys: the mean
// of (set/512)^probes, where set is the number of different bits that
// n = keys * probes independent probes hit.
//
// The power of the mean alone is too low, by 1 % at 10 bits a key and by 4 % at 24,
// because set varies from block to block and the power is convex. The second term
// of the expansion around the mean accounts for that, with the exact variance of
// the number of occupied bits.
double InBlockFpr(double keys, int probes) {
  constexpr double kBits = BlockedBloom::kBlockBits;
  const double n = keys * probes;
  if (n == 0) return 0;
  const double clear = std::pow(1 - 1 / kBits, n);       // P(one given bit is clear)
  const double both_clear = std::pow(1 - 2 / kBits, n);  // P(two given bits are)
  const double set = 1 - clear;
  const double variance =
      std::max(0.0, clear / kBits + (1 - 1 / kBits) * both_clear - clear * clear);
  const double k = probes;
  return std::min(1.0, std::pow(set, k) * (1 + k * (k - 1) / 2 * variance / (set * set)));
}

}  // namespace

uint64_t FilterSizing::OptimalBits(uint64_t keys, double fpr) {
  if (std::isnan(fpr)) fpr = 1;
  fpr = std::clamp(fpr, std::numeric_limits<double>::min(), 1.0);
  const double bits = std::ceil(-static_cast<double>(keys) * std::log(fpr) / (kLn2 * kLn2));
  if (bits >= 0x1p64) return std::numeric_limits<uint64_t>::max();
  return bits > 0 ? static_cast<uint64_t>(bits) : 0;
}

int FilterSizing::OptimalProbes(double bits_per_key) {
  const double probes = std::round(bits_per_key * kLn2);
  if (!(probes >= 1)) return 1;  // also where bits_per_key is not a number
  return static_cast<int>(std::min(probes, 0x1p30));
}

double FilterSizing::ExpectedFpr(double bits_per_key, int probes) {
  if (!(bits_per_key > 0)) return 1;
  probes = std::max(probes, 1);
  return std::pow(-std::expm1(-probes / bits_per_key), probes);
}

double FilterSizing::ExpectedBlockedFpr(double bits_per_key, int probes) {
  // Below this every bit is set, and above nothing is: the sum would only cost time.
  if (!(bits_per_key > 0.01)) return 1;
  if (bits_per_key > 1e9) return 0;
  probes = std::clamp(probes, 1, BlockedBloom::kMaxProbes);
  // Keys fall into blocks at random, so a block's load is Poisson around the mean.
  // The weights beyond 12 standard deviations are below what a double can add.
  const double mean = BlockedBloom::kBlockBits / bits_per_key;
  const double reach = 12 * std::sqrt(mean) + 30;
  const double first = std::max(0.0, std::floor(mean - reach));
  double weight = std::exp(-mean + first * std::log(mean) - LogFactorial(first));
  double sum = 0;
  for (double load = first; load <= mean + reach; ++load) {
    sum += weight * InBlockFpr(load, probes);
    weight *= mean / (load + 1);
  }
  return std::min(sum, 1.0);
}

int FilterSizing::OptimalBlockedProbes(double bits_per_key) {
  // The rate falls to its minimum and rises from there, so the first rise ends the
  // search.
  int best = 1;
  double lowest = ExpectedBlockedFpr(bits_per_key, 1);
  for (int probes = 2; probes <= BlockedBloom::kMaxProbes; ++probes) {
    const double fpr = ExpectedBlockedFpr(bits_per_key, probes);
    if (fpr >= lowest) break;
    lowest = fpr;
    best = probes;
  }
  return best;
}

uint64_t FilterHash(std::string_view key) { return Hash64(key); }

}  // namespace sievedb
