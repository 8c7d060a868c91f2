#include "util/block_cache_impl.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <utility>

#include "util/block_heap.h"
#include "util/epoch.h"
#include "util/multiply.h"
#include "util/mutex.h"
#include "util/prefetch.h"

namespace sievedb {

// S3-FIFO (Yang et al. 2023), per shard. A new block enters the small queue. When
// room is needed and the small queue has more than its tenth, its oldest block
// goes: into the main queue where it was read at least twice since, else out, and
// its hash is remembered for a while (the ghost). A block that comes back while it is
// remembered enters the main queue at once. The main queue's oldest block goes out
// where nobody read it, and once more round with a lower frequency where somebody
// did. A scan therefore washes through the small queue alone.
//
// Memory orders: a bucket, and a block's chain_, are stored with release after the
// block's fields were written, and loaded with acquire by readers. A block that is
// unlinked keeps its chain_, so a reader that stands on it goes on into the rest of
// the chain, which its guard protects: a block behind it that is unlinked later is
// retired later, and one that was unlinked before is no longer in its chain_.

namespace {

constexpr size_t kTypicalBlockBytes = 4096;
// What a block costs beside its slot: its share of the buckets (two to four for each
// block of the typical size), of the ghost, and of a chunk's unused end.
constexpr size_t kShareBytes = 64;

// A shard is worth its lock from here on; smaller ones make the limit on a single
// block, and the unevenness of their load, matter.
constexpr size_t kMinShardBytes = size_t{4} << 20;
constexpr int kMaxShardBits = 6;
// For 256 GiB; chains grow beyond. Any capacity is legal, and this is mapped at once.
constexpr int kMaxBucketBits = 27;

constexpr uint8_t kMaxFrequency = 3;
constexpr uint8_t kPromotedFrequency = 2;

// How many blocks of the main queue one eviction may send round again. Readers
// raise frequencies meanwhile, so without a limit nothing would promise an end.
constexpr int kMaxSecondChances = 256;

// Evicted blocks are retired together once they have more bytes than this, which is
// taken off what the queues may hold. In a small cache each is retired at once.
constexpr size_t kMaxWaitingBytes = size_t{64} << 10;

int ShardBits(size_t capacity) {
  int bits = 0;
  while (bits < kMaxShardBits && (capacity >> (bits + 1)) >= kMinShardBytes) ++bits;
  return bits;
}

int BucketBits(size_t capacity, int shard_bits) {
  const size_t wanted = std::max<size_t>(capacity / kTypicalBlockBytes * 2, 1);
  return std::clamp(static_cast<int>(std::bit_width(wanted - 1)), shard_bits, kMaxBucketBits);
}

// The top bits of hash as a number; none is 0.
size_t TopBits(uint64_t hash, int bits) {
  return bits == 0 ? 0 : static_cast<size_t>(hash >> (64 - bits));
}

// Blocks from oldest to newest, linked by newer_.
struct Fifo {
  BlockBuffer* oldest = nullptr;
  BlockBuffer* newest = nullptr;
  size_t bytes = 0;
  size_t blocks = 0;
};

// The hashes of the blocks that left the small queue last. A table of one slot for
// each hash, without chains: a collision forgets the older one, which costs a block
// its short cut and nothing else.
class Ghost {
 public:
  void Init(int bits) {
    bits_ = bits;
    memory_ = AlignedBuffer::Zeroed((size_t{1} << bits) * sizeof(Slot));
    slots_ = reinterpret_cast<Slot*>(memory_.data());
  }
  void Add(uint64_t hash) { SlotOf(hash) = {Tag(hash), ++now_}; }
  // Whether hash is among the last so many added. It is then forgotten.
  bool Take(uint64_t hash, size_t last) {
    Slot& slot = SlotOf(hash);
    if (slot.tag != Tag(hash) || slot.added == 0 || now_ - slot.added >= last) return false;
    slot = {};
    return true;
  }

 private:
  struct Slot {
    uint32_t tag;
    uint32_t added;  // a count of additions; 0: empty
  };
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash); }
  // The middle of the hash: the top chose the shard, the bottom is the tag.
  Slot& SlotOf(uint64_t hash) { return slots_[(hash >> 24) & ((size_t{1} << bits_) - 1)]; }

  int bits_ = 0;
  uint32_t now_ = 0;
  AlignedBuffer memory_;
  Slot* slots_ = nullptr;
};

}  // namespace

BlockBuffer* BlockBuffer::New(size_t bytes) {
  // One allocation, as the class promises; Unref frees it.
  bool in_chunk = false;
  void* const memory = BlockHeap::Allocate(sizeof(BlockBuffer) + bytes, &in_chunk);
  return new (memory) BlockBuffer(bytes, in_chunk);
}

void BlockBuffer::Unref() {
  // acq_rel: what every user did with the block happens before it is freed.
  const uint32_t before = refs_.fetch_sub(1, std::memory_order_acq_rel);
  assert(before > 0);
  if (before == 1) {
    const size_t bytes = sizeof(BlockBuffer) + bytes_;
    const bool in_chunk = in_chunk_;
    this->~BlockBuffer();
    BlockHeap::Free(this, bytes, in_chunk);
  }
}

// One thread's counts, so that a hit writes no line that another thread writes.
struct alignas(64) BlockCacheImpl::CountCell {
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
};

class alignas(64) BlockCacheImpl::Shard {
 public:
  void Init(size_t capacity, int ghost_bits) {
    MutexLock lock(&mu_);
    waiting_limit_ = capacity >= kMinShardBytes ? kMaxWaitingBytes : 0;
    capacity_ = capacity - waiting_limit_;
    ghost_.Init(ghost_bits);
  }

  void Insert(BlockCacheImpl* cache, uint64_t hash, BlockBuffer* block) {
    // Outside the lock: this may free what others retired.
    Retire(InsertLocked(cache, hash, block));
  }

  // Drops what only the cache refers to, or everything.
  void Clear(BlockCacheImpl* cache, bool everything) {
    BlockBuffer* dropped;
    {
      MutexLock lock(&mu_);
      ClearQueue(cache, &small_, everything);
      ClearQueue(cache, &main_, everything);
      dropped = TakeWaiting();
      PublishUsage();
    }
    Retire(dropped);
  }

  size_t UsageBytes() const { return usage_.load(std::memory_order_relaxed); }

 private:
  static void Push(Fifo* queue, BlockBuffer* block) {
    block->newer_ = nullptr;
    (queue->newest == nullptr ? queue->oldest : queue->newest->newer_) = block;
    queue->newest = block;
    queue->bytes += ChargeOf(block->bytes_);
    ++queue->blocks;
  }

  static BlockBuffer* Pop(Fifo* queue) {
    BlockBuffer* const block = queue->oldest;
    queue->oldest = block->newer_;
    if (queue->oldest == nullptr) queue->newest = nullptr;
    queue->bytes -= ChargeOf(block->bytes_);
    --queue->blocks;
    return block;
  }

  // A chain of evicted blocks, linked by newer_; null: none.
  static void Retire(BlockBuffer* oldest) {
    if (oldest == nullptr) return;
    EpochRetire(oldest, [](void* first) {
      for (auto* block = static_cast<BlockBuffer*>(first); block != nullptr;) {
        BlockBuffer* const next = block->newer_;
        block->Unref();
        block = next;
      }
    });
  }

  BlockBuffer* TakeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::exchange(waiting_, Fifo()).oldest;
  }

  static BlockBuffer* Find(const Bucket& bucket, uint64_t table_id, uint64_t offset) {
    BlockBuffer* block = bucket.load(std::memory_order_relaxed);
    while (block != nullptr && (block->table_id_ != table_id || block->offset_ != offset)) {
      block = block->chain_.load(std::memory_order_relaxed);
    }
    return block;
  }

  // Takes block out of its chain, where readers may still stand on it.
  static void Unlink(Bucket* bucket, BlockBuffer* block) {
    Bucket* link = bucket;
    while (link->load(std::memory_order_relaxed) != block) {
      link = &link->load(std::memory_order_relaxed)->chain_;
    }
    // Release, since it publishes the next block to those who did not see it before.
    link->store(block->chain_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  // Returns what the caller is to retire.
  BlockBuffer* InsertLocked(BlockCacheImpl* cache, uint64_t hash, BlockBuffer* block)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    Bucket& bucket = cache->BucketOf(hash);
    const size_t charge = ChargeOf(block->bytes_);
    if (charge > capacity_ || Find(bucket, block->table_id_, block->offset_) != nullptr) {
      block->table_id_ = 0;
      return nullptr;
    }
    // Asked first, since what is evicted now may take the slot.
    const bool came_back = ghost_.Take(hash, small_.blocks + main_.blocks);
    while (small_.bytes + main_.bytes > capacity_ - charge) EvictOne(cache);
    block->Ref();
    Push(came_back ? &main_ : &small_, block);
    block->chain_.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
    bucket.store(block, std::memory_order_release);
    BlockBuffer* const evicted = waiting_.bytes > waiting_limit_ ? TakeWaiting() : nullptr;
    PublishUsage();
    return evicted;
  }

  // Requires: the shard is not empty.
  void EvictOne(BlockCacheImpl* cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    // Each turn takes a block from the small queue for good, or uses up a second
    // chance, so there is an end.
    for (int chances = kMaxSecondChances;;) {
      if (small_.blocks > 0 && (small_.bytes > capacity_ / 10 || main_.blocks == 0)) {
        BlockBuffer* const block = Pop(&small_);
        if (block->frequency_.load(std::memory_order_relaxed) >= kPromotedFrequency) {
          block->frequency_.store(0, std::memory_order_relaxed);
          Push(&main_, block);
          continue;
        }
        ghost_.Add(HashOf(block->table_id_, block->offset_));
        return Evict(cache, block);
      }
      BlockBuffer* const block = Pop(&main_);
      const uint8_t frequency = block->frequency_.load(std::memory_order_relaxed);
      if (frequency == 0 || chances == 0) return Evict(cache, block);
      --chances;
      // A reader's increment between the two is lost, which is no matter.
      block->frequency_.store(static_cast<uint8_t>(frequency - 1), std::memory_order_relaxed);
      Push(&main_, block);
    }
  }

  void Evict(BlockCacheImpl* cache, BlockBuffer* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Unlink(&cache->BucketOf(HashOf(block->table_id_, block->offset_)), block);
    Push(&waiting_, block);
  }

  void ClearQueue(BlockCacheImpl* cache, Fifo* queue, bool everything)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (size_t n = queue->blocks; n > 0; --n) {
      BlockBuffer* const block = Pop(queue);
      // A reader that takes a reference right after this keeps the memory, not the
      // place in the cache.
      if (!everything && block->refs_.load(std::memory_order_relaxed) > 1) {
        Push(queue, block);
      } else {
        Evict(cache, block);
      }
    }
  }

  void PublishUsage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    assert(small_.bytes + main_.bytes <= capacity_ && waiting_.bytes <= waiting_limit_);
    usage_.store(small_.bytes + main_.bytes + waiting_.bytes, std::memory_order_relaxed);
  }

  Mutex mu_;
  size_t capacity_ ABSL_GUARDED_BY(mu_) = 0;  // of the two queues
  Fifo small_ ABSL_GUARDED_BY(mu_);
  Fifo main_ ABSL_GUARDED_BY(mu_);
  // Evicted blocks that wait until it is worth while to retire them.
  Fifo waiting_ ABSL_GUARDED_BY(mu_);
  size_t waiting_limit_ ABSL_GUARDED_BY(mu_) = 0;
  Ghost ghost_ ABSL_GUARDED_BY(mu_);
  std::atomic<size_t> usage_{0};  // a copy for UsageBytes, which takes no lock
};

namespace {

// Threads below this number have a cell of their own and count with plain loads and
// stores; the others share the last one. Two live threads never have the same number,
// and a thread that takes over a number sees what its predecessor wrote.
constexpr uint32_t kOwnCells = 127;

void CountOne(std::atomic<uint64_t>* counter, bool own) {
  if (own) [[likely]] {
    counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else {
    counter->fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

BlockCacheImpl::BlockCacheImpl(size_t capacity_bytes)
    : capacity_(capacity_bytes),
      shard_bits_(ShardBits(capacity_bytes)),
      bucket_bits_(BucketBits(capacity_bytes, shard_bits_)),
      bucket_memory_(AlignedBuffer::Zeroed((size_t{1} << bucket_bits_) * sizeof(Bucket))),
      // Zeroed memory is an array of null pointers.
      buckets_(reinterpret_cast<Bucket*>(bucket_memory_.data())),
      cells_(std::make_unique<CountCell[]>(kOwnCells + 1)),
      shards_(std::make_unique<Shard[]>(ShardCount())) {
  static_assert(sizeof(Bucket) == sizeof(void*) && Bucket::is_always_lock_free);
  const int ghost_bits = std::max(bucket_bits_ - shard_bits_ - 1, 0);
  const size_t share = capacity_ >> shard_bits_;
  for (size_t i = 0; i < ShardCount(); ++i) {
    shards_[i].Init(i == 0 ? capacity_ - share * (ShardCount() - 1) : share, ghost_bits);
  }
}

BlockCacheImpl::~BlockCacheImpl() {
  // Pins hold references of their own; what a guard alone protects is retired.
  for (size_t i = 0; i < ShardCount(); ++i) shards_[i].Clear(this, /*everything=*/true);
}

size_t BlockCacheImpl::ChargeOf(size_t bytes) {
  return BlockHeap::SlotBytes(sizeof(BlockBuffer) + bytes) + kShareBytes;
}

uint64_t BlockCacheImpl::HashOf(uint64_t table_id, uint64_t offset) {
  // Offsets differ in their low bits and table ids are small: both are spread before
  // they are joined.
  return MultiplyFold(offset + table_id * 0x9e3779b97f4a7c15, 0xd1342543de82ef95);
}

BlockCacheImpl::Bucket& BlockCacheImpl::BucketOf(uint64_t hash) const {
  return buckets_[TopBits(hash, bucket_bits_)];
}

BlockCacheImpl::Shard& BlockCacheImpl::ShardOf(uint64_t hash) const {
  // The same top bits as the bucket's: a bucket belongs to one shard.
  return shards_[TopBits(hash, shard_bits_)];
}

BlockBuffer* BlockCacheImpl::Lookup(uint64_t table_id, uint64_t offset) {
  const uint32_t thread = ThreadIndex();
  CountCell& cell = cells_[std::min(thread, kOwnCells)];
  BlockBuffer* block = BucketOf(HashOf(table_id, offset)).load(std::memory_order_acquire);
  while (block != nullptr) {
    if (block->offset_ == offset && block->table_id_ == table_id) {
      // Relaxed, and not a read-modify-write: it is a hint, and a lost increment is
      // cheaper than an exclusive cache line. Saturated, it is only read.
      const uint8_t frequency = block->frequency_.load(std::memory_order_relaxed);
      if (frequency < kMaxFrequency) {
        block->frequency_.store(static_cast<uint8_t>(frequency + 1), std::memory_order_relaxed);
      }
      CountOne(&cell.hits, thread < kOwnCells);
      return block;
    }
    block = block->chain_.load(std::memory_order_acquire);
  }
  CountOne(&cell.misses, thread < kOwnCells);
  return nullptr;
}

void BlockCacheImpl::PrefetchBucket(uint64_t table_id, uint64_t offset) const {
  PrefetchLine(&BucketOf(HashOf(table_id, offset)));
}

void BlockCacheImpl::PrefetchFirstOfBucket(uint64_t table_id, uint64_t offset) const {
  const BlockBuffer* const first =
      BucketOf(HashOf(table_id, offset)).load(std::memory_order_acquire);
  PrefetchLine(first);
}

const BlockBuffer* BlockCacheImpl::Peek(uint64_t table_id, uint64_t offset) const {
  const BlockBuffer* block = BucketOf(HashOf(table_id, offset)).load(std::memory_order_acquire);
  while (block != nullptr && (block->offset_ != offset || block->table_id_ != table_id)) {
    block = block->chain_.load(std::memory_order_acquire);
  }
  return block;
}

void BlockCacheImpl::Insert(uint64_t table_id, uint64_t offset, BlockBuffer* block) {
  assert(table_id != 0 && block->table_id_ == 0);
  block->table_id_ = table_id;
  block->offset_ = offset;
  const uint64_t hash = HashOf(table_id, offset);
  ShardOf(hash).Insert(this, hash, block);
}

uint64_t BlockCacheImpl::NewTableId() {
  return last_table_id_.fetch_add(1, std::memory_order_relaxed) + 1;
}

size_t BlockCacheImpl::CapacityBytes() const { return capacity_; }

size_t BlockCacheImpl::UsageBytes() const {
  size_t bytes = 0;
  for (size_t i = 0; i < ShardCount(); ++i) bytes += shards_[i].UsageBytes();
  return bytes;
}

uint64_t BlockCacheImpl::Hits() const {
  uint64_t hits = 0;
  for (uint32_t i = 0; i <= kOwnCells; ++i) hits += cells_[i].hits.load(std::memory_order_relaxed);
  return hits;
}

uint64_t BlockCacheImpl::Misses() const {
  uint64_t misses = 0;
  for (uint32_t i = 0; i <= kOwnCells; ++i) {
    misses += cells_[i].misses.load(std::memory_order_relaxed);
  }
  return misses;
}

void BlockCacheImpl::Clear() {
  for (size_t i = 0; i < ShardCount(); ++i) shards_[i].Clear(this, /*everything=*/false);
}

std::shared_ptr<BlockCache> NewBlockCache(size_t capacity_bytes) {
  return std::make_shared<BlockCacheImpl>(capacity_bytes);
}

}  // namespace sievedb
