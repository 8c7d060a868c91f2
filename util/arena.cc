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

}  // namespace

Arena::Arena() = default;

Arena::~Arena() {
  for (Chunk* chunk : chunks_) {
    chunk->~Chunk();
    ::operator delete(chunk);
  }
}

Arena::Chunk* Arena::NewChunk(size_t capacity) {
  void* const memory = ::operator new(sizeof(Chunk) + capacity);
  auto* const chunk = new (memory) Chunk(capacity);
  chunks_.push_back(chunk);
  memory_bytes_.fetch_add(sizeof(Chunk) + capacity, std::memory_order_relaxed);
  return chunk;
}

char* Arena::AllocateSlow(size_t bytes) {
  const MutexLock lock(&mu_);
  // Another thread may have put a new chunk in place meanwhile.
  if (Chunk* const chunk = current_.load(std::memory_order_relaxed); chunk != nullptr) {
    if (char* const memory = chunk->Take(bytes); memory != nullptr) return memory;
  }
  const size_t chunk_bytes =
      std::clamp(MemoryBytes() / kChunkFraction, kMinChunkBytes, kMaxChunkBytes) - sizeof(Chunk);
  // A large piece gets a chunk of its own, and what is left of the current one is
  // not lost for it.
  if (bytes > chunk_bytes / 4) return NewChunk(bytes)->Take(bytes);
  Chunk* const chunk = NewChunk(chunk_bytes);
  char* const memory = chunk->Take(bytes);
  current_.store(chunk, std::memory_order_release);
  return memory;
}

}  // namespace sievedb
