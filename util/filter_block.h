#ifndef SIEVEDB_UTIL_FILTER_BLOCK_H_
#define SIEVEDB_UTIL_FILTER_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/filter.h"
#include "util/blocked_bloom.h"

namespace sievedb {

// The bytes of a blocked Bloom filter, as an SSTable embeds them. Little-endian.
//
//   offset  size  field
//   0       64*n  blocks        n = num_blocks blocks of 512 bits (blocked_bloom.cc)
//
// then the trailer, at 64*n:
//
//   offset  size  field
//   0       8     num_blocks    at least 1
//   8       8     keys          hashes that were added
//   16      8     bits_per_key  IEEE 754 double: asked for; 1 to 64
//   24      4     check         low half of XXH3-64 of the trailer's other 28 bytes,
//                               since a wrong count of probes would deny keys
//   28      1     probes        1 to 16
//   29      1     reserved      0
//   30      1     version       1
//   31      1     kind          1
//
// The blocks come first: in a buffer that begins at a cache line each is one. The
// trailer is last, and version and kind are its last bytes, which is where every
// kind below 128 has them. The bits are covered by the checksum of the table's
// block that holds them.
inline constexpr size_t kFilterTrailerBytes = 32;
inline constexpr size_t kFilterNumBlocksOffset = 0;
inline constexpr size_t kFilterKeysOffset = 8;
inline constexpr size_t kFilterBitsPerKeyOffset = 16;
inline constexpr size_t kFilterCheckOffset = 24;
inline constexpr size_t kFilterProbesOffset = 28;
inline constexpr size_t kFilterReservedOffset = 29;
inline constexpr size_t kFilterVersionOffset = 30;
inline constexpr size_t kFilterKindOffset = 31;
static_assert(kFilterKindOffset + 1 == kFilterTrailerBytes);
static_assert(kFilterCheckOffset + sizeof(uint32_t) == kFilterProbesOffset);
static_assert(sizeof(double) == 8);

inline constexpr uint8_t kBlockedBloomKind = 1;
inline constexpr uint8_t kBlockedBloomVersion = 1;
inline constexpr uint8_t kFirstUserFilterKind = 128;

// The reader of that format. Final and inline: who knows the kind holds it by this
// type and pays no virtual call.
//
// Threads: safe.
class BlockedBloomReader final : public FilterReader {
 public:
  // bytes outlives the reader; where it is not 64-byte aligned the answers are the
  // same, but a probe may touch two cache lines.
  //
  // Errors: kDataLoss where bytes are not a filter of this kind and version.
  static absl::StatusOr<std::unique_ptr<BlockedBloomReader>> Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override {
    return BlockedBloom::MayContain(blocks_, num_blocks_, probes_, hash);
  }
  void Prefetch(uint64_t hash) const override {
    BlockedBloom::Prefetch(blocks_, num_blocks_, hash);
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
  BlockedBloomReader() = default;

  const char* blocks_ = nullptr;
  uint64_t num_blocks_ = 0;
  int probes_ = 0;
  uint64_t keys_ = 0;
  double bits_per_key_ = 0;
};

// A reader for a kind below 128, whatever the policy is.
//
// Errors: kDataLoss as above, and where no such kind is built in.
absl::StatusOr<std::unique_ptr<FilterReader>> OpenBuiltInFilter(uint8_t kind,
                                                                std::string_view bytes);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_BLOCK_H_
