#ifndef SIEVEDB_UTIL_BLOOM_H_
#define SIEVEDB_UTIL_BLOOM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "util/multiply.h"

namespace sievedb {

// The textbook Bloom filter (Bloom 1970): pure functions over an array of bits.
//
// Probe i (from 0) of a key with hash h in a filter of m bits is the bit
//   floor((h * g^i mod 2^64) * m / 2^64),  g = 0x9e3779b97f4a7c15
// where bit b is bit b % 8 of byte b / 8. Each probe takes the high bits of a product
// with an odd number of its own, for any m below 2^64. Double hashing (h1 + i h2
// modulo m) would make whole sequences of probes meet, which adds to the rate of
// filters of some thousand bits; products meet one by one.
class Bloom {
 public:
  static constexpr int kMaxProbes = 44;  // 64 bits a key times ln 2
  static constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;

  // Bits for keys at bits_per_key, a multiple of 512; at least 512.
  static uint64_t BitsFor(uint64_t keys, double bits_per_key);

  // Sets the bits of all hashes, with the misses of many keys overlapping.
  static void AddAll(char* array, uint64_t bits, int probes, absl::Span<const uint64_t> hashes);

  static bool MayContain(const char* array, uint64_t bits, int probes, uint64_t hash) {
    uint64_t x = hash;
    for (int i = 0; i < probes; ++i, x *= kMultiplier) {
      if (!IsSet(array, MultiplyHigh(x, bits))) return false;
    }
    return true;
  }
  static void Prefetch(const char* array, uint64_t bits, int probes, uint64_t hash);
  static void MayContainMany(const char* array, uint64_t bits, int probes,
                             absl::Span<const uint64_t> hashes, absl::Span<bool> results);

  // Which bit probe i of hash is.
  static uint64_t ProbeBit(uint64_t hash, int i, uint64_t bits);

  static uint64_t CountSetBits(const char* array, uint64_t bits);

 private:
  static bool IsSet(const char* array, uint64_t bit) {
    return ((array[bit / 8] >> (bit % 8)) & 1) != 0;
  }
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BLOOM_H_
