#ifndef SIEVEDB_UTIL_COUNTING_BLOOM_H_
#define SIEVEDB_UTIL_COUNTING_BLOOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "util/hash_partition.h"
#include "util/multiply.h"

namespace sievedb {

// A Bloom filter of 4-bit counters (Fan, Cao, Almeida & Broder 1998). Pure functions
// over an array of counters, two to a byte; its bytes are a format, described in
// counting_bloom.cc.
class CountingBloom {
 public:
  static constexpr int kMaxProbes = 32;
  static constexpr uint64_t kSaturated = 15;
  static constexpr uint64_t kMaxCounters = uint64_t{1} << 57;

  // The counters that a key's probes are, one after the other (Kirsch & Mitzenmacher
  // 2006). Two may be the same.
  class Probes {
   public:
    Probes(uint64_t hash, uint64_t num_counters)
        : at_(MixHash(hash, kSeed)), step_(MixHash(at_, kSeed) | 1), num_counters_(num_counters) {}
    uint64_t Next() {
      const uint64_t counter = MultiplyHigh(at_, num_counters_);
      at_ += step_;
      return counter;
    }

   private:
    static constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;
    uint64_t at_;
    uint64_t step_;
    uint64_t num_counters_;
  };

  // Counters for keys at bits_per_key of memory, which are 4 bits each: a positive
  // multiple of 128, which are 64 bytes.
  static uint64_t CountersFor(uint64_t keys, double bits_per_key);
  static int ProbesFor(double bits_per_key);

  static unsigned Counter(const uint8_t* counters, uint64_t i) {
    return (counters[i / 2] >> (i % 2 * 4)) & 15;
  }

  static void Add(uint8_t* counters, uint64_t num_counters, int probes, uint64_t hash);
  // Returns false, and changes nothing, where the hash is certainly not there.
  static bool Remove(uint8_t* counters, uint64_t num_counters, int probes, uint64_t hash);
  static bool MayContain(const uint8_t* counters, uint64_t num_counters, int probes, uint64_t hash);
  static void Prefetch(const uint8_t* counters, uint64_t num_counters, int probes, uint64_t hash);
  static void MayContainMany(const uint8_t* counters, uint64_t num_counters, int probes,
                             absl::Span<const uint64_t> hashes, absl::Span<bool> results);

  static uint64_t CountNonzero(const uint8_t* counters, uint64_t num_counters);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_COUNTING_BLOOM_H_
