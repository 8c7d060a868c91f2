#ifndef SIEVEDB_UTIL_BLOCK_CACHE_IMPL_H_
#define SIEVEDB_UTIL_BLOCK_CACHE_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "sievedb/block_cache.h"
#include "util/aligned_buffer.h"

namespace sievedb {

// The bytes of a decoded block, in one allocation with what the cache notes about
// it. Reference counted; a new one belongs to its creator alone.
//
// Threads: Ref and Unref are safe; the bytes are written before it is shared.
class BlockBuffer {
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
  BlockBuffer(size_t bytes, bool in_chunk) : in_chunk_(in_chunk), bytes_(bytes) {}

  std::atomic<uint32_t> refs_{1};
  // The cache's notes; see block_cache_impl.cc.
  std::atomic<uint8_t> frequency_{0};  // readers raise it, the shard lowers it
  const bool in_chunk_;                // of BlockHeap
  const size_t bytes_;
  uint64_t table_id_ = 0;  // 0: no cache ever had it; constant once it is reachable
  uint64_t offset_ = 0;
  std::atomic<BlockBuffer*> chain_{nullptr};  // the next of its bucket
  BlockBuffer* newer_ = nullptr;              // the next of its queue; under the shard's lock
};
static_assert(sizeof(BlockBuffer) % 16 == 0, "the bytes are aligned for any scalar type");

// The implementation behind NewBlockCache.
//
// A hit walks one hash chain of atomics under an EpochGuard: it takes no lock
// and, once the block's frequency is saturated, writes nothing but its thread's own
// counter. Inserting and evicting lock one shard.
//
// Invariants:
//  1. Usage never exceeds the capacity, not even between two steps.
//  2. What a bucket leads to was reachable or is protected by the guard under which
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

  // A name for an open table's blocks that no other table ever had: what one
  // table cached can never be taken for another's, whatever its file number.
  uint64_t NewTableId();

  // The block, or nullptr. It is valid while the caller's EpochGuard lives; Ref()
  // it to keep it longer. Requires: an EpochGuard.
  BlockBuffer* Lookup(uint64_t table_id, uint64_t offset);

  // The steps of a Lookup that is going to come, each of which waits for memory: a
  // caller with several lookups takes each step for all of them first. They count
  // nothing. Requires: an EpochGuard.
  void PrefetchBucket(uint64_t table_id, uint64_t offset) const;
  void PrefetchFirstOfBucket(uint64_t table_id, uint64_t offset) const;
  const BlockBuffer* Peek(uint64_t table_id, uint64_t offset) const;  // or nullptr

  // Offers a block that Lookup missed. The cache takes a reference of its own, or
  // none where it has the block already or it does not fit. Requires: no cache ever
  // had this buffer.
  void Insert(uint64_t table_id, uint64_t offset, BlockBuffer* block);

  // What a block of so many bytes is charged with.
  static size_t ChargeOf(size_t bytes);
  size_t ShardCount() const { return size_t{1} << shard_bits_; }

 private:
  class Shard;
  struct CountCell;
  using Bucket = std::atomic<BlockBuffer*>;

  static uint64_t HashOf(uint64_t table_id, uint64_t offset);
  Bucket& BucketOf(uint64_t hash) const;
  Shard& ShardOf(uint64_t hash) const;

  // Constant after construction, so that a hit reads one line of the cache itself.
  const size_t capacity_;
  const int shard_bits_;
  const int bucket_bits_;        // of all shards together; at least shard_bits_
  AlignedBuffer bucket_memory_;  // untouched parts of it cost nothing
  Bucket* buckets_;
  std::unique_ptr<CountCell[]> cells_;
  std::unique_ptr<Shard[]> shards_;
  std::atomic<uint64_t> last_table_id_{0};
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BLOCK_CACHE_IMPL_H_
