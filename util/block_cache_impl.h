#ifndef SIEVEDB_UTIL_BLOCK_CACHE_IMPL_H_
#define SIEVEDB_UTIL_BLOCK_CACHE_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sievedb/block_cache.h"
#include "util/aligned_buffer.h"
#include "util/epoch.h"
#include "util/packed_heap.h"
#include "util/prefetch.h"

namespace sievedb {

// The bytes of a decoded block, in one allocation with what the cache notes about
// it. Reference counted; a new one belongs to its creator alone.
//
// Threads: Ref and Unref are safe; the bytes are written before it is shared.
class alignas(16) BlockBuffer {
 public:
  static BlockBuffer* New(size_t bytes);
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();
  char* data() { return reinterpret_cast<char*>(this + 1); }
  const char* data() const { return reinterpret_cast<const char*>(this + 1); }
  size_t size() const { return bytes_; }
  // For users that hold the buffer behind a void*.
  static void Release(void* buffer) { static_cast<BlockBuffer*>(buffer)->Unref(); }

 private:
  friend class BlockCacheImpl;
  friend class CachedBlocks;
  BlockBuffer(size_t bytes, bool in_chunk) : in_chunk_(in_chunk), bytes_(bytes) {}

  std::atomic<uint32_t> refs_{1};
  // The cache's notes; see block_cache_impl.cc.
  std::atomic<uint8_t> frequency_{0};  // readers raise it, the shard lowers it
  const bool in_chunk_;                // of BlockHeap
  const size_t bytes_;
  uint64_t hash_ = 0;
  // Where readers find it; null: no cache ever had it, or its table is closed. Under the
  // shard's lock, as the next.
  std::atomic<uintptr_t>* slot_ = nullptr;
  BlockBuffer* newer_ = nullptr;  // the next of its queue
};
static_assert(sizeof(BlockBuffer) % 16 == 0, "the bytes are aligned for any scalar type");

// The implementation behind NewBlockCache.
//
// There is no hash table: an open table has a slot for each of its blocks (CachedBlocks),
// so that a hit loads one pointer, from a place that is known before the index has been
// searched to its end. It takes no lock and, once the block's frequency is saturated,
// writes nothing but its thread's own counter. Inserting and evicting lock one shard.
//
// Invariants:
//  1. Usage never exceeds the capacity, not even between two steps.
//  2. What a slot leads to was reachable or is protected by the guard under which
//     it was read: an unlinked block's reference is given up through EpochRetire.
class BlockCacheImpl final : public BlockCache {
 public:
  explicit BlockCacheImpl(size_t capacity_bytes);
  ~BlockCacheImpl() override;

  size_t CapacityBytes() const override;
  size_t UsageBytes() const override;
  uint64_t Hits() const override;
  uint64_t Misses() const override;
  void Clear() override;

  // What a block of so many bytes is charged with.
  static size_t ChargeOf(size_t bytes);
  size_t ShardCount() const { return size_t{1} << shard_bits_; }

 private:
  friend class CachedBlocks;
  class Shard;

  // One thread's counts, so that a hit writes no line that another thread writes.
  struct alignas(64) CountCell {
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> misses{0};
  };
  // Threads below this number have a cell of their own and count with plain loads and
  // stores; the others share the last one. Two live threads never have the same number,
  // and a thread that takes over a number sees what its predecessor wrote.
  static constexpr uint32_t kOwnCells = 127;
  void CountLookup(bool hit) {
    const uint32_t thread = ThreadIndex();
    CountCell& cell = cells_[thread < kOwnCells ? thread : kOwnCells];
    std::atomic<uint64_t>& counter = hit ? cell.hits : cell.misses;
    if (thread < kOwnCells) [[likely]] {
      counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      counter.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Shard& ShardOf(uint64_t hash) const;

  const size_t capacity_;
  const int shard_bits_;
  std::unique_ptr<CountCell[]> cells_;
  std::unique_ptr<Shard[]> shards_;
  std::atomic<uint64_t> last_table_id_{0};
};

// What a cache has of one open table: a slot for each block.
//
// Threads: safe.
class CachedBlocks {
 public:
  // The cache must outlive it.
  CachedBlocks(BlockCacheImpl* cache, size_t blocks);
  // Blocks that are cached are found by nobody any more; they go when their turn comes.
  // Requires: nobody reads.
  ~CachedBlocks();
  CachedBlocks(const CachedBlocks&) = delete;
  CachedBlocks& operator=(const CachedBlocks&) = delete;

  // Block i, or nullptr. It is valid while the caller's EpochGuard lives; Ref() it to
  // keep it longer. Requires: an EpochGuard.
  BlockBuffer* Lookup(size_t i) {
    BlockBuffer* const block = At(i);
    if (block != nullptr) {
      // Relaxed, and not a read-modify-write: it is a hint, and a lost increment is
      // cheaper than an exclusive cache line. Saturated, it is only read.
      const uint8_t frequency = block->frequency_.load(std::memory_order_relaxed);
      if (frequency < kMaxFrequency) {
        block->frequency_.store(static_cast<uint8_t>(frequency + 1), std::memory_order_relaxed);
      }
    }
    cache_->CountLookup(block != nullptr);
    return block;
  }
  // The same, uncounted.
  const BlockBuffer* Peek(size_t i) const { return At(i); }

  // The steps of a Lookup that is going to come, each of which waits for memory. First
  // the slot: of any block of [i / 8 * 8, i / 8 * 8 + 8).
  void PrefetchSlot(size_t i) const { PrefetchLine(&slots_[i]); }
  // Then the block's header and its last 64 to 128 bytes, where a block tells what it
  // consists of. False where it is not cached. Requires: an EpochGuard.
  bool PrefetchBlock(size_t i) const {
    const uintptr_t slot = slots_[i].load(std::memory_order_relaxed);
    if (slot == 0) return false;
    const char* const begin = reinterpret_cast<const char*>(slot & kPointerMask);
    const char* const last_line = begin + (slot >> kPointerBits) * 64;
    PrefetchLine(begin);
    PrefetchLine(last_line);
    PrefetchLine(last_line - 64);
    return true;
  }

  // Offers block i, which Lookup missed. The cache takes a reference of its own, or
  // none where it has the block already or it does not fit. Requires: no cache ever
  // had this buffer.
  void Insert(size_t i, BlockBuffer* block);

  size_t MemoryBytes() const { return sizeof(*this) + slots_.capacity() * sizeof(Slot); }

 private:
  friend class BlockCacheImpl;
  // The pointer, and above it (user space ends at 2^47, or 2^48 on ARM) which of its lines
  // is the last, as far as 16 bits go.
  using Slot = std::atomic<uintptr_t>;
  static constexpr int kPointerBits = 48;
  static constexpr uintptr_t kPointerMask = (uintptr_t{1} << kPointerBits) - 1;
  static constexpr uint8_t kMaxFrequency = 3;
  static_assert(sizeof(uintptr_t) == 8 && Slot::is_always_lock_free);

  static BlockBuffer* Pointer(uintptr_t slot) {
    return reinterpret_cast<BlockBuffer*>(slot & kPointerMask);
  }
  // Acquire: the block's bytes were written before it was put here.
  BlockBuffer* At(size_t i) const { return Pointer(slots_[i].load(std::memory_order_acquire)); }
  uint64_t HashOf(size_t i) const;

  BlockCacheImpl* const cache_;
  // A name that no other table had: of blocks whose turn is still to come.
  const uint64_t table_id_;
  std::vector<Slot, PackedAllocator<Slot>> slots_;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BLOCK_CACHE_IMPL_H_
