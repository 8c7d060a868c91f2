#ifndef SIEVEDB_TABLE_MERGING_ITERATOR_H_
#define SIEVEDB_TABLE_MERGING_ITERATOR_H_

#include <memory>
#include <vector>

#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace sievedb {

// The union of children, in order. Of entries with one internal key (the same
// write seen in a memtable and in its table) each is shown; children earlier in
// the list first.
// Cost: a step compares cached key words first: one pair while entries come from the
// same child, log2(children) pairs otherwise.
// An error of any child ends the iteration, but no child is asked before its bound
// says that its entry may be the next one (see InternalIterator::AllowDeferral).
std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyOrder& order, std::vector<std::unique_ptr<InternalIterator>> children);

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_MERGING_ITERATOR_H_
