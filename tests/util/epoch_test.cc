#include "util/epoch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace sievedb {
namespace {

void CountFree(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

// A thread that holds a guard until told to end it.
class GuardHolder {
 public:
  GuardHolder()
      : thread_([this] {
          const EpochGuard guard;
          entered_ = true;
          entered_.notify_all();
          end_.wait(false);
        }) {
    entered_.wait(false);
  }
  ~GuardHolder() { End(); }
  void End() {
    end_ = true;
    end_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> entered_{false};
  std::atomic<bool> end_{false};
  std::thread thread_;
};

TEST(EpochTest, FreesAtOnceWithoutGuards) {
  EpochSynchronize();
  std::atomic<int> freed = 0;
  EpochRetire(&freed, CountFree);
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(EpochPendingCount(), 0u);
}

TEST(EpochTest, AGuardHoldsBackWhatIsRetiredLater) {
  EpochSynchronize();
  std::atomic<int> freed = 0;
  GuardHolder holder;
  EpochRetire(&freed, CountFree);
  EpochRetire(&freed, CountFree);
  EXPECT_EQ(freed, 0);
  EXPECT_EQ(EpochPendingCount(), 2u);
  holder.End();
  EpochRetire(&freed, CountFree);
  EXPECT_EQ(freed, 3);
  EXPECT_EQ(EpochPendingCount(), 0u);
}

TEST(EpochTest, ALaterGuardDoesNotHoldBackWhatWasRetiredBefore) {
  EpochSynchronize();
  std::atomic<int> freed = 0;
  GuardHolder first;
  EpochRetire(&freed, CountFree);
  GuardHolder second;
  first.End();
  std::atomic<int> freed_later = 0;
  EpochRetire(&freed_later, CountFree);
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(freed_later, 0);
  second.End();
  EpochSynchronize();
  EXPECT_EQ(freed_later, 1);
}

TEST(EpochTest, GuardsNestAndMayRetireInside) {
  EpochSynchronize();
  std::atomic<int> freed = 0;
  {
    const EpochGuard outer;
    {
      const EpochGuard inner;
      EpochRetire(&freed, CountFree);
    }
    EpochRetire(&freed, CountFree);
    EXPECT_EQ(freed, 0);  // the outer guard still lives
  }
  EpochSynchronize();
  EXPECT_EQ(freed, 2);
}

// A list whose nodes retire the next one as they are freed.
struct ChainNode {
  ChainNode* next;
  std::atomic<int>* freed;
  static void Free(void* object) {
    const std::unique_ptr<ChainNode> node(static_cast<ChainNode*>(object));
    node->freed->fetch_add(1);
    if (node->next != nullptr) EpochRetire(node->next, Free);
  }
};

TEST(EpochTest, FreeFunctionsMayRetireWithoutDeepRecursion) {
  EpochSynchronize();
  std::atomic<int> freed = 0;
  constexpr int kNodes = 200000;  // as calls, they would overflow the stack
  ChainNode* head = nullptr;
  for (int i = 0; i < kNodes; ++i)
    head = std::make_unique<ChainNode>(ChainNode{head, &freed}).release();
  EpochRetire(head, ChainNode::Free);
  EXPECT_EQ(freed, kNodes);
}

TEST(EpochTest, SynchronizeWaitsForGuardsAndFrees) {
  std::atomic<int> freed = 0;
  std::atomic<bool> ended = false;
  std::atomic<bool> entered = false;
  std::thread reader([&] {
    {
      const EpochGuard guard;
      entered = true;
      entered.notify_all();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      ended = true;
    }
  });
  entered.wait(false);
  EpochRetire(&freed, CountFree);
  EpochSynchronize();
  EXPECT_TRUE(ended);
  EXPECT_EQ(freed, 1);
  reader.join();
}

TEST(EpochTest, ThreadIndexesAreDenseAndReused) {
  const uint32_t mine = ThreadIndex();
  EXPECT_EQ(ThreadIndex(), mine);
  uint32_t highest = 0;
  for (int round = 0; round < 50; ++round) {
    constexpr int kThreads = 4;
    std::array<uint32_t, kThreads> indexes = {};
    std::atomic<int> alive = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        indexes[static_cast<size_t>(i)] = ThreadIndex();
        alive.fetch_add(1);
        while (alive < kThreads) std::this_thread::yield();  // all live at once
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<uint32_t> distinct(indexes.begin(), indexes.end());
    distinct.insert(mine);
    EXPECT_EQ(distinct.size(), size_t{kThreads} + 1);
    if (round == 0) highest = *distinct.rbegin();
    EXPECT_LE(*distinct.rbegin(), highest + kThreads);
  }
}

struct Value {
  explicit Value(uint64_t v) : number(v), check(~v) {}
  ~Value() { number = check = 0; }  // what is read after this does not agree
  uint64_t number;
  uint64_t check;
};

// A shared pointer that writers exchange while readers follow it: under sanitizers a
// use after free shows, without them a value that does not agree with itself.
TEST(EpochTest, StressReadersNeverSeeFreedMemory) {
  constexpr int kReaders = 3;
  constexpr int kWriters = 2;
  constexpr uint64_t kWrites = 20000;
  std::array<std::atomic<Value*>, 4> slots = {};
  for (auto& slot : slots) slot = std::make_unique<Value>(1).release();
  std::atomic<int> writers_left = kWriters;
  std::atomic<int> bad = 0;
  std::vector<std::thread> threads;
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&] {
      while (writers_left.load() > 0) {
        const EpochGuard guard;
        for (const auto& slot : slots) {
          const EpochGuard nested;
          const Value* const value = slot.load(std::memory_order_acquire);
          if (value->number != ~value->check) bad.fetch_add(1);
        }
      }
    });
  }
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t i = 0; i < kWrites; ++i) {
        auto& slot = slots[(i + static_cast<uint64_t>(w)) % slots.size()];
        Value* const old =
            slot.exchange(std::make_unique<Value>(i).release(), std::memory_order_acq_rel);
        EpochRetire(old, [](void* object) { delete static_cast<Value*>(object); });
        if (i % 5000 == 0) EpochSynchronize();
      }
      writers_left.fetch_sub(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  EpochSynchronize();
  EXPECT_EQ(EpochPendingCount(), 0u);
  for (auto& slot : slots) delete slot.load();
}

// Threads that come and go while others retire: records change owners.
TEST(EpochTest, StressThreadsComeAndGo) {
  std::atomic<Value*> shared = std::make_unique<Value>(7).release();
  std::atomic<int> bad = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          {
            const EpochGuard guard;
            const Value* const value = shared.load(std::memory_order_acquire);
            if (value->number != ~value->check) bad.fetch_add(1);
          }
          Value* const old = shared.exchange(std::make_unique<Value>(7).release());
          EpochRetire(old, [](void* object) { delete static_cast<Value*>(object); });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(bad, 0);
  EpochSynchronize();
  delete shared.load();
}

// Two threads that synchronize at once must not wait for each other.
TEST(EpochTest, ConcurrentSynchronize) {
  std::vector<std::thread> threads;
  std::atomic<int> freed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        std::atomic<int> mine = 0;
        EpochRetire(&mine, CountFree);
        EpochSynchronize();
        // Freed by whichever thread, but surely by now: mine ends here.
        EXPECT_EQ(mine, 1);
        freed.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(freed, 800);
}

}  // namespace
}  // namespace sievedb
