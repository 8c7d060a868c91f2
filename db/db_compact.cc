// Maintenance that callers ask for: Flush, CompactRange, waiting, verifying.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/db_impl.h"
#include "db/file_names.h"
#include "util/epoch.h"
#include "util/status_macros.h"

namespace sievedb {

absl::Status DBImpl::Flush(const FlushOptions& options) {
  if (read_only_) return absl::FailedPreconditionError("the database is open read-only");
  PendingWrite write;
  SIEVEDB_RETURN_IF_ERROR(write_queue_.Write(
      &write, [this](absl::Span<PendingWrite* const> group) { return CommitGroup(group); }));
  if (!options.wait) return absl::OkStatus();
  MutexLock lock(&mu_);
  if (immutables_.empty()) return Refusal();
  const uint64_t last = immutables_.back().memtable->id();
  while (!immutables_.empty() && immutables_.front().memtable->id() <= last) {
    SIEVEDB_RETURN_IF_ERROR(Refusal());
    changed_.Wait(&mu_);
  }
  return absl::OkStatus();
}

absl::Status DBImpl::CompactRange(const CompactRangeOptions& options, const std::string_view* begin,
                                  const std::string_view* end) {
  if (begin != nullptr && end != nullptr && order_.user().Compare(*begin, *end) > 0) {
    return absl::InvalidArgumentError("CompactRange: begin is after end");
  }
  SIEVEDB_RETURN_IF_ERROR(Flush(FlushOptions()));
  const int base = ComputeLevelTargets(options_, *versions_->current()).base_level;
  SIEVEDB_RETURN_IF_ERROR(CompactLevel(0, base, begin, end));
  int level = base;
  while (level < versions_->current()->DeepestLevel()) {
    SIEVEDB_RETURN_IF_ERROR(CompactLevel(level, level + 1, begin, end));
    ++level;
  }
  if (!options.rewrite_bottommost && versions_->current()->runs(level).size() <= 1) {
    return absl::OkStatus();
  }
  return CompactLevel(level, level, begin, end);
}

// Runs on the caller's thread: it waits for the result in any case.
absl::Status DBImpl::CompactLevel(int input_level, int output_level, const std::string_view* begin,
                                  const std::string_view* end) {
  std::optional<std::string> position;
  if (begin != nullptr) position = std::string(*begin);
  while (true) {
    std::optional<CompactionPlan> plan;
    std::optional<std::string> next_begin;
    std::shared_ptr<const Version> version;
    {
      MutexLock lock(&mu_);
      ++manual_waiting_;
      while (true) {
        absl::Status refusal = Refusal();
        if (refusal.ok() && shutting_down_.load()) refusal = absl::AbortedError("closing");
        if (!refusal.ok()) {
          --manual_waiting_;
          MaybeSchedule();
          return refusal;
        }
        bool busy = false;
        std::string_view from;
        if (position.has_value()) from = *position;
        plan = PickManual(options_, *versions_->current(), running_, input_level, output_level,
                          position.has_value() ? &from : nullptr, end, &busy, &next_begin);
        if (plan.has_value() || !busy) break;
        changed_.Wait(&mu_);
      }
      --manual_waiting_;
      if (plan.has_value()) version = Begin(*plan);
      MaybeSchedule();
    }
    if (!plan.has_value()) return absl::OkStatus();
    const absl::Status status = RunCompaction(*plan, *version);
    {
      MutexLock lock(&mu_);
      End(*plan);
      MaybeSchedule();
    }
    plan.reset();
    version.reset();
    AuditFilters();
    FinishStateChange();
    EpochSynchronize();
    DeleteObsoleteTables();
    SIEVEDB_RETURN_IF_ERROR(status);
    if (!next_begin.has_value()) return absl::OkStatus();
    position = std::move(next_begin);
  }
}

absl::Status DBImpl::WaitForBackgroundWork() {
  {
    MutexLock lock(&mu_);
    while (true) {
      SIEVEDB_RETURN_IF_ERROR(Refusal());
      // Work that ended, but has not let go of the tables that it used, counts.
      const bool idle = immutables_.empty() && scheduled_ == 0 && running_.ranges.empty();
      if (idle) break;
      changed_.Wait(&mu_);
    }
  }
  // One job may have looked at a version while another, which replaced its tables,
  // went by to delete them. Once this returns, the directory holds what is needed.
  FinishStateChange();
  EpochSynchronize();
  DeleteObsoleteTables();
  return absl::OkStatus();
}

absl::Status DBImpl::VerifyTable(const FileMeta& file) {
  SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, opener_->Get(file));
  return table->Verify();
}

absl::Status DBImpl::VerifyChecksums() {
  const std::shared_ptr<const Version> version = versions_->current();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version->files(level)) SIEVEDB_RETURN_IF_ERROR(VerifyTable(*file));
  }
  return absl::OkStatus();
}

}  // namespace sievedb
