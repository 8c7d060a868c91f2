#include "table/block.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "table/format.h"

namespace sievedb {

namespace {
constexpr size_t kPrefetchedBytes = 512;
}  // namespace

bool Block::FindRestart(const KeyOrder& order, std::string_view user_key, uint64_t tag,
                        uint32_t* restart) const {
  uint32_t low = 0;  // the answer is in [low, high)
  uint32_t high = num_restarts_;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    BlockEntry entry;
    if (!DecodeRestart(middle, &entry)) return false;
    const int r = order.Compare({entry.delta, entry.unshared}, user_key);
    if (r < 0 || (r == 0 && entry.tag() > tag)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  *restart = low;
  return true;
}

void Block::PrefetchEntries(std::string_view bytes, const KeyOrder& order, uint64_t hash) {
  // One restart interval of entries of the usual size.
  constexpr size_t kMaxBytes = 1024;
  Block block;
  if (!block.Parse(bytes)) return;
  uint32_t restart = block.num_restarts_ / 2;  // where a binary search begins
  if (block.num_buckets_ != 0 && order.equal_keys_have_equal_bytes()) {
    const uint8_t bucket =
        static_cast<uint8_t>(block.buckets_[BlockHashBucket(hash, block.num_buckets_)]);
    if (bucket == kNoKey) return;
    if (bucket < block.num_restarts_) restart = bucket;
  }
  const uint32_t offset = block.RestartOffset(restart);
  if (offset >= static_cast<size_t>(block.limit_ - block.data_)) return;
  const char* const from = block.data_ + offset;
  const char* to = std::min(from + kMaxBytes, block.limit_);
  if (restart + 1 < block.num_restarts_) {
    const uint32_t end = block.RestartOffset(restart + 1);
    if (end > offset) to = std::min(to, block.data_ + end);
  }
  for (const char* at = from; at < to; at += 64) PrefetchLine(at);
}

Block::Result Block::Find(const KeyOrder& order, std::string_view user_key, uint64_t seek_tag,
                          uint64_t hash, uint64_t* tag, std::string_view* value) const {
  uint32_t restart = 0;
  const char* stop = limit_;
  uint8_t bucket = kManyKeys;
  if (num_buckets_ != 0 && order.equal_keys_have_equal_bytes()) {
    bucket = static_cast<uint8_t>(buckets_[BlockHashBucket(hash, num_buckets_)]);
    if (bucket == kNoKey) return Result::kNotHere;
  }
  if (bucket != kManyKeys) {
    if (bucket >= num_restarts_) return Result::kDamaged;
    restart = bucket;
    if (restart + 1 < num_restarts_) {
      const uint32_t end = RestartOffset(restart + 1);
      if (end > static_cast<size_t>(limit_ - data_)) return Result::kDamaged;
      stop = data_ + end;
    }
  } else if (!FindRestart(order, user_key, seek_tag, &restart)) {
    return Result::kDamaged;
  }
  const uint32_t offset = RestartOffset(restart);
  if (offset >= static_cast<size_t>(limit_ - data_)) return Result::kDamaged;
  const char* const from = data_ + offset;
  // The entries are walked through one after the other, each of which says where the
  // next one is.
  for (const char* at = from + 64; at < std::min(stop, from + kPrefetchedBytes); at += 64) {
    PrefetchLine(at);
  }
  if (!order.has_words()) return ScanComparing(from, order, user_key, seek_tag, tag, value);
  const bool reverse = order.Word({}) != 0;
  return ScanBytewise(from, stop, reverse, user_key, seek_tag, tag, value);
}

// Walks entries from a restart point without putting a key together: matched is how
// many bytes of user_key the entry before begins with, and that entry is before
// user_key. An entry that shares more than that with it differs from user_key in the
// same byte, and is before it too.
//
// The hash index promises that user_key, if it is in the block, begins before stop;
// its versions may go on behind.
Block::Result Block::ScanBytewise(const char* from, const char* stop, bool reverse,
                                  std::string_view user_key, uint64_t seek_tag, uint64_t* tag,
                                  std::string_view* value) const {
  size_t matched = 0;
  size_t entry_bytes = 0;  // of the user key of the entry before
  bool same_key = false;   // the entry before was of user_key, but too new
  BlockEntry entry;
  for (const char* at = from; at < limit_; at = entry.end()) {
    if (at >= stop && !same_key) return Result::kNotHere;
    if (!DecodeBlockEntry(at, limit_, &entry) || entry.shared > entry_bytes) [[unlikely]] {
      return Result::kDamaged;
    }
    entry_bytes = size_t{entry.shared} + entry.unshared;
    if (entry.shared > matched) continue;
    const std::string_view rest = user_key.substr(entry.shared);
    const std::string_view delta(entry.delta, entry.unshared);
    const size_t more = SharedPrefix(rest, delta);
    if (more == delta.size() && more == rest.size()) {
      if (entry.tag() <= seek_tag) {
        *tag = entry.tag();
        *value = entry.value();
        return Result::kFound;
      }
      same_key = true;
      matched = user_key.size();
      continue;
    }
    if (same_key) return Result::kAbsent;
    const bool entry_is_less =
        more == delta.size() || (more < rest.size() && static_cast<unsigned char>(delta[more]) <
                                                           static_cast<unsigned char>(rest[more]));
    if (entry_is_less == reverse) return Result::kAbsent;
    matched = entry.shared + more;
  }
  return Result::kNotHere;
}

Block::Result Block::ScanComparing(const char* from, const KeyOrder& order,
                                   std::string_view user_key, uint64_t seek_tag, uint64_t* tag,
                                   std::string_view* value) const {
  std::string key;
  BlockEntry entry;
  for (const char* at = from; at < limit_; at = entry.end()) {
    if (!DecodeBlockEntry(at, limit_, &entry) || entry.shared > key.size()) {
      return Result::kDamaged;
    }
    key.resize(entry.shared);
    key.append(entry.delta, entry.unshared);
    const int r = order.Compare(key, user_key);
    if (r > 0) return Result::kAbsent;
    if (r == 0 && entry.tag() <= seek_tag) {
      *tag = entry.tag();
      *value = entry.value();
      return Result::kFound;
    }
  }
  return Result::kNotHere;
}

void KeyBuffer::Grow(size_t keep, size_t n) {
  const size_t capacity = std::max<size_t>(128, (keep + n) * 3 / 2 + kSlack);
  auto grown = std::make_unique_for_overwrite<char[]>(capacity);
  if (keep != 0) std::memcpy(grown.get(), bytes_.get(), keep);
  bytes_ = std::move(grown);
  capacity_ = capacity;
}

bool BlockIterator::Init(std::string_view bytes) {
  Clear();
  return block_.Parse(bytes);
}

void BlockIterator::Clear() {
  valid_ = false;
  damaged_ = false;
  key_.Clear();
  user_key_bytes_ = 0;
  value_ = {};
  block_ = Block();
  current_ = next_ = nullptr;
  reverse_.clear();
}

void BlockIterator::Damage() {
  valid_ = false;
  damaged_ = true;
  reverse_.clear();
  next_ = block_.limit();
}

bool BlockIterator::GoToRestart(uint32_t i) {
  const uint32_t offset = block_.RestartOffset(i);
  valid_ = false;
  key_.Clear();
  user_key_bytes_ = 0;
  reverse_.clear();
  if (offset >= static_cast<size_t>(block_.limit() - block_.data())) {
    Damage();
    return false;
  }
  current_ = next_ = block_.data() + offset;
  return true;
}

void BlockIterator::SeekToFirst() {
  if (GoToRestart(0)) DecodeNext();
}

void BlockIterator::SeekToLast() {
  if (!GoToRestart(block_.num_restarts() - 1)) return;
  do {
    current_ = next_;
    DecodeNext();
  } while (valid_ && next_ < block_.limit());
}

void BlockIterator::Seek(std::string_view user_key, uint64_t tag) {
  uint32_t restart;
  if (!block_.FindRestart(order_.user(), user_key, tag, &restart)) {
    Damage();
    return;
  }
  if (!GoToRestart(restart)) return;
  for (;;) {
    current_ = next_;
    if (next_ >= block_.limit()) {
      valid_ = false;
      return;
    }
    DecodeNext();
    if (!valid_) return;
    const std::string_view key = key_.view();
    if (order_.Compare({key.data(), user_key_bytes_}, Tag(key), user_key, tag) >= 0) return;
  }
}

// Decodes the entries from the restart point before stop up to stop, so that walking
// backward decodes each once.
void BlockIterator::FillReverse(const char* stop) {
  const uint64_t stop_offset = static_cast<uint64_t>(stop - block_.data());
  uint32_t low = 0;  // the last restart point before stop is in [low, high)
  uint32_t high = block_.num_restarts();
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (block_.RestartOffset(middle) < stop_offset) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (!GoToRestart(low)) return;
  reverse_keys_.clear();
  while (next_ < stop) {
    const char* const at = next_;
    DecodeNext();
    if (!valid_) return;
    const std::string_view key = key_.view();
    reverse_.push_back({reverse_keys_.size(), key.size(), value_, at, next_});
    reverse_keys_.insert(reverse_keys_.end(), key.begin(), key.end());
  }
  // Entries that don't meet at stop: a restart point in the middle of one.
  if (next_ != stop) Damage();
}

void BlockIterator::TakeReverse() {
  const ReverseEntry& entry = reverse_.back();
  key_.Clear();
  key_.Replace(0, reverse_keys_.data() + entry.key_offset, entry.key_bytes, entry.key_bytes);
  user_key_bytes_ = entry.key_bytes - kTagBytes;
  value_ = entry.value;
  current_ = entry.at;
  next_ = entry.end;
  valid_ = true;
  reverse_.pop_back();
}

void BlockIterator::Prev() {
  assert(valid_);
  if (reverse_.empty()) {
    if (current_ == block_.data()) {
      valid_ = false;
      return;
    }
    FillReverse(current_);
    if (damaged_) return;
  }
  TakeReverse();
}

}  // namespace sievedb
