#include "util/ref_counted.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sievedb {
namespace {

class Counted : public RefCounted<Counted> {
 public:
  explicit Counted(std::atomic<int>* alive) : alive_(alive) { alive_->fetch_add(1); }
  static Counted* New(std::atomic<int>* alive) {
    return std::make_unique<Counted>(alive).release();
  }
  ~Counted() { alive_->fetch_sub(1); }

 private:
  std::atomic<int>* const alive_;
};

TEST(RefCountedTest, TheLastReferenceDeletes) {
  std::atomic<int> alive = 0;
  Counted* const object = Counted::New(&alive);
  object->Ref();
  object->Unref();
  EXPECT_EQ(alive, 1);
  object->Unref();
  EXPECT_EQ(alive, 0);
}

TEST(RefCountedTest, RefPtrOwnsOneReference) {
  std::atomic<int> alive = 0;
  RefPtr<Counted> first = RefPtr<Counted>::Adopt(Counted::New(&alive));
  EXPECT_TRUE(first);
  RefPtr<Counted> copy = first;
  RefPtr<Counted> moved = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: a moved-from pointer is null
  EXPECT_EQ(copy.get(), moved.get());
  copy = RefPtr<Counted>();
  EXPECT_EQ(alive, 1);
  RefPtr<Counted> shared = RefPtr<Counted>::Share(moved.get());
  moved = shared;
  RefPtr<Counted>& alias = shared;
  shared = alias;
  EXPECT_EQ(alive, 1);
  Counted* const released = shared.release();
  moved = RefPtr<Counted>();
  EXPECT_EQ(alive, 1);
  released->Unref();
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(RefPtr<Counted>::Share(nullptr));
}

TEST(RefCountedTest, RetireRefWaitsForGuards) {
  std::atomic<int> alive = 0;
  Counted* const object = Counted::New(&alive);
  {
    const EpochGuard guard;
    object->RetireRef();
    EXPECT_EQ(alive, 1);
  }
  EpochSynchronize();
  EXPECT_EQ(alive, 0);
}

// Readers take references of what a writer replaces all the while.
TEST(RefCountedTest, StressReadersKeepWhatTheyFound) {
  std::atomic<int> alive = 0;
  std::atomic<Counted*> current = Counted::New(&alive);
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      while (!done.load()) {
        RefPtr<Counted> mine;
        {
          const EpochGuard guard;
          mine = RefPtr<Counted>::Share(current.load(std::memory_order_acquire));
        }
        ASSERT_TRUE(mine);
      }
    });
  }
  for (int i = 0; i < 20000; ++i) {
    current.exchange(Counted::New(&alive), std::memory_order_acq_rel)->RetireRef();
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  current.load()->RetireRef();
  EpochSynchronize();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace sievedb
