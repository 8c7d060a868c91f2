#ifndef SIEVEDB_DB_LEVEL_TARGETS_H_
#define SIEVEDB_DB_LEVEL_TARGETS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "db/version.h"
#include "sievedb/options.h"

namespace sievedb {

// Compactions that are running: their tables, and where their outputs will be.
struct CompactionsInProgress {
  struct Range {
    int input_level;
    int output_level;
    std::string smallest, largest;  // user keys
    uint64_t output_run = 0;
  };
  std::set<uint64_t> busy_files;
  std::vector<Range> ranges;
};

// Sorted runs that a level >= 1 holds at rest: one, or level_size_multiplier - 1 where
// the style keeps several, at most kMaxRunsAtRest.
inline constexpr size_t kMaxRunsAtRest = 16;
size_t MaxRuns(const Options& options, int level);
// And at most, with those that running compactions make: as many again may arrive while
// they are merged. More are not begun.
size_t RunBound(const Options& options, int level);

// Level sizes follow from the last level's, as in RocksDB's dynamic mode: the last
// level's target is its size. Level 0 is compacted into base_level; levels between it
// and level 0 are empty.
// kLeveled: each level above the last has a share of 1 / level_size_multiplier of the one
// below it, down to the first that would fall below level_base_bytes, which is base_level.
// kLazyLeveling: the last but one has what max_space_amplification leaves for all above
// the last, and those above it 1 / level_size_multiplier each of the one below; base_level
// is the first whose runs would be smaller than level_base_bytes.
// kTiered: the same with the newer runs of the last level in place of the last but one.
struct LevelTargets {
  int base_level = kNumLevels - 1;
  std::array<uint64_t, kNumLevels> bytes{};
};
LevelTargets ComputeLevelTargets(const Options& options, const Version& version);

// Each level's score: >= 1 wants compaction. Level 0: files over trigger (and bytes
// over base). Others: bytes over target, and runs over what the level may hold, both
// without busy files.
std::array<double, kNumLevels> ComputeScores(const Options& options, const Version& version,
                                             const CompactionsInProgress& running);

// Bytes that compactions would have to write until no level is above its target.
uint64_t PendingCompactionBytes(const Options& options, const Version& version);

}  // namespace sievedb

#endif  // SIEVEDB_DB_LEVEL_TARGETS_H_
