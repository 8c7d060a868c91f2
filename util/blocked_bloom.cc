#include "util/blocked_bloom.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

namespace sievedb {

// The bits of a key with hash h in a filter of n blocks:
//
//   block    floor(h * n / 2^64)
//   probe i  bit (low32(h) * g^(i+1) mod 2^32) >> 23 of that block, i = 0, 1 …,
//            g = 0x9e3779b9; bit b is bit b % 8 of byte b / 8
//
// Each probe is the top 9 bits of a product with an odd number of its own, so the
// probes need no sequence of steps, in a vector or out of one.
//
// The probes are independent of the block: the hashes of one block are an interval
// of 2^64 / n consecutive numbers. While n <= 2^32 it covers every value of the low
// half floor or ceil of 2^32 / n times, so given the block the low half is uniform
// to within a factor of 1 + n / 2^32: 0.3 % at 1e8 keys of 64 bits (n = 1.25e7),
// and spread evenly over the 2^32 values, so that no probe notices. Only filters of
// more than 2^32 blocks (256 GiB) would begin to reuse bits. Two keys of a block with
// the same low half are one key to the filter: among the 51 keys of a block at 10
// bits a key that adds 1.2e-8 to the rate.

namespace {

inline uint32_t Bit(uint32_t low, int i) {
  return (low * bloom_internal::kMultipliers[static_cast<size_t>(i)]) >> 23;
}

inline char* BlockOf(char* blocks, uint64_t num_blocks, uint64_t hash) {
  return blocks + BlockedBloom::BlockIndex(hash, num_blocks) * BlockedBloom::kBlockBytes;
}
inline void PrefetchToWrite(char* blocks, uint64_t num_blocks, uint64_t hash) {
  __builtin_prefetch(BlockOf(blocks, num_blocks, hash), 1);
}

// Blocks are read and written as eight words of 64 bits, wherever they lie.
inline uint64_t LoadWord(const char* block, uint32_t word) {
  uint64_t v;
  std::memcpy(&v, block + word * 8, sizeof(v));
  return v;
}

inline void SetBit(char* block, uint32_t bit) {
  char* const at = block + (bit >> 6) * 8;
  const uint64_t word = LoadWord(at, 0) | (uint64_t{1} << (bit & 63));
  std::memcpy(at, &word, sizeof(word));
}

template <int kProbes>
void AddHashes(char* blocks, uint64_t num_blocks, absl::Span<const uint64_t> hashes) {
  const size_t n = hashes.size();
  const size_t ahead = std::min(n, bloom_internal::kAddsInFlight);
  for (size_t i = 0; i < ahead; ++i) PrefetchToWrite(blocks, num_blocks, hashes[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) PrefetchToWrite(blocks, num_blocks, hashes[i + ahead]);
    char* const block = BlockOf(blocks, num_blocks, hashes[i]);
    for (int probe = 0; probe < kProbes; ++probe) {
      SetBit(block, Bit(static_cast<uint32_t>(hashes[i]), probe));
    }
  }
}

using AddFunction = void (*)(char*, uint64_t, absl::Span<const uint64_t>);

template <size_t... kIndices>
constexpr std::array<AddFunction, sizeof...(kIndices)> MakeAddFunctions(
    std::index_sequence<kIndices...>) {
  return {&AddHashes<static_cast<int>(kIndices) + 1>...};
}

constexpr auto kAddFunctions =
    MakeAddFunctions(std::make_index_sequence<size_t{BlockedBloom::kMaxProbes}>());

int CountBlock(const char* block) {
  int set = 0;
  for (uint32_t word = 0; word < 8; ++word) set += std::popcount(LoadWord(block, word));
  return set;
}

}  // namespace

namespace bloom_internal {

bool BlockMayContainPortable(const char* block, int probes, uint32_t low) {
  // All probes without a branch in between: at half the bits set, a branch on each
  // would be mispredicted once a key, which costs more than the probes saved.
  uint64_t all = 1;
  for (int i = 0; i < probes; ++i) {
    const uint32_t bit = Bit(low, i);
    all &= LoadWord(block, bit >> 6) >> (bit & 63);
  }
  return (all & 1) != 0;
}

}  // namespace bloom_internal

uint64_t BlockedBloom::BlocksFor(uint64_t keys, double bits_per_key) {
  const double blocks = std::ceil(static_cast<double>(keys) * bits_per_key / kBlockBits);
  if (!(blocks >= 1)) return 1;
  // More than this could not be addressed.
  return static_cast<uint64_t>(std::min(blocks, 0x1p57));
}

void BlockedBloom::AddAll(char* blocks, uint64_t num_blocks, int probes,
                          absl::Span<const uint64_t> hashes, bool portable) {
  assert(num_blocks >= 1 && probes >= 1 && probes <= kMaxProbes);
#if SIEVEDB_BLOOM_HAS_AVX2
  if (bloom_internal::kUseAvx2 && !portable) {
    bloom_internal::AddAllAvx2(blocks, num_blocks, probes, hashes.data(), hashes.size());
    return;
  }
#endif
  static_cast<void>(portable);
  kAddFunctions[static_cast<size_t>(probes - 1)](blocks, num_blocks, hashes);
}

void BlockedBloom::MayContainMany(const char* blocks, uint64_t num_blocks, int probes,
                                  absl::Span<const uint64_t> hashes, absl::Span<bool> results) {
  assert(hashes.size() == results.size());
  const size_t n = hashes.size();
#if SIEVEDB_BLOOM_HAS_AVX2
  if (bloom_internal::kUseAvx2) {
    bloom_internal::MayContainManyAvx2(blocks, num_blocks, probes, hashes.data(), n,
                                       results.data());
    return;
  }
#endif
  const size_t ahead = std::min(n, bloom_internal::kProbesInFlight);
  for (size_t i = 0; i < ahead; ++i) Prefetch(blocks, num_blocks, hashes[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) Prefetch(blocks, num_blocks, hashes[i + ahead]);
    results[i] = MayContain(blocks, num_blocks, probes, hashes[i]);
  }
}

int BlockedBloom::ProbeBit(uint64_t hash, int i) {
  assert(i >= 0 && i < kMaxProbes);
  return static_cast<int>(Bit(static_cast<uint32_t>(hash), i));
}

uint64_t BlockedBloom::CountSetBits(const char* blocks, uint64_t num_blocks) {
  uint64_t set = 0;
  for (uint64_t i = 0; i < num_blocks; ++i) {
    set += static_cast<uint64_t>(CountBlock(blocks + i * kBlockBytes));
  }
  return set;
}

double BlockedBloom::FprFromBits(const char* blocks, uint64_t num_blocks, int probes) {
  if (num_blocks == 0) return 1;
  // Blocks by their number of set bits: the powers are then computed once for each.
  std::array<uint64_t, kBlockBits + 1> blocks_with{};
  for (uint64_t i = 0; i < num_blocks; ++i) {
    ++blocks_with[static_cast<size_t>(CountBlock(blocks + i * kBlockBytes))];
  }
  double sum = 0;
  for (size_t set = 1; set < blocks_with.size(); ++set) {
    sum += static_cast<double>(blocks_with[set]) *
           std::pow(static_cast<double>(set) / kBlockBits, probes);
  }
  return sum / static_cast<double>(num_blocks);
}

}  // namespace sievedb
