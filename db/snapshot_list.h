#ifndef SIEVEDB_DB_SNAPSHOT_LIST_H_
#define SIEVEDB_DB_SNAPSHOT_LIST_H_

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "sievedb/snapshot.h"
#include "util/mutex.h"

namespace sievedb {

// The snapshots that live. It is held by shared_ptr, so that a snapshot may
// outlive its DB.
//
// Threads: safe.
class SnapshotList : public std::enable_shared_from_this<SnapshotList> {
 public:
  // sequence() is called under the list's lock, so that no compaction that asks
  // for the live snapshots in between can miss the new one.
  template <typename SequenceFn>
  std::shared_ptr<const Snapshot> Create(SequenceFn sequence) {
    MutexLock lock(&mu_);
    return Insert(sequence());
  }

  // Ascending, distinct.
  std::vector<uint64_t> Sequences() const;
  size_t size() const;

 private:
  class Entry;
  std::shared_ptr<const Snapshot> Insert(uint64_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Release(uint64_t sequence);

  mutable Mutex mu_;
  std::multiset<uint64_t> sequences_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_SNAPSHOT_LIST_H_
