#include "util/block_heap.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

struct Piece {
  char* memory;
  size_t bytes;
  bool in_chunk;
  char fill;
};

Piece Take(size_t bytes, char fill) {
  Piece piece{nullptr, bytes, false, fill};
  piece.memory = static_cast<char*>(BlockHeap::Allocate(bytes, &piece.in_chunk));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.memory) % 16, 0u);
  std::memset(piece.memory, fill, bytes);
  return piece;
}

void GiveBack(const Piece& piece) {
  for (size_t i = 0; i < piece.bytes; ++i) ASSERT_EQ(piece.memory[i], piece.fill);
  BlockHeap::Free(piece.memory, piece.bytes, piece.in_chunk);
}

TEST(BlockHeapTest, PiecesKeepTheirBytesWhateverComesAndGoes) {
  std::mt19937_64 random(7);
  std::vector<Piece> pieces;
  size_t in_chunks = 0;
  // Most of one size, so that it gets chunks; up to 32 MiB live, then down and up again.
  for (const size_t goal : {8000, 100, 6000, 0}) {
    while (pieces.size() != goal) {
      const bool grows = pieces.size() < goal ? random() % 4 != 0 : random() % 4 == 0;
      if (grows) {
        const size_t bytes = random() % 8 != 0 ? 4200 : 1 + random() % 40000;
        pieces.push_back(Take(bytes, static_cast<char>(random())));
        in_chunks += pieces.back().in_chunk ? 1 : 0;
      } else if (!pieces.empty()) {
        std::swap(pieces[random() % pieces.size()], pieces.back());
        GiveBack(pieces.back());
        pieces.pop_back();
      }
    }
  }
  EXPECT_GT(in_chunks, 1000u);
}

TEST(BlockHeapTest, FewOrLargePiecesTakeNoChunk) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{32} << 10, size_t{1} << 20}) {
    const Piece piece = Take(bytes, 'x');
    EXPECT_FALSE(piece.in_chunk);
    GiveBack(piece);
  }
}

TEST(BlockHeapTest, SlotsAreNotMuchLargerThanWhatTheyHold) {
  for (size_t bytes = 1; bytes < 10000; ++bytes) {
    EXPECT_GE(BlockHeap::SlotBytes(bytes), bytes);
    EXPECT_LT(BlockHeap::SlotBytes(bytes), bytes + 128);
  }
}

TEST(BlockHeapTest, ThreadsGiveBackWhatOthersTook) {
  constexpr size_t kPieces = 5000;
  std::vector<Piece> pieces(kPieces);
  std::thread taker([&] {
    for (Piece& piece : pieces) piece = Take(6000, 'a');
  });
  taker.join();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < kPieces; i += 2) {
        GiveBack(pieces[i]);
        GiveBack(Take(6000, 'b'));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sievedb
