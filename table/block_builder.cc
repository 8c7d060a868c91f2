#include "table/block_builder.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "table/format.h"
#include "table/internal_key.h"
#include "util/coding.h"

namespace sievedb {

BlockBuilder::BlockBuilder(int restart_interval, bool with_hash_index)
    : restart_interval_(static_cast<uint32_t>(std::max(1, restart_interval))),
      with_hash_index_(with_hash_index) {}

uint64_t BlockBuilder::EstimateAfter(size_t user_key_bytes, size_t value_bytes,
                                     size_t shared) const {
  const bool restart = empty() || entries_since_restart_ == restart_interval_;
  const size_t unshared = restart ? user_key_bytes : user_key_bytes - shared;
  // Two bytes of slack for the hash index, four for a restart point.
  return EstimatedBytes() + 3 + static_cast<size_t>(VarintLength(value_bytes)) + unshared +
         kTagBytes + value_bytes + 2 + (restart ? 4 : 0);
}

char* BlockBuilder::Reserve(size_t bytes) {
  if (capacity_ - size_ < bytes) [[unlikely]] {
    const size_t capacity = std::max({size_ + bytes, capacity_ + capacity_ / 2, size_t{8192}});
    auto grown = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ != 0) std::memcpy(grown.get(), buffer_.get(), size_);
    buffer_ = std::move(grown);
    capacity_ = capacity;
  }
  return buffer_.get() + size_;
}

void BlockBuilder::Add(std::string_view user_key, uint64_t tag, std::string_view value,
                       size_t shared, bool new_user_key, uint64_t hash) {
  assert(EstimateAfter(user_key.size(), value.size(), shared) <= kMaxBlockBytes);
  if (entries_since_restart_ == restart_interval_ || empty()) {
    restarts_.push_back(static_cast<uint32_t>(size_));
    entries_since_restart_ = 0;
    shared = 0;
  }
  if (with_hash_index_ && (new_user_key || empty())) {
    hashed_keys_.push_back({hash, static_cast<uint32_t>(restarts_.size() - 1)});
  }
  const size_t unshared = user_key.size() - shared;
  char* const start = Reserve(3 * kMaxVarint32Bytes + unshared + kTagBytes + value.size());
  char* to = start;
  if ((shared | unshared | value.size()) < 128) [[likely]] {
    to[0] = static_cast<char>(shared);
    to[1] = static_cast<char>(unshared);
    to[2] = static_cast<char>(value.size());
    to += 3;
  } else {
    to = EncodeVarint32(to, static_cast<uint32_t>(shared));
    to = EncodeVarint32(to, static_cast<uint32_t>(unshared));
    to = EncodeVarint32(to, static_cast<uint32_t>(value.size()));
  }
  if (unshared != 0) std::memcpy(to, user_key.data() + shared, unshared);
  to += unshared;
  EncodeFixed64(to, tag);
  to += kTagBytes;
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  to += value.size();
  size_ += static_cast<size_t>(to - start);
  ++entries_;
  ++entries_since_restart_;
}

void BlockBuilder::AppendHashIndex() {
  uint32_t buckets = 0;
  // Three quarters full at most; a block of a single interval is searched as fast
  // without, but "not here" is worth having there too.
  if (with_hash_index_ && restarts_.size() <= kMaxHashedRestarts &&
      hashed_keys_.size() * 4 / 3 + 1 <= kMaxHashBuckets) {
    buckets = static_cast<uint32_t>(hashed_keys_.size() * 4 / 3 + 1);
  }
  char* const table = Reserve(buckets + kBlockFooterBytes);
  std::memset(table, kNoKey, buckets);
  for (const HashedKey& key : hashed_keys_) {
    if (buckets == 0) break;
    char* const bucket = table + BlockHashBucket(key.hash, buckets);
    const uint8_t before = static_cast<uint8_t>(*bucket);
    *bucket = static_cast<char>(before == kNoKey || before == key.restart ? key.restart
                                                                          : uint32_t{kManyKeys});
  }
  EncodeFixed32(table + buckets, buckets);
  EncodeFixed32(table + buckets + 4, static_cast<uint32_t>(restarts_.size()));
  size_ += buckets + kBlockFooterBytes;
}

absl::Span<char> BlockBuilder::Finish(size_t trailer_bytes) {
  assert(!empty());
  const size_t restart_bytes = restarts_.size() * sizeof(uint32_t);
  std::memcpy(Reserve(restart_bytes), restarts_.data(), restart_bytes);
  size_ += restart_bytes;
  AppendHashIndex();
  assert(size_ <= kMaxBlockBytes);
  Reserve(trailer_bytes);
  return {buffer_.get(), size_};
}

void BlockBuilder::Reset() {
  // A buffer that a huge value grew is given back.
  if (capacity_ > (size_t{4} << 20)) {
    buffer_.reset();
    capacity_ = 0;
  }
  size_ = 0;
  entries_ = 0;
  entries_since_restart_ = 0;
  restarts_.clear();
  hashed_keys_.clear();
}

}  // namespace sievedb
