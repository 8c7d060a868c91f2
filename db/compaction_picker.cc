#include "db/compaction_picker.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

// In tables of target_file_bytes: what a moved table may overlap of the level
// below, and what one compaction may take in.
constexpr uint64_t kMaxGrandparentFiles = 10;
constexpr uint64_t kMaxInputFiles = 25;

std::string_view SmallestUserKey(const FileRef& file) { return UserKey(file->smallest); }
std::string_view LargestUserKey(const FileRef& file) { return UserKey(file->largest); }

uint64_t TotalBytes(absl::Span<const FileRef> files) {
  uint64_t total = 0;
  for (const FileRef& file : files) total += file->file_bytes;
  return total;
}

// User keys, both ends included. The files that they belong to outlive it.
struct Range {
  std::string_view smallest, largest;
};

class Picker {
 public:
  Picker(const Options& options, const Version& version, const CompactionsInProgress& running)
      : options_(options), version_(version), running_(running), order_(version.order().user()) {}

  std::optional<CompactionPlan> PickLevel0(int base_level) const;
  std::optional<CompactionPlan> PickWithinLevel0() const;
  std::optional<CompactionPlan> PickSorted(int level) const;

  // The plan that compacts inputs, or nullopt where something that it needs is
  // busy.
  std::optional<CompactionPlan> Complete(int input_level, int output_level,
                                         std::vector<FileRef> inputs, bool manual) const;

  bool AnyBusy(absl::Span<const FileRef> files) const {
    if (running_.busy_files.empty()) return false;
    return std::any_of(files.begin(), files.end(), [this](const FileRef& file) {
      return running_.busy_files.contains(file->number);
    });
  }
  // Whether a compaction that runs writes into [smallest, largest] of level.
  bool IsOutputOfOther(int level, const std::string_view* smallest,
                       const std::string_view* largest) const;
  uint64_t OverlapBytes(int level, const Range& range) const;
  // Whether level has no table that overlaps range, and is not about to get one.
  bool IsFree(int level, const Range& range) const;

 private:
  Range RangeOf(absl::Span<const FileRef> files) const;
  void Extend(Range* range, absl::Span<const FileRef> files) const;
  bool Overlap(int level, const Range& range) const {
    return version_.Overlaps(level, range.smallest, range.largest);
  }
  void Grow(CompactionPlan* plan) const;
  bool IsBottommost(int output_level, const Range& range) const;
  bool AreDisjoint(std::vector<FileRef> files) const;
  bool CanMove(const CompactionPlan& plan, bool manual) const;

  const Options& options_;
  const Version& version_;
  const CompactionsInProgress& running_;
  const KeyOrder order_;
};

void Picker::Extend(Range* range, absl::Span<const FileRef> files) const {
  for (const FileRef& file : files) {
    if (order_.Compare(SmallestUserKey(file), range->smallest) < 0) {
      range->smallest = SmallestUserKey(file);
    }
    if (order_.Compare(LargestUserKey(file), range->largest) > 0) {
      range->largest = LargestUserKey(file);
    }
  }
}

Range Picker::RangeOf(absl::Span<const FileRef> files) const {
  assert(!files.empty());
  Range range{SmallestUserKey(files.front()), LargestUserKey(files.front())};
  Extend(&range, files);
  return range;
}

uint64_t Picker::OverlapBytes(int level, const Range& range) const {
  if (level >= kNumLevels) return 0;
  return version_.OverlapBytes(level, range.smallest, range.largest);
}

bool Picker::IsOutputOfOther(int level, const std::string_view* smallest,
                             const std::string_view* largest) const {
  return std::any_of(running_.ranges.begin(), running_.ranges.end(), [&](const auto& other) {
    return other.output_level == level &&
           (largest == nullptr || order_.Compare(other.smallest, *largest) <= 0) &&
           (smallest == nullptr || order_.Compare(other.largest, *smallest) >= 0);
  });
}

bool Picker::IsFree(int level, const Range& range) const {
  if (IsOutputOfOther(level, &range.smallest, &range.largest)) return false;
  if (level > 0) return !Overlap(level, range);
  const absl::Span<const FileRef> files = version_.files(0);
  return std::none_of(files.begin(), files.end(), [&](const FileRef& file) {
    return order_.Compare(SmallestUserKey(file), range.largest) <= 0 &&
           order_.Compare(LargestUserKey(file), range.smallest) >= 0;
  });
}

bool Picker::IsBottommost(int output_level, const Range& range) const {
  // Within level 0 older tables of the level may be left out.
  if (output_level == 0) return false;
  for (int level = output_level + 1; level < kNumLevels; ++level) {
    if (Overlap(level, range)) return false;
  }
  return true;
}

// Takes in more tables of the input level where that brings no more of the output
// level with it: the more inputs share what must be rewritten anyhow, the better.
void Picker::Grow(CompactionPlan* plan) const {
  if (plan->input_level == 0 || plan->output_inputs.empty()) return;
  Range range = RangeOf(plan->inputs);
  Extend(&range, plan->output_inputs);
  std::vector<FileRef> more =
      version_.Overlapping(plan->input_level, &range.smallest, &range.largest);
  if (more.size() <= plan->inputs.size() || AnyBusy(more)) return;
  const Range more_range = RangeOf(more);
  if (version_.Overlapping(plan->output_level, &more_range.smallest, &more_range.largest).size() !=
      plan->output_inputs.size()) {
    return;
  }
  if (TotalBytes(more) + TotalBytes(plan->output_inputs) >
      kMaxInputFiles * options_.target_file_bytes) {
    return;
  }
  plan->inputs = std::move(more);
}

bool Picker::AreDisjoint(std::vector<FileRef> files) const {
  std::sort(files.begin(), files.end(), [this](const FileRef& a, const FileRef& b) {
    return order_.Compare(SmallestUserKey(a), SmallestUserKey(b)) < 0;
  });
  for (size_t i = 1; i < files.size(); ++i) {
    if (order_.Compare(LargestUserKey(files[i - 1]), SmallestUserKey(files[i])) >= 0) return false;
  }
  return true;
}

bool Picker::CanMove(const CompactionPlan& plan, bool manual) const {
  if (plan.input_level == plan.output_level || !plan.output_inputs.empty()) return false;
  for (const FileRef& file : plan.inputs) {
    // At the bottom a rewrite drops tombstones. It is worth its cost where they are
    // many, or where somebody asked for it. Range tombstones are, as every read of the
    // database pays for them.
    if (plan.bottommost && file->range_tombstones > 0) return false;
    if (plan.bottommost && file->tombstones > 0 &&
        (manual || file->tombstones >= file->entries / 4)) {
      return false;
    }
    const uint64_t overlap =
        OverlapBytes(plan.output_level + 1, {SmallestUserKey(file), LargestUserKey(file)});
    if (overlap > kMaxGrandparentFiles * options_.target_file_bytes) return false;
  }
  return plan.input_level > 0 || AreDisjoint(plan.inputs);
}

std::optional<CompactionPlan> Picker::Complete(int input_level, int output_level,
                                               std::vector<FileRef> inputs, bool manual) const {
  if (AnyBusy(inputs)) return std::nullopt;
  CompactionPlan plan;
  plan.input_level = input_level;
  plan.output_level = output_level;
  plan.inputs = std::move(inputs);
  Range range = RangeOf(plan.inputs);
  if (output_level != input_level) {
    plan.output_inputs = version_.Overlapping(output_level, &range.smallest, &range.largest);
    if (AnyBusy(plan.output_inputs)) return std::nullopt;
    if (!manual) Grow(&plan);
    Extend(&range, plan.inputs);
    Extend(&range, plan.output_inputs);
  }
  // Level 0 is the one level whose tables may overlap.
  if (output_level > 0 && IsOutputOfOther(output_level, &range.smallest, &range.largest)) {
    return std::nullopt;
  }
  if (output_level > 0 && output_level + 1 < kNumLevels) {
    plan.grandparents = version_.Overlapping(output_level + 1, &range.smallest, &range.largest);
  }
  plan.output_run = version_.OldestRun(output_level);
  plan.bottommost = IsBottommost(output_level, range);
  plan.trivial_move = CanMove(plan, manual);
  plan.smallest = std::string(range.smallest);
  plan.largest = std::string(range.largest);
  return plan;
}

std::optional<CompactionPlan> Picker::PickLevel0(int base_level) const {
  const absl::Span<const FileRef> files = version_.files(0);
  // A newer table must not pass an older one on its way down, so level 0 is
  // compacted as a whole, and by one compaction at a time.
  if (files.empty() || AnyBusy(files)) return std::nullopt;
  std::optional<CompactionPlan> plan =
      Complete(0, base_level, {files.begin(), files.end()}, /*manual=*/false);
  if (plan.has_value()) plan->reason = absl::StrFormat("level 0 has %d files", files.size());
  return plan;
}

// Level 0 can't be compacted into the base level now, and reads pay for each of its
// tables: the newest are merged into one.
std::optional<CompactionPlan> Picker::PickWithinLevel0() const {
  const absl::Span<const FileRef> files = version_.files(0);
  const auto large = static_cast<size_t>(
      std::max(2 * options_.level0_file_trigger, options_.level0_slowdown_trigger / 2));
  if (files.size() < large) return std::nullopt;
  // Without a gap, so that the merged table has its place in the order of age. What
  // was merged before is left alone, or it would be rewritten again and again.
  size_t n = 0;
  while (n < files.size() && !AnyBusy(files.subspan(n, 1)) &&
         files[n]->file_bytes <= 2 * options_.write_buffer_bytes) {
    ++n;
  }
  if (n < static_cast<size_t>(std::max(2, options_.level0_file_trigger))) return std::nullopt;
  std::vector<FileRef> newest(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(n));
  // A key is in one of them at most: merged, they would not be read faster.
  if (AreDisjoint(newest)) return std::nullopt;
  std::optional<CompactionPlan> plan = Complete(0, 0, std::move(newest), /*manual=*/false);
  if (plan.has_value()) {
    plan->reason = absl::StrFormat("level 0 has %d files and can't go down", files.size());
  }
  return plan;
}

std::optional<CompactionPlan> Picker::PickSorted(int level) const {
  const absl::Span<const FileRef> files = version_.files(level);
  // The less a table overlaps below for its size, the cheaper it goes down.
  std::vector<double> ratios(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const uint64_t overlap =
        OverlapBytes(level + 1, {SmallestUserKey(files[i]), LargestUserKey(files[i])});
    ratios[i] = static_cast<double>(overlap) /
                static_cast<double>(std::max<uint64_t>(1, files[i]->file_bytes));
  }
  std::vector<size_t> candidates(files.size());
  std::iota(candidates.begin(), candidates.end(), size_t{0});
  std::sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
    return std::pair(ratios[a], files[a]->number) < std::pair(ratios[b], files[b]->number);
  });
  for (const size_t i : candidates) {
    std::optional<CompactionPlan> plan = Complete(level, level + 1, {files[i]}, /*manual=*/false);
    if (plan.has_value()) {
      plan->reason = absl::StrFormat("level %d has %d bytes", level, version_.LevelBytes(level));
      return plan;
    }
  }
  return std::nullopt;
}

}  // namespace

uint64_t CompactionPlan::InputBytes() const {
  return TotalBytes(inputs) + TotalBytes(output_inputs);
}

std::vector<absl::Span<const FileRef>> SplitRuns(const KeyOrder& order,
                                                 absl::Span<const FileRef> files) {
  std::vector<absl::Span<const FileRef>> runs;
  for (size_t begin = 0; begin < files.size();) {
    size_t end = begin + 1;
    for (; end < files.size(); ++end) {
      const FileMeta& before = *files[end - 1];
      const int r = order.Compare(UserKey(before.largest), SmallestUserKey(files[end]));
      if (r > 0 || (r == 0 && !before.largest_is_outside())) break;
    }
    runs.push_back(files.subspan(begin, end - begin));
    begin = end;
  }
  return runs;
}

LevelTargets ComputeLevelTargets(const Options& options, const Version& version) {
  LevelTargets targets;
  double share = 0;  // of the largest, which is the last but for rare moments
  int first_level = kNumLevels - 1;
  for (int level = kNumLevels - 1; level >= 1; --level) {
    share = std::max(share, static_cast<double>(version.LevelBytes(level)));
    if (!version.files(level).empty()) first_level = level;
  }
  const auto base_bytes = static_cast<double>(options.level_base_bytes);
  int level = kNumLevels - 1;
  for (; level > 1 && share >= base_bytes; --level) {
    targets.bytes[level] = static_cast<uint64_t>(share);
    share /= options.level_size_multiplier;
  }
  targets.base_level = std::min(level, first_level);
  // Levels above it are left over from a time when there was more data: their
  // targets let them run empty.
  for (share = base_bytes; level >= 1; --level) {
    targets.bytes[level] = std::max<uint64_t>(1, static_cast<uint64_t>(share));
    share /= options.level_size_multiplier;
  }
  return targets;
}

std::array<double, kNumLevels> ComputeScores(const Options& options, const Version& version,
                                             const CompactionsInProgress& running) {
  const LevelTargets targets = ComputeLevelTargets(options, version);
  std::array<double, kNumLevels> scores{};
  // The last level has nowhere to go.
  for (int level = 0; level < kNumLevels - 1; ++level) {
    uint64_t bytes = version.LevelBytes(level);
    size_t files = version.files(level).size();
    if (!running.busy_files.empty()) {
      for (const FileRef& file : version.files(level)) {
        if (!running.busy_files.contains(file->number)) continue;
        bytes -= file->file_bytes;
        --files;
      }
    }
    if (level > 0) {
      scores[level] = static_cast<double>(bytes) /
                      static_cast<double>(std::max<uint64_t>(1, targets.bytes[level]));
      continue;
    }
    scores[0] = static_cast<double>(files) / std::max(1, options.level0_file_trigger);
    // One large table is a run like any other; several could be fewer.
    if (files > 1) {
      scores[0] = std::max(
          scores[0], static_cast<double>(bytes) /
                         static_cast<double>(std::max<uint64_t>(1, options.level_base_bytes)));
    }
  }
  return scores;
}

std::optional<CompactionPlan> PickCompaction(const Options& options, const Version& version,
                                             const CompactionsInProgress& running) {
  const std::array<double, kNumLevels> scores = ComputeScores(options, version, running);
  std::array<int, kNumLevels> levels;
  std::iota(levels.begin(), levels.end(), 0);
  std::stable_sort(levels.begin(), levels.end(),
                   [&](int a, int b) { return scores[a] > scores[b]; });
  const Picker picker(options, version, running);
  for (const int level : levels) {
    if (scores[level] < 1) break;
    std::optional<CompactionPlan> plan;
    if (level > 0) {
      plan = picker.PickSorted(level);
    } else {
      plan = picker.PickLevel0(ComputeLevelTargets(options, version).base_level);
      if (!plan.has_value()) plan = picker.PickWithinLevel0();
    }
    if (plan.has_value()) {
      plan->score = scores[level];
      return plan;
    }
  }
  return std::nullopt;
}

std::optional<CompactionPlan> PickManual(const Options& options, const Version& version,
                                         const CompactionsInProgress& running, int input_level,
                                         int output_level, const std::string_view* begin,
                                         const std::string_view* end, bool* busy,
                                         std::optional<std::string>* next_begin) {
  assert(input_level <= output_level && output_level < kNumLevels && output_level > 0);
  *busy = false;
  next_begin->reset();
  const Picker picker(options, version, running);
  std::vector<FileRef> files = version.Overlapping(input_level, begin, end);
  if (input_level > 0) {
    // What others are about to put there belongs to the range too.
    if (picker.IsOutputOfOther(input_level, begin, end)) {
      *busy = true;
      return std::nullopt;
    }
    // At least one table a step. Steps end between tables, which share no user key.
    uint64_t bytes = 0;
    for (size_t n = 0; n < files.size(); ++n) {
      bytes += files[n]->file_bytes;
      if (output_level > input_level) {
        bytes += picker.OverlapBytes(output_level,
                                     {SmallestUserKey(files[n]), LargestUserKey(files[n])});
      }
      if (n == 0 || bytes <= kMaxInputFiles * options.target_file_bytes) continue;
      *next_begin = std::string(SmallestUserKey(files[n]));
      files.resize(n);
      break;
    }
  }
  if (files.empty()) return std::nullopt;
  std::optional<CompactionPlan> plan =
      picker.Complete(input_level, output_level, std::move(files), /*manual=*/true);
  if (!plan.has_value()) {
    *busy = true;
    next_begin->reset();
    return std::nullopt;
  }
  plan->reason = "asked for";
  return plan;
}

int PickLevelForNewest(const Options& options, const Version& version,
                       const CompactionsInProgress& running, std::string_view smallest,
                       std::string_view largest) {
  const Picker picker(options, version, running);
  int level = 0;
  if (!picker.IsFree(level, {smallest, largest})) return level;
  while (level + 1 < kNumLevels && picker.IsFree(level + 1, {smallest, largest})) ++level;
  return level;
}

uint64_t PendingCompactionBytes(const Options& options, const Version& version) {
  const LevelTargets targets = ComputeLevelTargets(options, version);
  double total = 0;
  double arriving = 0;  // from the level above
  if (version.files(0).size() >= static_cast<size_t>(std::max(1, options.level0_file_trigger))) {
    arriving = static_cast<double>(version.LevelBytes(0));
    total = arriving + static_cast<double>(version.LevelBytes(targets.base_level));
  }
  for (int level = targets.base_level; level < kNumLevels - 1; ++level) {
    const double bytes = static_cast<double>(version.LevelBytes(level)) + arriving;
    const double excess = bytes - static_cast<double>(targets.bytes[level]);
    arriving = std::max(0.0, excess);
    // Each byte that goes down is written with its share of the level below.
    if (excess > 0) {
      total += excess * (1 + static_cast<double>(version.LevelBytes(level + 1)) / bytes);
    }
  }
  return static_cast<uint64_t>(total);
}

}  // namespace sievedb
