#ifndef SIEVEDB_DB_COMPACTION_JOB_H_
#define SIEVEDB_DB_COMPACTION_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/compaction_picker.h"
#include "db/file_meta.h"
#include "db/filter_plan.h"
#include "db/table_opener.h"
#include "db/version.h"
#include "sievedb/options.h"
#include "sievedb/thread_pool.h"
#include "table/internal_iterator.h"
#include "table/range_tombstones.h"

namespace sievedb {

// What every job of a database needs. All pointers outlive the job.
struct JobContext {
  const Options* options = nullptr;  // sanitized
  InternalKeyOrder order{BytewiseComparator()};
  std::string db_path;
  uint64_t db_id = 0;
  uint64_t hash_seed = 0;
  TableOpener* opener = nullptr;
  StatisticsImpl* statistics = nullptr;
  std::function<uint64_t()> new_file_number;
  const std::atomic<bool>* cancel = nullptr;  // set: stop soon, with kAborted
  ThreadPool* pool = nullptr;  // null: compactions run on one thread, and hold flushes up
};

// A part of what a compaction merges.
struct JobPart {
  const std::string* begin = nullptr;  // user keys [begin, end); null: open
  const std::string* end = nullptr;
  uint64_t table_bytes = 0;  // where its outputs are cut; 0: options.target_file_bytes
};

struct JobOutput {
  std::vector<std::shared_ptr<FileMeta>> files;  // synced, directory synced, opened
  uint64_t entries_in = 0;
  uint64_t entries_out = 0;
  uint64_t dropped_hidden = 0;
  uint64_t dropped_tombstones = 0;
  uint64_t bytes_written = 0;
};

// A flush is a compaction whose input is memtables: writes the entries of input
// as tables. On error (kAborted for cancel) the files written so far are deleted.
//
// filters: what the tables' filters are made for.
// plan null: a flush into one table of level 0. Otherwise outputs are cut at
// target_file_bytes (never between two versions of a user key) and where they
// would overlap more than 10 such tables of plan->grandparents; version is what
// the plan was picked from. Between entries it runs flushes that wait in context.pool.
// Each new table is opened and, where options.paranoid_checks, its entry count is
// checked against what was written.
// tombstones: the input's range tombstones (null: none), of each fragment the newest that
// each of the snapshots and the present sees. Each output gets what of them lies between
// the keys where it and the one before are cut, but for those that nobody needs any more.
absl::StatusOr<JobOutput> RunJob(const JobContext& context, InternalIterator* input,
                                 std::vector<uint64_t> snapshots, const CompactionPlan* plan,
                                 const Version* version, const JobFilters& filters,
                                 const JobPart& part = {},
                                 const RangeTombstones* tombstones = nullptr);

// Deletes the tables of a job that nobody will use after all.
void DropOutput(const JobContext& context, JobOutput* output);

// The range tombstones of a plan's tables, as RunJob takes them; null: they have none.
// plan must outlive them.
absl::StatusOr<RefPtr<const RangeTombstones>> PlanRangeTombstones(
    const JobContext& context, const CompactionPlan& plan, const std::vector<uint64_t>& snapshots);

// The merged input of a plan, reading ahead, past the block cache. plan and the
// context's opener must outlive it.
// tombstones, snapshots: those of the job. Tables that one of the tombstones covers, for
// all who see an entry of them, are left out unread.
absl::StatusOr<std::unique_ptr<InternalIterator>> NewPlanInput(
    const JobContext& context, const CompactionPlan& plan,
    const RangeTombstones* tombstones = nullptr, const std::vector<uint64_t>& snapshots = {});

}  // namespace sievedb

#endif  // SIEVEDB_DB_COMPACTION_JOB_H_
