#include "sievedb/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sievedb {
namespace {

TEST(ThreadPoolTest, DestructorRunsAllWork) {
  std::atomic<int> run = 0;
  {
    const std::shared_ptr<ThreadPool> pool = NewThreadPool(3);
    EXPECT_EQ(pool->ThreadCount(), 3);
    for (int i = 0; i < 1000; ++i) {
      pool->Schedule(i % 2 == 0 ? ThreadPool::Priority::kHigh : ThreadPool::Priority::kLow,
                     [&] { run.fetch_add(1); });
    }
  }
  EXPECT_EQ(run, 1000);
}

TEST(ThreadPoolTest, RunsOnAnotherThread) {
  std::thread::id ran_on;
  {
    const std::shared_ptr<ThreadPool> pool = NewThreadPool(1);
    pool->Schedule(ThreadPool::Priority::kLow, [&] { ran_on = std::this_thread::get_id(); });
  }
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST(ThreadPoolTest, HighFirstThenFirstCome) {
  std::string order;  // written by the one worker
  std::atomic<bool> go = false;
  {
    const std::shared_ptr<ThreadPool> pool = NewThreadPool(1);
    // Holds the worker up until all is scheduled. Where it has not begun by then, the
    // high ones pass before it; the order is the same.
    pool->Schedule(ThreadPool::Priority::kLow, [&] { go.wait(false); });
    for (const char c : {'a', 'b', 'c'}) {
      pool->Schedule(ThreadPool::Priority::kLow, [&order, c] { order += c; });
    }
    for (const char c : {'1', '2', '3'}) {
      pool->Schedule(ThreadPool::Priority::kHigh, [&order, c] { order += c; });
    }
    go = true;
    go.notify_all();
  }
  EXPECT_EQ(order, "123abc");
}

TEST(ThreadPoolTest, RunHighRunsTheFirstOfThemHere) {
  const std::shared_ptr<ThreadPool> pool = NewThreadPool(1);
  std::atomic<bool> begun = false;
  std::atomic<bool> go = false;
  pool->Schedule(ThreadPool::Priority::kLow, [&] {
    begun = true;
    begun.notify_all();
    go.wait(false);
  });
  begun.wait(false);  // from here on the worker takes nothing
  std::string order;
  std::thread::id ran_on;
  pool->Schedule(ThreadPool::Priority::kLow, [&] { order += 'a'; });
  EXPECT_FALSE(pool->RunHigh());
  for (const char c : {'1', '2'}) {
    pool->Schedule(ThreadPool::Priority::kHigh, [&order, &ran_on, c] {
      order += c;
      ran_on = std::this_thread::get_id();
    });
  }
  EXPECT_TRUE(pool->RunHigh());
  EXPECT_EQ(order, "1");
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_TRUE(pool->RunHigh());
  EXPECT_FALSE(pool->RunHigh());
  EXPECT_EQ(order, "12");
  go = true;
  go.notify_all();
}

TEST(ThreadPoolTest, WorkMaySchedule) {
  std::atomic<int> run = 0;
  {
    const std::shared_ptr<ThreadPool> pool = NewThreadPool(2);
    ThreadPool* const raw = pool.get();
    for (int i = 0; i < 50; ++i) {
      pool->Schedule(ThreadPool::Priority::kLow, [&run, raw] {
        run.fetch_add(1);
        raw->Schedule(ThreadPool::Priority::kHigh, [&run] { run.fetch_add(1); });
      });
    }
  }
  EXPECT_EQ(run, 100);
}

TEST(ThreadPoolTest, ThreadsRunAtTheSameTime) {
  const std::shared_ptr<ThreadPool> pool = NewThreadPool(3);
  // Each waits for all: with fewer than three threads this would never end.
  std::atomic<int> arrived = 0;
  std::atomic<int> left = 0;
  for (int i = 0; i < 3; ++i) {
    pool->Schedule(ThreadPool::Priority::kLow, [&] {
      arrived.fetch_add(1);
      while (arrived < 3) std::this_thread::yield();
      left.fetch_add(1);
    });
  }
  while (left < 3) std::this_thread::yield();
  EXPECT_EQ(arrived, 3);
}

TEST(ThreadPoolTest, WhatWorkHoldsGoesWithIt) {
  const std::shared_ptr<ThreadPool> pool = NewThreadPool(1);
  auto held = std::make_shared<int>(5);
  const std::weak_ptr<int> watch = held;
  pool->Schedule(ThreadPool::Priority::kLow, [held = std::move(held)] { EXPECT_EQ(*held, 5); });
  while (!watch.expired()) std::this_thread::yield();
  EXPECT_TRUE(watch.expired());
}

// The last reference dropped by work of the pool itself: it can't join its thread.
TEST(ThreadPoolTest, MayDieOnItsOwnThread) {
  for (int round = 0; round < 20; ++round) {
    // What the works share lives on until the last of them is gone.
    struct Shared {
      std::atomic<int> run = 0;
      std::atomic<bool> go = false;
    };
    const auto shared = std::make_shared<Shared>();
    std::shared_ptr<ThreadPool> pool = NewThreadPool(2);
    for (int i = 0; i < 10; ++i) {
      pool->Schedule(ThreadPool::Priority::kLow, [shared] { shared->run.fetch_add(1); });
    }
    ThreadPool* const raw = pool.get();
    raw->Schedule(ThreadPool::Priority::kLow, [shared, pool = std::move(pool)]() mutable {
      shared->go.wait(false);
      pool.reset();
      shared->run.fetch_add(1);
    });
    shared->go = true;
    shared->go.notify_all();
    while (shared->run < 11) std::this_thread::yield();
    EXPECT_EQ(shared->run, 11);
  }
}

}  // namespace
}  // namespace sievedb
