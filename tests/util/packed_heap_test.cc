#include "util/packed_heap.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A piece that is filled with a byte of its own.
class Piece {
 public:
  Piece(size_t bytes, char mark)
      : memory_(static_cast<char*>(PackedHeap::Allocate(bytes))), bytes_(bytes), mark_(mark) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory_) % PackedHeap::kAlignment, 0);
    std::memset(memory_, mark_, bytes_);
  }
  Piece(Piece&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), mark_(other.mark_) {}
  Piece& operator=(Piece&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(mark_, other.mark_);
    return *this;
  }
  ~Piece() {
    if (memory_ == nullptr) return;
    EXPECT_TRUE(Whole());
    PackedHeap::Free(memory_, bytes_);
  }
  bool Whole() const {
    return std::all_of(memory_, memory_ + bytes_, [this](char c) { return c == mark_; });
  }
  const char* data() const { return memory_; }
  size_t size() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_;
  char mark_;
};

TEST(PackedHeapTest, PiecesDoNotOverlapWhateverTheOrder) {
  std::mt19937_64 random(7);
  std::vector<Piece> pieces;
  size_t live = 0;
  for (int i = 0; i < 3000; ++i) {
    // Mostly small ones, some of several pages, some that are mapped by themselves.
    const int kind = static_cast<int>(random() % 100);
    const size_t bytes = 1 + random() % (kind < 90 ? 200'000 : kind < 99 ? 2 * kMiB : 10 * kMiB);
    pieces.emplace_back(bytes, static_cast<char>(i));
    live += bytes;
    while (live > 24 * kMiB) {
      const size_t victim = random() % pieces.size();
      live -= pieces[victim].size();
      std::swap(pieces[victim], pieces.back());
      pieces.pop_back();
    }
  }
}

TEST(PackedHeapTest, PiecesLieSideBySideOnceTheyAreMany) {
  std::vector<Piece> first;
  for (int i = 0; i < 8; ++i) first.emplace_back(kMiB, 'x');  // the ordinary allocator's
  std::vector<Piece> pieces;
  for (int i = 0; i < 64; ++i) pieces.emplace_back(100'000, 'y');
  size_t neighbours = 0;
  for (size_t i = 1; i < pieces.size(); ++i) {
    neighbours += pieces[i].data() == pieces[i - 1].data() + PackedHeap::SlotBytes(100'000);
  }
  EXPECT_GE(neighbours, pieces.size() - 3);
}

TEST(PackedHeapTest, HolesAreUsedAgainAndEmptyPagesGivenBack) {
  std::vector<Piece> pieces;
  for (int i = 0; i < 40; ++i) pieces.emplace_back(kMiB, 'x');
  const size_t unused = PackedHeap::UnusedBytes();
  EXPECT_LE(unused, 2 * kMiB * 2);
  // Half a page each: nothing can be given back, but others fit in.
  for (size_t i = 1; i < pieces.size(); i += 2) pieces[i] = Piece(1, 'z');
  EXPECT_GT(PackedHeap::UnusedBytes(), unused + 8 * kMiB);
  for (int i = 0; i < 15; ++i) pieces.emplace_back(kMiB, 'w');
  EXPECT_LT(PackedHeap::UnusedBytes(), unused + 6 * kMiB);
  pieces.clear();
  EXPECT_EQ(PackedHeap::UnusedBytes(), 0);
}

TEST(PackedHeapTest, ServesContainersAndThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      for (int round = 0; round < 20; ++round) {
        std::vector<uint64_t, PackedAllocator<uint64_t>> numbers;
        for (uint64_t i = 0; i < 100'000; ++i) numbers.push_back(i * i);
        std::vector<uint64_t, PackedAllocator<uint64_t>> copy(numbers);
        numbers = {};
        for (uint64_t i = 0; i < 100'000; i += 1 + random() % 100) ASSERT_EQ(copy[i], i * i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sievedb
