#include "util/dense_bloom_avx2.h"

#if SIEVEDB_BLOOM_HAS_AVX2

#include <immintrin.h>

#include <algorithm>

#include "util/blocked_bloom.h"

namespace sievedb {
namespace dense_internal {
namespace {

alignas(64) constexpr int32_t kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};

// Eight probes at once, as in blocked_bloom_avx2.cc but for the range of the bits and
// the turn. The 16th word, which has the turns, is never picked.
__attribute__((target("avx2"), always_inline)) inline bool AllSet(__m256i low_words,
                                                                  __m256i high_words, __m256i low,
                                                                  __m256i turn,
                                                                  const uint32_t* multipliers,
                                                                  const int32_t* ones) {
  const __m256i product =
      _mm256_mullo_epi32(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(multipliers)));
  const __m256i bit = _mm256_mulhi_epu16(_mm256_srli_epi32(product, 16), _mm256_set1_epi32(kBits));
  const __m256i sum = _mm256_add_epi32(_mm256_srli_epi32(bit, 5), turn);
  // Modulo 15: where sum is less, the difference is a large number.
  const __m256i word = _mm256_min_epu32(sum, _mm256_sub_epi32(sum, _mm256_set1_epi32(kWords)));
  const __m256 picked =
      _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low_words, word)),
                       _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high_words, word)),
                       _mm256_castsi256_ps(_mm256_slli_epi32(word, 28)));
  const __m256i wanted =
      _mm256_sllv_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones)),
                        _mm256_and_si256(bit, _mm256_set1_epi32(31)));
  return _mm256_testc_si256(_mm256_castps_si256(picked), wanted) != 0;
}

__attribute__((target("avx2"), always_inline)) inline bool BlockHas(const char* block, int probes,
                                                                    uint32_t low) {
  const __m256i low_words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
  const __m256i high_words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
  const __m256i lanes = _mm256_set1_epi32(static_cast<int32_t>(low));
  const __m256i turn = _mm256_set1_epi32(static_cast<int32_t>(Turn(block, low)));
  const uint32_t* const multipliers = bloom_internal::kMultipliers.data();
  if (probes <= 8) [[likely]] {
    return AllSet(low_words, high_words, lanes, turn, multipliers, kOnes + 8 - probes);
  }
  return AllSet(low_words, high_words, lanes, turn, multipliers, kOnes) &&
         AllSet(low_words, high_words, lanes, turn, multipliers + 8, kOnes + 16 - probes);
}

}  // namespace

__attribute__((target("avx2"))) bool BlockMayContainAvx2(const char* block, int probes,
                                                         uint32_t low) {
  return BlockHas(block, probes, low);
}

__attribute__((target("avx2"))) void MayContainManyAvx2(const char* blocks, uint64_t num_blocks,
                                                        int probes, const uint64_t* hashes,
                                                        size_t n, bool* results) {
  const size_t ahead = std::min(n, bloom_internal::kProbesInFlight);
  for (size_t i = 0; i < ahead; ++i) BlockedBloom::Prefetch(blocks, num_blocks, hashes[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) BlockedBloom::Prefetch(blocks, num_blocks, hashes[i + ahead]);
    const char* const block =
        blocks + BlockedBloom::BlockIndex(hashes[i], num_blocks) * BlockedBloom::kBlockBytes;
    results[i] = BlockHas(block, probes, static_cast<uint32_t>(hashes[i]));
  }
}

}  // namespace dense_internal
}  // namespace sievedb

#endif  // SIEVEDB_BLOOM_HAS_AVX2
