#include "db/level_targets.h"

#include <algorithm>
#include <cmath>

namespace sievedb {
namespace {

constexpr int kLastLevel = kNumLevels - 1;

uint64_t OldestRunBytes(const Version& version, int level) {
  return version.runs(level).empty() ? 0 : version.runs(level).back().bytes;
}

double AtLeastOne(uint64_t n) { return static_cast<double>(std::max<uint64_t>(1, n)); }

struct Load {
  uint64_t bytes = 0;
  uint64_t newer_bytes = 0;  // of all runs but the oldest
  size_t files = 0;
  size_t runs = 0;
};

// What a level has but for tables that are being compacted.
Load IdleLoad(const Version& version, int level, const CompactionsInProgress& running) {
  Load load;
  for (const Version::Run& run : version.runs(level)) {
    size_t files = 0;
    load.newer_bytes = load.bytes;
    for (const FileRef& file : version.files(level, run)) {
      if (running.busy_files.contains(file->number)) continue;
      load.bytes += file->file_bytes;
      ++files;
    }
    load.files += files;
    if (files > 0) ++load.runs;
  }
  return load;
}

}  // namespace

size_t MaxRuns(const Options& options, int level) {
  switch (options.compaction_style) {
    case CompactionStyle::kLeveled:
      return 1;
    case CompactionStyle::kLazyLeveling:
      if (level == kLastLevel) return 1;
      break;
    case CompactionStyle::kTiered:
      break;
  }
  return static_cast<size_t>(std::clamp(std::ceil(options.level_size_multiplier) - 1, 1.0,
                                        static_cast<double>(kMaxRunsAtRest)));
}

size_t RunBound(const Options& options, int level) { return 2 * MaxRuns(options, level); }

LevelTargets ComputeLevelTargets(const Options& options, const Version& version) {
  const bool leveled = options.compaction_style == CompactionStyle::kLeveled;
  const bool tiered = options.compaction_style == CompactionStyle::kTiered;
  LevelTargets targets;
  double largest = 0;  // which is the last but for rare moments
  int first_level = kLastLevel;
  for (int level = kLastLevel; level >= 1; --level) {
    const uint64_t bytes =
        tiered && level == kLastLevel ? OldestRunBytes(version, level) : version.LevelBytes(level);
    largest = std::max(largest, static_cast<double>(bytes));
    if (!version.files(level).empty()) first_level = level;
  }
  const double multiplier = options.level_size_multiplier;
  const auto base_bytes = static_cast<double>(options.level_base_bytes);
  int level = kLastLevel;
  double share = largest;
  double least = base_bytes;  // of a level below base_level
  if (!leveled) {
    // All above together: this much, and a multiplier-th less each, sum up to it.
    share *= (options.max_space_amplification - 1) * (1 - 1 / multiplier);
    least *= multiplier;
    if (!tiered) targets.bytes[level--] = static_cast<uint64_t>(std::max(1.0, largest));
  }
  for (; level > 1 && share >= least; --level) {
    targets.bytes[level] = static_cast<uint64_t>(share);
    share /= multiplier;
  }
  targets.base_level = std::min(level, first_level);
  // Levels above it are left over from a time when there was more data: their
  // targets let them run empty.
  for (share = leveled ? base_bytes : std::max(share, base_bytes); level >= 1; --level) {
    targets.bytes[level] = std::max<uint64_t>(1, static_cast<uint64_t>(share));
    share /= multiplier;
  }
  if (tiered) targets.bytes[kLastLevel] += OldestRunBytes(version, kLastLevel);
  return targets;
}

std::array<double, kNumLevels> ComputeScores(const Options& options, const Version& version,
                                             const CompactionsInProgress& running) {
  const LevelTargets targets = ComputeLevelTargets(options, version);
  std::array<double, kNumLevels> scores{};
  const Load level0 = IdleLoad(version, 0, running);
  scores[0] = static_cast<double>(level0.files) / std::max(1, options.level0_file_trigger);
  // One large table is a run like any other; several could be fewer.
  if (level0.files > 1) {
    scores[0] = std::max(scores[0],
                         static_cast<double>(level0.bytes) / AtLeastOne(options.level_base_bytes));
  }
  for (int level = 1; level < kNumLevels; ++level) {
    const Load load = IdleLoad(version, level, running);
    const size_t max_runs = MaxRuns(options, level);
    double& score = scores[static_cast<size_t>(level)];
    if (level < kLastLevel) {
      score = static_cast<double>(load.bytes) / AtLeastOne(targets.bytes[level]);
    } else if (max_runs > 1) {
      // The oldest run has nowhere to go, whatever its size.
      score = static_cast<double>(load.newer_bytes) /
              AtLeastOne(targets.bytes[level] - OldestRunBytes(version, level));
    }
    if (load.runs > max_runs) {
      score = std::max(score, static_cast<double>(load.runs) / static_cast<double>(max_runs));
    }
  }
  return scores;
}

uint64_t PendingCompactionBytes(const Options& options, const Version& version) {
  const LevelTargets targets = ComputeLevelTargets(options, version);
  double total = 0;
  double arriving = 0;  // from the level above
  if (version.files(0).size() >= static_cast<size_t>(std::max(1, options.level0_file_trigger))) {
    arriving = static_cast<double>(version.LevelBytes(0));
    total = arriving;
    if (MaxRuns(options, targets.base_level) == 1) {
      total += static_cast<double>(version.LevelBytes(targets.base_level));
    }
  }
  for (int level = targets.base_level; level < kLastLevel; ++level) {
    const double bytes = static_cast<double>(version.LevelBytes(level)) + arriving;
    const double excess = bytes - static_cast<double>(targets.bytes[level]);
    arriving = std::max(0.0, excess);
    if (excess <= 0) continue;
    if (MaxRuns(options, level + 1) > 1) {
      arriving = bytes;  // as a whole, and as a run of its own
      total += bytes;
    } else {
      // Each byte that goes down is written with its share of the level below.
      total += excess * (1 + static_cast<double>(version.LevelBytes(level + 1)) / bytes);
    }
  }
  if (MaxRuns(options, kLastLevel) > 1) {
    // The same between the newer runs and the oldest.
    const auto oldest = static_cast<double>(OldestRunBytes(version, kLastLevel));
    const double newer = static_cast<double>(version.LevelBytes(kLastLevel)) + arriving - oldest;
    const double excess = newer - (static_cast<double>(targets.bytes[kLastLevel]) - oldest);
    if (excess > 0) total += excess * (1 + oldest / newer);
  }
  return static_cast<uint64_t>(total);
}

}  // namespace sievedb
