#include "util/dense_bloom.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace sievedb {
namespace {

using dense_internal::kBits;
using dense_internal::kTurnsOffset;
using dense_internal::kWords;

constexpr size_t kBlockBytes = BlockedBloom::kBlockBytes;
constexpr size_t kGroups = DenseBlockedBloom::kGroups;
static_assert(kTurnsOffset + kGroups / 2 == kBlockBytes);

// A block as words; the last one has the turns.
using Words = std::array<uint32_t, kWords + 1>;
static_assert(sizeof(Words) == kBlockBytes);

// Probe i before the turn.
inline uint32_t Position(uint32_t low, int i) {
  const uint32_t product = low * bloom_internal::kMultipliers[static_cast<size_t>(i)];
  return ((product >> 16) * uint32_t{kBits}) >> 16;
}

inline uint32_t Turned(uint32_t position, uint32_t turn) {
  const uint32_t bit = position + turn * 32;
  return bit < kBits ? bit : bit - kBits;
}

// --- building

// The functions are inlined into one for any CPU and one for those with AVX2, BMI and
// POPCNT: the compiler then uses them for the same code.
#if defined(__GNUC__)
#define SIEVEDB_DENSE_INLINE __attribute__((always_inline)) inline
#define SIEVEDB_DENSE_LAMBDA __attribute__((always_inline))
#else
#define SIEVEDB_DENSE_INLINE inline
#define SIEVEDB_DENSE_LAMBDA
#endif

// The bits of a group, and those of its first words again, so that each of its turns
// is 15 words in a row: turn t begins at word 15 - t.
using Group = std::array<uint32_t, size_t{2} * kWords + 1>;

template <size_t... kIndices>
SIEVEDB_DENSE_INLINE void SetBits(uint32_t* group, uint32_t low, std::index_sequence<kIndices...>) {
  // A multiple of eight, for the compiler to compute them as a vector.
  constexpr int kComputed = sizeof...(kIndices) <= 8 ? 8 : 16;
  std::array<uint32_t, kComputed> positions;
  for (int i = 0; i < kComputed; ++i) positions[static_cast<size_t>(i)] = Position(low, i);
  ((group[positions[kIndices] >> 5] |= uint32_t{1} << (positions[kIndices] & 31)), ...);
}

// How many bits both have. words[15] is 0.
SIEVEDB_DENSE_INLINE int CommonBits(const uint32_t* words, const uint32_t* turned) {
  const auto common = [&](size_t i) SIEVEDB_DENSE_LAMBDA {
    uint64_t a;
    uint64_t b;
    std::memcpy(&a, words + i, sizeof(a));
    std::memcpy(&b, turned + i, sizeof(b));
    return std::popcount(a & b);
  };
  return common(0) + common(2) + common(4) + common(6) + common(8) + common(10) + common(12) +
         common(14);
}

// One block: lows are the low halves of its hashes by group, whose ends are given.
template <int kProbes>
SIEVEDB_DENSE_INLINE void FillBlock(char* block, const uint32_t* lows, const uint32_t* ends) {
  Words words{};
  uint32_t turns = 0;
  uint32_t at = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    if (at == ends[g]) continue;
    Group group;
    std::fill_n(group.begin(), kWords + 1, 0);
    group.back() = 0;
    for (; at < ends[g]; ++at) {
      SetBits(group.data(), lows[at], std::make_index_sequence<size_t{kProbes}>());
    }
    std::copy_n(group.begin(), kWords, group.begin() + kWords);
    // Of equal ones the first: the bytes are then the same on every CPU.
    uint32_t best = 0;
    for (uint32_t turn = 0; turn < kWords; ++turn) {
      const int common = CommonBits(words.data(), group.data() + kWords - turn);
      best = std::max(best, static_cast<uint32_t>(common) * 16 + (kWords - turn));
    }
    const uint32_t back = best % 16;  // 15 - turn
    for (size_t i = 0; i < kWords; ++i) words[i] |= group[back + i];
    turns |= (kWords - back) << (g * 4);
  }
  words[kWords] = turns;
  std::memcpy(block, words.data(), kBlockBytes);
}

// Several blocks: lows by block and group, ends eight a block, counted from lows.
template <int kProbes>
SIEVEDB_DENSE_INLINE void FillBlocks(char* blocks, uint64_t num_blocks, const uint32_t* lows,
                                     const uint64_t* ends) {
  uint64_t begin = 0;
  for (uint64_t i = 0; i < num_blocks; ++i) {
    std::array<uint32_t, kGroups> from_begin;
    for (size_t group = 0; group < kGroups; ++group) {
      from_begin[group] = static_cast<uint32_t>(ends[i * kGroups + group] - begin);
    }
    FillBlock<kProbes>(blocks + i * kBlockBytes, lows + begin, from_begin.data());
    begin = ends[i * kGroups + kGroups - 1];
  }
}

template <int kProbes>
void FillPortable(char* blocks, uint64_t num_blocks, const uint32_t* lows, const uint64_t* ends) {
  FillBlocks<kProbes>(blocks, num_blocks, lows, ends);
}

#if SIEVEDB_BLOOM_HAS_AVX2
template <int kProbes>
__attribute__((target("avx2,bmi,bmi2,popcnt"))) void FillAvx2(char* blocks, uint64_t num_blocks,
                                                              const uint32_t* lows,
                                                              const uint64_t* ends) {
  FillBlocks<kProbes>(blocks, num_blocks, lows, ends);
}
#endif

using FillFunction = void (*)(char*, uint64_t, const uint32_t*, const uint64_t*);

template <bool kAvx2, size_t... kIndices>
constexpr std::array<FillFunction, sizeof...(kIndices)> MakeFillFunctions(
    std::index_sequence<kIndices...>) {
#if SIEVEDB_BLOOM_HAS_AVX2
  if constexpr (kAvx2) return {&FillAvx2<static_cast<int>(kIndices) + 1>...};
#endif
  return {&FillPortable<static_cast<int>(kIndices) + 1>...};
}

FillFunction ChooseFill(int probes, bool portable) {
  using Indices = std::make_index_sequence<size_t{BlockedBloom::kMaxProbes}>;
  static constexpr auto kPortable = MakeFillFunctions<false>(Indices{});
  const size_t i = static_cast<size_t>(probes - 1);
#if SIEVEDB_BLOOM_HAS_AVX2
  static constexpr auto kAvx2 = MakeFillFunctions<true>(Indices{});
  if (!portable && bloom_internal::kUseAvx2) return kAvx2[i];
#endif
  static_cast<void>(portable);
  return kPortable[i];
}

// Parts of 2^shift blocks, so that the keys of one lie in the nearer caches and there
// are not more parts than a core has pages and lines to write to.
int PartShift(uint64_t keys, uint64_t num_blocks) {
  constexpr uint64_t kKeysPerPart = 8192;
  constexpr uint64_t kMaxParts = 2048;
  const uint64_t parts = std::clamp<uint64_t>(keys / kKeysPerPart, 1, kMaxParts);
  return std::bit_width((num_blocks - 1) / parts);
}

// Turns counts into the begins of what was counted; the sum comes last.
template <typename Counts>
void SumUp(Counts* counts) {
  std::exclusive_scan(counts->begin(), counts->end(), counts->begin(), uint64_t{0});
}

}  // namespace

void DenseBlockedBloom::Build(char* blocks, uint64_t num_blocks, int probes,
                              absl::Span<const absl::Span<const uint64_t>> pieces, bool portable) {
  assert(num_blocks >= 1 && probes >= 1 && probes <= BlockedBloom::kMaxProbes);
  uint64_t keys = 0;
  for (const absl::Span<const uint64_t> piece : pieces) keys += piece.size();
  if (keys == 0) return;

  // First by parts, then within each by block and group.
  const int shift = PartShift(keys, num_blocks);
  const uint64_t num_parts = ((num_blocks - 1) >> shift) + 1;
  std::vector<uint64_t> parts(num_parts + 1);
  for (const absl::Span<const uint64_t> piece : pieces) {
    for (const uint64_t hash : piece) ++parts[BlockedBloom::BlockIndex(hash, num_blocks) >> shift];
  }
  uint64_t largest = *std::max_element(parts.begin(), parts.end());
  SumUp(&parts);
  const auto by_part = std::make_unique_for_overwrite<uint64_t[]>(keys);
  for (const absl::Span<const uint64_t> piece : pieces) {
    for (const uint64_t hash : piece) {
      by_part[parts[BlockedBloom::BlockIndex(hash, num_blocks) >> shift]++] = hash;
    }
  }

  const FillFunction fill = ChooseFill(probes, portable);
  const auto lows = std::make_unique_for_overwrite<uint32_t[]>(largest);
  std::vector<uint64_t> places;
  for (uint64_t part = 0; part < num_parts; ++part) {
    const uint64_t first_block = part << shift;
    const uint64_t part_blocks = std::min(uint64_t{1} << shift, num_blocks - first_block);
    // Each part's begin has moved to its end, which is where the next began.
    const uint64_t begin = part == 0 ? 0 : parts[part - 1];
    const absl::Span<const uint64_t> hashes(by_part.get() + begin, parts[part] - begin);
    const auto place = [&](uint64_t hash) -> uint64_t& {
      return places[(BlockedBloom::BlockIndex(hash, num_blocks) - first_block) * kGroups +
                    hash % kGroups];
    };
    places.assign(part_blocks * kGroups, 0);
    for (const uint64_t hash : hashes) ++place(hash);
    SumUp(&places);
    for (const uint64_t hash : hashes) lows[place(hash)++] = static_cast<uint32_t>(hash);
    fill(blocks + first_block * kBlockBytes, part_blocks, lows.get(), places.data());
  }
}

void DenseBlockedBloom::Add(char* blocks, uint64_t num_blocks, int probes, uint64_t hash) {
  char* const block = blocks + BlockedBloom::BlockIndex(hash, num_blocks) * kBlockBytes;
  for (int i = 0; i < probes; ++i) {
    const int bit = ProbeBit(block, hash, i);
    block[bit / 8] = static_cast<char>(block[bit / 8] | (1 << (bit % 8)));
  }
}

// --- asking

namespace dense_internal {

bool BlockMayContainPortable(const char* block, int probes, uint32_t low) {
  // All probes without a branch in between, as in the filter without turns.
  const uint32_t turn = Turn(block, low);
  uint32_t all = 1;
  for (int i = 0; i < probes; ++i) {
    const uint32_t bit = Turned(Position(low, i), turn);
    uint32_t word;
    std::memcpy(&word, block + (bit >> 5) * 4, sizeof(word));
    all &= word >> (bit & 31);
  }
  return (all & 1) != 0;
}

}  // namespace dense_internal

void DenseBlockedBloom::MayContainMany(const char* blocks, uint64_t num_blocks, int probes,
                                       absl::Span<const uint64_t> hashes,
                                       absl::Span<bool> results) {
  assert(hashes.size() == results.size());
  const size_t n = hashes.size();
#if SIEVEDB_BLOOM_HAS_AVX2
  if (bloom_internal::kUseAvx2) {
    dense_internal::MayContainManyAvx2(blocks, num_blocks, probes, hashes.data(), n,
                                       results.data());
    return;
  }
#endif
  const size_t ahead = std::min(n, bloom_internal::kProbesInFlight);
  for (size_t i = 0; i < ahead; ++i) BlockedBloom::Prefetch(blocks, num_blocks, hashes[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) BlockedBloom::Prefetch(blocks, num_blocks, hashes[i + ahead]);
    results[i] = MayContain(blocks, num_blocks, probes, hashes[i]);
  }
}

int DenseBlockedBloom::ProbeBit(const char* block, uint64_t hash, int i) {
  assert(i >= 0 && i < BlockedBloom::kMaxProbes);
  const uint32_t low = static_cast<uint32_t>(hash);
  return static_cast<int>(Turned(Position(low, i), dense_internal::Turn(block, low)));
}

// --- figures

int DenseBlockedBloom::SetBitsOfBlock(const char* block) {
  Words words;
  std::memcpy(words.data(), block, kBlockBytes);
  words[kWords] = 0;
  return CommonBits(words.data(), words.data());
}

uint64_t DenseBlockedBloom::CountSetBits(const char* blocks, uint64_t num_blocks) {
  uint64_t set = 0;
  for (uint64_t i = 0; i < num_blocks; ++i) {
    set += static_cast<uint64_t>(SetBitsOfBlock(blocks + i * kBlockBytes));
  }
  return set;
}

double DenseBlockedBloom::FprFromBits(const char* blocks, uint64_t num_blocks, int probes) {
  if (num_blocks == 0) return 1;
  std::array<uint64_t, kBits + 1> blocks_with{};
  for (uint64_t i = 0; i < num_blocks; ++i) {
    ++blocks_with[static_cast<size_t>(SetBitsOfBlock(blocks + i * kBlockBytes))];
  }
  double sum = 0;
  for (size_t set = 1; set < blocks_with.size(); ++set) {
    sum +=
        static_cast<double>(blocks_with[set]) * std::pow(static_cast<double>(set) / kBits, probes);
  }
  return sum / static_cast<double>(num_blocks);
}

// --- theory

namespace {

// The best number of probes and its rate, by simulation of 160,000 blocks with a Poisson
// number of keys each and truly random bits, the turns chosen as they are above.
struct Theory {
  double bits_per_key;
  int probes;
  double fpr;
};
constexpr Theory kTheory[] = {
    {1, 1, 0.59584},      {1.5, 1, 0.45556},    {2, 2, 0.35526},      {2.5, 2, 0.26774},
    {3, 2, 0.2079},       {3.5, 3, 0.15943},    {4, 3, 0.12236},      {4.5, 3, 0.09571},
    {5, 4, 0.073107},     {5.5, 4, 0.056707},   {6, 5, 0.044321},     {7, 5, 0.026706},
    {8, 6, 0.01626},      {9, 7, 0.010064},     {10, 7, 0.0062518},   {11, 8, 0.0039241},
    {12, 8, 0.0025031},   {13, 9, 0.0015998},   {14, 9, 0.0010427},   {15, 10, 0.00068163},
    {16, 10, 0.0004557},  {18, 12, 0.00020744}, {20, 12, 9.6558e-05}, {22, 13, 4.7283e-05},
    {24, 13, 2.4307e-05}, {26, 15, 1.2505e-05}, {28, 15, 6.7636e-06}, {32, 16, 2.1387e-06},
    {40, 16, 2.9551e-07}, {48, 16, 6.0683e-08}, {56, 16, 1.4966e-08}, {64, 16, 4.6958e-09},
};

}  // namespace

int DenseBlockedBloom::OptimalProbes(double bits_per_key) {
  int probes = 1;
  // Between two rows the next one's number pays from about the middle on.
  double last = 0;
  for (const Theory& row : kTheory) {
    if (!(bits_per_key >= (last + row.bits_per_key) / 2)) break;
    probes = row.probes;
    last = row.bits_per_key;
  }
  return probes;
}

double DenseBlockedBloom::ExpectedFpr(double bits_per_key) {
  if (!(bits_per_key > kTheory[0].bits_per_key)) return kTheory[0].fpr;
  // The logarithm is nearly a line.
  const Theory* below = kTheory;
  for (const Theory& row : kTheory) {
    if (row.bits_per_key >= bits_per_key) {
      const double part =
          (bits_per_key - below->bits_per_key) / (row.bits_per_key - below->bits_per_key);
      return std::exp(std::lerp(std::log(below->fpr), std::log(row.fpr), part));
    }
    below = &row;
  }
  return below->fpr;
}

}  // namespace sievedb
