#include "util/arena.h"

#include <algorithm>
#include <new>

namespace sievedb {
namespace {

// The next chunk is a part of what is held already, so that a small arena stays
// small and a large one seldom asks the system.
constexpr size_t kMinChunkBytes = 4096;
constexpr size_t kMaxChunkBytes = 1 << 20;
constexpr size_t kChunkFraction = 8;
// An arena that is going to be this large takes chunks of one huge page each.
constexpr size_t kHugeChunksFromBytes = 8 * AlignedBuffer::kHugePageBytes;

}  // namespace

Arena::Arena(size_t expected_bytes) : huge_chunks_(expected_bytes >= kHugeChunksFromBytes) {}

Arena::~Arena() = default;

size_t Arena::UsedBytes() const {
  const Chunk* const chunk = current_.load(std::memory_order_acquire);
  if (chunk == nullptr) return MemoryBytes();
  const size_t used = chunk->used.load(std::memory_order_relaxed);
  return MemoryBytes() - (chunk->capacity - std::min(used, chunk->capacity));
}

Arena::Chunk* Arena::NewChunk(size_t capacity) {
  chunks_.emplace_back(sizeof(Chunk) + capacity);
  auto* const chunk = new (chunks_.back().data()) Chunk(capacity);
  memory_bytes_.fetch_add(chunks_.back().MemoryBytes(), std::memory_order_relaxed);
  return chunk;
}

char* Arena::AllocateSlow(size_t bytes) {
  const MutexLock lock(&mu_);
  // Another thread may have put a new chunk in place meanwhile.
  if (Chunk* const chunk = current_.load(std::memory_order_relaxed); chunk != nullptr) {
    if (char* const memory = chunk->Take(bytes); memory != nullptr) return memory;
  }
  const size_t chunk_bytes =
      (huge_chunks_ ? AlignedBuffer::kHugePageBytes
                    : std::clamp(MemoryBytes() / kChunkFraction, kMinChunkBytes, kMaxChunkBytes)) -
      sizeof(Chunk);
  // A large piece gets a chunk of its own, and what is left of the current one is
  // not lost for it.
  if (bytes > chunk_bytes / 4) return NewChunk(bytes)->Take(bytes);
  Chunk* const chunk = NewChunk(chunk_bytes);
  char* const memory = chunk->Take(bytes);
  current_.store(chunk, std::memory_order_release);
  return memory;
}

}  // namespace sievedb
