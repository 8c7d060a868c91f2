#ifndef SIEVEDB_DB_FILTER_PLAN_H_
#define SIEVEDB_DB_FILTER_PLAN_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "db/compaction_picker.h"
#include "db/version.h"
#include "sievedb/options.h"

namespace sievedb {

// How the memory of filters is spread over the tables of a tree: so that the reads that
// lookups of absent keys pay for nothing are fewest at the same total. A table's share
// follows from its keys and from how often absent keys are asked for in it: minimizing
// the sum of asked * rate(bits) where the sum of keys * bits is given, every table's
// last bit saves as much per byte as every other's. Where all keys of a tree are asked
// for alike, a level's tables together are asked once a lookup, and that is Monkey
// (Dayan, Athanassoulis & Idreos 2017): more bits per key for smaller levels. Where some
// ranges are asked for more often, or lookups end in upper levels, their tables get more
// (Options::access_aware_filters). The rates are those of blocked Bloom filters.

struct FilterShare {
  double keys = 0;
  double asked = 0;  // lookups of absent keys, in any unit
};

// Bits per key for each table (or for a run, as a whole), at most kMaxPlannedBits:
// together they take bits_per_key for each key. Pure. Cost: a few hundred steps a share.
inline constexpr double kMaxPlannedBits = 24;
std::vector<double> PlanShares(absl::Span<const FilterShare> shares, double bits_per_key);
// The same for runs that are all asked alike.
std::vector<double> PlanFilterBits(absl::Span<const uint64_t> run_keys, double bits_per_key);

// What a plan for a tree as it is gives each table, in the order of version.files; 0
// without a plan.
using TableBits = std::array<std::vector<double>, kNumLevels>;
TableBits PlanTableBits(const Options& options, const Version& version);

// Takes over what the tables' tallies have counted since the last call. Older counts
// fade, in all tables alike: they are halved by each kHeatHalfLife lookups, so tables of
// any age compare. Not kept over a reopen: until new counts have come, the tree is
// planned as if it were asked evenly, and filters stay as they are.
// Requires: one call at a time for the versions of one database.
inline constexpr double kHeatHalfLife = 4e6;
void UpdateFilterHeat(const Version& version);

// What the filters of the tables that a job writes are made for.
//
// Threads: const members are safe.
class JobFilters {
 public:
  JobFilters(const FilterContext& all) : context_(all) {}  // NOLINT: one for all outputs
  // By the plan for the tree after the job, where options.plan_filter_memory: no more
  // than the budget of all keys leaves, and a tenth of it, as tables that were moved
  // down without being rewritten have the bits of where they were written.
  // plan null: a flush of flushed_keys. version must outlive the result.
  JobFilters(const Options& options, const Version& version, const CompactionPlan* plan,
             uint64_t flushed_keys);

  // For a table that begins with this key; of the tables of a job, in their order.
  FilterContext ForTableFrom(std::string_view internal_key) const;
  // What a finished table begins with: the heat of its range.
  double HeatOf(const FileMeta& output) const;

 private:
  // A piece of the key space, which an input of the output level covers alone; where
  // there is none, all of it.
  struct Segment {
    const FileMeta* file = nullptr;  // null: none
    double keys = 0;
    double heat = 0;
    double bits = 0;
  };
  void CutSegments(const CompactionPlan& plan);
  void AddKeys(absl::Span<const FileRef> files);
  size_t SegmentOf(std::string_view internal_key) const;
  double PartBefore(const FileMeta& file, std::string_view internal_key) const;
  // Lookups of absent keys of late between two keys: those that came to the deepest
  // level, which has all ranges and has been asked for longest.
  double HeatBetween(std::string_view begin, std::string_view end) const;
  void PlanBits(const Options& options, const CompactionPlan* plan);

  FilterContext context_;
  const Version* version_ = nullptr;  // null: no plan
  std::vector<Segment> segments_;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_FILTER_PLAN_H_
