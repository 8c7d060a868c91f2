#include "util/block_heap.h"

#include <array>
#include <cassert>
#include <cstdint>
#include <new>
#include <utility>

#include "util/aligned_buffer.h"
#include "util/mutex.h"

namespace sievedb {
namespace {

constexpr size_t kChunkBytes = AlignedBuffer::kHugePageBytes;
constexpr size_t kLargestSlot = size_t{32} << 10;
// Live bytes from which on a class takes chunks: a chunk is an eighth of it.
constexpr size_t kMinClassBytes = 8 * kChunkBytes;

struct FreeSlot {
  FreeSlot* next;
};

// Lies at a chunk's begin, which is aligned, so that any slot leads to it.
struct alignas(64) Chunk {
  explicit Chunk(AlignedBuffer buffer) : memory(std::move(buffer)) {}

  AlignedBuffer memory;  // this chunk's own
  FreeSlot* free = nullptr;
  size_t unused = sizeof(Chunk);  // where slots that were never given out begin
  size_t live = 0;                // slots
  // The list of chunks of the class that have room.
  Chunk* next = nullptr;
  Chunk* previous = nullptr;
  bool listed = false;
};

class SizeClass {
 public:
  void* Allocate(size_t slot_bytes, bool* in_chunk) {
    const MutexLock lock(&mu_);
    live_bytes_ += slot_bytes;
    *in_chunk = live_bytes_ > kMinClassBytes;
    if (!*in_chunk) return nullptr;
    if (with_room_ == nullptr && !AddChunk()) {
      *in_chunk = false;
      return nullptr;
    }
    Chunk* const chunk = with_room_;
    void* slot = chunk->free;
    if (slot != nullptr) {
      chunk->free = chunk->free->next;
    } else {
      slot = reinterpret_cast<char*>(chunk) + chunk->unused;
      chunk->unused += slot_bytes;
    }
    ++chunk->live;
    if (chunk->free == nullptr && chunk->unused + slot_bytes > kChunkBytes) Unlist(chunk);
    return slot;
  }

  void Free(void* memory, size_t slot_bytes, bool in_chunk) {
    AlignedBuffer given_back;  // outside the lock
    const MutexLock lock(&mu_);
    live_bytes_ -= slot_bytes;
    if (!in_chunk) return;
    Chunk* const chunk =
        reinterpret_cast<Chunk*>(reinterpret_cast<uintptr_t>(memory) & ~uintptr_t{kChunkBytes - 1});
    chunk->free = new (memory) FreeSlot{chunk->free};
    assert(chunk->live > 0);
    --chunk->live;
    if (!chunk->listed) List(chunk);
    // One that is empty stays where it is the only one with room.
    if (chunk->live == 0 && (chunk->next != nullptr || chunk->previous != nullptr)) {
      Unlist(chunk);
      given_back = std::move(chunk->memory);
      chunk->~Chunk();
    }
  }

 private:
  bool AddChunk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    AlignedBuffer memory(kChunkBytes);
    char* const begin = memory.data();
    // Without the alignment (no mapping was to be had) slots would not find their chunk.
    if (reinterpret_cast<uintptr_t>(begin) % kChunkBytes != 0) return false;
    List(new (begin) Chunk(std::move(memory)));
    return true;
  }

  void List(Chunk* chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    chunk->listed = true;
    chunk->previous = nullptr;
    chunk->next = with_room_;
    if (with_room_ != nullptr) with_room_->previous = chunk;
    with_room_ = chunk;
  }

  void Unlist(Chunk* chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    chunk->listed = false;
    (chunk->previous == nullptr ? with_room_ : chunk->previous->next) = chunk->next;
    if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
    chunk->next = chunk->previous = nullptr;
  }

  Mutex mu_;
  size_t live_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Chunk* with_room_ ABSL_GUARDED_BY(mu_) = nullptr;
};

// Never destroyed: blocks may outlive static objects.
SizeClass& ClassOf(size_t slot_bytes) {
  using Classes = std::array<SizeClass, kLargestSlot / BlockHeap::SlotBytes(1) + 1>;
  alignas(Classes) static char memory[sizeof(Classes)];
  static Classes& classes = *new (memory) Classes();
  return classes[slot_bytes / BlockHeap::SlotBytes(1)];
}

}  // namespace

void* BlockHeap::Allocate(size_t bytes, bool* in_chunk) {
  *in_chunk = false;
  const size_t slot_bytes = SlotBytes(bytes);
  void* memory = nullptr;
  if (slot_bytes <= kLargestSlot) memory = ClassOf(slot_bytes).Allocate(slot_bytes, in_chunk);
  return memory != nullptr ? memory : ::operator new(bytes);
}

void BlockHeap::Free(void* memory, size_t bytes, bool in_chunk) {
  const size_t slot_bytes = SlotBytes(bytes);
  if (slot_bytes <= kLargestSlot) ClassOf(slot_bytes).Free(memory, slot_bytes, in_chunk);
  if (!in_chunk) ::operator delete(memory);
}

}  // namespace sievedb
