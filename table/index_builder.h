#ifndef SIEVEDB_TABLE_INDEX_BUILDER_H_
#define SIEVEDB_TABLE_INDEX_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "table/internal_key.h"

namespace sievedb {

// The index block: for each data block, in order, a separator, that is an internal
// key not before the block's last and before the next block's first.
//
//   varint64   data blocks, at least 1
//   varint64   bytes of the prefix that all separators' user keys share; 0 under a
//              comparator that is not built in: it may look at any byte, so it gets
//              whole keys
//   the prefix
//   then for each data block
//     varint64   bytes of the user key behind the prefix, times two; plus one
//                where a tag follows, which is otherwise kMaxTag
//     varint64   payload bytes of the data block
//     the rest of the user key
//     8          the tag, where there is one
//
// Data blocks lie one behind the other from offset 0 to the tail, so their offsets
// follow from their sizes. The prefix is stored once, and nothing else is shared:
// the block decodes in one pass, and never to more than its own size.
class IndexBuilder {
 public:
  explicit IndexBuilder(const InternalKeyOrder& order) : order_(order) {}

  // Adds the data block that ends with (last_user_key, last_tag). next_user_key: the first
  // of the block behind it; null where there is none.
  void Add(std::string_view last_user_key, uint64_t last_tag, const std::string_view* next_user_key,
           uint64_t payload_bytes);

  uint64_t blocks() const { return blocks_; }
  uint64_t EstimatedBytes() const { return entries_.size() + 2 * kMaxVarint64Bytes; }

  // The block. The builder is then used up.
  std::string Finish();

 private:
  bool Shorten(std::string_view last_user_key, const std::string_view* next_user_key);

  const InternalKeyOrder order_;
  uint64_t blocks_ = 0;
  // As in the block, but with whole user keys; taken apart again by Finish, when the
  // common prefix is known.
  std::string entries_;
  std::string prefix_;
  std::string separator_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_INDEX_BUILDER_H_
