#include "db/compaction_job.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/compaction_iterator.h"
#include "db/file_names.h"
#include "db/version_iterator.h"
#include "table/merging_iterator.h"
#include "table/table_builder.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Of grandparents that one output may overlap, in output files: what it will cost
// to compact that output in its turn.
constexpr uint64_t kMaxGrandparentFiles = 10;

absl::Status CheckCancel(const JobContext& context) {
  if (context.cancel == nullptr || !context.cancel->load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  return absl::AbortedError("the compaction was cancelled");
}

// One that stays is deleted when the database is opened next.
void DeleteTable(const JobContext& context, uint64_t number) {
  context.options->file_system->DeleteFile(TableFileName(context.db_path, number)).IgnoreError();
}

// Whether a run below the output's, of its level or further down, may hold a user key.
class RunsBelow {
 public:
  RunsBelow(const KeyOrder& order, const CompactionPlan* plan, const Version* version)
      : order_(order), version_(version) {
    // A flush, or a compaction within level 0, has older tables of level 0 below it.
    unknown_ = plan == nullptr || plan->output_level == 0;
    if (unknown_ || plan->bottommost) return;
    for (int level = plan->output_level; level < kNumLevels; ++level) {
      for (const Version::Run& run : version->runs(level)) {
        if (level == plan->output_level && run.number >= plan->output_run) continue;
        runs_.push_back({level, &run, version->files(level, run)});
      }
    }
  }

  // Keys are asked for in order, so each run's position only moves forward.
  bool MayHold(std::string_view user_key) {
    if (unknown_) return true;
    for (BelowRun& run : runs_) {
      absl::Span<const FileRef>& files = run.rest;
      while (!files.empty() && order_.Compare(UserKey(files.front()->largest), user_key) < 0) {
        files.remove_prefix(1);
      }
      if (!files.empty() && order_.Compare(UserKey(files.front()->smallest), user_key) <= 0) {
        return true;
      }
    }
    return false;
  }

  // Whether it may hold a key of [begin, end), which may lie anywhere.
  bool MayHoldIn(std::string_view begin, std::string_view end) const {
    if (unknown_) return true;
    return std::any_of(runs_.begin(), runs_.end(), [&](const BelowRun& below) {
      const auto [first, last] = version_->OverlappingRange(below.level, *below.run, &begin, &end);
      return first < last &&
             order_.Compare(UserKey(version_->files(below.level)[first]->smallest), end) < 0;
    });
  }

 private:
  struct BelowRun {
    int level;
    const Version::Run* run;
    absl::Span<const FileRef> rest;  // that is not passed yet
  };

  const KeyOrder order_;
  const Version* const version_;
  bool unknown_ = false;
  std::vector<BelowRun> runs_;
};

// Decides where an output ends.
class OutputCutter {
 public:
  OutputCutter(const JobContext& context, const CompactionPlan* plan, const JobPart& part)
      : order_(context.order.user()),
        target_bytes_(part.table_bytes != 0 ? part.table_bytes
                                            : context.options->target_file_bytes) {
    // Level 0 takes one table a job: each more would be one more to search.
    if (plan == nullptr || plan->output_level == 0) return;
    cuts_ = true;
    grandparents_ = plan->grandparents;
  }

  // Whether the output ends before user_key, a key that it has no version of.
  // builder: the output, or null where there is none.
  bool EndsBefore(std::string_view user_key, const TableBuilder* builder) {
    if (!cuts_) return false;
    while (next_ < grandparents_.size() &&
           order_.Compare(UserKey(grandparents_[next_]->largest), user_key) < 0) {
      // Those before the output's first key don't overlap it.
      if (builder != nullptr) overlap_bytes_ += grandparents_[next_]->file_bytes;
      ++next_;
    }
    return builder != nullptr && (overlap_bytes_ > kMaxGrandparentFiles * target_bytes_ ||
                                  builder->EstimatedFileBytes() >= target_bytes_);
  }
  void Reset() { overlap_bytes_ = 0; }

 private:
  const KeyOrder order_;
  const uint64_t target_bytes_;
  absl::Span<const FileRef> grandparents_;
  bool cuts_ = false;
  size_t next_ = 0;
  uint64_t overlap_bytes_ = 0;
};

class Job {
 public:
  Job(const JobContext& context, const CompactionPlan* plan, const JobFilters& filters,
      const RangeTombstones* tombstones)
      : context_(context),
        options_(*context.options),
        file_system_(context.options->file_system.get()),
        plan_(plan),
        filters_(filters),
        tombstones_(tombstones) {}

  absl::StatusOr<JobOutput> Run(CompactionIterator* entries, const JobPart& part) {
    absl::Status status = WriteTables(entries, part);
    if (status.ok() && !output_.files.empty())
      status = file_system_->SyncDirectory(context_.db_path);
    if (status.ok()) status = OpenTables();
    if (!status.ok()) {
      DeleteTables();
      return status;
    }
    output_.entries_in = entries->entries_in();
    output_.dropped_hidden = entries->dropped_hidden();
    output_.dropped_tombstones = entries->dropped_tombstones();
    return std::move(output_);
  }

 private:
  absl::Status WriteTables(CompactionIterator* entries, const JobPart& part) {
    OutputCutter cutter(context_, plan_, part);
    for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
      if (entries->is_first_version() &&
          cutter.EndsBefore(UserKey(entries->key()), builder_.has_value() ? &*builder_ : nullptr)) {
        const std::string_view cut = UserKey(entries->key());
        SIEVEDB_RETURN_IF_ERROR(FinishTable(&cut));
        cutter.Reset();
      }
      if (!builder_.has_value()) SIEVEDB_RETURN_IF_ERROR(BeginTable(entries->key()));
      SIEVEDB_RETURN_IF_ERROR(builder_->Add(entries->key(), entries->value()));
    }
    SIEVEDB_RETURN_IF_ERROR(entries->status());
    if (!builder_.has_value()) {
      if (tombstones_ == nullptr || tombstones_->empty()) return absl::OkStatus();
      std::string first_key;
      AppendInternalKey(&first_key, tombstones_->fragments().front().begin, kMaxTag);
      SIEVEDB_RETURN_IF_ERROR(BeginTable(first_key));
    }
    return FinishTable(/*cut=*/nullptr);
  }

  absl::Status BeginTable(std::string_view first_key) {
    SIEVEDB_RETURN_IF_ERROR(CheckCancel(context_));
    const uint64_t number = context_.new_file_number();
    numbers_.push_back(number);
    SIEVEDB_ASSIGN_OR_RETURN(
        file_, file_system_->NewWritableFile(TableFileName(context_.db_path, number)));
    TableBuilderOptions options;
    options.order = context_.order;
    options.filter_policy = options_.filter_policy.get();
    options.filter_context = filters_.ForTableFrom(first_key);
    options.prefix_extractor = options_.prefix_extractor.get();
    options.compression = options_.compression;
    options.block_bytes = options_.block_bytes;
    options.block_restart_interval = options_.block_restart_interval;
    options.bytes_per_writeback = options_.bytes_per_writeback;
    options.rate_limiter = options_.rate_limiter.get();
    options.rate_priority =
        plan_ == nullptr ? RateLimiter::Priority::kHigh : RateLimiter::Priority::kLow;
    options.file_number = number;
    options.db_id = context_.db_id;
    options.hash_seed = context_.hash_seed;
    options.creation_seconds = WallSeconds();
    builder_.emplace(options, file_.get());
    return absl::OkStatus();
  }

  // cut: the user key that the next table begins with; null: this is the last one.
  absl::StatusOr<TableSummary> FinishBuilder(const std::string_view* cut) {
    if (tombstones_ == nullptr) return builder_->Finish();
    std::string_view begin;
    if (last_cut_.has_value()) begin = *last_cut_;
    const RefPtr<const RangeTombstones> within =
        tombstones_->Clip(last_cut_.has_value() ? &begin : nullptr, cut);
    absl::StatusOr<TableSummary> summary = builder_->Finish(within.get());
    if (cut != nullptr) last_cut_.emplace(*cut);
    return summary;
  }

  absl::Status FinishTable(const std::string_view* cut) {
    const uint64_t entries = builder_->entries();
    SIEVEDB_ASSIGN_OR_RETURN(const TableSummary summary, FinishBuilder(cut));
    builder_.reset();
    SIEVEDB_RETURN_IF_ERROR(file_->Sync());
    SIEVEDB_RETURN_IF_ERROR(file_->Close());
    file_.reset();
    const TableProperties& properties = summary.properties;
    assert(properties.entries == entries);
    auto meta = std::make_shared<FileMeta>();
    meta->number = numbers_.back();
    meta->file_bytes = summary.file_bytes;
    meta->tail_bytes = summary.tail_bytes;
    meta->smallest = properties.smallest_key;
    meta->largest = properties.largest_key;
    meta->smallest_sequence = properties.smallest_sequence;
    meta->largest_sequence = properties.largest_sequence;
    meta->entries = entries;
    meta->tombstones = properties.tombstones;
    meta->range_tombstones = properties.range_tombstones;
    meta->raw_bytes = properties.raw_key_bytes + properties.raw_value_bytes;
    meta->filter_heat.absent.store(filters_.HeatOf(*meta), std::memory_order_relaxed);
    output_.entries_out += entries;
    output_.bytes_written += summary.file_bytes;
    output_.files.push_back(std::move(meta));
    return absl::OkStatus();
  }

  // What can't be read back must not replace its input.
  absl::Status OpenTables() {
    for (const std::shared_ptr<FileMeta>& file : output_.files) {
      SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, context_.opener->Get(*file));
      const uint64_t found = table->properties().entries;
      if (options_.paranoid_checks && found != file->entries) {
        return absl::DataLossError(
            absl::StrFormat("%s: a table that was just written, expected %d entries, found %d",
                            TableFileName(context_.db_path, file->number), file->entries, found));
      }
    }
    return absl::OkStatus();
  }

  void DeleteTables() {
    builder_.reset();
    file_.reset();
    output_.files.clear();  // closes them
    for (const uint64_t number : numbers_) DeleteTable(context_, number);
  }

  const JobContext& context_;
  const Options& options_;
  FileSystem* const file_system_;
  const CompactionPlan* const plan_;
  const JobFilters& filters_;
  const RangeTombstones* const tombstones_;  // for the outputs; null: none
  std::optional<std::string> last_cut_;      // user key; nullopt: of the first table
  std::vector<uint64_t> numbers_;            // of all files that were begun
  std::unique_ptr<WritableFile> file_;       // the one that is being written
  std::optional<TableBuilder> builder_;
  JobOutput output_;
};

}  // namespace

absl::StatusOr<JobOutput> RunJob(const JobContext& context, InternalIterator* input,
                                 std::vector<uint64_t> snapshots, const CompactionPlan* plan,
                                 const Version* version, const JobFilters& filters,
                                 const JobPart& part, const RangeTombstones* tombstones) {
  assert(plan == nullptr || version != nullptr);
  RunsBelow below(context.order.user(), plan, version);
  RefPtr<const RangeTombstones> within;  // those of this part; kept refers to them
  RefPtr<const RangeTombstones> kept;
  if (tombstones != nullptr) {
    std::string_view begin;
    std::string_view end;
    if (part.begin != nullptr) begin = *part.begin;
    if (part.end != nullptr) end = *part.end;
    within = tombstones->Clip(part.begin == nullptr ? nullptr : &begin,
                              part.end == nullptr ? nullptr : &end);
    // In the oldest stripe all that they hide of the input is dropped with it.
    const uint64_t oldest = snapshots.empty() ? kMaxSequence : snapshots.front();
    kept = within->Keep([&](const RangeTombstones::Fragment& fragment, uint64_t sequence) {
      return sequence > oldest || below.MayHoldIn(fragment.begin, fragment.end);
    });
  }
  CompactionIterator entries(
      context.order, input, std::move(snapshots),
      [&below](std::string_view user_key) { return below.MayHold(user_key); });
  entries.set_range(part.begin, part.end);
  entries.set_check([&] {
    if (plan != nullptr && context.pool != nullptr) context.pool->RunHigh();
    return CheckCancel(context);
  });
  entries.set_range_tombstones(tombstones);
  return Job(context, plan, filters, kept.get()).Run(&entries, part);
}

void DropOutput(const JobContext& context, JobOutput* output) {
  std::vector<uint64_t> numbers;
  for (const auto& file : output->files) numbers.push_back(file->number);
  output->files.clear();  // closes them
  for (const uint64_t number : numbers) DeleteTable(context, number);
}

absl::StatusOr<RefPtr<const RangeTombstones>> PlanRangeTombstones(
    const JobContext& context, const CompactionPlan& plan, const std::vector<uint64_t>& snapshots) {
  RangeTombstoneMerger merger(context.order.user(), snapshots);
  for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
    for (const FileRef& file : *files) {
      if (file->range_tombstones == 0) continue;
      SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, context.opener->Get(*file));
      if (table->range_tombstones() != nullptr) merger.Add(*table->range_tombstones());
    }
  }
  return merger.Finish();
}

namespace {

// Whether tombstones hide all of file from all who see any of it.
bool IsCovered(const FileMeta& file, const RangeTombstones& tombstones,
               const std::vector<uint64_t>& snapshots) {
  const auto oldest_that_sees =
      std::lower_bound(snapshots.begin(), snapshots.end(), file.smallest_sequence);
  const auto hides = [&](uint64_t sequence) {
    return sequence > file.largest_sequence &&
           (oldest_that_sees == snapshots.end() || sequence <= *oldest_that_sees);
  };
  return tombstones.CoversAll(UserKey(file.smallest), UserKey(file.largest),
                              !file.largest_is_outside(), hides);
}

}  // namespace

absl::StatusOr<std::unique_ptr<InternalIterator>> NewPlanInput(
    const JobContext& context, const CompactionPlan& plan, const RangeTombstones* tombstones,
    const std::vector<uint64_t>& snapshots) {
  const ReadOptions options;
  std::vector<std::unique_ptr<InternalIterator>> children;
  const auto append = [&](absl::Span<const FileRef> run) -> absl::Status {
    if (run.size() == 1) {
      SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, context.opener->Get(*run.front()));
      children.push_back(table->NewIterator(options, /*for_compaction=*/true));
    } else if (!run.empty()) {
      children.push_back(NewRunIterator(context.order, {run, nullptr, {}}, context.opener, options,
                                        /*for_compaction=*/true));
    }
    return absl::OkStatus();
  };
  for (const auto* files : {&plan.inputs, &plan.output_inputs}) {
    for (const absl::Span<const FileRef> run : SplitRuns(context.order.user(), *files)) {
      size_t begin = 0;
      for (size_t i = 0; i < run.size(); ++i) {
        if (tombstones == nullptr || !IsCovered(*run[i], *tombstones, snapshots)) continue;
        SIEVEDB_RETURN_IF_ERROR(append(run.subspan(begin, i - begin)));
        begin = i + 1;
      }
      SIEVEDB_RETURN_IF_ERROR(append(run.subspan(begin)));
    }
  }
  if (children.size() == 1) return std::move(children.front());
  return NewMergingIterator(context.order, std::move(children));
}

}  // namespace sievedb
