#include "db/level_targets.h"

#include <algorithm>
#include <cmath>

namespace sievedb {
namespace {

double AtLeastOne(uint64_t n) { return static_cast<double>(std::max<uint64_t>(1, n)); }

struct Load {
  uint64_t bytes = 0;
  size_t files = 0;
  size_t runs = 0;
};

// What a level has but for tables that are being compacted.
Load IdleLoad(const Version& version, int level, const CompactionsInProgress& running) {
  Load load;
  for (const Version::Run& run : version.runs(level)) {
    size_t files = 0;
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
  const bool several =
      options.compaction_style == CompactionStyle::kLazyLeveling && level < kNumLevels - 1;
  if (!several) return 1;
  return static_cast<size_t>(std::clamp(std::ceil(options.level_size_multiplier) - 1, 1.0,
                                        static_cast<double>(kMaxRunsAtRest)));
}

size_t RunBound(const Options& options, int level) { return 2 * MaxRuns(options, level); }

LevelTargets ComputeLevelTargets(const Options& options, const Version& version) {
  LevelTargets targets;
  double share = 0;  // of the largest, which is the last but for rare moments
  int first_level = kNumLevels - 1;
  for (int level = kNumLevels - 1; level >= 1; --level) {
    share = std::max(share, static_cast<double>(version.LevelBytes(level)));
    if (!version.files(level).empty()) first_level = level;
  }
  const double multiplier = options.level_size_multiplier;
  const auto base_bytes = static_cast<double>(options.level_base_bytes);
  int level = kNumLevels - 1;
  double least = base_bytes;  // of a level below base_level
  if (options.compaction_style == CompactionStyle::kLazyLeveling) {
    targets.bytes[level] = static_cast<uint64_t>(std::max(1.0, share));
    // All above together: this much, and a multiplier-th less each, sum up to it.
    share *= (options.max_space_amplification - 1) * (1 - 1 / multiplier);
    least *= multiplier;
    --level;
  }
  for (; level > 1 && share >= least; --level) {
    targets.bytes[level] = static_cast<uint64_t>(share);
    share /= multiplier;
  }
  targets.base_level = std::min(level, first_level);
  // Levels above it are left over from a time when there was more data: their
  // targets let them run empty.
  const bool several_runs = MaxRuns(options, level) > 1;
  for (share = several_runs ? std::max(share, base_bytes) : base_bytes; level >= 1; --level) {
    targets.bytes[level] = std::max<uint64_t>(1, static_cast<uint64_t>(share));
    share /= multiplier;
  }
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
    // The last level has nowhere to go, whatever its size.
    if (level < kNumLevels - 1) {
      score = static_cast<double>(load.bytes) / AtLeastOne(targets.bytes[level]);
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
  for (int level = targets.base_level; level < kNumLevels - 1; ++level) {
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
  return static_cast<uint64_t>(total);
}

}  // namespace sievedb
