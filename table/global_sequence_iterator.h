#ifndef SIEVEDB_TABLE_GLOBAL_SEQUENCE_ITERATOR_H_
#define SIEVEDB_TABLE_GLOBAL_SEQUENCE_ITERATOR_H_

#include <cstdint>
#include <memory>

#include "table/internal_iterator.h"
#include "util/key_order.h"

namespace sievedb {

// The entries of a table of SstFileWriter's, shown as of one sequence: whatever
// sequence they have in the file, their keys tell this one.
//
// Requires: no two entries are of one user key.
std::unique_ptr<InternalIterator> NewGlobalSequenceIterator(
    std::unique_ptr<InternalIterator> entries, const KeyOrder& order, uint64_t sequence);

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_GLOBAL_SEQUENCE_ITERATOR_H_
