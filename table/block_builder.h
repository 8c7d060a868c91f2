#ifndef SIEVEDB_TABLE_BLOCK_BUILDER_H_
#define SIEVEDB_TABLE_BLOCK_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace sievedb {

// A data block, before compression:
//
//   entries         in the order of their internal keys
//   restart points  fixed32 each: offsets of entries that share nothing
//   hash buckets    one byte each
//   fixed32         number of hash buckets; 0: no hash index
//   fixed32         number of restart points, at least 1; the first is offset 0
//
// An entry:
//
//   varint32   shared      bytes of the user key that are the previous entry's
//   varint32   unshared    bytes of the user key that follow
//   varint32   value bytes
//   unshared   the rest of the user key
//   8          the tag (internal_key.h)
//   the value
//
// shared never reaches into the previous entry's tag, so a search may skip an entry
// that shares more with its predecessor than the predecessor does with the key
// searched for.
//
// A hash bucket is the restart interval in which the user keys that fall into it
// begin: kNoKey where there are none, kManyKeys where they begin in several. The
// bucket of a key is BlockHashBucket of its Hash64. There is no hash index where
// the comparator lets keys of different bytes be equal.

inline constexpr size_t kBlockFooterBytes = 8;
inline constexpr uint8_t kNoKey = 255;
inline constexpr uint8_t kManyKeys = 254;
inline constexpr uint32_t kMaxHashedRestarts = 253;
inline constexpr uint32_t kMaxHashBuckets = 1 << 16;
static_assert(kMaxHashedRestarts <= kManyKeys);

// The Bloom filter takes its block from the high bits and its probes from the low
// ones; a multiplication makes both of little consequence here.
inline uint32_t BlockHashBucket(uint64_t hash, uint32_t buckets) {
  const uint64_t mixed = (hash * 0x9e3779b97f4a7c15) >> 32;
  return static_cast<uint32_t>((mixed * buckets) >> 32);
}

// Builds one data block after another. Allocates only to grow.
class BlockBuilder {
 public:
  BlockBuilder(int restart_interval, bool with_hash_index);

  // Appends an entry. shared: SharedPrefix of user_key with the last one added, whatever
  // block it went to. new_user_key: it is not the last one's. hash: Hash64(user_key), of
  // no matter without a hash index.
  // Requires: EstimateAfter(…) <= kMaxBlockBytes.
  void Add(std::string_view user_key, uint64_t tag, std::string_view value, size_t shared,
           bool new_user_key, uint64_t hash);

  // Completes the block. It is followed by room for trailer_bytes, and stays until
  // the next Add or Reset.
  absl::Span<char> Finish(size_t trailer_bytes);
  void Reset();

  bool empty() const { return entries_ == 0; }
  uint32_t entries() const { return entries_; }
  // Bytes of the block, were it finished now, and with one entry more.
  uint64_t EstimatedBytes() const {
    return size_ + 4 * restarts_.size() + hashed_keys_.size() * 4 / 3 + 2 + kBlockFooterBytes;
  }
  uint64_t EstimateAfter(size_t user_key_bytes, size_t value_bytes, size_t shared) const;

 private:
  struct HashedKey {
    uint64_t hash;
    uint32_t restart;
  };

  char* Reserve(size_t bytes);
  void AppendHashIndex();

  const uint32_t restart_interval_;
  const bool with_hash_index_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  size_t size_ = 0;
  uint32_t entries_ = 0;
  uint32_t entries_since_restart_ = 0;
  std::vector<uint32_t> restarts_;
  std::vector<HashedKey> hashed_keys_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_BLOCK_BUILDER_H_
