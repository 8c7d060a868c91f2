#include "tools/filter_theory.h"

#include <algorithm>
#include <cmath>

#include "sievedb/filter.h"
#include "tools/key_value_generator.h"
#include "util/aligned_buffer.h"
#include "util/blocked_bloom.h"
#include "util/dense_bloom.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

// Of slots and their thresholds for each key of a large ribbon filter, per bit.
constexpr double kRibbonOverhead = 1.01;
// 1.125 bytes a key.
constexpr double kFuseBitsPerKey = 9;

double RibbonFpr(double bits_per_key) {
  const double slot_bits = std::clamp(bits_per_key / kRibbonOverhead, 1.0, 32.0);
  // Slots of whole bits, a part of them with one more.
  const double whole = std::floor(slot_bits);
  return std::exp2(-whole) * (1 - (slot_bits - whole) / 2);
}

}  // namespace

std::vector<double> SetBitsDistribution(double mean_keys, int probes, int block_bits) {
  std::vector<double> distribution(static_cast<size_t>(block_bits) + 1);
  // So many probes that no bit is left.
  if (mean_keys * probes > 40.0 * block_bits) {
    distribution.back() = 1;
    return distribution;
  }
  const double reach = 10 * std::sqrt(mean_keys) + 20;
  const double first = std::max(0.0, std::floor(mean_keys - reach));
  double weight = mean_keys > 0
                      ? std::exp(-mean_keys + first * std::log(mean_keys) - std::lgamma(first + 1))
                      : 1;
  // set[s]: the probability that s bits are set after the probes thrown so far.
  std::vector<double> set(distribution.size());
  set[0] = 1;
  const double bits = block_bits;
  for (double load = 0; load <= mean_keys + reach; ++load) {
    if (load >= first) {
      for (size_t s = 0; s < set.size(); ++s) distribution[s] += weight * set[s];
      weight *= mean_keys / (load + 1);
    }
    for (int probe = 0; probe < probes; ++probe) {
      for (size_t s = set.size() - 1; s > 0; --s) {
        const double taken = static_cast<double>(s);
        set[s] = set[s] * taken / bits + set[s - 1] * (bits - taken + 1) / bits;
      }
      set[0] = 0;
    }
  }
  return distribution;
}

std::vector<double> DenseSetBitsDistribution(double mean_keys, int probes) {
  constexpr double kMaxKeys = 1'000'000;
  constexpr double kMaxBlocks = 20'000;
  const uint64_t blocks =
      static_cast<uint64_t>(std::clamp(kMaxKeys / std::max(mean_keys, 1.0), 1.0, kMaxBlocks));
  const uint64_t keys = static_cast<uint64_t>(
      std::min(kMaxKeys, std::round(mean_keys * static_cast<double>(blocks))));
  BenchRandom random(20260102);
  std::vector<uint64_t> hashes(keys);
  for (uint64_t& hash : hashes) hash = random.Next();
  AlignedBuffer buffer = AlignedBuffer::Zeroed(blocks * BlockedBloom::kBlockBytes);
  const absl::Span<const uint64_t> piece = hashes;
  DenseBlockedBloom::Build(buffer.data(), blocks, probes, {&piece, 1});
  std::vector<double> distribution(DenseBlockedBloom::kProbedBits + 1);
  for (uint64_t i = 0; i < blocks; ++i) {
    const int set =
        DenseBlockedBloom::SetBitsOfBlock(buffer.data() + i * BlockedBloom::kBlockBytes);
    distribution[static_cast<size_t>(set)] += 1.0 / static_cast<double>(blocks);
  }
  return distribution;
}

std::vector<RateCurve> RateCurves(double first, double last) {
  constexpr int kSteps = 80;
  std::vector<RateCurve> curves;
  const auto add = [&](const char* name, uint8_t kind, auto rate) {
    RateCurve curve{name, kind, {}};
    for (int i = 0; i <= kSteps; ++i) {
      const double bits = first + (last - first) * i / kSteps;
      curve.points.push_back({bits, rate(bits)});
    }
    curves.push_back(std::move(curve));
  };
  add("blocked Bloom", kBlockedBloomKind, [](double bits) {
    return FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
  });
  add("dense blocked Bloom", kDenseBlockedBloomKind, DenseBlockedBloom::ExpectedFpr);
  add("textbook Bloom", kBloomKind, [](double bits) {
    return FilterSizing::ExpectedFpr(bits, FilterSizing::OptimalProbes(bits));
  });
  add("ribbon", kRibbonKind, RibbonFpr);
  curves.push_back({"binary fuse", kBinaryFuseKind, {{kFuseBitsPerKey, 1.0 / 256}}});
  add("least possible", 0, [](double bits) { return std::exp2(-bits); });
  return curves;
}

}  // namespace sievedb
