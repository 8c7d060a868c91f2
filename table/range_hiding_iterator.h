#ifndef SIEVEDB_TABLE_RANGE_HIDING_ITERATOR_H_
#define SIEVEDB_TABLE_RANGE_HIDING_ITERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/range_tombstones.h"

namespace sievedb {

// The range tombstones of the runs that an iterator reads, and what takes away the
// entries that they hide, below the merge: the merge sees the entries that are left.
//
// What a newer run's tombstone covers is all older than it, so there an older run's
// iterator goes to the tombstone's end at once, and a table whose keys are all covered is
// not even opened. Among the entries of its own run some may be newer, so they are looked
// at one by one.
//
// Threads: not safe for concurrent use; the iterators share it.
class RangeTombstoneStack {
 public:
  // sequence: tombstones and entries above it are not seen.
  RangeTombstoneStack(const InternalKeyOrder& order, uint64_t sequence)
      : order_(order), sequence_(sequence) {}

  // A run's lists: in order, not overlapping each other. They must stay.
  using Run = std::vector<const RangeTombstones*>;

  // Goes on to the next older run, whose tombstones are run, and gives back its entries
  // but for those that its tombstones and those of the runs before hide.
  std::unique_ptr<InternalIterator> Hide(Run run, std::unique_ptr<InternalIterator> entries);

 private:
  const InternalKeyOrder order_;
  const uint64_t sequence_;
  std::shared_ptr<const std::vector<Run>> runs_;  // newest first; none is empty. Null: none
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_RANGE_HIDING_ITERATOR_H_
