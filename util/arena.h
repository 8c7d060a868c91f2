#ifndef SIEVEDB_UTIL_ARENA_H_
#define SIEVEDB_UTIL_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "util/aligned_buffer.h"
#include "util/mutex.h"

namespace sievedb {

// Memory that is given out in pieces and freed all at once.
//
// Threads: safe; the common case is one fetch_add.
class Arena {
 public:
  // expected_bytes: about how much will be asked for. A large arena takes huge pages
  // at once, which a search through it misses the TLB less for.
  explicit Arena(size_t expected_bytes = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // bytes of memory, 8-byte aligned. Never null.
  char* Allocate(size_t bytes) {
    bytes = RoundUp(bytes);
    // Acquire: the chunk's header was written before it was published.
    if (Chunk* const chunk = current_.load(std::memory_order_acquire); chunk != nullptr)
        [[likely]] {
      if (char* const memory = chunk->Take(bytes); memory != nullptr) [[likely]]
        return memory;
    }
    return AllocateSlow(bytes);
  }
  // Bytes held from the system.
  size_t MemoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  // Of them, those that are not free any more.
  size_t UsedBytes() const;

 private:
  // The header of a piece of memory from the system; what is given out follows it.
  struct Chunk {
    explicit Chunk(size_t bytes) : capacity(bytes) {}

    // bytes of the chunk, or null where it has not so many left.
    char* Take(size_t bytes) {
      // Looked at first, so that a large piece that does not fit leaves the rest to
      // smaller ones. Where threads race, the count may still go beyond capacity; the
      // chunk then counts as full. Relaxed: the count alone says whose the bytes are.
      const size_t before = used.load(std::memory_order_relaxed);
      if (before > capacity || bytes > capacity - before) return nullptr;
      const size_t at = used.fetch_add(bytes, std::memory_order_relaxed);
      if (at > capacity || bytes > capacity - at) return nullptr;
      return reinterpret_cast<char*>(this + 1) + at;
    }

    std::atomic<size_t> used{0};
    const size_t capacity;
  };
  static_assert(sizeof(Chunk) % 8 == 0);

  static size_t RoundUp(size_t bytes) { return bytes == 0 ? 8 : (bytes + 7) & ~size_t{7}; }

  char* AllocateSlow(size_t bytes);
  Chunk* NewChunk(size_t capacity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<Chunk*> current_{nullptr};
  std::atomic<size_t> memory_bytes_{0};
  const bool huge_chunks_;
  Mutex mu_;
  std::vector<AlignedBuffer> chunks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_ARENA_H_
