#ifndef SIEVEDB_UTIL_BLOCKED_BLOOM_H_
#define SIEVEDB_UTIL_BLOCKED_BLOOM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "util/blocked_bloom_avx2.h"
#include "util/multiply.h"

namespace sievedb {

// A Bloom filter in which all probes of a key fall into one 512-bit block, which
// is one cache line (Putze, Sanders & Singler 2007). Pure functions over an array
// of blocks; the bits do not depend on the CPU.
//
// The block comes from the high bits of the hash by multiply-shift in 64-bit
// arithmetic; the probes from the low half. The exact bits are a format; they are
// described in blocked_bloom.cc and have golden vectors in tests/.
class BlockedBloom {
 public:
  static constexpr size_t kBlockBytes = 64;
  static constexpr int kBlockBits = 512;
  static constexpr int kProbedBits = kBlockBits;  // of a block
  static constexpr int kMaxProbes = 16;

  // Blocks for keys at bits_per_key; at least 1.
  static uint64_t BlocksFor(uint64_t keys, double bits_per_key);

  // Sets the bits of all hashes. blocks: num_blocks * 64 bytes, zero or filled
  // before; fastest where 64-byte aligned. portable: the slower way that every CPU
  // has, for the test that the bits are the same.
  static void AddAll(char* blocks, uint64_t num_blocks, int probes,
                     absl::Span<const uint64_t> hashes, bool portable = false);

  static uint64_t BlockIndex(uint64_t hash, uint64_t num_blocks) {
    return MultiplyHigh(hash, num_blocks);
  }
  static void Prefetch(const char* blocks, uint64_t num_blocks, uint64_t hash) {
    __builtin_prefetch(blocks + BlockIndex(hash, num_blocks) * kBlockBytes);
  }

  // Whether all bits of hash are set. AVX2 where the CPU has it: then one direct
  // call of some 20 instructions with no branch that depends on the data.
  static bool MayContain(const char* blocks, uint64_t num_blocks, int probes, uint64_t hash) {
    const char* const block = blocks + BlockIndex(hash, num_blocks) * kBlockBytes;
    const uint32_t low = static_cast<uint32_t>(hash);
#if SIEVEDB_BLOOM_HAS_AVX2
    if (bloom_internal::kUseAvx2) [[likely]] {
      return bloom_internal::BlockMayContainAvx2(block, probes, low);
    }
#endif
    return bloom_internal::BlockMayContainPortable(block, probes, low);
  }

  // results[i] = MayContain(…, hashes[i]), with the misses of many keys overlapping.
  static void MayContainMany(const char* blocks, uint64_t num_blocks, int probes,
                             absl::Span<const uint64_t> hashes, absl::Span<bool> results);

  // Which bit of the block probe i (from 0) of hash is: 0 to 511. Bit b is bit
  // b % 8 of byte b / 8. For showing a filter to people.
  static int ProbeBit(uint64_t hash, int i);

  static uint64_t CountSetBits(const char* blocks, uint64_t num_blocks);
  // The false-positive rate that the bits really set give: the mean over blocks
  // of (set/512)^probes.
  static double FprFromBits(const char* blocks, uint64_t num_blocks, int probes);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BLOCKED_BLOOM_H_
