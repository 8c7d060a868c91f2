#include "db/compaction_picker.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <set>
#include <tuple>
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
  std::optional<CompactionPlan> PickWhole(int level) const;
  std::optional<CompactionPlan> PickWithin(int level) const;

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
  // A table of a level and what it overlaps of the level's older runs, and what that does:
  // what may go down together.
  struct Seed {
    std::vector<FileRef> files;  // run by run, newest first
    size_t oldest = 0;           // how many of them, the last ones, are of the oldest run
    double ratio = 0;            // bytes that they are merged with, for each of their own
  };
  std::vector<Seed> SeedsOf(int level) const;
  Seed WithOlder(int level, size_t run, const FileRef& file) const;
  std::string ReasonOf(int level) const;
  // The run that takes what is newer than all of level in range: the oldest that is newer
  // than those which overlap it, so that what is written in order makes one run. nullopt:
  // that would be one more than the level may have.
  std::optional<uint64_t> RunForNewer(int level, const Range& range) const;
  bool MergesInto(int level) const { return MaxRuns(options_, level) == 1; }
  bool FillIn(CompactionPlan* plan, bool manual) const;
  void Grow(CompactionPlan* plan) const;
  bool IsBottommost(int output_level, uint64_t output_run, const Range& range) const;
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

bool Picker::IsBottommost(int output_level, uint64_t output_run, const Range& range) const {
  // Within level 0 older tables of the level may be left out.
  if (output_level == 0) return false;
  for (const Version::Run& run : version_.runs(output_level)) {
    if (run.number >= output_run) continue;
    const auto [first, last] =
        version_.OverlappingRange(output_level, run, &range.smallest, &range.largest);
    if (first < last) return false;
  }
  for (int level = output_level + 1; level < kNumLevels; ++level) {
    if (Overlap(level, range)) return false;
  }
  return true;
}

std::optional<uint64_t> Picker::RunForNewer(int level, const Range& range) const {
  std::set<uint64_t> numbers;
  std::optional<uint64_t> below;  // the newest that overlaps
  const auto count = [&](uint64_t number, bool overlaps) {
    numbers.insert(number);
    if (overlaps) below = std::max(below.value_or(0), number);
  };
  for (const Version::Run& run : version_.runs(level)) {
    const auto [first, last] =
        version_.OverlappingRange(level, run, &range.smallest, &range.largest);
    count(run.number, first < last);
  }
  for (const CompactionsInProgress::Range& other : running_.ranges) {
    if (other.output_level != level) continue;
    count(other.output_run, order_.Compare(other.smallest, range.largest) <= 0 &&
                                order_.Compare(other.largest, range.smallest) >= 0);
  }
  const auto fits = below.has_value() ? numbers.upper_bound(*below) : numbers.begin();
  if (fits != numbers.end()) return *fits;
  if (numbers.size() >= RunBound(options_, level)) return std::nullopt;
  return below.has_value() ? *below + 1 : 0;
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
  if (!plan.output_inputs.empty()) return false;
  // To another run at most.
  if (plan.input_level == plan.output_level && (manual || plan.input_level == 0)) return false;
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
  // They come into one run.
  return (plan.input_level > 0 && SplitRuns(order_, plan.inputs).size() == 1) ||
         AreDisjoint(plan.inputs);
}

std::optional<CompactionPlan> Picker::Complete(int input_level, int output_level,
                                               std::vector<FileRef> inputs, bool manual) const {
  CompactionPlan plan;
  plan.input_level = input_level;
  plan.output_level = output_level;
  plan.inputs = std::move(inputs);
  if (output_level != input_level && (manual || output_level == 0 || MergesInto(output_level))) {
    const Range range = RangeOf(plan.inputs);
    plan.output_inputs = version_.Overlapping(output_level, &range.smallest, &range.largest);
    if (!manual && !AnyBusy(plan.output_inputs)) Grow(&plan);
  }
  if (!FillIn(&plan, manual)) return std::nullopt;
  return plan;
}

// What follows from a plan's inputs. False where something that it needs is busy.
bool Picker::FillIn(CompactionPlan* plan, bool manual) const {
  if (AnyBusy(plan->inputs) || AnyBusy(plan->output_inputs)) return false;
  const int level = plan->output_level;
  Range range = RangeOf(plan->inputs);
  Extend(&range, plan->output_inputs);
  if (level == 0 || manual || plan->input_level == level || MergesInto(level)) {
    // The oldest run: what overlaps of it is among the inputs, and of newer runs what
    // overlaps that is newer. Level 0 is the one level where others may write beside.
    if (level > 0 && IsOutputOfOther(level, &range.smallest, &range.largest)) return false;
    plan->output_run = version_.OldestRun(level);
  } else {
    const std::optional<uint64_t> run = RunForNewer(level, range);
    if (!run.has_value()) return false;
    plan->output_run = *run;
  }
  if (level > 0 && level + 1 < kNumLevels && !version_.runs(level + 1).empty()) {
    const auto [first, last] = version_.OverlappingRange(level + 1, version_.runs(level + 1).back(),
                                                         &range.smallest, &range.largest);
    const absl::Span<const FileRef> below = version_.files(level + 1).subspan(first, last - first);
    plan->grandparents.assign(below.begin(), below.end());
  }
  plan->bottommost = IsBottommost(level, plan->output_run, range);
  plan->trivial_move = CanMove(*plan, manual);
  plan->smallest = std::string(range.smallest);
  plan->largest = std::string(range.largest);
  return true;
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

Picker::Seed Picker::WithOlder(int level, size_t run, const FileRef& file) const {
  const absl::Span<const Version::Run> runs = version_.runs(level);
  Seed seed;
  seed.files.push_back(file);
  if (run + 1 == runs.size()) seed.oldest = 1;
  Range range = RangeOf(seed.files);
  while (++run < runs.size()) {
    const auto [first, last] =
        version_.OverlappingRange(level, runs[run], &range.smallest, &range.largest);
    const absl::Span<const FileRef> found = version_.files(level).subspan(first, last - first);
    seed.files.insert(seed.files.end(), found.begin(), found.end());
    Extend(&range, found);
    if (run + 1 == runs.size()) seed.oldest = found.size();
  }
  return seed;
}

std::vector<Picker::Seed> Picker::SeedsOf(int level) const {
  std::vector<Seed> seeds;
  const absl::Span<const Version::Run> runs = version_.runs(level);
  for (size_t run = 0; run < runs.size(); ++run) {
    for (const FileRef& file : version_.files(level, runs[run])) {
      seeds.push_back(WithOlder(level, run, file));
    }
  }
  return seeds;
}

std::string Picker::ReasonOf(int level) const {
  const size_t runs = version_.runs(level).size();
  if (runs > MaxRuns(options_, level)) return absl::StrFormat("level %d has %d runs", level, runs);
  if (level + 1 == kNumLevels) {
    return absl::StrFormat("level %d has %d bytes beside its oldest run, of %d", level,
                           version_.LevelBytes(level) - version_.runs(level).back().bytes,
                           version_.runs(level).back().bytes);
  }
  return absl::StrFormat("level %d has %d bytes", level, version_.LevelBytes(level));
}

std::optional<CompactionPlan> Picker::PickSorted(int level) const {
  std::vector<Seed> seeds = SeedsOf(level);
  // The less they overlap below for their size, the cheaper they go down.
  for (Seed& seed : seeds) {
    seed.ratio = static_cast<double>(OverlapBytes(level + 1, RangeOf(seed.files))) /
                 static_cast<double>(std::max<uint64_t>(1, TotalBytes(seed.files)));
  }
  // Where runs are too many, those come first that make the oldest smaller.
  const bool by_age = version_.runs(level).size() > MaxRuns(options_, level);
  std::sort(seeds.begin(), seeds.end(), [by_age](const Seed& a, const Seed& b) {
    return std::tuple(by_age && a.oldest == 0, a.ratio, a.files.front()->number) <
           std::tuple(by_age && b.oldest == 0, b.ratio, b.files.front()->number);
  });
  for (Seed& seed : seeds) {
    std::optional<CompactionPlan> plan =
        Complete(level, level + 1, std::move(seed.files), /*manual=*/false);
    if (!plan.has_value()) continue;
    plan->reason = ReasonOf(level);
    return plan;
  }
  return std::nullopt;
}

// All of a level, into a run of the next: whose runs would grow in number with each part
// that overlaps another one.
std::optional<CompactionPlan> Picker::PickWhole(int level) const {
  const absl::Span<const FileRef> files = version_.files(level);
  std::optional<CompactionPlan> plan =
      Complete(level, level + 1, {files.begin(), files.end()}, /*manual=*/false);
  if (plan.has_value()) plan->reason = ReasonOf(level);
  return plan;
}

// A part of a level's newer runs, into its oldest.
std::optional<CompactionPlan> Picker::PickWithin(int level) const {
  std::vector<Seed> seeds = SeedsOf(level);
  const auto newer_bytes = [](const Seed& seed) {
    return TotalBytes(absl::MakeConstSpan(seed.files).first(seed.files.size() - seed.oldest));
  };
  for (Seed& seed : seeds) {
    const auto newer = static_cast<double>(newer_bytes(seed));
    seed.ratio = static_cast<double>(TotalBytes(seed.files)) / std::max(1.0, newer);
  }
  std::sort(seeds.begin(), seeds.end(), [](const Seed& a, const Seed& b) {
    return std::pair(a.ratio, a.files.front()->number) <
           std::pair(b.ratio, b.files.front()->number);
  });
  for (const Seed& seed : seeds) {
    if (seed.oldest == seed.files.size()) continue;  // a table of the oldest run
    CompactionPlan plan;
    plan.input_level = plan.output_level = level;
    const auto oldest = seed.files.end() - static_cast<std::ptrdiff_t>(seed.oldest);
    plan.inputs.assign(seed.files.begin(), oldest);
    plan.output_inputs.assign(oldest, seed.files.end());
    if (!FillIn(&plan, /*manual=*/false)) continue;
    plan.reason = ReasonOf(level);
    return plan;
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
    if (level == 0) {
      plan = picker.PickLevel0(ComputeLevelTargets(options, version).base_level);
      if (!plan.has_value()) plan = picker.PickWithinLevel0();
    } else if (level + 1 == kNumLevels) {
      plan = picker.PickWithin(level);
    } else {
      plan = MaxRuns(options, level + 1) > 1 ? picker.PickWhole(level) : picker.PickSorted(level);
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
    // At least one table a step. Steps end between tables, which share no user key; those
    // of several runs are taken at once.
    uint64_t bytes = 0;
    const bool in_steps = SplitRuns(version.order().user(), files).size() <= 1;
    for (size_t n = 0; in_steps && n < files.size(); ++n) {
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

}  // namespace sievedb
