#ifndef SIEVEDB_DB_TABLE_PLACEMENT_H_
#define SIEVEDB_DB_TABLE_PLACEMENT_H_

#include <memory>
#include <vector>

#include "db/file_meta.h"
#include "table/internal_key.h"

namespace sievedb {

// Tables that stand together in a level.
struct PlacedTables {
  int level = 0;
  // More than one: their entries have to be merged into one sorted run first, for of two
  // that overlap neither is known to be the newer one for all keys that they share.
  std::vector<std::shared_ptr<FileMeta>> tables;
};

// Where tables belong of which no more is known than they themselves say: their key range
// and the range of their sequences. Of two with keys in common the one whose sequences are
// all higher stands above the other; where the sequences interleave the two are merged.
// Each goes as deep as it can. A pure function.
//
// Cost: O(n log n + n * tables that one overlaps), and the number of results squared.
std::vector<PlacedTables> PlaceTables(const KeyOrder& order,
                                      std::vector<std::shared_ptr<FileMeta>> tables);

}  // namespace sievedb

#endif  // SIEVEDB_DB_TABLE_PLACEMENT_H_
