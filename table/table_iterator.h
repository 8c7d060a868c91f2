#ifndef SIEVEDB_TABLE_TABLE_ITERATOR_H_
#define SIEVEDB_TABLE_TABLE_ITERATOR_H_

#include <memory>

#include "sievedb/options.h"
#include "table/internal_iterator.h"
#include "table/table_parts.h"

namespace sievedb {

// A cursor over a table: the index finds the block, and a BlockIterator walks in it.
// It holds one block at a time.
//
// Blocks that are not cached are read ahead once they are read one after the other,
// in either direction: 16 KiB first, doubling to 256 KiB, or options.readahead_bytes
// from the start; not beyond the block that options.upper_bound falls into. The bounds
// have no other effect here: an internal iterator shows all of the table.
// for_compaction: 1 MiB a read, and the cache is neither asked nor filled.
//
// parts must outlive the iterator.
std::unique_ptr<InternalIterator> NewTableIterator(const TableParts& parts,
                                                   const ReadOptions& options, bool for_compaction);

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_TABLE_ITERATOR_H_
