#ifndef SIEVEDB_UTIL_HASH_PARTITION_H_
#define SIEVEDB_UTIL_HASH_PARTITION_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace sievedb {

// What the filters that are built once from all keys share: a seeded hash of a
// hash, the keys in an order in which building touches memory from one end to the
// other, and probing in groups whose cache misses overlap.

// A bijection of 64 bits for each seed (the finalizer of MurmurHash3), so that
// different hashes stay different, and hashes that are in a row, sorted, or all of
// one shape are spread like any others.
inline uint64_t MixHash(uint64_t hash, uint64_t seed) {
  uint64_t x = hash + seed;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

// The seed of attempt or layer i, from 0. Part of the formats that name it.
inline uint64_t MixSeed(uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; }

// Writes MixHash(hash, seed) of every hash to out, grouped by MultiplyHigh(mixed,
// parts), groups ascending. begins gets parts + 1 numbers: group i is
// out[begins[i]] up to out[begins[i + 1]]. Two passes; fast while parts is below
// some thousands, since each part has a page and a line of its own.
//
// Requires: room for all hashes at out; parts >= 1.
void PartitionHashes(absl::Span<const uint64_t> hashes, uint64_t seed, uint64_t parts,
                     uint64_t* out, std::vector<uint64_t>* begins);

// The same order as sorting the mixed hashes, equal ones once. Returns their number.
uint64_t SortMixedHashes(absl::Span<const uint64_t> hashes, uint64_t seed, uint64_t* out);

// results[i] = test(place of hashes[i]), in groups: locate finds a key's place and
// starts loading its lines, and they come while the others' places are found.
template <typename Place, typename Locate, typename Test>
void ProbeInGroups(absl::Span<const uint64_t> hashes, absl::Span<bool> results, Locate locate,
                   Test test) {
  constexpr size_t kGroup = 16;
  std::array<Place, kGroup> places;
  for (size_t begin = 0; begin < hashes.size(); begin += kGroup) {
    const size_t n = std::min(kGroup, hashes.size() - begin);
    for (size_t i = 0; i < n; ++i) places[i] = locate(hashes[begin + i]);
    for (size_t i = 0; i < n; ++i) results[begin + i] = test(places[i]);
  }
}

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_HASH_PARTITION_H_
