#include "sievedb/options.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "util/compaction_style.h"

namespace sievedb {
namespace {

constexpr size_t kMinWriteBufferBytes = 64 << 10;
constexpr size_t kMinBlockBytes = 256;
constexpr size_t kMaxBlockBytes = 64 << 20;
constexpr int kMaxBackgroundJobs = 1024;

absl::Status Bad(std::string message) { return absl::InvalidArgumentError(message); }

absl::Status CheckComparator(const Comparator* comparator) {
  if (comparator == nullptr) return Bad("comparator: null");
  const char* const name = comparator->Name();
  if (name == nullptr || *name == '\0') return Bad("comparator: its Name() is empty");
  if (comparator != BytewiseComparator() && comparator != ReverseBytewiseComparator() &&
      std::string_view(name).starts_with("sievedb.")) {
    return Bad(
        absl::StrFormat("comparator: its Name(), %s, begins with \"sievedb.\", which is "
                        "reserved",
                        name));
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const Options& o) {
  if (o.write_buffer_bytes < kMinWriteBufferBytes) {
    return Bad(absl::StrFormat("write_buffer_bytes: %u is below 64 KiB", o.write_buffer_bytes));
  }
  if (o.max_write_buffers < 2) {
    return Bad(absl::StrFormat("max_write_buffers: %d is below 2", o.max_write_buffers));
  }
  if (o.max_open_files < 0) {
    return Bad(absl::StrFormat("max_open_files: %d is below 0", o.max_open_files));
  }
  return absl::OkStatus();
}

absl::Status CheckTables(const Options& o) {
  if (o.block_bytes < kMinBlockBytes) {
    return Bad(absl::StrFormat("block_bytes: %u is below 256", o.block_bytes));
  }
  if (o.block_bytes > kMaxBlockBytes) {
    return Bad(absl::StrFormat("block_bytes: %u is above 64 MiB", o.block_bytes));
  }
  if (o.block_restart_interval < 1) {
    return Bad(absl::StrFormat("block_restart_interval: %d is below 1", o.block_restart_interval));
  }
  if (o.compression != Compression::kNone && o.compression != Compression::kSnappy) {
    return Bad(absl::StrFormat("compression: %d is not known", static_cast<int>(o.compression)));
  }
  if (o.filter_memory_bytes != 0 && (o.filter_policy == nullptr || !o.plan_filter_memory)) {
    return Bad(absl::StrFormat(
        "filter_memory_bytes: %u, but %s", o.filter_memory_bytes,
        o.filter_policy == nullptr ? "there is no filter_policy" : "plan_filter_memory is off"));
  }
  if (o.prefix_extractor != nullptr &&
      (o.prefix_extractor->Name() == nullptr || *o.prefix_extractor->Name() == '\0')) {
    return Bad("prefix_extractor: its Name() is empty");
  }
  return absl::OkStatus();
}

absl::Status CheckCompaction(const Options& o) {
  if (std::string_view(CompactionStyleName(o.compaction_style)) == "unknown") {
    return Bad(
        absl::StrFormat("compaction_style: %d is not known", static_cast<int>(o.compaction_style)));
  }
  // Written so that NaN fails too.
  if (!(o.max_space_amplification > 1) || !std::isfinite(o.max_space_amplification)) {
    return Bad(absl::StrFormat("max_space_amplification: %g is not a finite number above 1",
                               o.max_space_amplification));
  }
  if (o.level0_file_trigger < 1) {
    return Bad(absl::StrFormat("level0_file_trigger: %d is below 1", o.level0_file_trigger));
  }
  if (o.level0_slowdown_trigger < o.level0_file_trigger) {
    return Bad(absl::StrFormat("level0_slowdown_trigger: %d is below level0_file_trigger, %d",
                               o.level0_slowdown_trigger, o.level0_file_trigger));
  }
  if (o.level0_stop_trigger < o.level0_slowdown_trigger) {
    return Bad(absl::StrFormat("level0_stop_trigger: %d is below level0_slowdown_trigger, %d",
                               o.level0_stop_trigger, o.level0_slowdown_trigger));
  }
  if (o.level_base_bytes == 0) return Bad("level_base_bytes: 0 is below 1");
  if (!(o.level_size_multiplier >= 2) || !std::isfinite(o.level_size_multiplier)) {
    return Bad(absl::StrFormat("level_size_multiplier: %g is not a finite number from 2 on",
                               o.level_size_multiplier));
  }
  if (o.target_file_bytes < o.block_bytes) {
    return Bad(absl::StrFormat("target_file_bytes: %u is below block_bytes, %u",
                               o.target_file_bytes, o.block_bytes));
  }
  if (o.soft_pending_compaction_bytes == 0) {
    return Bad("soft_pending_compaction_bytes: 0 is below 1");
  }
  if (o.hard_pending_compaction_bytes < o.soft_pending_compaction_bytes) {
    return Bad(absl::StrFormat(
        "hard_pending_compaction_bytes: %u is below soft_pending_compaction_bytes, %u",
        o.hard_pending_compaction_bytes, o.soft_pending_compaction_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckBackground(const Options& o) {
  if (o.max_background_jobs < 1) {
    return Bad(absl::StrFormat("max_background_jobs: %d is below 1", o.max_background_jobs));
  }
  if (o.max_background_jobs > kMaxBackgroundJobs) {
    return Bad(absl::StrFormat("max_background_jobs: %d is above %d", o.max_background_jobs,
                               kMaxBackgroundJobs));
  }
  if (o.background_pool != nullptr && o.background_pool->ThreadCount() < 1) {
    return Bad(absl::StrFormat("background_pool: its ThreadCount(), %d, is below 1",
                               o.background_pool->ThreadCount()));
  }
  for (size_t i = 0; i < o.listeners.size(); ++i) {
    if (o.listeners[i] == nullptr) return Bad(absl::StrFormat("listeners: number %u is null", i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Options::Validate() const {
  // The order of the fields.
  if (wal_recovery != WalRecovery::kStrict && wal_recovery != WalRecovery::kSalvage) {
    return Bad(absl::StrFormat("wal_recovery: %d is not known", static_cast<int>(wal_recovery)));
  }
  if (absl::Status status = CheckComparator(comparator); !status.ok()) return status;
  for (const auto check : {CheckMemory, CheckTables, CheckCompaction, CheckBackground}) {
    if (absl::Status status = check(*this); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sievedb
