#include "sievedb/block_cache.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "util/block_cache_impl.h"
#include "util/epoch.h"

namespace sievedb {
namespace {

constexpr uint64_t kTable = 1;

// A cache with two open tables, 1 and 2.
class Cache {
 public:
  explicit Cache(size_t capacity) : impl_(capacity) {
    for (auto& table : tables_) table = std::make_unique<CachedBlocks>(&impl_, 20'000);
  }
  BlockBuffer* Lookup(uint64_t table, uint64_t i) { return tables_[table - 1]->Lookup(i); }
  void Insert(uint64_t table, uint64_t i, BlockBuffer* block) {
    tables_[table - 1]->Insert(i, block);
  }
  void CloseTable(uint64_t table) {
    tables_[table - 1] = nullptr;
    tables_[table - 1] = std::make_unique<CachedBlocks>(&impl_, 20'000);
  }
  CachedBlocks* table(uint64_t table) { return tables_[table - 1].get(); }
  size_t CapacityBytes() const { return impl_.CapacityBytes(); }
  size_t UsageBytes() const { return impl_.UsageBytes(); }
  uint64_t Hits() const { return impl_.Hits(); }
  uint64_t Misses() const { return impl_.Misses(); }
  size_t ShardCount() const { return impl_.ShardCount(); }
  void Clear() { impl_.Clear(); }

 private:
  BlockCacheImpl impl_;
  std::unique_ptr<CachedBlocks> tables_[2];
};

// A block whose bytes tell whose it is.
BlockBuffer* MakeBlock(uint64_t table, uint64_t offset, size_t bytes) {
  BlockBuffer* const block = BlockBuffer::New(bytes);
  std::memset(block->data(), static_cast<int>((table * 31 + offset) & 0xff), bytes);
  return block;
}

bool IsBlock(const BlockBuffer& block, uint64_t table, uint64_t offset) {
  const auto expected = static_cast<char>((table * 31 + offset) & 0xff);
  return std::all_of(block.data(), block.data() + block.size(),
                     [expected](char c) { return c == expected; });
}

// What a table reader does. Whether it was a hit.
bool Read(Cache* cache, uint64_t table, uint64_t offset, size_t bytes) {
  const EpochGuard guard;
  if (BlockBuffer* const block = cache->Lookup(table, offset); block != nullptr) {
    EXPECT_TRUE(IsBlock(*block, table, offset));
    return true;
  }
  BlockBuffer* const block = MakeBlock(table, offset, bytes);
  cache->Insert(table, offset, block);
  block->Unref();
  return false;
}

bool Has(Cache* cache, uint64_t table, uint64_t offset) {
  const EpochGuard guard;
  return cache->Lookup(table, offset) != nullptr;
}

TEST(BlockCacheTest, FindsWhatWasInserted) {
  Cache cache(1 << 20);
  EXPECT_FALSE(Read(&cache, kTable, 0, 4000));
  EXPECT_TRUE(Read(&cache, kTable, 0, 4000));
  EXPECT_FALSE(Has(&cache, kTable, 1));
  EXPECT_FALSE(Has(&cache, kTable + 1, 0));
  EXPECT_EQ(cache.Hits(), 1u);
  EXPECT_EQ(cache.Misses(), 3u);
  EXPECT_EQ(cache.UsageBytes(), BlockCacheImpl::ChargeOf(4000));
  EXPECT_GT(BlockCacheImpl::ChargeOf(4000), 4000u);
}

TEST(BlockCacheTest, TheSecondOfTwoIsNotTaken) {
  Cache cache(1 << 20);
  BlockBuffer* const first = MakeBlock(kTable, 7, 100);
  BlockBuffer* const second = MakeBlock(kTable, 7, 100);
  cache.Insert(kTable, 7, first);
  cache.Insert(kTable, 7, second);
  {
    const EpochGuard guard;
    EXPECT_EQ(cache.Lookup(kTable, 7), first);
  }
  EXPECT_EQ(cache.UsageBytes(), BlockCacheImpl::ChargeOf(100));
  first->Unref();
  second->Unref();
}

TEST(BlockCacheTest, CapacityZeroCachesNothing) {
  Cache zero(0);
  Cache* const cache = &zero;
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(Read(cache, kTable, 0, 1));
    EXPECT_FALSE(Read(cache, kTable, 1, 0));
  }
  EXPECT_EQ(cache->CapacityBytes(), 0u);
  EXPECT_EQ(cache->UsageBytes(), 0u);
  EXPECT_EQ(cache->Hits(), 0u);
  EXPECT_EQ(cache->Misses(), 4u);
  cache->Clear();
}

TEST(BlockCacheTest, AnyCapacityIsLegal) {
  for (size_t capacity : {size_t{1}, size_t{4095}, size_t{123457}, size_t{100} << 20}) {
    Cache cache(capacity);
    EXPECT_EQ(cache.CapacityBytes(), capacity);
    for (uint64_t i = 0; i < 100; ++i) {
      Read(&cache, kTable, i, 1000);
      EXPECT_LE(cache.UsageBytes(), capacity);
    }
  }
}

TEST(BlockCacheTest, SmallCachesHaveOneShardAndLargeOnesMore) {
  EXPECT_EQ(BlockCacheImpl(0).ShardCount(), 1u);
  EXPECT_EQ(BlockCacheImpl(1 << 20).ShardCount(), 1u);
  EXPECT_GT(BlockCacheImpl(64 << 20).ShardCount(), 4u);
}

TEST(BlockCacheTest, UsageNeverExceedsCapacity) {
  constexpr size_t kCapacity = 300'000;
  Cache cache(kCapacity);
  std::mt19937_64 random(1);
  size_t highest = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Sizes from nothing to more than fits; some keys are hot.
    const uint64_t offset = random() % 4 == 0 ? random() % 20 : random() % 2000;
    const size_t bytes = random() % 100 == 0 ? random() % 400'000 : random() % 9000;
    Read(&cache, kTable, offset, bytes);
    ASSERT_LE(cache.UsageBytes(), kCapacity);
    highest = std::max(highest, cache.UsageBytes());
  }
  EXPECT_GT(highest, kCapacity * 9 / 10);
}

TEST(BlockCacheTest, BlocksThatExactlyFitStayAndLargerOnesDoNotEvict) {
  constexpr size_t kLargest = 100'000;
  const size_t capacity = BlockCacheImpl::ChargeOf(kLargest);
  Cache cache(capacity);
  Read(&cache, kTable, 1, 1000);
  Read(&cache, kTable, 2, kLargest + 128);
  EXPECT_TRUE(Has(&cache, kTable, 1));
  EXPECT_FALSE(Has(&cache, kTable, 2));
  Read(&cache, kTable, 3, kLargest);
  EXPECT_TRUE(Has(&cache, kTable, 3));
  EXPECT_FALSE(Has(&cache, kTable, 1));
  EXPECT_EQ(cache.UsageBytes(), capacity);
}

TEST(BlockCacheTest, HotSetSurvivesAScan) {
  constexpr size_t kBytes = 4096;
  constexpr uint64_t kHot = 100;
  Cache cache(200 * BlockCacheImpl::ChargeOf(kBytes));
  for (int round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < kHot; ++i) Read(&cache, kTable, i, kBytes);
  }
  // A scan of 50 times the cache's size, block after block, never again.
  for (uint64_t i = 0; i < 10'000; ++i) Read(&cache, kTable + 1, i, kBytes);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < kHot; ++i) kept += Has(&cache, kTable, i) ? 1 : 0;
  EXPECT_EQ(kept, kHot);
}

TEST(BlockCacheTest, HotSetTakesOverFromAnOldOne) {
  constexpr size_t kBytes = 4096;
  Cache cache(100 * BlockCacheImpl::ChargeOf(kBytes));
  for (int round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < 90; ++i) Read(&cache, kTable, i, kBytes);
  }
  // The old set is never read again; the new one must come in, through the ghost.
  for (int round = 0; round < 30; ++round) {
    for (uint64_t i = 0; i < 80; ++i) Read(&cache, kTable + 1, i, kBytes);
  }
  const uint64_t before = cache.Hits();
  for (uint64_t i = 0; i < 80; ++i) Read(&cache, kTable + 1, i, kBytes);
  EXPECT_GE(cache.Hits() - before, 76u);
}

TEST(BlockCacheTest, PinsSurviveEvictionAndTheCache) {
  BlockBuffer* pinned = nullptr;
  {
    Cache cache(100'000);
    Read(&cache, kTable, 5, 3000);
    {
      const EpochGuard guard;
      pinned = cache.Lookup(kTable, 5);
      ASSERT_NE(pinned, nullptr);
      pinned->Ref();
    }
    for (uint64_t i = 0; i < 1000; ++i) Read(&cache, kTable + 1, i, 3000);
    EXPECT_FALSE(Has(&cache, kTable, 5));
    EpochSynchronize();
    EXPECT_TRUE(IsBlock(*pinned, kTable, 5));
  }
  EpochSynchronize();
  EXPECT_TRUE(IsBlock(*pinned, kTable, 5));
  pinned->Unref();
}

TEST(BlockCacheTest, AGuardAloneProtectsAndMayTurnIntoAPin) {
  Cache cache(100'000);
  Read(&cache, kTable, 5, 3000);
  BlockBuffer* block = nullptr;
  {
    const EpochGuard guard;
    block = cache.Lookup(kTable, 5);
    ASSERT_NE(block, nullptr);
    for (uint64_t i = 0; i < 1000; ++i) Read(&cache, kTable + 1, i, 3000);
    EXPECT_EQ(cache.Lookup(kTable, 5), nullptr);
    EXPECT_TRUE(IsBlock(*block, kTable, 5));
    block->Ref();
  }
  EpochSynchronize();
  EXPECT_TRUE(IsBlock(*block, kTable, 5));
  block->Unref();
}

TEST(BlockCacheTest, EvictedBlocksAreFreed) {
  EpochSynchronize();
  const uint64_t before = EpochPendingCount();
  Cache cache(100'000);
  for (uint64_t i = 0; i < 5000; ++i) Read(&cache, kTable, i, 3000);
  EpochSynchronize();
  EXPECT_LE(EpochPendingCount(), before);
}

TEST(BlockCacheTest, ClearDropsAllButWhatIsInUse) {
  Cache cache(64 << 20);
  for (uint64_t i = 0; i < 500; ++i) Read(&cache, kTable, i, 1000);
  BlockBuffer* pinned = nullptr;
  {
    const EpochGuard guard;
    pinned = cache.Lookup(kTable, 17);
    pinned->Ref();
  }
  cache.Clear();
  EXPECT_TRUE(Has(&cache, kTable, 17));
  EXPECT_EQ(cache.UsageBytes(), BlockCacheImpl::ChargeOf(1000));
  pinned->Unref();
  cache.Clear();
  EXPECT_FALSE(Has(&cache, kTable, 17));
  EXPECT_EQ(cache.UsageBytes(), 0u);
  EXPECT_FALSE(Read(&cache, kTable, 17, 1000));
  EXPECT_TRUE(Read(&cache, kTable, 17, 1000));
}

TEST(BlockCacheTest, ATinyCacheKeepsTheLatest) {
  Cache cache(8000);
  std::mt19937_64 random(2);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t offset = random() % 200;
    Read(&cache, kTable, offset, random() % 50);
    ASSERT_TRUE(Has(&cache, kTable, offset));
  }
  ASSERT_LE(cache.UsageBytes(), 8000u);
}

TEST(BlockCacheTest, AClosedTablesBlocksAreForgottenAndGoFirst) {
  constexpr size_t kBytes = 3000;
  Cache cache(100 * BlockCacheImpl::ChargeOf(kBytes));
  for (int round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 100; ++i) Read(&cache, kTable, i, kBytes);
  }
  BlockBuffer* pinned = nullptr;
  {
    const EpochGuard guard;
    pinned = cache.Lookup(kTable, 9);
    ASSERT_NE(pinned, nullptr);
    pinned->Ref();
  }
  const size_t usage = cache.UsageBytes();
  cache.CloseTable(kTable);
  // Their memory is the cache's still, but nobody finds them.
  EXPECT_EQ(cache.UsageBytes(), usage);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_FALSE(Has(&cache, kTable, i));
  // Hot as they were, they do not get a second chance.
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 90; ++i) Read(&cache, kTable + 1, i, kBytes);
  }
  uint64_t kept = 0;
  for (uint64_t i = 0; i < 90; ++i) kept += Has(&cache, kTable + 1, i) ? 1 : 0;
  EXPECT_GE(kept, 80u);
  EXPECT_TRUE(IsBlock(*pinned, kTable, 9));
  pinned->Unref();
}

TEST(BlockCacheTest, PreparingALookupTellsWhetherItIsThere) {
  Cache cache(8 << 20);
  std::vector<size_t> sizes = {0, 1, 16, 17, 63, 64, 4000, 70'000, 5 << 20};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const EpochGuard guard;
    EXPECT_FALSE(cache.table(kTable)->PrefetchBlock(i));
    Read(&cache, kTable, i, sizes[i]);
    const BlockBuffer* const block = cache.table(kTable)->Peek(i);
    EXPECT_EQ(cache.table(kTable)->PrefetchBlock(i), block != nullptr);
    if (sizes[i] < 100'000) {
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(block->size(), sizes[i]);
    }
  }
}

TEST(BlockCacheTest, TablesCloseWhileOthersEvict) {
  Cache cache(9 << 20);
  std::thread other([&cache] {
    for (uint64_t i = 0; i < 30'000; ++i) Read(&cache, kTable + 1, i % 20'000, 2000);
  });
  for (int round = 0; round < 30; ++round) {
    for (uint64_t i = 0; i < 500; ++i) Read(&cache, kTable, i, 2000);
    cache.CloseTable(kTable);
    for (uint64_t i = 0; i < 500; ++i) ASSERT_FALSE(Has(&cache, kTable, i));
  }
  other.join();
}

TEST(BlockCacheTest, ConcurrentUse) {
  constexpr size_t kCapacity = 9 << 20;  // two shards
  constexpr int kThreads = 4;
  Cache cache(kCapacity);
  ASSERT_EQ(cache.ShardCount(), 2u);
  std::atomic<uint64_t> lookups{0};
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&cache, &lookups, &wrong, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      std::vector<std::pair<BlockBuffer*, uint64_t>> pins;
      for (int i = 0; i < 8000; ++i) {
        const uint64_t offset = random() % 3 == 0 ? random() % 200 : random() % 20'000;
        {
          const EpochGuard guard;
          lookups.fetch_add(1, std::memory_order_relaxed);
          BlockBuffer* block = cache.Lookup(kTable, offset);
          if (block == nullptr) {
            block = MakeBlock(kTable, offset, 500 + offset % 3000);
            cache.Insert(kTable, offset, block);
            block->Unref();
          } else {
            if (!IsBlock(*block, kTable, offset)) wrong = true;
            if (random() % 8 == 0) {
              block->Ref();
              pins.emplace_back(block, offset);
            }
          }
        }
        if (cache.UsageBytes() > kCapacity) wrong = true;
        if (pins.size() > 50) {
          for (auto& [block, at] : pins) {
            if (!IsBlock(*block, kTable, at)) wrong = true;
            block->Unref();
          }
          pins.clear();
        }
        if (t == 0 && i % 2000 == 1999) cache.Clear();
      }
      for (auto& [block, at] : pins) block->Unref();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong.load());
  EXPECT_EQ(cache.Hits() + cache.Misses(), lookups.load());
  EXPECT_GT(cache.Hits(), 0u);
}

}  // namespace
}  // namespace sievedb
