#include "util/hash_partition.h"

#include <algorithm>
#include <cassert>

#include "util/multiply.h"

namespace sievedb {

void PartitionHashes(absl::Span<const uint64_t> hashes, uint64_t seed, uint64_t parts,
                     uint64_t* out, std::vector<uint64_t>* begins) {
  assert(parts >= 1);
  // Counts, then where each part's next hash goes, then, moved up by one, its begin.
  begins->assign(parts + 1, 0);
  for (const uint64_t hash : hashes) ++(*begins)[MultiplyHigh(MixHash(hash, seed), parts)];
  uint64_t sum = 0;
  for (uint64_t& begin : *begins) {
    const uint64_t count = begin;
    begin = sum;
    sum += count;
  }
  uint64_t* const next = begins->data();
  for (const uint64_t hash : hashes) {
    const uint64_t mixed = MixHash(hash, seed);
    out[next[MultiplyHigh(mixed, parts)]++] = mixed;
  }
  std::copy_backward(begins->begin(), begins->end() - 1, begins->end());
  begins->front() = 0;
}

uint64_t SortMixedHashes(absl::Span<const uint64_t> hashes, uint64_t seed, uint64_t* out) {
  // Parts that sort within the nearest cache.
  constexpr uint64_t kKeysPerPart = 2048;
  constexpr uint64_t kMaxParts = 4096;
  const uint64_t keys = hashes.size();
  const uint64_t parts = std::clamp<uint64_t>(keys / kKeysPerPart, 1, kMaxParts);
  std::vector<uint64_t> begins;
  PartitionHashes(hashes, seed, parts, out, &begins);
  for (uint64_t i = 0; i < parts; ++i) std::sort(out + begins[i], out + begins[i + 1]);
  return static_cast<uint64_t>(std::unique(out, out + keys) - out);
}

}  // namespace sievedb
