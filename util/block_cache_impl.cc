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
// Memory orders: a slot is stored with release after the block's fields were written, and
// loaded with acquire by readers. Slots change under the lock of the shard that the
// block's hash chooses.

namespace {

constexpr size_t kTypicalBlockBytes = 4096;
// What a block costs beside its slot of the heap: its share of the ghost, and of a chunk's
// unused end.
constexpr size_t kShareBytes = 64;

// A shard is worth its lock from here on; smaller ones make the limit on a single
// block, and the unevenness of their load, matter.
constexpr size_t kMinShardBytes = size_t{4} << 20;
constexpr int kMaxShardBits = 6;
// The ghost of 256 GiB. Any capacity is legal, and this is mapped at once.
constexpr int kMaxGhostBits = 26;

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

// Of all shards together: about one for each block of the typical size.
int GhostBits(size_t capacity, int shard_bits) {
  const size_t wanted = std::max<size_t>(capacity / kTypicalBlockBytes, 1);
  return std::clamp(static_cast<int>(std::bit_width(wanted - 1)), shard_bits, kMaxGhostBits);
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

class alignas(64) BlockCacheImpl::Shard {
 public:
  void Init(size_t capacity, int ghost_bits) {
    MutexLock lock(&mu_);
    waiting_limit_ = capacity >= kMinShardBytes ? kMaxWaitingBytes : 0;
    capacity_ = capacity - waiting_limit_;
    ghost_.Init(ghost_bits);
  }

  void Insert(CachedBlocks::Slot* slot, uintptr_t entry) {
    // Outside the lock: this may free what others retired.
    Retire(InsertLocked(slot, entry));
  }

  // Has slot, whose table is closed, forgotten. The block stays in its queue: no reader
  // raises its frequency any more.
  void Forget(CachedBlocks::Slot* slot) {
    MutexLock lock(&mu_);
    BlockBuffer* const block = CachedBlocks::Pointer(slot->load(std::memory_order_relaxed));
    if (block == nullptr) return;  // evicted just now
    block->slot_ = nullptr;
    block->frequency_.store(0, std::memory_order_relaxed);
    slot->store(0, std::memory_order_relaxed);
  }

  // Drops what only the cache refers to, or everything.
  void Clear(bool everything) {
    BlockBuffer* dropped;
    {
      MutexLock lock(&mu_);
      ClearQueue(&small_, everything);
      ClearQueue(&main_, everything);
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

  // Returns what the caller is to retire.
  BlockBuffer* InsertLocked(CachedBlocks::Slot* slot, uintptr_t entry) ABSL_LOCKS_EXCLUDED(mu_) {
    BlockBuffer* const block = CachedBlocks::Pointer(entry);
    MutexLock lock(&mu_);
    const size_t charge = ChargeOf(block->bytes_);
    if (charge > capacity_ || slot->load(std::memory_order_relaxed) != 0) return nullptr;
    // Asked first, since what is evicted now may take the ghost's place.
    const bool came_back = ghost_.Take(block->hash_, small_.blocks + main_.blocks);
    while (small_.bytes + main_.bytes > capacity_ - charge) EvictOne();
    block->Ref();
    block->slot_ = slot;
    Push(came_back ? &main_ : &small_, block);
    slot->store(entry, std::memory_order_release);
    BlockBuffer* const evicted = waiting_.bytes > waiting_limit_ ? TakeWaiting() : nullptr;
    PublishUsage();
    return evicted;
  }

  // Requires: the shard is not empty.
  void EvictOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
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
        ghost_.Add(block->hash_);
        return Evict(block);
      }
      BlockBuffer* const block = Pop(&main_);
      const uint8_t frequency = block->frequency_.load(std::memory_order_relaxed);
      if (frequency == 0 || chances == 0) return Evict(block);
      --chances;
      // A reader's increment between the two is lost, which is no matter.
      block->frequency_.store(static_cast<uint8_t>(frequency - 1), std::memory_order_relaxed);
      Push(&main_, block);
    }
  }

  void Evict(BlockBuffer* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (block->slot_ != nullptr) block->slot_->store(0, std::memory_order_release);
    block->slot_ = nullptr;
    Push(&waiting_, block);
  }

  void ClearQueue(Fifo* queue, bool everything) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (size_t n = queue->blocks; n > 0; --n) {
      BlockBuffer* const block = Pop(queue);
      // A reader that takes a reference right after this keeps the memory, not the
      // place in the cache.
      if (!everything && block->refs_.load(std::memory_order_relaxed) > 1) {
        Push(queue, block);
      } else {
        Evict(block);
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

BlockCacheImpl::BlockCacheImpl(size_t capacity_bytes)
    : capacity_(capacity_bytes),
      shard_bits_(ShardBits(capacity_bytes)),
      cells_(std::make_unique<CountCell[]>(kOwnCells + 1)),
      shards_(std::make_unique<Shard[]>(ShardCount())) {
  const int ghost_bits = GhostBits(capacity_, shard_bits_) - shard_bits_;
  const size_t share = capacity_ >> shard_bits_;
  for (size_t i = 0; i < ShardCount(); ++i) {
    shards_[i].Init(i == 0 ? capacity_ - share * (ShardCount() - 1) : share, ghost_bits);
  }
}

BlockCacheImpl::~BlockCacheImpl() {
  // Pins hold references of their own; what a guard alone protects is retired.
  for (size_t i = 0; i < ShardCount(); ++i) shards_[i].Clear(/*everything=*/true);
}

size_t BlockCacheImpl::ChargeOf(size_t bytes) {
  return BlockHeap::SlotBytes(sizeof(BlockBuffer) + bytes) + kShareBytes;
}

BlockCacheImpl::Shard& BlockCacheImpl::ShardOf(uint64_t hash) const {
  return shards_[TopBits(hash, shard_bits_)];
}

CachedBlocks::CachedBlocks(BlockCacheImpl* cache, size_t blocks)
    : cache_(cache),
      table_id_(cache->last_table_id_.fetch_add(1, std::memory_order_relaxed) + 1),
      slots_(blocks) {}

CachedBlocks::~CachedBlocks() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    // Acquire: who evicted it is done with the slot.
    if (slots_[i].load(std::memory_order_acquire) == 0) continue;
    cache_->ShardOf(HashOf(i)).Forget(&slots_[i]);
  }
}

uint64_t CachedBlocks::HashOf(size_t i) const {
  // Numbers of blocks differ in their low bits and table ids are small: both are spread
  // before they are joined.
  return MultiplyFold(i * 0xff51afd7ed558ccd + table_id_ * 0x9e3779b97f4a7c15, 0xd1342543de82ef95);
}

void CachedBlocks::Insert(size_t i, BlockBuffer* block) {
  assert(block->slot_ == nullptr);
  const auto address = reinterpret_cast<uintptr_t>(block);
  // Higher addresses are given only to who asks for them; such a block is not cached.
  if (address > kPointerMask) return;
  block->hash_ = HashOf(i);
  const size_t last_line = (sizeof(BlockBuffer) + block->bytes_ - 1) / 64;
  const uintptr_t lines = std::min<size_t>(last_line, UINT16_MAX);
  cache_->ShardOf(block->hash_).Insert(&slots_[i], lines << kPointerBits | address);
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
  for (size_t i = 0; i < ShardCount(); ++i) shards_[i].Clear(/*everything=*/false);
}

std::shared_ptr<BlockCache> NewBlockCache(size_t capacity_bytes) {
  return std::make_shared<BlockCacheImpl>(capacity_bytes);
}

}  // namespace sievedb
