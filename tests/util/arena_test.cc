#include "util/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sievedb {
namespace {

struct Piece {
  char* memory;
  size_t bytes;
  char fill;
};

bool Intact(const Piece& piece) {
  return std::all_of(piece.memory, piece.memory + piece.bytes,
                     [&](char c) { return c == piece.fill; });
}

TEST(ArenaTest, BeginsWithNothing) {
  const Arena arena;
  EXPECT_EQ(arena.MemoryBytes(), 0u);
}

TEST(ArenaTest, PiecesAreAlignedAndApart) {
  Arena arena;
  std::mt19937_64 random(11);
  std::vector<Piece> pieces;
  size_t asked = 0;
  for (int i = 0; i < 20000; ++i) {
    // Mostly small, now and then larger than a chunk; zero too.
    const size_t bytes = random() % 500 == 0 ? random() % 100000 : random() % 200;
    char* const memory = arena.Allocate(bytes);
    ASSERT_NE(memory, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 8, 0u);
    const auto fill = static_cast<char>(random());
    std::memset(memory, fill, bytes);
    pieces.push_back({memory, bytes, fill});
    asked += bytes;
  }
  for (const Piece& piece : pieces) ASSERT_TRUE(Intact(piece));
  EXPECT_GE(arena.MemoryBytes(), asked);
  EXPECT_LE(arena.MemoryBytes(), asked + asked / 2);  // little is wasted
}

TEST(ArenaTest, StaysSmallWhereLittleIsAsked) {
  Arena arena;
  arena.Allocate(1);
  EXPECT_LE(arena.MemoryBytes(), 8192u);
}

TEST(ArenaTest, LargePiecesDoNotWasteTheCurrentChunk) {
  Arena arena;
  for (int i = 0; i < 50; ++i) {
    arena.Allocate(8);
    arena.Allocate(1 << 20);
  }
  EXPECT_LE(arena.MemoryBytes(), (size_t{50} << 20) + (size_t{1} << 20) + 65536);
}

TEST(ArenaTest, ThreadsGetPiecesOfTheirOwn) {
  Arena arena;
  constexpr int kThreads = 4;
  std::vector<std::vector<Piece>> pieces(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      for (int i = 0; i < 20000; ++i) {
        const size_t bytes = random() % 1000 == 0 ? 50000 : random() % 100;
        char* const memory = arena.Allocate(bytes);
        std::memset(memory, t, bytes);
        pieces[static_cast<size_t>(t)].push_back({memory, bytes, static_cast<char>(t)});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::pair<const char*, size_t>> all;
  for (const auto& of_thread : pieces) {
    for (const Piece& piece : of_thread) {
      ASSERT_TRUE(Intact(piece));
      all.emplace_back(piece.memory, piece.bytes);
    }
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) {
    ASSERT_LE(all[i - 1].first + std::max<size_t>(all[i - 1].second, 1), all[i].first);
  }
}

}  // namespace
}  // namespace sievedb
