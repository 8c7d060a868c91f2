#ifndef SIEVEDB_UTIL_DENSE_BLOOM_H_
#define SIEVEDB_UTIL_DENSE_BLOOM_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "util/blocked_bloom.h"
#include "util/dense_bloom_avx2.h"

namespace sievedb {

// A blocked Bloom filter whose blocks hold seeds that were chosen to set few bits.
// Each block's keys are in eight groups, and the bits of each group as a whole are
// turned round the block, by one of 15 turns: the one with which most of them fall on
// bits that are set already. The turns take 32 of a block's 512 bits and spare 40 to
// 50 others, for a rate of 0.63 % at 10 bits a key where the filter without them has
// 0.97 % and the textbook's 0.82 %. Trying a turn costs no probes, only a count of
// bits. Asking is as fast as without: the turns lie in the line that is read anyway.
//
// A block. Little-endian.
//   offset  size  field
//   0       60    bits   b is bit b % 8 of byte b / 8; 15 words of 32 bits
//   60      4     turns  that of group g, 0 to 14, is in the bits 4g to 4g + 3
//
// The probes of a key with hash h in a filter of n blocks:
//   block    floor(h * n / 2^64)
//   group    low32(h) % 8
//   probe i  bit (p + 32 * turn) mod 480, p = (x >> 16) * 480 >> 16,
//            x = low32(h) * g^(i+1) mod 2^32, g = 0x9e3779b9; i = 0, 1 …
// A turn of 15, which no filter of ours has, is one of 0.
class DenseBlockedBloom {
 public:
  static constexpr int kProbedBits = dense_internal::kBits;
  static constexpr int kGroups = 8;
  static constexpr int kTurns = dense_internal::kWords;

  // Chooses the turns of all blocks and sets the bits of all hashes of all pieces.
  // blocks: num_blocks * 64 zero bytes. portable: the slower way that every CPU has,
  // for the test that the bytes are the same.
  // Cost: a sort by block, and 8 bytes a key.
  static void Build(char* blocks, uint64_t num_blocks, int probes,
                    absl::Span<const absl::Span<const uint64_t>> pieces, bool portable = false);

  // Adds one more with the turns that are there.
  static void Add(char* blocks, uint64_t num_blocks, int probes, uint64_t hash);

  static bool MayContain(const char* blocks, uint64_t num_blocks, int probes, uint64_t hash) {
    const char* const block =
        blocks + BlockedBloom::BlockIndex(hash, num_blocks) * BlockedBloom::kBlockBytes;
    const uint32_t low = static_cast<uint32_t>(hash);
#if SIEVEDB_BLOOM_HAS_AVX2
    if (bloom_internal::kUseAvx2) [[likely]] {
      return dense_internal::BlockMayContainAvx2(block, probes, low);
    }
#endif
    return dense_internal::BlockMayContainPortable(block, probes, low);
  }
  static void MayContainMany(const char* blocks, uint64_t num_blocks, int probes,
                             absl::Span<const uint64_t> hashes, absl::Span<bool> results);

  // Which bit probe i of hash is in its block, given the block: 0 to 479.
  static int ProbeBit(const char* block, uint64_t hash, int i);

  // Of the bits that are probed, without the turns.
  static int SetBitsOfBlock(const char* block);
  static uint64_t CountSetBits(const char* blocks, uint64_t num_blocks);
  static double FprFromBits(const char* blocks, uint64_t num_blocks, int probes);

  // The number of probes with the lowest rate, and that rate.
  static int OptimalProbes(double bits_per_key);
  static double ExpectedFpr(double bits_per_key);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_DENSE_BLOOM_H_
