#include "db/write_queue.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

// Holds the first group's commit back until others have queued up.
class Gate {
 public:
  void Wait() {
    while (!open_.load(std::memory_order_acquire)) std::this_thread::yield();
  }
  void Open() { open_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> open_{false};
};

WriteBatch BatchOf(const std::string& key, size_t value_bytes = 1) {
  WriteBatch batch;
  batch.Put(key, std::string(value_bytes, 'v'));
  return batch;
}

TEST(WriteQueueTest, OneWriterCommitsAtOnce) {
  WriteQueue queue;
  WriteBatch batch = BatchOf("a");
  for (int i = 0; i < 3; ++i) {
    PendingWrite write;
    write.batch = &batch;
    int commits = 0;
    const absl::Status status = queue.Write(&write, [&](absl::Span<PendingWrite* const> group) {
      ++commits;
      EXPECT_EQ(group.size(), 1u);
      EXPECT_EQ(group[0], &write);
      return i == 1 ? absl::DataLossError("damaged") : absl::OkStatus();
    });
    EXPECT_EQ(commits, 1);
    EXPECT_EQ(status.code(), i == 1 ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk);
  }
}

TEST(WriteQueueTest, StatusOfItsOwnGoesBeforeTheGroups) {
  WriteQueue queue;
  WriteBatch batch = BatchOf("a");
  PendingWrite write;
  write.batch = &batch;
  const absl::Status status = queue.Write(&write, [&](absl::Span<PendingWrite* const> group) {
    group[0]->status = absl::AbortedError("mine");
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
}

// What many threads write, by the rules of the queue.
class Committer {
 public:
  // Each writer's number, in order of commit. Every seventh fails by a status of its
  // own, every group whose first is divisible by 11 by the group's.
  absl::Status Commit(absl::Span<PendingWrite* const> group) {
    EXPECT_FALSE(busy_.exchange(true)) << "two groups at a time";
    EXPECT_GE(group.size(), 1u);
    size_t bytes = 0;
    for (PendingWrite* write : group) {
      if (write->batch == nullptr) {
        EXPECT_EQ(group.size(), 1u);
        ++switches_;
        continue;
      }
      EXPECT_EQ(write->disable_wal, group[0]->disable_wal);
      EXPECT_EQ(write->no_slowdown, group[0]->no_slowdown);
      // Who asked for no sync does not wait for one at the head of a group.
      EXPECT_TRUE(group[0]->sync || !write->sync);
      bytes += write->batch->ByteSize();
      order_.push_back(NumberOf(*write));
      if (order_.back() % 7 == 0) write->status = absl::AbortedError("seven");
    }
    EXPECT_LE(bytes, size_t{1} << 20);
    largest_ = std::max(largest_, group.size());
    const bool fails = group[0]->batch != nullptr && NumberOf(*group[0]) % 11 == 0;
    if (fails) {
      for (const PendingWrite* write : group) failed_.push_back(NumberOf(*write));
    }
    EXPECT_TRUE(busy_.exchange(false));
    return fails ? absl::InternalError("eleven") : absl::OkStatus();
  }

  // The number is the only key of the batch.
  static int NumberOf(const PendingWrite& write) {
    struct Reader final : WriteBatch::Handler {
      absl::Status Put(std::string_view key, std::string_view) override {
        number = std::stoi(std::string(key));
        return absl::OkStatus();
      }
      absl::Status Delete(std::string_view) override { return absl::OkStatus(); }
      absl::Status DeleteRange(std::string_view, std::string_view) override {
        return absl::OkStatus();
      }
      int number = -1;
    } reader;
    EXPECT_TRUE(write.batch->Iterate(&reader).ok());
    return reader.number;
  }

  const std::vector<int>& order() const { return order_; }
  const std::vector<int>& failed() const { return failed_; }
  int switches() const { return switches_; }
  size_t largest() const { return largest_; }

 private:
  // Not locked: the queue promises one commit at a time, each seen by the next.
  std::vector<int> order_;
  std::vector<int> failed_;
  int switches_ = 0;
  size_t largest_ = 0;
  std::atomic<bool> busy_{false};
};

TEST(WriteQueueTest, ManyWritersEachExactlyOnceInTheirOrder) {
  constexpr int kThreads = 8;
  constexpr int kPerThread = 400;
  WriteQueue queue;
  Committer committer;
  std::vector<std::vector<absl::Status>> statuses(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto commit = [&](absl::Span<PendingWrite* const> group) {
        return committer.Commit(group);
      };
      for (int i = 0; i < kPerThread; ++i) {
        WriteBatch batch = BatchOf(std::to_string(i * kThreads + t));
        PendingWrite write;
        write.batch = &batch;
        write.sync = t == 0 && i % 3 == 0;
        write.disable_wal = t == 1;
        write.no_slowdown = t == 2;
        statuses[static_cast<size_t>(t)].push_back(queue.Write(&write, commit));
        if (i % 50 == 0) {
          PendingWrite memtable_switch;
          EXPECT_TRUE(queue.Write(&memtable_switch, commit).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  ASSERT_EQ(committer.order().size(), static_cast<size_t>(kThreads) * kPerThread);
  EXPECT_EQ(committer.switches(), kThreads * kPerThread / 50);
  std::vector<int> last(kThreads, -1);
  for (const int number : committer.order()) {
    // One thread's writes commit in its order, so each exactly once.
    int& before = last[static_cast<size_t>(number % kThreads)];
    EXPECT_EQ(number / kThreads, before + 1);
    before = number / kThreads;
  }
  std::vector<bool> failed(committer.order().size());
  for (const int number : committer.failed()) failed[static_cast<size_t>(number)] = true;
  for (int number = 0; number < kThreads * kPerThread; ++number) {
    const absl::Status& status =
        statuses[static_cast<size_t>(number % kThreads)][static_cast<size_t>(number / kThreads)];
    const absl::StatusCode expected = number % 7 == 0 ? absl::StatusCode::kAborted
                                      : failed[static_cast<size_t>(number)]
                                          ? absl::StatusCode::kInternal
                                          : absl::StatusCode::kOk;
    EXPECT_EQ(status.code(), expected) << number;
  }
}

// Queues writes up behind one whose commit is held back, in their order, and returns
// the groups by their batches' sizes.
std::vector<std::vector<size_t>> GroupsOf(std::vector<PendingWrite*> writes) {
  WriteQueue queue;
  Gate gate;
  std::atomic<int> entered{0};
  std::vector<std::vector<size_t>> groups;
  const auto commit = [&](absl::Span<PendingWrite* const> group) {
    if (entered.fetch_add(1) == 0) gate.Wait();
    groups.emplace_back();
    for (const PendingWrite* write : group) {
      groups.back().push_back(write->batch == nullptr ? 0 : write->batch->ByteSize());
    }
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  WriteBatch first = BatchOf("first");
  PendingWrite blocker;
  blocker.batch = &first;
  threads.emplace_back([&] { EXPECT_TRUE(queue.Write(&blocker, commit).ok()); });
  while (entered.load() == 0) std::this_thread::yield();
  for (PendingWrite* write : writes) {
    threads.emplace_back(
        [&queue, &commit, write] { EXPECT_TRUE(queue.Write(write, commit).ok()); });
    // Who sleeps is in the queue.
    while (write->state.load() != PendingWrite::State::kSleeping) std::this_thread::yield();
  }
  gate.Open();
  for (std::thread& thread : threads) thread.join();
  groups.erase(groups.begin());
  return groups;
}

class WriteQueueGroupTest : public testing::Test {
 protected:
  PendingWrite* Add(size_t value_bytes) {
    batches_.push_back(std::make_unique<WriteBatch>(BatchOf("k", value_bytes)));
    writes_.push_back(std::make_unique<PendingWrite>());
    writes_.back()->batch = batches_.back().get();
    return writes_.back().get();
  }
  // How many writes each group had.
  std::vector<size_t> GroupSizes() {
    std::vector<PendingWrite*> writes;
    for (const auto& write : writes_) writes.push_back(write.get());
    std::vector<size_t> sizes;
    for (const auto& group : GroupsOf(writes)) sizes.push_back(group.size());
    return sizes;
  }
  std::vector<std::unique_ptr<WriteBatch>> batches_;
  std::vector<std::unique_ptr<PendingWrite>> writes_;
};

TEST_F(WriteQueueGroupTest, AllThatWaitGoTogether) {
  for (int i = 0; i < 10; ++i) Add(10);
  EXPECT_EQ(GroupSizes(), std::vector<size_t>{10});
}

TEST_F(WriteQueueGroupTest, SettingsPartGroups) {
  Add(1);
  Add(1)->disable_wal = true;
  Add(1)->disable_wal = true;
  Add(1)->no_slowdown = true;
  Add(1);
  Add(1);
  EXPECT_EQ(GroupSizes(), (std::vector<size_t>{1, 2, 1, 2}));
}

TEST_F(WriteQueueGroupTest, SyncIsLedBySyncOnly) {
  Add(1);
  Add(1)->sync = true;
  Add(1);
  Add(1)->sync = true;
  Add(1);
  EXPECT_EQ(GroupSizes(), (std::vector<size_t>{1, 4}));
}

// A leader that syncs looks out for those that wrote beside it the last time.
TEST_F(WriteQueueGroupTest, SyncGoesOnWithoutThoseThatStayAway) {
  WriteQueue queue;
  std::vector<size_t> groups;
  Gate gate;
  std::atomic<int> entered{0};
  const auto commit = [&](absl::Span<PendingWrite* const> group) {
    if (entered.fetch_add(1) == 0) gate.Wait();
    groups.push_back(group.size());
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    PendingWrite* const write = Add(1);
    write->sync = true;
    threads.emplace_back([&, write] { EXPECT_TRUE(queue.Write(write, commit).ok()); });
    while (i == 0 ? entered.load() == 0 : write->state.load() != PendingWrite::State::kSleeping) {
      std::this_thread::yield();
    }
  }
  gate.Open();
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 2; ++i) {
    PendingWrite* const write = Add(1);
    write->sync = true;
    EXPECT_TRUE(queue.Write(write, commit).ok());
  }
  EXPECT_EQ(groups, (std::vector<size_t>{1, 2, 1, 1}));
}

TEST_F(WriteQueueGroupTest, WorkWithNoBatchIsAlone) {
  Add(1);
  Add(1)->batch = nullptr;
  Add(1)->batch = nullptr;
  Add(1);
  EXPECT_EQ(GroupSizes(), (std::vector<size_t>{1, 1, 1, 1}));
}

TEST_F(WriteQueueGroupTest, SmallLeaderTakesLittleAlong) {
  Add(10);
  Add(100 << 10);
  Add(100 << 10);
  Add(10);
  EXPECT_EQ(GroupSizes(), (std::vector<size_t>{2, 2}));
}

TEST_F(WriteQueueGroupTest, LargeLeaderTakesUpToAMebibyte) {
  Add(400 << 10);
  Add(300 << 10);
  Add(300 << 10);
  Add(300 << 10);
  Add(3 << 20);
  Add(10);
  EXPECT_EQ(GroupSizes(), (std::vector<size_t>{3, 1, 1, 1}));
}

}  // namespace
}  // namespace sievedb
