#include "util/atomic_bloom.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "util/hash.h"

namespace sievedb {
namespace {

uint64_t HashOf(int i) { return Hash64("key" + std::to_string(i)); }

TEST(AtomicBloomTest, AnEmptyOneDeniesEverything) {
  const AtomicBloom bloom(1024);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(bloom.MayContain(HashOf(i)));
}

TEST(AtomicBloomTest, TheSmallestIsOneWord) {
  AtomicBloom bloom(1);
  bloom.Add(HashOf(1));
  EXPECT_TRUE(bloom.MayContain(HashOf(1)));
}

TEST(AtomicBloomTest, DeniesNoKeyAndFewOthers) {
  constexpr int kKeys = 50000;
  AtomicBloom bloom(kKeys * 16 / 8);
  for (int i = 0; i < kKeys; ++i) bloom.Add(HashOf(i));
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(bloom.MayContain(HashOf(i)));
  int maybe = 0;
  for (int i = kKeys; i < 3 * kKeys; ++i) maybe += bloom.MayContain(HashOf(i)) ? 1 : 0;
  EXPECT_LT(maybe, 2 * kKeys / 100);
  EXPECT_GT(maybe, 0);
}

TEST(AtomicBloomTest, ThreadsLoseNoBitOfEachOther) {
  constexpr int kThreads = 4;
  constexpr int kKeys = 10000;
  AtomicBloom bloom(4096);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&bloom, t] {
      for (int i = t; i < kKeys; i += kThreads) bloom.Add(HashOf(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(bloom.MayContain(HashOf(i)));
}

}  // namespace
}  // namespace sievedb
