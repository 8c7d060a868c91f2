#ifndef SIEVEDB_TABLE_INTERNAL_KEY_H_
#define SIEVEDB_TABLE_INTERNAL_KEY_H_

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

#include "util/coding.h"
#include "util/key_order.h"

namespace sievedb {

// What an entry does to its key. The numbers are part of the table and WAL
// formats.
enum class EntryType : uint8_t {
  kDelete = 0,
  kPut = 1,
  kDeleteRange = 2,  // in write batches; no entry has it
};
inline constexpr uint8_t kMaxEntryType = 1;  // of entries

inline constexpr uint64_t kMaxSequence = (uint64_t{1} << 56) - 1;

// An internal key: user key, then the tag, fixed64 little-endian.
//   tag = sequence << 8 | type
// Internal keys order by user key, then by tag descending: newest first.
inline constexpr size_t kTagBytes = 8;

inline uint64_t MakeTag(uint64_t sequence, EntryType type) {
  assert(sequence <= kMaxSequence);
  return sequence << 8 | static_cast<uint8_t>(type);
}
inline uint64_t TagSequence(uint64_t tag) { return tag >> 8; }
// The type byte may be anything in bytes that are not trusted.
inline uint8_t TagType(uint64_t tag) { return static_cast<uint8_t>(tag); }
// The tag to seek with: before every entry of a user key that sequence sees.
inline uint64_t SeekTag(uint64_t sequence) { return sequence << 8 | 0xff; }

inline void AppendInternalKey(std::string* to, std::string_view user_key, uint64_t tag) {
  to->append(user_key);
  AppendFixed64(to, tag);
}

// Requires: internal_key.size() >= kTagBytes.
inline std::string_view UserKey(std::string_view internal_key) {
  assert(internal_key.size() >= kTagBytes);
  return internal_key.substr(0, internal_key.size() - kTagBytes);
}
inline uint64_t Tag(std::string_view internal_key) {
  assert(internal_key.size() >= kTagBytes);
  return DecodeFixed64(internal_key.data() + internal_key.size() - kTagBytes);
}

class InternalKeyOrder {
 public:
  explicit InternalKeyOrder(const Comparator* comparator) : user_(comparator) {}
  const KeyOrder& user() const { return user_; }

  int Compare(std::string_view a, std::string_view b) const {
    return Compare(UserKey(a), Tag(a), UserKey(b), Tag(b));
  }
  int Compare(std::string_view a_user, uint64_t a_tag, std::string_view b_user,
              uint64_t b_tag) const {
    const int r = user_.Compare(a_user, b_user);
    if (r != 0) return r;
    return a_tag > b_tag ? -1 : a_tag < b_tag ? 1 : 0;
  }

 private:
  KeyOrder user_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_INTERNAL_KEY_H_
