#ifndef SIEVEDB_TABLE_BLOCK_H_
#define SIEVEDB_TABLE_BLOCK_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "table/block_builder.h"
#include "table/internal_key.h"
#include "util/coding.h"
#include "util/prefetch.h"

namespace sievedb {

// One entry of a block, before its key is put together.
struct BlockEntry {
  uint32_t shared;
  uint32_t unshared;
  uint32_t value_bytes;
  const char* delta;  // unshared bytes of the user key, the tag, the value

  uint64_t tag() const { return DecodeFixed64(delta + unshared); }
  std::string_view value() const { return {delta + unshared + kTagBytes, value_bytes}; }
  const char* end() const { return delta + unshared + kTagBytes + value_bytes; }
};

// Decodes the entry at from. Nothing is read at or after limit + kBlockFooterBytes.
// False where it does not end before limit. Requires: from < limit, and
// kBlockFooterBytes readable at limit.
inline bool DecodeBlockEntry(const char* from, const char* limit, BlockEntry* entry) {
  static_assert(kBlockFooterBytes >= 3, "three bytes may be looked at from any entry's start");
  const uint32_t shared = static_cast<unsigned char>(from[0]);
  const uint32_t unshared = static_cast<unsigned char>(from[1]);
  const uint32_t value_bytes = static_cast<unsigned char>(from[2]);
  if ((shared | unshared | value_bytes) < 128) [[likely]] {
    entry->shared = shared;
    entry->unshared = unshared;
    entry->value_bytes = value_bytes;
    from += 3;
  } else {
    from = DecodeVarint32(from, limit, &entry->shared);
    if (from == nullptr) return false;
    from = DecodeVarint32(from, limit, &entry->unshared);
    if (from == nullptr) return false;
    from = DecodeVarint32(from, limit, &entry->value_bytes);
    if (from == nullptr) return false;
  }
  entry->delta = from;
  return static_cast<int64_t>(limit - from) >=
         static_cast<int64_t>(uint64_t{entry->unshared} + kTagBytes + entry->value_bytes);
}

// A data block's bytes, checked as far as their outline. The format is described in
// block_builder.h.
//
// Threads: safe; it is a view.
class Block {
 public:
  Block() = default;

  // False where bytes can't be a block.
  bool Parse(std::string_view bytes) {
    if (bytes.size() < kBlockFooterBytes) return false;
    const char* const footer = bytes.data() + bytes.size() - kBlockFooterBytes;
    num_buckets_ = DecodeFixed32(footer);
    num_restarts_ = DecodeFixed32(footer + 4);
    const uint64_t tables = uint64_t{num_restarts_} * 4 + num_buckets_;
    if (num_restarts_ == 0 || num_buckets_ > kMaxHashBuckets ||
        tables >= bytes.size() - kBlockFooterBytes) {
      return false;
    }
    data_ = bytes.data();
    buckets_ = footer - num_buckets_;
    limit_ = buckets_ - size_t{num_restarts_} * 4;
    return RestartOffset(0) == 0;
  }

  enum class Result {
    kFound,    // *tag and *value are set
    kAbsent,   // the block holds a later key, and none that fits
    kNotHere,  // not in this block; if its separator is of the same user key, perhaps
               // in the next
    kDamaged,
  };
  // Finds the newest entry of user_key whose tag is at most seek_tag. hash is
  // Hash64(user_key).
  Result Find(const KeyOrder& order, std::string_view user_key, uint64_t seek_tag, uint64_t hash,
              uint64_t* tag, std::string_view* value) const;

  // Starts loading what Parse and then Find read first, and the entries that Find then
  // walks through. bytes: a block's; damaged ones do no harm.
  static void PrefetchOutline(std::string_view bytes) {
    PrefetchLine(bytes.data() + bytes.size() - 1);
    if (bytes.size() > 64) PrefetchLine(bytes.data() + bytes.size() - 65);
  }
  static void PrefetchEntries(std::string_view bytes, const KeyOrder& order, uint64_t hash);

  const char* data() const { return data_; }
  const char* limit() const { return limit_; }  // of the entries
  uint32_t num_restarts() const { return num_restarts_; }
  uint32_t num_hash_buckets() const { return num_buckets_; }
  uint32_t RestartOffset(uint32_t i) const { return DecodeFixed32(limit_ + size_t{i} * 4); }

  // Decodes the entry at restart point i; false where it is none.
  bool DecodeRestart(uint32_t i, BlockEntry* entry) const {
    const uint32_t offset = RestartOffset(i);
    return offset < static_cast<size_t>(limit_ - data_) &&
           DecodeBlockEntry(data_ + offset, limit_, entry) && entry->shared == 0;
  }

  // The last restart point whose entry is before (user_key, tag); 0 where none is.
  // False where the block is damaged.
  bool FindRestart(const KeyOrder& order, std::string_view user_key, uint64_t tag,
                   uint32_t* restart) const;

 private:
  Result ScanBytewise(const char* from, const char* stop, bool reverse, std::string_view user_key,
                      uint64_t seek_tag, uint64_t* tag, std::string_view* value) const;
  Result ScanComparing(const char* from, const KeyOrder& order, std::string_view user_key,
                       uint64_t seek_tag, uint64_t* tag, std::string_view* value) const;

  const char* data_ = nullptr;
  const char* limit_ = nullptr;    // end of the entries, start of the restart points
  const char* buckets_ = nullptr;  // end of the restart points
  uint32_t num_restarts_ = 0;
  uint32_t num_buckets_ = 0;
};

// An internal key that changes at its end. Keeps some room behind the key, so that
// short pieces are copied with a fixed size.
class KeyBuffer {
 public:
  static constexpr size_t kSlack = 32;

  std::string_view view() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }
  // Keeps the first keep bytes and appends n from `from`. readable: bytes that may
  // be read at from, at least n. Requires: keep <= size().
  void Replace(size_t keep, const char* from, size_t n, size_t readable) {
    assert(keep <= size_ && readable >= n);
    if (capacity_ < keep + n + kSlack) [[unlikely]]
      Grow(keep, n);
    char* const to = bytes_.get() + keep;
    if (n <= kSlack && readable >= kSlack) [[likely]] {
      std::memcpy(to, from, kSlack);
    } else {
      std::memcpy(to, from, n);
    }
    size_ = keep + n;
  }
  void Clear() { size_ = 0; }

 private:
  void Grow(size_t keep, size_t n);

  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

// A cursor over one block. The block's bytes must outlive its use.
//
// Threads: not safe for concurrent use.
class BlockIterator {
 public:
  explicit BlockIterator(const InternalKeyOrder& order) : order_(order) {}

  // Starts on a block, before any entry. False where bytes can't be one.
  bool Init(std::string_view bytes);
  // Lets go of the block; Valid() is then false.
  void Clear();

  bool Valid() const { return valid_; }
  // An entry was malformed; Valid() is then false.
  bool damaged() const { return damaged_; }
  std::string_view key() const { return key_.view(); }
  std::string_view value() const { return value_; }

  void SeekToFirst();
  void SeekToLast();
  void Seek(std::string_view user_key, uint64_t tag);  // first >= (user_key, tag)

  void Next() {
    assert(valid_);
    reverse_.clear();
    current_ = next_;
    if (next_ >= block_.limit()) [[unlikely]] {
      valid_ = false;
      return;
    }
    DecodeNext();
  }
  void Prev();

 private:
  // An entry of the interval that Prev walks through: its key is in reverse_keys_.
  struct ReverseEntry {
    size_t key_offset;
    size_t key_bytes;
    std::string_view value;
    const char* at;
    const char* end;
  };

  // Decodes the entry at next_ on top of key_. Requires: next_ < limit.
  void DecodeNext() {
    BlockEntry entry;
    const char* const limit = block_.limit();
    if (!DecodeBlockEntry(next_, limit, &entry) || entry.shared > user_key_bytes_) [[unlikely]] {
      Damage();
      return;
    }
    key_.Replace(entry.shared, entry.delta, entry.unshared + kTagBytes,
                 static_cast<size_t>(limit - entry.delta) + kBlockFooterBytes);
    user_key_bytes_ = size_t{entry.shared} + entry.unshared;
    value_ = entry.value();
    next_ = entry.end();
    valid_ = true;
  }
  // Stands before the entry at restart point i.
  bool GoToRestart(uint32_t i);
  void Damage();
  void FillReverse(const char* stop);
  void TakeReverse();

  const InternalKeyOrder order_;
  Block block_;
  bool valid_ = false;
  bool damaged_ = false;
  KeyBuffer key_;
  size_t user_key_bytes_ = 0;
  std::string_view value_;
  const char* current_ = nullptr;  // the entry that the iterator stands on
  const char* next_ = nullptr;     // the one after it

  // Entries before the current one, nearest last, while Prev walks.
  std::vector<ReverseEntry> reverse_;
  std::vector<char> reverse_keys_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_BLOCK_H_
