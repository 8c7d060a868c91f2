#include "util/counting_bloom.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "sievedb/filter.h"
#include "util/coding.h"
#include "util/prefetch.h"

namespace sievedb {

// Counter i is the lower half of byte i / 2 where i is even, the upper half where it
// is odd. With n counters, k probes and g = 0x9e3779b97f4a7c15 a hash has
//
//   a = MixHash(hash, g),  b = MixHash(a, g) with its lowest bit set
//   counter j = floor((a + j b mod 2^64) * n / 2^64),  j = 0 … k - 1
//
// A key counts once in each of its counters, though two of its probes may be the
// same: otherwise a key that was never added could take a counter below zero.

namespace {

constexpr uint64_t kCountersPerLine = 128;

struct Distinct {
  std::array<uint64_t, CountingBloom::kMaxProbes> at;
  size_t size = 0;
};

Distinct DistinctCounters(uint64_t num_counters, int probes, uint64_t hash) {
  Distinct distinct;
  CountingBloom::Probes sequence(hash, num_counters);
  for (int i = 0; i < probes; ++i) {
    const uint64_t counter = sequence.Next();
    const auto end = distinct.at.begin() + static_cast<std::ptrdiff_t>(distinct.size);
    if (std::find(distinct.at.begin(), end, counter) == end) distinct.at[distinct.size++] = counter;
  }
  return distinct;
}

void Change(uint8_t* counters, uint64_t i, int by) {
  counters[i / 2] = static_cast<uint8_t>(counters[i / 2] + by * (i % 2 == 0 ? 1 : 16));
}

}  // namespace

uint64_t CountingBloom::CountersFor(uint64_t keys, double bits_per_key) {
  const double lines =
      std::ceil(static_cast<double>(keys) * bits_per_key / (4 * double{kCountersPerLine}));
  if (!(lines >= 1)) return kCountersPerLine;
  return static_cast<uint64_t>(std::min(lines, double{kMaxCounters / kCountersPerLine})) *
         kCountersPerLine;
}

int CountingBloom::ProbesFor(double bits_per_key) {
  return std::min(FilterSizing::OptimalProbes(bits_per_key / 4), kMaxProbes);
}

void CountingBloom::Add(uint8_t* counters, uint64_t num_counters, int probes, uint64_t hash) {
  assert(probes >= 1 && probes <= kMaxProbes);
  const Distinct distinct = DistinctCounters(num_counters, probes, hash);
  for (size_t i = 0; i < distinct.size; ++i) PrefetchLineToWrite(counters + distinct.at[i] / 2);
  for (size_t i = 0; i < distinct.size; ++i) {
    if (Counter(counters, distinct.at[i]) != kSaturated) Change(counters, distinct.at[i], 1);
  }
}

bool CountingBloom::Remove(uint8_t* counters, uint64_t num_counters, int probes, uint64_t hash) {
  assert(probes >= 1 && probes <= kMaxProbes);
  const Distinct distinct = DistinctCounters(num_counters, probes, hash);
  for (size_t i = 0; i < distinct.size; ++i) PrefetchLineToWrite(counters + distinct.at[i] / 2);
  for (size_t i = 0; i < distinct.size; ++i) {
    if (Counter(counters, distinct.at[i]) == 0) return false;
  }
  for (size_t i = 0; i < distinct.size; ++i) {
    // How many keys a saturated counter stands for is not known any more.
    if (Counter(counters, distinct.at[i]) != kSaturated) Change(counters, distinct.at[i], -1);
  }
  return true;
}

bool CountingBloom::MayContain(const uint8_t* counters, uint64_t num_counters, int probes,
                               uint64_t hash) {
  Probes sequence(hash, num_counters);
  for (int i = 0; i < probes; ++i) {
    if (Counter(counters, sequence.Next()) == 0) return false;
  }
  return true;
}

void CountingBloom::Prefetch(const uint8_t* counters, uint64_t num_counters, int probes,
                             uint64_t hash) {
  Probes sequence(hash, num_counters);
  for (int i = 0; i < probes; ++i) PrefetchLine(counters + sequence.Next() / 2);
}

void CountingBloom::MayContainMany(const uint8_t* counters, uint64_t num_counters, int probes,
                                   absl::Span<const uint64_t> hashes, absl::Span<bool> results) {
  // Half of what is left of the absent keys goes with each probe, so the next probe's
  // line is fetched only for keys that are still in question: all of them together
  // have as many misses in flight as the CPU can.
  constexpr size_t kGroup = 32;
  std::array<uint32_t, kGroup> left;
  std::array<uint64_t, kGroup> at;
  for (size_t begin = 0; begin < hashes.size(); begin += kGroup) {
    size_t n = std::min(kGroup, hashes.size() - begin);
    std::array<Probes, kGroup> sequences = [&]<size_t... kI>(std::index_sequence<kI...>) {
      return std::array<Probes, kGroup>{
          Probes(hashes[begin + std::min(kI, n - 1)], num_counters)...};
    }
    (std::make_index_sequence<kGroup>());
    for (size_t i = 0; i < n; ++i) {
      results[begin + i] = true;
      left[i] = static_cast<uint32_t>(i);
      at[i] = sequences[i].Next();
      PrefetchLine(counters + at[i] / 2);
    }
    for (int probe = 0; probe < probes && n > 0; ++probe) {
      size_t still = 0;
      for (size_t k = 0; k < n; ++k) {
        const uint32_t i = left[k];
        const bool maybe = Counter(counters, at[i]) != 0;
        results[begin + i] = maybe;
        left[still] = i;
        still += maybe ? 1 : 0;
      }
      n = still;
      if (probe + 1 == probes) break;
      for (size_t k = 0; k < n; ++k) {
        const uint32_t i = left[k];
        at[i] = sequences[i].Next();
        PrefetchLine(counters + at[i] / 2);
      }
    }
  }
}

uint64_t CountingBloom::CountNonzero(const uint8_t* counters, uint64_t num_counters) {
  assert(num_counters % kCountersPerLine == 0);
  uint64_t count = 0;
  for (uint64_t byte = 0; byte < num_counters / 2; byte += 8) {
    const uint64_t x = DecodeFixed64(reinterpret_cast<const char*>(counters + byte));
    // The lowest bit of each four: whether any of them is set.
    const uint64_t any = (x | x >> 1 | x >> 2 | x >> 3) & 0x1111111111111111;
    count += static_cast<uint64_t>(std::popcount(any));
  }
  return count;
}

}  // namespace sievedb
