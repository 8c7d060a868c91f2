#ifndef SIEVEDB_SNAPSHOT_H_
#define SIEVEDB_SNAPSHOT_H_

#include <cstdint>

#include "sievedb/export.h"

namespace sievedb {

// A moment in a database's history. While a reference to it lives, reads
// through it never change, and the versions that it sees are kept.
//
// Threads: safe. It may outlive its DB; it can then no longer be read through.
class SIEVEDB_EXPORT Snapshot {
 public:
  uint64_t sequence() const { return sequence_; }

 protected:
  explicit Snapshot(uint64_t sequence) : sequence_(sequence) {}
  ~Snapshot() = default;

 private:
  const uint64_t sequence_;
};

}  // namespace sievedb

#endif  // SIEVEDB_SNAPSHOT_H_
