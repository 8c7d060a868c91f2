#ifndef SIEVEDB_UTIL_PACKED_HEAP_H_
#define SIEVEDB_UTIL_PACKED_HEAP_H_

#include <cstddef>

namespace sievedb {

// Memory for what stays as long as a table is open and is read at random places: its
// filter and its index. Packed side by side into huge pages, since one table's are
// often too small for a huge page of their own, and in small pages a lookup waits for
// the page table at each table that it asks.
//
// The ordinary allocator serves until there is so much that a huge page that is partly
// used does not matter, and where no mapping is to be had.
//
// Threads: safe. One lock, held for a search of the free pieces: for what is
// allocated when a table is opened, not for each lookup.
class PackedHeap {
 public:
  static constexpr size_t kAlignment = 64;
  // What Allocate takes for bytes.
  static constexpr size_t SlotBytes(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Requires: bytes > 0. Its contents are not defined. As operator new where there is
  // no memory.
  static void* Allocate(size_t bytes);
  static void Free(void* memory, size_t bytes);

  // What is held from the system in huge pages beyond what is allocated in them, at
  // most. For tests.
  static size_t UnusedBytes();
};

// For containers of the standard library.
template <typename T>
struct PackedAllocator {
  using value_type = T;
  PackedAllocator() = default;
  template <typename U>
  PackedAllocator(const PackedAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t n) { return static_cast<T*>(PackedHeap::Allocate(n * sizeof(T))); }
  void deallocate(T* memory, size_t n) { PackedHeap::Free(memory, n * sizeof(T)); }
  friend bool operator==(const PackedAllocator&, const PackedAllocator&) { return true; }
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_PACKED_HEAP_H_
