#ifndef SIEVEDB_UTIL_DENSE_BLOOM_AVX2_H_
#define SIEVEDB_UTIL_DENSE_BLOOM_AVX2_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "util/blocked_bloom_avx2.h"

namespace sievedb {

// What is behind DenseBlockedBloom: the probes of one block in plain C++ and in AVX2,
// with the same answers.
namespace dense_internal {

inline constexpr int kWords = 15;  // of 32 bits
inline constexpr int kBits = 32 * kWords;
inline constexpr size_t kTurnsOffset = 4 * kWords;

// By how many words the group of a hash is turned in block: 0 to 15.
inline uint32_t Turn(const char* block, uint32_t low) {
  uint32_t turns;
  std::memcpy(&turns, block + kTurnsOffset, sizeof(turns));
  return (turns >> ((low & 7) * 4)) & 15;
}

// Requires: 1 to 16 probes.
bool BlockMayContainPortable(const char* block, int probes, uint32_t low);

#if SIEVEDB_BLOOM_HAS_AVX2
// Requires: the CPU has AVX2.
bool BlockMayContainAvx2(const char* block, int probes, uint32_t low);
void MayContainManyAvx2(const char* blocks, uint64_t num_blocks, int probes, const uint64_t* hashes,
                        size_t n, bool* results);
#endif

}  // namespace dense_internal
}  // namespace sievedb

#endif  // SIEVEDB_UTIL_DENSE_BLOOM_AVX2_H_
