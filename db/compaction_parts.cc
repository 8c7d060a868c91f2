#include "db/compaction_parts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "util/mutex.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// A part's tables are cut evenly, so this many at least make them about as large as
// those of a compaction in one piece.
constexpr uint64_t kMinPartTables = 2;
// For each thread: one that comes late, from a flush, finds some left.
constexpr size_t kPartsPerThread = 2;
// Of the whole input: how well parts can be balanced, against keys to sort.
constexpr uint64_t kAnchors = 256;

// Pieces of work that the caller and whoever has time do, each of them once. Helpers
// that come when nothing is left touch nothing else than this.
class SharedWork {
 public:
  // run does piece i; false: no more are begun. Not called any more once Finish returned.
  SharedWork(size_t pieces, std::function<bool(size_t i)> run)
      : pieces_(pieces), run_(std::move(run)) {}

  void Help() {
    MutexLock lock(&mu_);
    while (next_ < pieces_) {
      const size_t i = next_++;
      ++running_;
      mu_.Unlock();
      const bool go_on = run_(i);
      mu_.Lock();
      --running_;
      if (!go_on) next_ = pieces_;
    }
    if (running_ == 0) idle_.SignalAll();
  }

  // Does what is left and waits for the others.
  void Finish() {
    Help();
    MutexLock lock(&mu_);
    while (running_ > 0) idle_.Wait(&mu_);
  }

 private:
  const size_t pieces_;
  const std::function<bool(size_t)> run_;
  Mutex mu_;
  CondVar idle_;
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t running_ ABSL_GUARDED_BY(mu_) = 0;
};

absl::StatusOr<std::vector<InputAnchor>> AnchorsOf(const JobContext& context,
                                                   const CompactionPlan& plan) {
  const uint64_t step = std::max<uint64_t>(1, plan.InputBytes() / kAnchors);
  std::vector<InputAnchor> anchors;
  for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
    for (const FileRef& file : *files) {
      SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, context.opener->Get(*file));
      const uint64_t bytes = file->file_bytes - file->tail_bytes;
      std::vector<std::string> keys = table->Anchors(step);
      keys.emplace_back(UserKey(file->largest));
      for (std::string& key : keys) anchors.push_back({std::move(key), bytes / keys.size()});
    }
  }
  return anchors;
}

absl::StatusOr<JobOutput> RunPart(const JobContext& context, const CompactionPlan& plan,
                                  const Version& version, const std::vector<uint64_t>& snapshots,
                                  const JobFilters& filters, const JobPart& part,
                                  const RangeTombstones* tombstones) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto input, NewPlanInput(context, plan, tombstones, snapshots));
  return RunJob(context, input.get(), snapshots, &plan, &version, filters, part, tombstones);
}

void Append(JobOutput* to, JobOutput from) {
  to->files.insert(to->files.end(), std::make_move_iterator(from.files.begin()),
                   std::make_move_iterator(from.files.end()));
  to->entries_in += from.entries_in;
  to->entries_out += from.entries_out;
  to->dropped_hidden += from.dropped_hidden;
  to->dropped_tombstones += from.dropped_tombstones;
  to->bytes_written += from.bytes_written;
}

}  // namespace

std::vector<std::string> CutInput(const KeyOrder& order, std::vector<InputAnchor> anchors,
                                  size_t parts, uint64_t part_bytes) {
  uint64_t total = 0;
  for (const InputAnchor& anchor : anchors) total += anchor.bytes;
  parts = std::min<uint64_t>(parts, total / std::max<uint64_t>(1, part_bytes));
  std::vector<std::string> cuts;
  if (parts <= 1) return cuts;
  std::sort(anchors.begin(), anchors.end(), [&](const InputAnchor& a, const InputAnchor& b) {
    return order.Compare(a.user_key, b.user_key) < 0;
  });
  uint64_t before = 0;
  // Behind the last key there is nothing.
  for (size_t i = 0; i + 1 < anchors.size() && cuts.size() + 1 < parts; ++i) {
    before += anchors[i].bytes;
    if (before < total / parts * (cuts.size() + 1)) continue;
    if (!cuts.empty() && order.Compare(cuts.back(), anchors[i].user_key) == 0) continue;
    cuts.push_back(std::move(anchors[i].user_key));
  }
  return cuts;
}

absl::StatusOr<JobOutput> RunPlan(const JobContext& context, const CompactionPlan& plan,
                                  const Version& version, const std::vector<uint64_t>& snapshots,
                                  const JobFilters& filters) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto tombstones, PlanRangeTombstones(context, plan, snapshots));
  const uint64_t table_bytes = context.options->target_file_bytes;
  std::vector<std::string> cuts;
  if (context.pool != nullptr && plan.output_level > 0 &&
      plan.InputBytes() >= 2 * kMinPartTables * table_bytes) {
    SIEVEDB_ASSIGN_OR_RETURN(std::vector<InputAnchor> anchors, AnchorsOf(context, plan));
    cuts = CutInput(context.order.user(), std::move(anchors),
                    kPartsPerThread * static_cast<size_t>(context.pool->ThreadCount()),
                    kMinPartTables * table_bytes);
  }
  if (cuts.empty())
    return RunPart(context, plan, version, snapshots, filters, {}, tombstones.get());

  const size_t parts = cuts.size() + 1;
  const double tables = static_cast<double>(plan.InputBytes()) / static_cast<double>(parts) /
                        static_cast<double>(table_bytes);
  JobPart even;
  even.table_bytes =
      static_cast<uint64_t>(tables / std::round(tables) * static_cast<double>(table_bytes));
  std::vector<std::optional<absl::StatusOr<JobOutput>>> outputs(parts);
  const auto work = std::make_shared<SharedWork>(parts, [&](size_t i) {
    JobPart part = even;
    if (i > 0) part.begin = &cuts[i - 1];
    if (i < cuts.size()) part.end = &cuts[i];
    outputs[i] = RunPart(context, plan, version, snapshots, filters, part, tombstones.get());
    return outputs[i]->ok();
  });
  const size_t helpers = std::min(parts - 1, static_cast<size_t>(context.pool->ThreadCount()));
  for (size_t i = 0; i < helpers; ++i) {
    context.pool->Schedule(ThreadPool::Priority::kLow, [work] { work->Help(); });
  }
  work->Finish();

  JobOutput all;
  absl::Status status;
  for (std::optional<absl::StatusOr<JobOutput>>& output : outputs) {
    if (!output.has_value()) continue;  // not begun, as another failed
    if (output->ok()) {
      Append(&all, *std::move(*output));
    } else if (status.ok()) {
      status = output->status();
    }
  }
  if (status.ok()) return all;
  DropOutput(context, &all);
  return status;
}

}  // namespace sievedb
