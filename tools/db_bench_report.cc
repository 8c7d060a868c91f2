#include "tools/db_bench_report.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "absl/strings/str_format.h"
#include "sievedb/version.h"
#include "util/clock.h"

namespace sievedb {
namespace {

constexpr double kMiB = 1 << 20;

double Quotient(double part, double whole) { return whole > 0 ? part / whole : 0; }

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

WorkloadReport WorkloadReport::Merge(std::string_view name,
                                     const std::vector<ThreadFigures>& threads) {
  assert(!threads.empty());
  WorkloadReport report;
  report.name = name;
  report.threads = static_cast<int>(threads.size());
  uint64_t start = threads.front().start_nanos;
  uint64_t finish = threads.front().finish_nanos;
  for (const ThreadFigures& thread : threads) {
    start = std::min(start, thread.start_nanos);
    finish = std::max(finish, thread.finish_nanos);
    report.busy_seconds += Seconds(thread.finish_nanos - thread.start_nanos);
    report.operations += thread.operations;
    report.bytes += thread.bytes;
    report.found += thread.found;
    if (!thread.latency.has_value()) continue;
    if (!report.latency.has_value()) report.latency.emplace();
    report.latency->Merge(*thread.latency);
  }
  report.elapsed_seconds = Seconds(finish - start);
  return report;
}

double WorkloadReport::MicrosPerOperation() const {
  return Quotient(busy_seconds * 1e6, static_cast<double>(operations));
}

double WorkloadReport::OperationsPerSecond() const {
  return Quotient(static_cast<double>(operations), elapsed_seconds);
}

double WorkloadReport::MegabytesPerSecond() const {
  return Quotient(static_cast<double>(bytes) / kMiB, elapsed_seconds);
}

std::string WorkloadReport::Line() const {
  std::string line = absl::StrFormat(
      "%-12s : %11.3f micros/op %d ops/sec %.3f seconds %d operations;", name, MicrosPerOperation(),
      std::llround(OperationsPerSecond()), elapsed_seconds, operations);
  if (bytes > 0) absl::StrAppendFormat(&line, " %6.1f MB/s", MegabytesPerSecond());
  if (counts_found) {
    absl::StrAppendFormat(&line, "%s(%d of %d found)", bytes > 0 ? " " : "   ", found, operations);
  }
  return line;
}

nlohmann::json WorkloadReport::ToJson() const {
  nlohmann::json json = {{"name", name},
                         {"threads", threads},
                         {"operations", operations},
                         {"seconds", elapsed_seconds},
                         {"micros_per_op", MicrosPerOperation()},
                         {"ops_per_s", OperationsPerSecond()},
                         {"bytes", bytes},
                         {"mib_per_s", MegabytesPerSecond()}};
  if (counts_found) json["found"] = found;
  if (latency.has_value()) {
    json["latency"] = {{"average_ns", latency->Average()},  {"min_ns", latency->Min()},
                       {"p50_ns", latency->Percentile(50)}, {"p95_ns", latency->Percentile(95)},
                       {"p99_ns", latency->Percentile(99)}, {"p999_ns", latency->Percentile(99.9)},
                       {"max_ns", latency->Max()}};
  }
  if (!series.empty()) json["series"] = LatencySeries::ToJson(series);
  return json;
}

OperationMeter::OperationMeter(uint64_t operations, int duration_seconds, ThreadFigures* figures,
                               ProgressBar* progress)
    : operations_(operations),
      figures_(figures),
      progress_(progress),
      times_calls_(figures->latency.has_value() || figures->series != nullptr) {
  if (figures_->series != nullptr) recorder_.emplace(figures_->series, figures_->thread);
  figures_->start_nanos = last_nanos_ = NowNanos();
  if (duration_seconds > 0) {
    deadline_nanos_ =
        figures_->start_nanos + static_cast<uint64_t>(duration_seconds) * 1'000'000'000;
  }
}

OperationMeter::~OperationMeter() {
  figures_->finish_nanos = NowNanos();
  progress_->Advance(figures_->operations - reported_);
}

bool OperationMeter::DeadlinePassed() {
  if (--calls_until_clock_ > 0) return false;
  calls_until_clock_ = kCallsPerClock;
  return NowNanos() >= deadline_nanos_;
}

void OperationMeter::AddLatency(uint64_t operations) {
  const uint64_t now = NowNanos();
  const uint64_t nanos = now - last_nanos_;
  if (figures_->latency.has_value()) figures_->latency->Add(nanos);
  if (recorder_.has_value()) recorder_->Add(now, nanos, operations);
  last_nanos_ = now;
}

void OperationMeter::ReportProgress() {
  progress_->Advance(figures_->operations - reported_);
  reported_ = figures_->operations;
  next_report_ = reported_ + kOperationsPerReport;
}

std::string BenchHeader(const BenchSettings& settings) {
  const double entries = static_cast<double>(settings.num);
  const double key_bytes = static_cast<double>(settings.key_bytes);
  const double value_bytes = static_cast<double>(settings.value_bytes);
  const double stored_bytes = settings.compression == "none"
                                  ? value_bytes
                                  : std::round(value_bytes * settings.compression_ratio);
  std::string text = absl::StrFormat("SieveDB:    version %d.%d.%d\n", SIEVEDB_VERSION_MAJOR,
                                     SIEVEDB_VERSION_MINOR, SIEVEDB_VERSION_PATCH);
  absl::StrAppendFormat(&text, "Keys:       %d bytes each\n", settings.key_bytes);
  absl::StrAppendFormat(&text, "Values:     %d bytes each (%.0f bytes after compression)\n",
                        settings.value_bytes, stored_bytes);
  absl::StrAppendFormat(&text, "Entries:    %d\n", settings.num);
  absl::StrAppendFormat(&text, "RawSize:    %.1f MB (estimated)\n",
                        (key_bytes + value_bytes) * entries / kMiB);
  absl::StrAppendFormat(&text, "FileSize:   %.1f MB (estimated)\n",
                        (key_bytes + stored_bytes) * entries / kMiB);
#ifndef __OPTIMIZE__
  text += "WARNING: compiled without optimization: benchmarks are slow without need\n";
#endif
#ifndef NDEBUG
  text += "WARNING: assertions are on: benchmarks are slow without need\n";
#endif
  text += "------------------------------------------------\n";
  return text;
}

nlohmann::json SettingsJson(const BenchSettings& settings) {
  return {{"num", settings.num},
          {"reads", settings.Reads()},
          {"threads", settings.threads},
          {"duration_seconds", settings.duration_seconds},
          {"key_size", settings.key_bytes},
          {"value_size", settings.value_bytes},
          {"batch_size", settings.batch_size},
          {"seek_nexts", settings.seek_nexts},
          {"compression_type", settings.compression},
          {"compression_ratio", settings.compression_ratio},
          {"write_buffer_size", settings.write_buffer_bytes},
          {"cache_size", settings.cache_bytes},
          {"block_size", settings.block_bytes},
          {"bloom_bits", settings.bloom_bits},
          {"filter", settings.filter},
          {"compaction_style", settings.compaction_style},
          {"max_space_amplification", settings.max_space_amplification},
          {"level_base_size", settings.level_base_bytes},
          {"target_file_size", settings.target_file_bytes},
          {"max_background_jobs", settings.max_background_jobs},
          {"db", settings.db},
          {"use_existing_db", settings.use_existing_db},
          {"sync", settings.sync},
          {"disable_wal", settings.disable_wal},
          {"seed", settings.seed}};
}

}  // namespace sievedb
