#include "db/write_queue.h"

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

#include "util/clock.h"

namespace sievedb {

// What a writer sleeps on, on its own stack. Each has one of its own: who has no
// reason to wake up is not woken.
struct PendingWrite::Bed {
  Mutex mu;
  CondVar woken;
};

namespace {

using State = PendingWrite::State;

// A group commits in about the time that it takes to fall asleep and be woken, so a
// writer looks around a little first. Not where a sync is in the way: that takes
// long.
constexpr int kSpins = 100;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Acquires pair with the release in WakeUp: what the leader did, and status, are
// seen by the writer that wakes.
State Await(PendingWrite* write) {
  if (!write->sync) {
    for (int i = 0; i < kSpins; ++i) {
      const State state = write->state.load(std::memory_order_acquire);
      if (state != State::kWaiting) return state;
      Pause();
    }
  }
  PendingWrite::Bed bed;
  write->bed = &bed;
  MutexLock lock(&bed.mu);
  State state = State::kWaiting;
  // Released, so that who sees kSleeping sees bed. From here on state changes under
  // bed.mu only, so the bed stays as long as the waker needs it.
  if (!write->state.compare_exchange_strong(state, State::kSleeping, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
    return state;
  }
  while ((state = write->state.load(std::memory_order_acquire)) == State::kSleeping) {
    bed.woken.Wait(&bed.mu);
  }
  return state;
}

// The writer may return, and *write be gone, as soon as state has changed.
void WakeUp(PendingWrite* write, State state) {
  State before = State::kWaiting;
  if (write->state.compare_exchange_strong(before, state, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
    return;
  }
  assert(before == State::kSleeping);
  PendingWrite::Bed* const bed = write->bed;
  MutexLock lock(&bed->mu);
  write->state.store(state, std::memory_order_release);
  bed->woken.Signal();
}

}  // namespace

absl::Status WriteQueue::Write(PendingWrite* write, Commit commit) {
  Group group;
  size_t count = 0;
  bool leads;
  {
    MutexLock lock(&mu_);
    if (tail_ == nullptr) {
      head_ = write;
    } else {
      tail_->next = write;
    }
    tail_ = write;
    ++length_;
    if (head_ == write && !write->sync) count = TakeGroup(&group);
    leads = head_ == write;
  }
  if (!leads && Await(write) == State::kDone) return std::move(write->status);
  if (count == 0) {
    if (write->sync) Gather();
    MutexLock lock(&mu_);
    count = TakeGroup(&group);
  }
  return Lead(write, &group, count, commit);
}

void WriteQueue::Gather() {
  if (writers_ <= 1) return;
  const uint64_t until = NowNanos() + std::min(sync_nanos_ / kGatherShare, kMaxGatherNanos);
  while (true) {
    {
      MutexLock lock(&mu_);
      if (length_ >= writers_) return;
    }
    if (NowNanos() >= until) return;
    std::this_thread::yield();  // they may need this core
  }
}

size_t WriteQueue::TakeGroup(Group* group) {
  PendingWrite* const leader = head_;
  (*group)[0] = leader;
  if (leader->batch == nullptr) return 1;
  size_t count = 1;
  size_t bytes = leader->batch->ByteSize();
  const size_t limit = bytes <= kSmallLeaderBytes ? bytes + kSmallLeaderBytes : kMaxGroupBytes;
  for (PendingWrite* write = leader->next; write != nullptr && count < kMaxGroupWriters;
       write = write->next) {
    if (write->batch == nullptr || write->disable_wal != leader->disable_wal ||
        write->no_slowdown != leader->no_slowdown || (write->sync && !leader->sync)) {
      break;
    }
    bytes += write->batch->ByteSize();
    if (bytes > limit) break;
    (*group)[count++] = write;
  }
  return count;
}

absl::Status WriteQueue::Lead(PendingWrite* write, Group* group, size_t count, Commit commit) {
  assert((*group)[0] == write);
  const uint64_t start_nanos = write->sync ? NowNanos() : 0;
  const absl::Status status = commit(absl::MakeConstSpan(group->data(), count));
  if (write->sync) sync_nanos_ = NowNanos() - start_nanos;
  PendingWrite* next_leader = nullptr;
  {
    MutexLock lock(&mu_);
    head_ = (*group)[count - 1]->next;
    if (head_ == nullptr) tail_ = nullptr;
    writers_ = length_;
    length_ -= count;
    next_leader = head_;
  }
  // The next group begins while this one's writers are still being told. Nobody
  // but the leader sets a writer's state, so next_leader is still there.
  if (next_leader != nullptr) WakeUp(next_leader, State::kLeads);
  for (size_t i = 1; i < count; ++i) {
    PendingWrite* const member = (*group)[i];
    if (member->status.ok()) member->status = status;
    WakeUp(member, State::kDone);
  }
  return write->status.ok() ? status : std::move(write->status);
}

}  // namespace sievedb
