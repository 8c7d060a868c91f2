#ifndef SIEVEDB_DB_COMPACTION_PARTS_H_
#define SIEVEDB_DB_COMPACTION_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/compaction_job.h"

namespace sievedb {

// A user key up to which one table of an input has bytes more since its last one.
struct InputAnchor {
  std::string user_key;
  uint64_t bytes = 0;
};

// The user keys that cut what the anchors describe into at most parts pieces of about
// the same size, none of them smaller than part_bytes by much: ascending, none twice,
// empty where one piece is best. A pure function.
std::vector<std::string> CutInput(const KeyOrder& order, std::vector<InputAnchor> anchors,
                                  size_t parts, uint64_t part_bytes);

// Runs a plan: a large one in parts, each a range of user keys with tables of its own,
// beside each other on the calling thread and those of context.pool that are free.
// Returns when all are done; the tables are in order. On error the files written so
// far are deleted.
absl::StatusOr<JobOutput> RunPlan(const JobContext& context, const CompactionPlan& plan,
                                  const Version& version, const std::vector<uint64_t>& snapshots,
                                  const JobFilters& filters);

}  // namespace sievedb

#endif  // SIEVEDB_DB_COMPACTION_PARTS_H_
