#ifndef SIEVEDB_UTIL_BLOCKED_BLOOM_AVX2_H_
#define SIEVEDB_UTIL_BLOCKED_BLOOM_AVX2_H_

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define SIEVEDB_BLOOM_HAS_AVX2 1
#else
#define SIEVEDB_BLOOM_HAS_AVX2 0
#endif

namespace sievedb {

// What is behind BlockedBloom: the probes of one block, once in plain C++ and once
// in AVX2, with the same answers. Tests call both; others call BlockedBloom.
namespace bloom_internal {

// The odd multipliers of the probes: powers of the golden ratio's. Part of the
// format; see blocked_bloom.cc.
inline constexpr uint32_t kGolden = 0x9e3779b9;
inline constexpr std::array<uint32_t, 16> kMultipliers = [] {
  std::array<uint32_t, 16> multipliers{};
  uint32_t power = 1;
  for (uint32_t& multiplier : multipliers) multiplier = power *= kGolden;
  return multipliers;
}();

// Keys whose cache lines are on their way while others are asked: what a core can
// have in flight, and more than the latency of memory at some 5 ns a key.
inline constexpr size_t kProbesInFlight = 32;
// The same while building, where each line is written too.
inline constexpr size_t kAddsInFlight = 16;

// Whether the bits of the first probes (1 to 16) of low, a hash's low half, are set
// in the 64 bytes at block.
bool BlockMayContainPortable(const char* block, int probes, uint32_t low);

#if SIEVEDB_BLOOM_HAS_AVX2
// False until static initialization has asked the CPU; the other path is right too.
extern const bool kUseAvx2;
// Requires: the CPU has AVX2.
bool BlockMayContainAvx2(const char* block, int probes, uint32_t low);
// Sets the bits of n hashes, with the misses of many overlapping.
void AddAllAvx2(char* blocks, uint64_t num_blocks, int probes, const uint64_t* hashes, size_t n);
void MayContainManyAvx2(const char* blocks, uint64_t num_blocks, int probes, const uint64_t* hashes,
                        size_t n, bool* results);
#endif

}  // namespace bloom_internal
}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BLOCKED_BLOOM_AVX2_H_
