#ifndef SIEVEDB_DB_WRITE_QUEUE_H_
#define SIEVEDB_DB_WRITE_QUEUE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "sievedb/options.h"
#include "sievedb/write_batch.h"
#include "util/mutex.h"

namespace sievedb {

// One writer waiting its turn; lives on the writer's stack.
struct PendingWrite {
  // Null: a group of its own, for work that needs the front of the queue.
  WriteBatch* batch = nullptr;
  // That work; null: a memtable switch.
  const absl::FunctionRef<absl::Status()>* work = nullptr;
  bool sync = false;
  bool disable_wal = false;
  bool no_slowdown = false;
  absl::Status status;  // set by the commit, or the group's

  // WriteQueue's own.
  enum class State : uint32_t {
    kWaiting,   // awake, looking at state
    kSleeping,  // on bed, which is set then
    kLeads,     // at the front of the queue
    kDone,      // status is set
  };
  struct Bed;
  std::atomic<State> state{State::kWaiting};
  Bed* bed = nullptr;
  PendingWrite* next = nullptr;  // behind this one; guarded by the queue's lock
};

// Group commit: concurrent writers queue up; the one at the front takes those
// behind it along as a group, commits all of them at once, and wakes them.
//
// A group has one disable_wal and one no_slowdown setting; it syncs where any of
// its writers asked for it, and a writer that did not ask is never made to wait
// for a sync where it would lead the group itself. Order in the queue is order of
// commit.
//
// Threads: safe.
class WriteQueue {
 public:
  // Commits a group: sets each status that is not the returned one. Called with
  // no lock held, by one thread at a time.
  using Commit = absl::FunctionRef<absl::Status(absl::Span<PendingWrite* const>)>;

  // Waits for the front of the queue and commits, or is committed by another.
  // commit is the same function for all writers.
  absl::Status Write(PendingWrite* write, Commit commit);

 private:
  static constexpr size_t kMaxGroupBytes = size_t{1} << 20;
  static constexpr size_t kMaxGroupWriters = 256;

  // A leader of at most this many bytes takes at most as many along, so that a
  // small write is not slowed down much by the others.
  static constexpr size_t kSmallLeaderBytes = size_t{128} << 10;

  using Group = std::array<PendingWrite*, kMaxGroupWriters>;

  // A leader that syncs waits a moment for those that wrote beside it the last time: a
  // sync costs the same for one and for all, and without the wait, two writers in a loop
  // would sync in turns, each waiting for the other's sync and then its own. At most
  // this part of what a sync takes, and no longer than kMaxGatherNanos.
  static constexpr uint64_t kGatherShare = 8;
  static constexpr uint64_t kMaxGatherNanos = 1'000'000;
  void Gather();

  // Fills group with those at the front that go together and returns how many.
  size_t TakeGroup(Group* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Lead(PendingWrite* write, Group* group, size_t count, Commit commit);

  Mutex mu_;
  PendingWrite* head_ ABSL_GUARDED_BY(mu_) = nullptr;
  PendingWrite* tail_ ABSL_GUARDED_BY(mu_) = nullptr;
  size_t length_ ABSL_GUARDED_BY(mu_) = 0;

  // The leader's own: how many wrote at the last group's end, in it and behind it, and
  // what a commit with a sync took.
  size_t writers_ = 1;
  uint64_t sync_nanos_ = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_WRITE_QUEUE_H_
