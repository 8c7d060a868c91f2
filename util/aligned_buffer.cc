#include "util/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace sievedb {
namespace {

constexpr size_t kPageBytes = 4096;

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// bytes of zeroed memory that begin at a huge page, or nullptr. The system has no
// call for the alignment, so more is mapped and the ends are given back.
char* MapAligned(size_t bytes) {
  const size_t mapped = bytes + AlignedBuffer::kHugePageBytes;
  if (mapped < bytes) return nullptr;
  void* const memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(memory);
  const size_t misfit = reinterpret_cast<uintptr_t>(begin) % AlignedBuffer::kHugePageBytes;
  const size_t before = misfit == 0 ? 0 : AlignedBuffer::kHugePageBytes - misfit;
  const size_t after = mapped - before - bytes;
  if (before > 0) munmap(begin, before);
  if (after > 0) munmap(begin + before + bytes, after);
#ifdef MADV_HUGEPAGE
  // Advice: a kernel without huge pages says no, and nothing is lost.
  (void)madvise(begin + before, bytes, MADV_HUGEPAGE);
#endif
  return begin + before;
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  if (bytes >= kHugePageBytes && bytes <= SIZE_MAX - kPageBytes) {
    memory_bytes_ = RoundUp(bytes, kPageBytes);
    data_ = MapAligned(memory_bytes_);
    mapped_ = data_ != nullptr;
  }
  if (data_ == nullptr && bytes > 0) {
    memory_bytes_ = bytes <= SIZE_MAX - kAlignment ? RoundUp(bytes, kAlignment) : bytes;
    data_ = static_cast<char*>(::operator new(memory_bytes_, std::align_val_t(kAlignment)));
  }
}

AlignedBuffer AlignedBuffer::Zeroed(size_t bytes) {
  AlignedBuffer buffer(bytes);
  if (!buffer.mapped_ && bytes > 0) std::memset(buffer.data_, 0, bytes);
  return buffer;
}

char* AlignedBuffer::AllocateZeroed(size_t bytes, size_t* memory_bytes, bool* mapped) {
  *memory_bytes = 0;
  *mapped = false;
  if (bytes == 0 || bytes > SIZE_MAX / 2) return nullptr;
  *mapped = bytes >= kHugePageBytes;
  const size_t rounded = RoundUp(bytes, *mapped ? kPageBytes : kAlignment);
  char* const data =
      *mapped
          ? MapAligned(rounded)
          : static_cast<char*>(::operator new(rounded, std::align_val_t(kAlignment), std::nothrow));
  if (data == nullptr) return nullptr;
  if (!*mapped) std::memset(data, 0, rounded);
  *memory_bytes = rounded;
  return data;
}

size_t AlignedBuffer::MappedBytes(size_t bytes) { return RoundUp(bytes, kPageBytes); }

void AlignedBuffer::Free(char* data, size_t memory_bytes, bool mapped) {
  if (data == nullptr) return;
  if (mapped) {
    munmap(data, memory_bytes);
  } else {
    ::operator delete(data, std::align_val_t(kAlignment));
  }
}

AlignedBuffer::~AlignedBuffer() { Free(data_, memory_bytes_, mapped_); }

}  // namespace sievedb
