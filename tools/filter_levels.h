#ifndef SIEVEDB_TOOLS_FILTER_LEVELS_H_
#define SIEVEDB_TOOLS_FILTER_LEVELS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace sievedb {

// Where a table stands: the level that its database's MANIFEST has it in, or one of
// these.
inline constexpr int kNoDatabase = -1;  // its directory is no database
inline constexpr int kUnlisted = -2;    // the MANIFEST does not have it: it is waiting to
                                        // be deleted, or was made a moment ago

struct TablePlace {
  std::string database;  // its directory; empty for kNoDatabase
  int level = kNoDatabase;
};
// "0" to "6", "-" or "unlisted".
std::string LevelName(int level);

// The places of tables, from the MANIFESTs of the directories that they are in. Takes
// no lock, so it works beside a writer: what it finds is the state of some moment.
//
// Threads: not safe for concurrent use.
class TablePlaces {
 public:
  // Reads CURRENT and MANIFEST the first time that a directory is met.
  TablePlace Of(const std::string& path);
  // How many tables the MANIFEST of a database has.
  uint64_t TablesOf(const std::string& database) const;
  // The first MANIFEST that could not be read; the tables beside it are kNoDatabase.
  const absl::Status& status() const { return status_; }

 private:
  struct Directory {
    bool is_database = false;
    std::map<uint64_t, int> levels;  // by file number
  };
  static absl::StatusOr<Directory> Read(const std::string& path);

  std::map<std::string, Directory> directories_;
  absl::Status status_;
};

// What the sums need of one table.
struct PlacedFilter {
  TablePlace place;
  uint64_t keys = 0;  // distinct user keys of the table
  uint64_t filter_bytes = 0;
  double expected_fpr = 1;  // 1 where there is no filter, or none that can be used
};

struct LevelFilters {
  int level = kNoDatabase;
  uint64_t tables = 0;
  uint64_t keys = 0;
  uint64_t filter_bytes = 0;
  double bits_per_key = 0;  // of all keys together
  double expected_fpr = 0;  // mean over keys
  // Tables that a lookup of an absent key reads here in vain. Level 0, and tables of
  // no database, may all have the key in their range: their rates add up. A deeper
  // level has one table for it, which is met as often as it has keys.
  double false_reads = 0;
};
struct DatabaseFilters {
  std::string database;              // empty: tables of no database
  std::vector<LevelFilters> levels;  // ascending; unlisted tables last
  double false_reads = 0;            // of the levels; unlisted tables are not read
  uint64_t tables = 0;               // without those that are unlisted
  uint64_t manifest_tables = 0;      // more than tables where some were not given or not readable
};

// Databases in the order in which they are met first.
std::vector<DatabaseFilters> SumFilters(const std::vector<PlacedFilter>& filters);

std::string DatabaseFiltersText(const DatabaseFilters& filters);
nlohmann::ordered_json DatabaseFiltersJson(const DatabaseFilters& filters);

// A level in JSON: its number, or its name where it has none.
nlohmann::ordered_json LevelJson(int level);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_FILTER_LEVELS_H_
