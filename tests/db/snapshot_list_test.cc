#include "db/snapshot_list.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

std::shared_ptr<const Snapshot> At(SnapshotList* list, uint64_t sequence) {
  return list->Create([sequence] { return sequence; });
}

TEST(SnapshotListTest, SequencesAreAscendingAndDistinct) {
  const auto list = std::make_shared<SnapshotList>();
  EXPECT_TRUE(list->Sequences().empty());
  auto a = At(list.get(), 5);
  auto b = At(list.get(), 3);
  auto c = At(list.get(), 5);
  EXPECT_EQ(a->sequence(), 5u);
  EXPECT_EQ(list->Sequences(), (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(list->size(), 3u);
  a.reset();  // c still holds 5
  EXPECT_EQ(list->Sequences(), (std::vector<uint64_t>{3, 5}));
  c.reset();
  EXPECT_EQ(list->Sequences(), (std::vector<uint64_t>{3}));
  b.reset();
  EXPECT_TRUE(list->Sequences().empty());
  EXPECT_EQ(list->size(), 0u);
}

TEST(SnapshotListTest, TheLastReferenceReleases) {
  const auto list = std::make_shared<SnapshotList>();
  auto a = At(list.get(), 0);
  auto copy = a;
  a.reset();
  EXPECT_EQ(list->size(), 1u);
  copy.reset();
  EXPECT_EQ(list->size(), 0u);
}

TEST(SnapshotListTest, SnapshotMayOutliveItsDatabase) {
  auto list = std::make_shared<SnapshotList>();
  auto snapshot = At(list.get(), 9);
  list.reset();
  EXPECT_EQ(snapshot->sequence(), 9u);
  snapshot.reset();  // a sanitizer would see a dangling list
}

TEST(SnapshotListTest, NoneIsMissedByOneWhoAsksInBetween) {
  // The published sequence grows; a snapshot that takes it while a compaction asks
  // for the live ones must be among them, or be at least what was published when
  // it asked.
  const auto list = std::make_shared<SnapshotList>();
  std::atomic<uint64_t> published{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto snapshot =
            list->Create([&] { return published.load(std::memory_order_acquire); });
        bool listed = false;
        for (const uint64_t sequence : list->Sequences()) {
          listed = listed || sequence == snapshot->sequence();
        }
        if (!listed) ADD_FAILURE() << "a live snapshot is not listed";
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) published.fetch_add(1, std::memory_order_release);
  });
  threads[0].join();
  threads[1].join();
  stop = true;
  threads[2].join();
  EXPECT_EQ(list->size(), 0u);
}

}  // namespace
}  // namespace sievedb
