#include "util/bloom.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace sievedb {

uint64_t Bloom::BitsFor(uint64_t keys, double bits_per_key) {
  constexpr double kUnit = 512;  // a cache line
  const double units = std::ceil(static_cast<double>(keys) * bits_per_key / kUnit);
  if (!(units >= 1)) return 512;
  // More than this could not be addressed.
  return static_cast<uint64_t>(std::min(units, 0x1p54)) * 512;
}

void Bloom::AddAll(char* array, uint64_t bits, int probes, absl::Span<const uint64_t> hashes) {
  assert(bits >= 1 && probes >= 1 && probes <= kMaxProbes);
  // The places of a few keys, whose lines are on their way while the rest is found.
  constexpr size_t kGroup = 8;
  std::array<uint64_t, kGroup * kMaxProbes> places;
  for (size_t begin = 0; begin < hashes.size(); begin += kGroup) {
    size_t n = 0;
    for (size_t i = begin; i < std::min(begin + kGroup, hashes.size()); ++i) {
      uint64_t x = hashes[i];
      for (int probe = 0; probe < probes; ++probe, x *= kMultiplier) {
        places[n] = MultiplyHigh(x, bits);
        __builtin_prefetch(array + places[n] / 8, 1);
        ++n;
      }
    }
    for (size_t i = 0; i < n; ++i) {
      char& byte = array[places[i] / 8];
      byte = static_cast<char>(byte | (1 << (places[i] % 8)));
    }
  }
}

void Bloom::Prefetch(const char* array, uint64_t bits, int probes, uint64_t hash) {
  // Half of all bits are set, so an absent key is denied by its first two or three:
  // the lines of the others would push out what others need.
  const int n = std::min(probes, 3);
  for (int i = 0; i < n; ++i, hash *= kMultiplier) {
    __builtin_prefetch(array + MultiplyHigh(hash, bits) / 8);
  }
}

void Bloom::MayContainMany(const char* array, uint64_t bits, int probes,
                           absl::Span<const uint64_t> hashes, absl::Span<bool> results) {
  assert(hashes.size() == results.size());
  // Round i reads probe i of the keys that are still in, and starts loading the next
  // of those that stay: as few lines as one by one, and all of a round in flight.
  constexpr size_t kGroup = 64;
  std::array<uint64_t, kGroup> xs;
  std::array<uint8_t, kGroup> ids;
  for (size_t begin = 0; begin < hashes.size(); begin += kGroup) {
    const size_t n = std::min(kGroup, hashes.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      xs[i] = hashes[begin + i];
      ids[i] = static_cast<uint8_t>(i);
      __builtin_prefetch(array + MultiplyHigh(xs[i], bits) / 8);
    }
    std::fill_n(results.begin() + static_cast<ptrdiff_t>(begin), n, false);
    size_t in = n;
    for (int probe = 0; probe < probes && in > 0; ++probe) {
      size_t stay = 0;
      for (size_t i = 0; i < in; ++i) {
        // Written whether it stays or not: no branch that could not be predicted.
        const uint64_t x = xs[i];
        const uint8_t id = ids[i];
        const bool set = IsSet(array, MultiplyHigh(x, bits));
        xs[stay] = x * kMultiplier;
        ids[stay] = id;
        __builtin_prefetch(array + MultiplyHigh(xs[stay], bits) / 8);
        stay += set ? 1 : 0;
      }
      in = stay;
    }
    for (size_t i = 0; i < in; ++i) results[begin + ids[i]] = true;
  }
}

uint64_t Bloom::ProbeBit(uint64_t hash, int i, uint64_t bits) {
  assert(i >= 0 && i < kMaxProbes);
  for (; i > 0; --i) hash *= kMultiplier;
  return MultiplyHigh(hash, bits);
}

uint64_t Bloom::CountSetBits(const char* array, uint64_t bits) {
  assert(bits % 64 == 0);
  uint64_t set = 0;
  for (uint64_t at = 0; at < bits / 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, array + at, sizeof(word));
    set += static_cast<uint64_t>(std::popcount(word));
  }
  return set;
}

}  // namespace sievedb
