#include "table/index_builder.h"

#include <cassert>

#include "table/format.h"

namespace sievedb {

// Makes separator_ a user key strictly between the two, if there is a shorter one.
// What a user's comparator answers is checked: a wrong separator would hide keys.
bool IndexBuilder::Shorten(std::string_view last_user_key, const std::string_view* next_user_key) {
  const KeyOrder& order = order_.user();
  separator_.assign(last_user_key);
  if (next_user_key == nullptr) {
    order.comparator()->FindShortSuccessor(&separator_);
    // One that does not begin as the others do would take the prefix away from all of
    // them, and with it what their first words tell.
    if (order.has_words() && blocks_ != 0 &&
        SharedPrefix(prefix_, separator_) < SharedPrefix(prefix_, last_user_key)) {
      return false;
    }
    return order.Compare(last_user_key, separator_) < 0;
  }
  if (order.Equal(last_user_key, *next_user_key)) return false;
  order.comparator()->FindShortestSeparator(&separator_, *next_user_key);
  return order.Compare(last_user_key, separator_) < 0 &&
         order.Compare(separator_, *next_user_key) < 0;
}

void IndexBuilder::Add(std::string_view last_user_key, uint64_t last_tag,
                       const std::string_view* next_user_key, uint64_t payload_bytes) {
  const bool shortened = Shorten(last_user_key, next_user_key);
  if (!shortened) separator_.assign(last_user_key);
  if (blocks_ == 0) {
    if (order_.user().has_words()) prefix_ = separator_;
  } else {
    prefix_.resize(SharedPrefix(prefix_, separator_));
  }
  AppendVarint64(&entries_, separator_.size() << 1 | (shortened ? 0 : 1));
  AppendVarint64(&entries_, payload_bytes);
  entries_.append(separator_);
  if (!shortened) AppendFixed64(&entries_, last_tag);
  ++blocks_;
}

std::string IndexBuilder::Finish() {
  std::string block;
  block.reserve(entries_.size() + prefix_.size() + 2 * kMaxVarint64Bytes);
  AppendVarint64(&block, blocks_);
  AppendLengthPrefixed(&block, prefix_);
  ByteReader entries(entries_);
  for (uint64_t i = 0; i < blocks_; ++i) {
    const uint64_t key_and_flag = entries.Varint64();
    const uint64_t payload_bytes = entries.Varint64();
    const std::string_view key = entries.Bytes(key_and_flag >> 1);
    const size_t tag_bytes = (key_and_flag & 1) != 0 ? kTagBytes : 0;
    const std::string_view tag = entries.Bytes(tag_bytes);
    assert(entries.ok());
    AppendVarint64(&block, (key.size() - prefix_.size()) << 1 | (key_and_flag & 1));
    AppendVarint64(&block, payload_bytes);
    block.append(key.substr(prefix_.size()));
    block.append(tag);
  }
  return block;
}

}  // namespace sievedb
