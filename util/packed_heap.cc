#include "util/packed_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <utility>

#include "util/aligned_buffer.h"
#include "util/mutex.h"

namespace sievedb {
namespace {

constexpr size_t kPageBytes = AlignedBuffer::kHugePageBytes;
// Only address space: a page of it costs memory once something lies there.
constexpr size_t kRegionBytes = 16 * kPageBytes;
// Pieces beyond this fill huge pages of their own well enough.
constexpr size_t kLargestSlot = 4 * kPageBytes;
// Live bytes from which on regions are used.
constexpr size_t kMinLiveBytes = 2 * kPageBytes;

constexpr size_t RoundDown(size_t n) { return n / kPageBytes * kPageBytes; }
constexpr size_t RoundUp(size_t n) { return RoundDown(n + kPageBytes - 1); }

struct Region {
  AlignedBuffer memory{kRegionBytes};
  std::map<size_t, size_t> free{{0, kRegionBytes}};  // begin -> end; none touch
  size_t live_bytes = 0;
};

// Best fit over all regions, by a walk over the free pieces: they are about as many as
// the tables that were closed since.
class Heap {
 public:
  void* Allocate(size_t slot_bytes) {
    const MutexLock lock(&mu_);
    live_bytes_ += slot_bytes;
    if (live_bytes_ <= kMinLiveBytes) return nullptr;
    auto [region, piece] = BestPiece(slot_bytes);
    if (region == nullptr) {
      Region added;
      // Small memory where no mapping was to be had.
      if (reinterpret_cast<uintptr_t>(added.memory.data()) % kPageBytes != 0) return nullptr;
      const auto address = reinterpret_cast<uintptr_t>(added.memory.data());
      region = &regions_.emplace(address, std::move(added)).first->second;
      piece = region->free.begin();
    }
    const auto [begin, end] = *piece;
    region->free.erase(piece);
    if (end - begin > slot_bytes) region->free.emplace(begin + slot_bytes, end);
    region->live_bytes += slot_bytes;
    return region->memory.data() + begin;
  }

  // False where memory is not of a region.
  bool Free(void* memory, size_t slot_bytes) {
    Region emptied{AlignedBuffer(), {}, 0};  // given back outside the lock
    const MutexLock lock(&mu_);
    live_bytes_ -= slot_bytes;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    auto at = regions_.upper_bound(address);
    if (at == regions_.begin()) return false;
    --at;
    if (address - at->first >= kRegionBytes) return false;
    Region& region = at->second;
    region.live_bytes -= slot_bytes;
    if (region.live_bytes == 0) {
      emptied = std::move(region);
      regions_.erase(at);
      return true;
    }
    PutBack(&region, address - at->first, slot_bytes);
    return true;
  }

  size_t UnusedBytes() {
    const MutexLock lock(&mu_);
    size_t bytes = 0;
    for (const auto& [address, region] : regions_) {
      bytes += kRegionBytes - region.live_bytes;
      for (const auto& [begin, end] : region.free) bytes -= WholePages(begin, end);
    }
    return bytes;
  }

 private:
  using Pieces = std::map<size_t, size_t>;

  static size_t WholePages(size_t begin, size_t end) {
    return RoundUp(begin) < RoundDown(end) ? RoundDown(end) - RoundUp(begin) : 0;
  }

  std::pair<Region*, Pieces::iterator> BestPiece(size_t slot_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::pair<Region*, Pieces::iterator> best{nullptr, {}};
    size_t best_bytes = SIZE_MAX;
    for (auto& [address, region] : regions_) {
      for (auto piece = region.free.begin(); piece != region.free.end(); ++piece) {
        const size_t bytes = piece->second - piece->first;
        if (bytes < slot_bytes || bytes >= best_bytes) continue;
        best = {&region, piece};
        best_bytes = bytes;
      }
    }
    return best;
  }

  static void PutBack(Region* region, size_t begin, size_t slot_bytes) {
    size_t end = begin + slot_bytes;
    // Pages that this piece was the last to use.
    const size_t first_page = RoundDown(begin);
    const size_t last_page = RoundUp(end);
    auto next = region->free.lower_bound(begin);
    if (next != region->free.end() && next->first == end) {
      end = next->second;
      next = region->free.erase(next);
    }
    if (next != region->free.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      region->free.erase(std::prev(next));
    }
    region->free.emplace(begin, end);
    const size_t from = std::max(RoundUp(begin), first_page);
    const size_t to = std::min(RoundDown(end), last_page);
    // Advice: where it is refused, the page is kept for later.
    if (from < to) (void)madvise(region->memory.data() + from, to - from, MADV_DONTNEED);
  }

  Mutex mu_;
  size_t live_bytes_ ABSL_GUARDED_BY(mu_) = 0;                // in regions or not
  std::map<uintptr_t, Region> regions_ ABSL_GUARDED_BY(mu_);  // by address
};

// Never destroyed: tables may outlive static objects.
Heap& TheHeap() {
  alignas(Heap) static char memory[sizeof(Heap)];
  static Heap& heap = *new (memory) Heap();
  return heap;
}

}  // namespace

void* PackedHeap::Allocate(size_t bytes) {
  if (bytes > kLargestSlot) {
    size_t memory_bytes = 0;
    bool mapped = false;
    void* const memory = AlignedBuffer::AllocateZeroed(bytes, &memory_bytes, &mapped);
    // What cannot be mapped cannot be had: this fails as it does for anybody.
    return memory != nullptr ? memory : ::operator new(SIZE_MAX, std::align_val_t(kAlignment));
  }
  const size_t slot_bytes = SlotBytes(bytes);
  void* const memory = TheHeap().Allocate(slot_bytes);
  return memory != nullptr ? memory : ::operator new(slot_bytes, std::align_val_t(kAlignment));
}

void PackedHeap::Free(void* memory, size_t bytes) {
  if (bytes > kLargestSlot) {
    AlignedBuffer::Free(static_cast<char*>(memory), AlignedBuffer::MappedBytes(bytes),
                        /*mapped=*/true);
  } else if (!TheHeap().Free(memory, SlotBytes(bytes))) {
    ::operator delete(memory, std::align_val_t(kAlignment));
  }
}

size_t PackedHeap::UnusedBytes() { return TheHeap().UnusedBytes(); }

}  // namespace sievedb
