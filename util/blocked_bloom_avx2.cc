#include "util/blocked_bloom_avx2.h"

#if SIEVEDB_BLOOM_HAS_AVX2

#include <immintrin.h>

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

}  // namespace

const bool kUseAvx2 = CpuHasAvx2();

__attribute__((target("avx2"))) bool BlockMayContainAvx2(const char* block, int probes,
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

}  // namespace bloom_internal
}  // namespace sievedb

#endif  // SIEVEDB_BLOOM_HAS_AVX2
