#ifndef SIEVEDB_UTIL_ATOMIC_BLOOM_H_
#define SIEVEDB_UTIL_ATOMIC_BLOOM_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "util/aligned_buffer.h"
#include "util/multiply.h"
#include "util/prefetch.h"

namespace sievedb {

// A Bloom filter that grows while it is read: all probes of a key fall into one
// word, so adding is one atomic OR and asking is one load (a blocked filter with
// blocks of 64 bits: Putze, Sanders & Singler 2007). It lives in memory only; the
// bits are no format. At 16 bits per key about 0.7 % of absent keys pass.
//
// Threads: safe. Bits are set by relaxed operations: a reader relies on those only
// that were set before something it acquired (a published sequence).
class AtomicBloom {
 public:
  // Requires: bytes > 0. Rounded down to whole words, at least one.
  explicit AtomicBloom(size_t bytes)
      : words_(std::max<size_t>(bytes / sizeof(Word), 1)),
        memory_(AlignedBuffer::Zeroed(words_ * sizeof(Word))) {}

  // False where it said maybe already.
  bool Add(uint64_t hash) {
    Word& word = At(hash);
    const uint64_t mask = MaskOf(hash);
    // A line that holds the bits already is not written.
    if ((word.load(std::memory_order_relaxed) & mask) == mask) return false;
    return (word.fetch_or(mask, std::memory_order_relaxed) & mask) != mask;
  }

  // False is certain: no such hash was added.
  bool MayContain(uint64_t hash) const {
    const uint64_t mask = MaskOf(hash);
    return (At(hash).load(std::memory_order_relaxed) & mask) == mask;
  }

  void Prefetch(uint64_t hash) const { PrefetchLine(&At(hash)); }
  size_t MemoryBytes() const { return memory_.MemoryBytes(); }

 private:
  using Word = std::atomic<uint64_t>;
  static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

  // The word comes from the high bits of the hash, the four bits from the low ones.
  static uint64_t MaskOf(uint64_t hash) {
    return uint64_t{1} << (hash & 63) | uint64_t{1} << (hash >> 6 & 63) |
           uint64_t{1} << (hash >> 12 & 63) | uint64_t{1} << (hash >> 18 & 63);
  }
  // Zeroed memory is an array of zero atomics: the type is an implicit-lifetime one
  // on every platform that the format's little-endian assertion admits.
  Word& At(uint64_t hash) {
    return reinterpret_cast<Word*>(memory_.data())[MultiplyHigh(hash, words_)];
  }
  const Word& At(uint64_t hash) const {
    return reinterpret_cast<const Word*>(memory_.data())[MultiplyHigh(hash, words_)];
  }

  const size_t words_;
  AlignedBuffer memory_;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_ATOMIC_BLOOM_H_
