#include "util/epoch.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>

#include "util/mutex.h"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// ThreadSanitizer knows nothing of membarrier.
#if defined(__SANITIZE_THREAD__)
#define SIEVEDB_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIEVEDB_TSAN 1
#endif
#endif

namespace sievedb {

namespace epoch_internal {

constinit thread_local EpochRecord* this_thread_record = nullptr;
constinit std::atomic<uint64_t> global_epoch{1};
constinit bool writers_fence_for_guards = false;

}  // namespace epoch_internal

namespace {

using epoch_internal::global_epoch;
using epoch_internal::this_thread_record;
using epoch_internal::writers_fence_for_guards;

struct Retired {
  void* object;
  void (*free)(void*);
  uint64_t epoch;  // guards that entered at this epoch or before may see the object
  Retired* next;
};

// Objects whose free functions a thread is calling.
struct Batch {
  uint64_t first_epoch;  // of its oldest object
  Batch* next;
};

// All of it is constant initialized and needs no destructor: threads may end, and
// static objects may retire, after main has returned.
struct Domain {
  // Every record there ever was, newest first. Only grows, so it is walked without
  // the lock.
  std::atomic<EpochRecord*> records{nullptr};

  Mutex mu;
  uint32_t record_count ABSL_GUARDED_BY(mu) = 0;
  // Oldest first; the epochs ascend strictly, as they are drawn under the lock.
  Retired* oldest ABSL_GUARDED_BY(mu) = nullptr;
  Retired* newest ABSL_GUARDED_BY(mu) = nullptr;
  Batch* batches ABSL_GUARDED_BY(mu) = nullptr;

  std::atomic<uint64_t> pending{0};  // retired and not freed
};
constinit Domain domain;

// Set once the thread's registration has been given back: a guard in a destructor
// of thread-local data may come later still.
constinit thread_local bool thread_has_ended = false;

// Gives the thread's record back when it ends.
struct Registration {
  ~Registration() {
    thread_has_ended = true;
    EpochRecord* const record = this_thread_record;
    this_thread_record = nullptr;
    assert(record->depth == 0);
    // Release: the next owner continues what this thread did with the record and
    // with all that is kept by its index.
    record->in_use.store(false, std::memory_order_release);
  }
  void Touch() {}
};
thread_local Registration registration;

EpochRecord* TakeRecord() {
  for (EpochRecord* r = domain.records.load(std::memory_order_acquire); r != nullptr; r = r->next) {
    bool expected = false;
    if (r->in_use.compare_exchange_strong(expected, true, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      return r;
    }
  }
  auto record = std::make_unique<EpochRecord>();
  record->in_use.store(true, std::memory_order_relaxed);
  const MutexLock lock(&domain.mu);
  record->index = domain.record_count++;
  record->next = domain.records.load(std::memory_order_relaxed);
  // Release: whoever walks the list sees the record whole. A walk that misses it
  // comes before its first guard, as that guard's fence comes after this store.
  domain.records.store(record.get(), std::memory_order_release);
  return record.release();
}

// The lowest epoch that a live guard entered at, or the maximum where there is
// none.
uint64_t LowestLiveEpoch() {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  for (const EpochRecord* r = domain.records.load(std::memory_order_acquire); r != nullptr;
       r = r->next) {
    // Acquire: pairs with the release at the guard's end.
    const uint64_t epoch = r->epoch.load(std::memory_order_acquire);
    if (epoch != 0) lowest = std::min(lowest, epoch);
  }
  return lowest;
}

#if defined(__linux__) && defined(__NR_membarrier) && !defined(SIEVEDB_TSAN)
bool MemoryBarrier(int command) { return syscall(__NR_membarrier, command, 0, 0) == 0; }

bool RegisterMemoryBarrier() {
  return MemoryBarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
         MemoryBarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

// The guards' fence and the writer's, where guards have none. Costs the writer half a
// microsecond, and each CPU that runs a thread of the process an interrupt.
void FenceForGuards() {
  if (!writers_fence_for_guards || MemoryBarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // It cannot fail once it has been registered. Going on would free what is read.
  std::abort();
}
#else
bool RegisterMemoryBarrier() { return false; }
void FenceForGuards() {}
#endif

// Draws an epoch that comes after all that the caller unlinked, with the fence
// between unlinking and the look at the records where guards have theirs.
uint64_t DrawEpoch() {
  const uint64_t epoch = global_epoch.fetch_add(1, std::memory_order_seq_cst);
#if !defined(__x86_64__) && !defined(__i386__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return epoch;
}

// Takes what was retired at `fenced` or before, and may be freed, off the list and
// enters it as *batch. Null where there is nothing.
Retired* TakeFreeable(uint64_t fenced, Batch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(domain.mu) {
  if (domain.oldest == nullptr) return nullptr;
  const uint64_t lowest = std::min(LowestLiveEpoch(), fenced + 1);
  Retired* const first = domain.oldest;
  Retired* last = nullptr;
  for (Retired* r = first; r != nullptr && r->epoch < lowest; r = r->next) last = r;
  if (last == nullptr) return nullptr;
  domain.oldest = last->next;
  if (domain.oldest == nullptr) domain.newest = nullptr;
  last->next = nullptr;
  batch->first_epoch = first->epoch;
  batch->next = domain.batches;
  domain.batches = batch;
  return first;
}

void RemoveBatch(Batch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(domain.mu) {
  Batch** at = &domain.batches;
  while (*at != batch) at = &(*at)->next;
  *at = batch->next;
}

// Frees what may be freed. What free functions retire meanwhile is taken up by the
// next round here, not by a call inside theirs, so chains of objects need no stack.
void Reclaim(EpochRecord* self) {
  if (self->reclaiming) return;
  self->reclaiming = true;
  while (true) {
    Batch batch;
    Retired* next;
    uint64_t fenced;
    {
      const MutexLock lock(&domain.mu);
      if (domain.newest == nullptr) break;
      fenced = domain.newest->epoch;
    }
    FenceForGuards();
    {
      const MutexLock lock(&domain.mu);
      next = TakeFreeable(fenced, &batch);
    }
    if (next == nullptr) break;
    while (next != nullptr) {
      const std::unique_ptr<Retired> retired(next);
      next = retired->next;
      retired->free(retired->object);
      domain.pending.fetch_sub(1, std::memory_order_relaxed);
    }
    const MutexLock lock(&domain.mu);
    RemoveBatch(&batch);
  }
  self->reclaiming = false;
}

// Whether nothing that was retired at epoch or before is left, freed by whomever.
bool AllFreed(uint64_t epoch) {
  const MutexLock lock(&domain.mu);
  if (domain.oldest != nullptr && domain.oldest->epoch <= epoch) return false;
  for (const Batch* b = domain.batches; b != nullptr; b = b->next) {
    if (b->first_epoch <= epoch) return false;
  }
  return true;
}

}  // namespace

EpochRecord* epoch_internal::RegisterThisThread() {
  // Whoever is in a guard, or retires, has a record and so comes after this.
  static const bool registered = writers_fence_for_guards = RegisterMemoryBarrier();
  (void)registered;
  EpochRecord* const record = TakeRecord();
  this_thread_record = record;
  // The first use constructs it, and so has it destroyed at the thread's end. After
  // that end the record stays taken: a rare leak of 64 bytes, reachable.
  if (!thread_has_ended) registration.Touch();
  return record;
}

void EpochRetire(void* object, void (*free)(void*)) {
  EpochRecord* const self = ThisThreadEpochRecord();
  auto retired = std::make_unique<Retired>(Retired{object, free, 0, nullptr});
  domain.pending.fetch_add(1, std::memory_order_relaxed);
  {
    const MutexLock lock(&domain.mu);
    retired->epoch = DrawEpoch();
    Retired* const added = retired.release();
    if (domain.newest == nullptr) {
      domain.oldest = added;
    } else {
      domain.newest->next = added;
    }
    domain.newest = added;
  }
  Reclaim(self);
}

void EpochSynchronize() {
  EpochRecord* const self = ThisThreadEpochRecord();
  assert(self->depth == 0);
  assert(!self->reclaiming);
  const uint64_t epoch = DrawEpoch();
  FenceForGuards();
  // Guards are short, but one may span a slow read: yield first, then sleep.
  auto pause = std::chrono::microseconds(0);
  while (true) {
    if (LowestLiveEpoch() > epoch) {
      Reclaim(self);
      if (AllFreed(epoch)) return;
    }
    if (pause.count() == 0) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
    pause = std::min(pause + std::chrono::microseconds(20), std::chrono::microseconds(1000));
  }
}

uint64_t EpochPendingCount() { return domain.pending.load(std::memory_order_relaxed); }

}  // namespace sievedb
