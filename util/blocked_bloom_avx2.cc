#include "util/blocked_bloom_avx2.h"

#if SIEVEDB_BLOOM_HAS_AVX2

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "util/blocked_bloom.h"

namespace sievedb {
namespace bloom_internal {
namespace {

bool CpuHasAvx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}

// A load of 8 lanes from here + 8 - n has a one in the first n.
alignas(64) constexpr int32_t kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};

// Eight probes at once. The block's 16 words of 32 bits are in two registers; a
// probe's top 4 bits choose the word (the lowest three by permutation, the highest,
// which is the sign, by the blend), its next 5 the bit.
__attribute__((target("avx2"), always_inline)) inline bool AllSet(__m256i low_words,
                                                                  __m256i high_words, __m256i low,
                                                                  const uint32_t* multipliers,
                                                                  const int32_t* ones) {
  const __m256i product =
      _mm256_mullo_epi32(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(multipliers)));
  const __m256i word = _mm256_srli_epi32(product, 28);
  const __m256i bit = _mm256_srli_epi32(_mm256_slli_epi32(product, 4), 27);
  const __m256 picked =
      _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low_words, word)),
                       _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high_words, word)),
                       _mm256_castsi256_ps(product));
  const __m256i wanted =
      _mm256_sllv_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones)), bit);
  return _mm256_testc_si256(_mm256_castps_si256(picked), wanted) != 0;
}

__attribute__((target("avx2"), always_inline)) inline bool BlockHas(const char* block, int probes,
                                                                    uint32_t low) {
  // Unaligned loads cost nothing where the block is aligned, as it is in a table.
  const __m256i low_words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
  const __m256i high_words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
  const __m256i lanes = _mm256_set1_epi32(static_cast<int32_t>(low));
  if (probes <= 8) [[likely]] {
    return AllSet(low_words, high_words, lanes, kMultipliers.data(), kOnes + 8 - probes);
  }
  // An absent key hardly ever gets past the first eight, so this predicts well.
  return AllSet(low_words, high_words, lanes, kMultipliers.data(), kOnes) &&
         AllSet(low_words, high_words, lanes, kMultipliers.data() + 8, kOnes + 16 - probes);
}

}  // namespace

const bool kUseAvx2 = CpuHasAvx2();

__attribute__((target("avx2"))) bool BlockMayContainAvx2(const char* block, int probes,
                                                         uint32_t low) {
  return BlockHas(block, probes, low);
}

namespace {

template <size_t... kIndices>
__attribute__((target("avx2"), always_inline)) inline void AddToBlock(
    char* block, uint32_t low, std::index_sequence<kIndices...>) {
  alignas(32) uint32_t bits[16];
  const __m256i lanes = _mm256_set1_epi32(static_cast<int32_t>(low));
  for (size_t i = 0; i < sizeof...(kIndices); i += 8) {
    const __m256i multipliers =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMultipliers.data() + i));
    _mm256_store_si256(reinterpret_cast<__m256i*>(bits + i),
                       _mm256_srli_epi32(_mm256_mullo_epi32(lanes, multipliers), 23));
  }
  // Bits of a register, not of memory: two bits of one word would have to wait for
  // each other there. A shift by 32 or more, or by less than 0, gives 0, so that each
  // bit is set in the one of the 16 words that it belongs to.
  const __m256i first = _mm256_setr_epi32(0, 32, 64, 96, 128, 160, 192, 224);
  const __m256i second = _mm256_setr_epi32(256, 288, 320, 352, 384, 416, 448, 480);
  const __m256i one = _mm256_set1_epi32(1);
  __m256i* const at = reinterpret_cast<__m256i*>(block);
  __m256i low_words = _mm256_loadu_si256(at);
  __m256i high_words = _mm256_loadu_si256(at + 1);
  const auto set = [&](size_t i) __attribute__((target("avx2"), always_inline)) {
    const __m256i bit = _mm256_set1_epi32(static_cast<int32_t>(bits[i]));
    low_words = _mm256_or_si256(low_words, _mm256_sllv_epi32(one, _mm256_sub_epi32(bit, first)));
    high_words = _mm256_or_si256(high_words, _mm256_sllv_epi32(one, _mm256_sub_epi32(bit, second)));
  };
  (set(kIndices), ...);
  _mm256_storeu_si256(at, low_words);
  _mm256_storeu_si256(at + 1, high_words);
}

template <int kProbes>
__attribute__((target("avx2"))) void AddHashes(char* blocks, uint64_t num_blocks,
                                               const uint64_t* hashes, size_t n) {
  const auto block = [&](size_t i) {
    return blocks + BlockedBloom::BlockIndex(hashes[i], num_blocks) * BlockedBloom::kBlockBytes;
  };
  const size_t ahead = std::min(n, kAddsInFlight);
  for (size_t i = 0; i < ahead; ++i) __builtin_prefetch(block(i), 1);
  for (size_t i = 0; i < n; ++i) {
    // Computing a block twice is cheaper than remembering it.
    if (i + ahead < n) __builtin_prefetch(block(i + ahead), 1);
    AddToBlock(block(i), static_cast<uint32_t>(hashes[i]),
               std::make_index_sequence<size_t{kProbes}>());
  }
}

using AddFunction = void (*)(char*, uint64_t, const uint64_t*, size_t);

template <size_t... kIndices>
constexpr std::array<AddFunction, sizeof...(kIndices)> MakeAddFunctions(
    std::index_sequence<kIndices...>) {
  return {&AddHashes<static_cast<int>(kIndices) + 1>...};
}
constexpr auto kAddFunctions =
    MakeAddFunctions(std::make_index_sequence<size_t{BlockedBloom::kMaxProbes}>());

}  // namespace

void AddAllAvx2(char* blocks, uint64_t num_blocks, int probes, const uint64_t* hashes, size_t n) {
  kAddFunctions[static_cast<size_t>(probes - 1)](blocks, num_blocks, hashes, n);
}

__attribute__((target("avx2"))) void MayContainManyAvx2(const char* blocks, uint64_t num_blocks,
                                                        int probes, const uint64_t* hashes,
                                                        size_t n, bool* results) {
  const size_t ahead = std::min(n, kProbesInFlight);
  for (size_t i = 0; i < ahead; ++i) BlockedBloom::Prefetch(blocks, num_blocks, hashes[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) BlockedBloom::Prefetch(blocks, num_blocks, hashes[i + ahead]);
    const char* const block =
        blocks + BlockedBloom::BlockIndex(hashes[i], num_blocks) * BlockedBloom::kBlockBytes;
    results[i] = BlockHas(block, probes, static_cast<uint32_t>(hashes[i]));
  }
}

}  // namespace bloom_internal
}  // namespace sievedb

#endif  // SIEVEDB_BLOOM_HAS_AVX2
