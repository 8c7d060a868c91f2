// What a database says about itself.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "db/db_impl.h"
#include "sievedb/version.h"
#include "util/clock.h"

namespace sievedb {
namespace {

constexpr std::string_view kPrefix = "sievedb.";
constexpr std::string_view kNumFilesPrefix = "num-files-at-level";

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::optional<std::string> DBImpl::GetProperty(std::string_view name) {
  if (!TakePrefix(&name, kPrefix)) return std::nullopt;
  const std::shared_ptr<const Version> version = versions_->current();
  if (name == "stats") return StatsProperty();
  if (name == "levels") return LevelsProperty();
  if (name == "filters") return FiltersProperty();
  if (name == "filter-tables") return FilterTablesProperty();
  if (name == "memory") return MemoryProperty();
  if (name == "sstables") return version->DebugString();
  if (name == "version") {
    return absl::StrFormat("%d.%d.%d", SIEVEDB_VERSION_MAJOR, SIEVEDB_VERSION_MINOR,
                           SIEVEDB_VERSION_PATCH);
  }
  if (TakePrefix(&name, kNumFilesPrefix)) {
    int level = 0;
    const bool valid = absl::SimpleAtoi(absl::string_view(name.data(), name.size()), &level);
    if (!valid || level < 0 || level >= kNumLevels) return std::nullopt;
    return absl::StrFormat("%d", version->files(level).size());
  }
  if (name == "total-sst-bytes") {
    uint64_t bytes = 0;
    for (int level = 0; level < kNumLevels; ++level) bytes += version->LevelBytes(level);
    return absl::StrFormat("%d", bytes);
  }
  if (name == "estimate-pending-compaction-bytes") {
    return absl::StrFormat("%d", PendingCompactionBytes(options_, *version));
  }
  if (name == "num-snapshots") return absl::StrFormat("%d", snapshots_->size());

  MutexLock lock(&mu_);
  if (name == "estimate-num-keys") {
    uint64_t entries = memtable_->entries();
    uint64_t tombstones = memtable_->tombstones();
    for (const Immutable& immutable : immutables_) {
      entries += immutable.memtable->entries();
      tombstones += immutable.memtable->tombstones();
    }
    entries += version->EntriesEstimate();
    return absl::StrFormat("%d", entries - std::min(entries, 2 * tombstones));
  }
  if (name == "background-error") return background_error_.ok() ? "" : background_error_.ToString();
  if (name == "num-immutable-memtables") return absl::StrFormat("%d", immutables_.size());
  if (name == "stall") return stall_.reason;
  return std::nullopt;
}

std::string DBImpl::LevelsProperty() {
  const std::shared_ptr<const Version> version = versions_->current();
  LevelTargets targets = ComputeLevelTargets(options_, *version);
  std::array<double, kNumLevels> scores{};
  {
    MutexLock lock(&mu_);
    scores = ComputeScores(options_, *version, running_);
  }
  std::string text = "level  runs  tables        MiB  target MiB  score      entries  tombstones\n";
  for (int level = 0; level < kNumLevels; ++level) {
    uint64_t entries = 0;
    uint64_t tombstones = 0;
    for (const FileRef& file : version->files(level)) {
      entries += file->entries;
      tombstones += file->tombstones;
    }
    absl::StrAppendFormat(&text, "%5d  %4d  %6d  %9.2f  %10.2f  %5.2f  %11d  %10d\n", level,
                          version->runs(level).size(), version->files(level).size(),
                          MiB(version->LevelBytes(level)),
                          MiB(targets.bytes[static_cast<size_t>(level)]),
                          scores[static_cast<size_t>(level)], entries, tombstones);
  }
  return text;
}

std::string DBImpl::MemoryProperty() {
  uint64_t memtables = 0;
  {
    MutexLock lock(&mu_);
    memtables = memtable_->MemoryBytes();
    for (const Immutable& immutable : immutables_) memtables += immutable.memtable->MemoryBytes();
  }
  uint64_t filters = 0;
  uint64_t indexes = 0;
  const std::shared_ptr<const Version> version = versions_->current();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version->files(level)) {
      const TableReader* table = file->table.load(std::memory_order_acquire);
      if (table == nullptr) continue;
      filters += table->FilterMemoryBytes();
      indexes += table->IndexMemoryBytes();
    }
  }
  const uint64_t cache = options_.block_cache->UsageBytes();
  return absl::StrFormat(
      "memtables bytes   %d\nblock cache bytes %d\nfilters bytes     %d\nindexes bytes     %d\n"
      "total bytes       %d\n",
      memtables, cache, filters, indexes, memtables + cache + filters + indexes);
}

std::string DBImpl::StatsProperty() {
  std::string text = absl::StrFormat("open for %.1f s, sequence %d, MANIFEST-%06d\n\n",
                                     static_cast<double>(NowMicros() - opened_micros_) / 1e6,
                                     LatestSequence(), versions_->manifest_file_number());
  text += LevelsProperty() + "\n" + FiltersProperty() + "\n" + MemoryProperty();
  {
    MutexLock lock(&mu_);
    if (!stall_.reason.empty()) text += "\nwrites are slowed down: " + stall_.reason + "\n";
    if (!background_error_.ok()) {
      text += "\nwrites are stopped: " + background_error_.ToString() + "\n";
    }
  }
  if (statistics_ != nullptr) text += "\n" + statistics_->ToString();
  return text;
}

std::vector<uint64_t> DBImpl::GetApproximateSizes(absl::Span<const KeyRange> ranges) {
  const std::shared_ptr<const Version> version = versions_->current();
  std::vector<uint64_t> sizes;
  sizes.reserve(ranges.size());
  for (const KeyRange& range : ranges) {
    sizes.push_back(version->ApproximateBytes(range.begin, range.end));
  }
  return sizes;
}

}  // namespace sievedb
