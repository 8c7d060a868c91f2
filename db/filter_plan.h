#ifndef SIEVEDB_DB_FILTER_PLAN_H_
#define SIEVEDB_DB_FILTER_PLAN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "db/compaction_picker.h"
#include "db/version.h"
#include "sievedb/options.h"

namespace sievedb {

// How the memory of filters is spread over the runs of a tree: more bits per key for
// smaller runs, at the same total, so that the sum of the runs' false-positive rates,
// which is what a lookup of an absent key pays, is least (Dayan, Athanassoulis &
// Idreos, Monkey, 2017). The rates are those of blocked Bloom filters.

// Bits per key for each run, at most kMaxPlannedBits: together they take
// bits_per_key for each key. Pure. Cost: a few hundred steps a run.
inline constexpr double kMaxPlannedBits = 24;
std::vector<double> PlanFilterBits(absl::Span<const uint64_t> run_keys, double bits_per_key);

// What a plan for a tree as it is gives each level; 0 for one that is empty, and
// without a plan.
std::array<double, kNumLevels> PlanLevelBits(const Options& options, const Version& version);

// The context for the filters of tables that a job writes: with the bits per key that
// the plan for the tree after the job gives them, where options.plan_filter_memory.
// No more than the budget of all keys leaves, and a tenth of it: tables that were moved
// down without being rewritten have the bits of where they were written.
// plan null: a flush of flushed_keys, prefixes that the filter gets among them.
FilterContext MakeFilterContext(const Options& options, const Version& version,
                                const CompactionPlan* plan, uint64_t flushed_keys);

}  // namespace sievedb

#endif  // SIEVEDB_DB_FILTER_PLAN_H_
