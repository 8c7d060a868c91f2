#ifndef SIEVEDB_UTIL_ALIGNED_BUFFER_H_
#define SIEVEDB_UTIL_ALIGNED_BUFFER_H_

#include <cstddef>
#include <string_view>
#include <utility>

namespace sievedb {

// Owns heap memory that begins at a cache line, so that a filter's 64-byte blocks
// are cache lines. From 2 MiB on it begins at a huge page and asks the system for
// huge pages (a probe of a large filter would miss the TLB each time otherwise);
// where there are none, ordinary ones serve.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  AlignedBuffer() = default;
  // bytes of memory whose contents are not defined.
  explicit AlignedBuffer(size_t bytes);
  // bytes of zeros. Large ones cost nothing until they are touched.
  static AlignedBuffer Zeroed(size_t bytes);

  // For who owns such memory by other means: bytes of zeros, or nullptr where they
  // cannot be had. memory_bytes: what is held from the system; Free takes both back.
  static char* AllocateZeroed(size_t bytes, size_t* memory_bytes, bool* mapped);
  static void Free(char* data, size_t memory_bytes, bool mapped);
  static size_t MappedBytes(size_t bytes);  // memory_bytes of so many that are mapped

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        memory_bytes_(std::exchange(other.memory_bytes_, 0)),
        mapped_(std::exchange(other.mapped_, false)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(memory_bytes_, other.memory_bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~AlignedBuffer();

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {data_, size_}; }
  // What it holds from the system: size() rounded up to a cache line or a page.
  size_t MemoryBytes() const { return memory_bytes_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t memory_bytes_ = 0;
  bool mapped_ = false;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_ALIGNED_BUFFER_H_
