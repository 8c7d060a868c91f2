#ifndef SIEVEDB_UTIL_FILTER_BLOCK_H_
#define SIEVEDB_UTIL_FILTER_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/filter_policy.h"
#include "util/blocked_bloom.h"
#include "util/dense_bloom.h"
#include "util/filter_kinds.h"
#include "util/filter_trailer.h"

namespace sievedb {

// The bytes of a blocked Bloom filter, fast (kind 1) or dense (kind 2), as an SSTable
// embeds them. Little-endian.
//
//   offset  size  field
//   0       64*n  blocks        n blocks of 512 bits: blocked_bloom.cc for kind 1,
//                               dense_bloom.h for kind 2
//
// then the trailer (filter_trailer.h), at 64*n, with
//
//   0       8     extent        n, at least 1
//   16      8     bits_per_key  1 to 64
//   28      1     probes        1 to 16
//   29      1     detail        0
//   30      1     version       1
//   31      1     kind          1 or 2
inline constexpr uint8_t kBlockedBloomVersion = 1;
inline constexpr uint8_t kDenseBlockedBloomVersion = 1;

// The readers of that format. Final and inline: who knows the kind holds it by its
// type and pays no virtual call.
//
// Threads: safe.
template <typename Bits, uint8_t kKind>
class BlockReader final : public FilterReader {
 public:
  // bytes outlives the reader; where it is not 64-byte aligned the answers are the
  // same, but a probe may touch two cache lines.
  //
  // Errors: kDataLoss where bytes are not a filter of this kind and version.
  static absl::StatusOr<std::unique_ptr<BlockReader>> Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override {
    return Bits::MayContain(blocks_, num_blocks_, probes_, hash);
  }
  void Prefetch(uint64_t hash) const override {
    BlockedBloom::Prefetch(blocks_, num_blocks_, hash);
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    Bits::MayContainMany(blocks_, num_blocks_, probes_, hashes, results);
  }
  // Cost: reads every bit.
  FilterFigures Figures() const override;
  // Of the filter's bytes and this object.
  size_t MemoryBytes() const override;

  const char* blocks() const { return blocks_; }
  uint64_t num_blocks() const { return num_blocks_; }
  uint64_t keys() const { return keys_; }
  int probes() const { return probes_; }
  double bits_per_key() const { return bits_per_key_; }

 private:
  BlockReader() = default;

  const char* blocks_ = nullptr;
  uint64_t num_blocks_ = 0;
  int probes_ = 0;
  uint64_t keys_ = 0;
  double bits_per_key_ = 0;
};

using BlockedBloomReader = BlockReader<BlockedBloom, kBlockedBloomKind>;
using DenseBlockedBloomReader = BlockReader<DenseBlockedBloom, kDenseBlockedBloomKind>;
extern template class BlockReader<BlockedBloom, kBlockedBloomKind>;
extern template class BlockReader<DenseBlockedBloom, kDenseBlockedBloomKind>;

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_BLOCK_H_
