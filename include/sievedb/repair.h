#ifndef SIEVEDB_REPAIR_H_
#define SIEVEDB_REPAIR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sievedb {

// What RepairDB found and did.
struct RepairReport {
  // False: the database opens, all of it can be read, and nothing was touched.
  bool changed = false;
  // What was wrong, a sentence each, in the order in which it was found.
  std::vector<std::string> findings;
  // Files that were damaged, or of no use any more: now in the directory lost/ of the
  // database, under the same name (with .1, .2 … where there was one).
  std::vector<std::string> set_aside;
  // The MANIFEST whose list of tables was used; empty: none could be, and the list was
  // made from the tables.
  std::string manifest;
  uint64_t tables = 0;         // of the database, those made from WALs included
  uint64_t tables_merged = 0;  // of them only the order of their entries was known
  uint64_t wal_records = 0;    // read from WALs into tables
  uint64_t last_sequence = 0;  // new writes count on from it
};

}  // namespace sievedb

#endif  // SIEVEDB_REPAIR_H_
