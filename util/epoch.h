#ifndef SIEVEDB_UTIL_EPOCH_H_
#define SIEVEDB_UTIL_EPOCH_H_

#include <atomic>
#include <cstdint>

namespace sievedb {

// Epoch-based reclamation (Fraser 2004): readers of shared structures pin nothing
// but a slot of their own thread, so a read writes no shared cache line, and what
// a writer has unlinked is freed once every reader that might have seen it is
// gone. One domain for the whole process: block caches and views share it.
//
// A thread's record (one cache line) is registered at its first guard and reused
// after the thread ends.
struct alignas(64) EpochRecord {
  std::atomic<uint64_t> epoch{0};   // 0: not in a guard
  uint32_t depth = 0;               // guards nest; owner thread only
  uint32_t index = 0;               // small and dense: 0, 1, 2 … (ThreadIndex)
  std::atomic<bool> in_use{false};  // has an owner
  bool reclaiming = false;          // is calling free functions; owner thread only
  EpochRecord* next = nullptr;      // records are never freed
  // FilterTally's; owner thread only.
  uint64_t sample_random = 0;
  int32_t lookups_until_sample = 0;
};
static_assert(sizeof(EpochRecord) == 64, "one cache line a thread");

namespace epoch_internal {

// One word of thread-local memory that needs no constructor, in the static TLS
// block: reading it is one instruction, in a shared library too.
extern constinit thread_local EpochRecord* this_thread_record
    __attribute__((tls_model("initial-exec")));

// Counts retirements. Starts at 1, as 0 marks a thread without a guard.
extern std::atomic<uint64_t> global_epoch;

// Whether guards leave the fence that they need to the writers, who then have the
// kernel make one on every CPU that runs a thread of the process (membarrier(2)). Set
// before the first guard.
extern constinit bool writers_fence_for_guards;

// Takes a record for the calling thread, until it ends.
EpochRecord* RegisterThisThread();

// Announces that the owner of record is in a guard.
inline void Enter(EpochRecord* record) {
  // Acquire: a reader that sees the count of some retirement also sees that the
  // object was unlinked before it, so its epoch need not hold the object back.
  const uint64_t now = global_epoch.load(std::memory_order_acquire);
  // The announcement must be visible before the guard's first read of a shared
  // pointer, which takes a full fence: store and load may pass each other under
  // anything less. Were it visible only later, a writer could unlink the object we
  // have just found, see no guard, and free it. The writer has the matching fence
  // between unlinking and looking at the records (see EpochRetire).
  if (writers_fence_for_guards) [[likely]] {
    // The writer's fence makes one here too, wherever we are: if before the store, our
    // reads see what was unlinked; if behind it, the writer sees the store. So only
    // the compiler is kept from reordering, and one lookup's misses may overlap with
    // the next one's.
    record->epoch.store(now, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return;
  }
#if defined(__x86_64__) || defined(__i386__)
  // xchg is a full fence, and cheaper than a store and mfence.
  record->epoch.exchange(now, std::memory_order_seq_cst);
#else
  record->epoch.store(now, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace epoch_internal

// The calling thread's record.
inline EpochRecord* ThisThreadEpochRecord() {
  EpochRecord* const record = epoch_internal::this_thread_record;
  if (record != nullptr) [[likely]]
    return record;
  return epoch_internal::RegisterThisThread();
}

// A small dense number of the calling thread, reused after it ends. Two live
// threads never have the same.
inline uint32_t ThreadIndex() { return ThisThreadEpochRecord()->index; }

// While it lives, what was reachable from a shared structure when it was read
// stays allocated. Cheap (two stores to the thread's own line; an exchange where the
// kernel has no membarrier); nests.
class EpochGuard {
 public:
  EpochGuard() : record_(ThisThreadEpochRecord()) {
    if (record_->depth++ == 0) epoch_internal::Enter(record_);
  }
  ~EpochGuard() {
    // Release: what the guard read was read before it can be freed.
    if (--record_->depth == 0) record_->epoch.store(0, std::memory_order_release);
  }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

  EpochRecord* record() const { return record_; }  // the calling thread's

 private:
  EpochRecord* const record_;
};

// Calls free(object) once no guard that is live now is left; by the calling
// thread or by another that retires or synchronizes later, with no lock of the
// domain held. That may be at once, and may free what others retired: so the
// caller holds no lock that a free function takes. Legal inside a guard, and
// inside a free function. Costs about a microsecond: who retires many small objects
// hands them over as one.
// Requires: object can no longer be reached by new readers.
void EpochRetire(void* object, void (*free)(void*));

// Waits until every guard that is live at the call has ended, and what was retired
// before the call is freed. Requires: the caller has no guard, and is not in a free
// function.
void EpochSynchronize();

// What was retired and is not freed yet. For tests and for bounding it.
uint64_t EpochPendingCount();

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_EPOCH_H_
