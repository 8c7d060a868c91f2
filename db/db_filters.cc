// What filters did: their properties, and the audit that compares it with what they
// promise.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/db_impl.h"
#include "db/filter_audit.h"
#include "db/filter_plan.h"
#include "util/escape.h"

namespace sievedb {
namespace {

double MiB(double bytes) { return bytes / (1 << 20); }

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// "0.9512%   0.91-0.99%", or dashes before enough was asked.
std::string ObservedText(const FilterCounts& counts, const ObservedFpr& observed) {
  // Too few to say anything, where not even one was sampled.
  const bool any = counts.sampled_no > 0 || counts.false_maybe > FilterTally::kSampleEvery;
  if (!any) return absl::StrFormat("%12s  %17s", "-", "-");
  return absl::StrFormat("%11.4f%%  %7.4f-%8.4f%%", 100 * observed.share,
                         100 * observed.interval.low, 100 * observed.interval.high);
}

// What the open tables of a level, or of all, say of their filters.
struct FilterTotals {
  int tables = 0;
  int open = 0;
  int with_filter = 0;
  uint64_t keys = 0;
  uint64_t bytes = 0;
  double expected_by_keys = 0;    // weighted sums of the expected rates
  double expected_by_trials = 0;  // these are how many false positives are expected
  double trials = 0;
  FilterCounts counts;

  void Add(const FileMeta& file) {
    ++tables;
    const TableReader* const table = file.table.load(std::memory_order_acquire);
    if (table == nullptr) return;
    ++open;
    if (table->filter() == nullptr) return;
    ++with_filter;
    const FilterAudit audit = AuditOf(file, *table);
    const uint64_t n = table->FilterKeys();
    keys += n;
    bytes += table->FilterMemoryBytes();
    expected_by_keys += audit.expected_fpr * static_cast<double>(n);
    expected_by_trials += audit.expected_fpr * audit.counts.Absent();
    trials += audit.counts.Absent();
    counts += audit.counts;
  }
  // Of the filters as often as each was asked, so that it can be compared with what was
  // observed.
  double Expected() const {
    return trials > 0 ? expected_by_trials / trials
                      : Ratio(expected_by_keys, static_cast<double>(keys));
  }
};

// Of a level's keys.
double MeanBits(const Version& version, const TableBits& plan, int level) {
  double bits = 0;
  double keys = 0;
  for (size_t i = 0; i < version.files(level).size(); ++i) {
    const double n = static_cast<double>(version.files(level)[i]->entries);
    bits += n * plan[static_cast<size_t>(level)][i];
    keys += n;
  }
  return Ratio(bits, keys);
}

std::string LevelRow(int level, const FilterTotals& totals, double plan) {
  const ObservedFpr observed = ObserveFpr(totals.counts, totals.counts.false_maybe, kShownZ);
  std::string row = absl::StrFormat(
      "%5d  %6d  %7d  %10d  %8.2f  %5.2f  %8.2f  %11.4f%%  %s  %11.0f  %12.0f  %10d\n", level,
      totals.tables, totals.with_filter, totals.keys,
      Ratio(static_cast<double>(totals.bytes) * 8, static_cast<double>(totals.keys)), plan,
      MiB(static_cast<double>(totals.bytes)), 100 * totals.Expected(),
      ObservedText(totals.counts, observed), totals.counts.SaidNo(), totals.counts.Present(),
      totals.counts.false_maybe);
  if (totals.open < totals.tables) {
    absl::StrAppendFormat(&row, "       %d tables are not open yet\n", totals.tables - totals.open);
  }
  return row;
}

}  // namespace

std::string DBImpl::FiltersProperty() {
  AuditFilters();
  const std::shared_ptr<const Version> version = versions_->current();
  std::string text =
      "level  tables  filters        keys  bits/key   plan       MiB  expected fpr  observed fpr"
      "       95% interval     ~said no  ~maybe,there  maybe, not\n";
  const TableBits plan = PlanTableBits(options_, *version);
  FilterCounts sum;
  double reads = 0;
  int above = 0;
  for (int level = 0; level < kNumLevels; ++level) {
    if (version->files(level).empty()) continue;
    FilterTotals totals;
    for (const FileRef& file : version->files(level)) {
      totals.Add(*file);
      if (file->filter_audit.reported.load(std::memory_order_relaxed)) ++above;
    }
    text += LevelRow(level, totals, MeanBits(*version, plan, level));
    sum += totals.counts;
    reads += totals.expected_by_trials;
  }
  const double checked = sum.Absent() + sum.Present();
  if (checked > 0) {
    absl::StrAppendFormat(
        &text,
        "of about %.0f runs that could have held a key, filters ruled out %.2f%%: as many block "
        "reads saved; %d were searched for nothing, %.0f expected\n",
        checked, 100 * Ratio(sum.SaidNo(), checked), sum.false_maybe, reads);
  }
  if (above > 0) {
    absl::StrAppendFormat(&text, "%d filters let more pass than they should: see LOG\n", above);
  }
  return text;
}

std::string DBImpl::FilterTablesProperty() {
  AuditFilters();
  const std::shared_ptr<const Version> version = versions_->current();
  if (options_.access_aware_filters) {
    MutexLock lock(&filter_heat_mu_);
    UpdateFilterHeat(*version);
  }
  const TableBits plan = PlanTableBits(options_, *version);
  std::string text =
      "level   table        keys  asked  plan  bits/key  expected fpr  observed fpr       95% "
      "interval"
      "     ~said no  ~maybe,there  maybe, not  range\n";
  for (int level = 0; level < kNumLevels; ++level) {
    double asked = 0;
    for (const FileRef& file : version->files(level)) {
      asked += file->filter_heat.absent.load(std::memory_order_relaxed);
    }
    for (size_t i = 0; i < version->files(level).size(); ++i) {
      const FileRef& file = version->files(level)[i];
      absl::StrAppendFormat(
          &text, "%5d  %06d  %10d  %4.1f%%  %4.1f", level, file->number, file->entries,
          100 * Ratio(file->filter_heat.absent.load(std::memory_order_relaxed), asked),
          plan[static_cast<size_t>(level)][i]);
      const TableReader* const table = file->table.load(std::memory_order_acquire);
      if (table == nullptr || table->filter() == nullptr) {
        absl::StrAppendFormat(&text, "  %s",
                              table == nullptr ? "not open yet" : "without a filter");
      } else {
        const FilterAudit audit = AuditOf(*file, *table);
        absl::StrAppendFormat(&text, "  %8.2f  %11.4f%%  %s  %11.0f  %12.0f  %10d",
                              Ratio(static_cast<double>(table->FilterMemoryBytes()) * 8,
                                    static_cast<double>(table->FilterKeys())),
                              100 * audit.expected_fpr, ObservedText(audit.counts, audit.observed),
                              audit.counts.SaidNo(), audit.counts.Present(),
                              audit.counts.false_maybe);
      }
      absl::StrAppendFormat(
          &text, "  %s .. %s%s\n", Escape(UserKey(file->smallest)), Escape(UserKey(file->largest)),
          file->filter_audit.reported.load(std::memory_order_relaxed) ? "  ABOVE EXPECTATION" : "");
    }
  }
  return text;
}

JobFilters DBImpl::PlanFilters(const Version& version, const CompactionPlan* plan,
                               uint64_t flushed_keys) {
  if (options_.access_aware_filters) {
    MutexLock lock(&filter_heat_mu_);
    UpdateFilterHeat(version);
  }
  return JobFilters(options_, version, plan, flushed_keys);
}

void DBImpl::AuditFilters() {
  const std::shared_ptr<const Version> version = versions_->current();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version->files(level)) {
      const std::optional<FilterEvent> event = FilterEventFor(*file, level, path_);
      if (!event.has_value()) continue;
      event_log_->Write(absl::StrFormat(
          "the filter of table %06d (level %d, %s, %d keys, %.1f bits per key) lets %.4f%% of "
          "absent keys pass (%.4f%% to %.4f%%), expected %.4f%%: %s",
          event->file_number, event->level, event->filter_name, event->keys, event->bits_per_key,
          100 * event->observed_fpr, 100 * event->observed_fpr_low, 100 * event->observed_fpr_high,
          100 * event->expected_fpr, event->advice));
      Notify([&](EventListener* listener) { listener->OnFilterAboveExpectation(*event); });
    }
  }
}

void DBImpl::WantAudit() {
  MutexLock lock(&mu_);
  if (audit_scheduled_ || shutting_down_.load()) return;
  audit_scheduled_ = true;
  Schedule(ThreadPool::Priority::kLow, &DBImpl::BackgroundAudit);
}

void DBImpl::BackgroundAudit() {
  {
    // Reads that want one from now on are not answered by this one.
    MutexLock lock(&mu_);
    audit_scheduled_ = false;
  }
  if (shutting_down_.load()) return;
  AuditFilters();
  // What was compacted away while the audit held it.
  DeleteObsoleteTables();
}

}  // namespace sievedb
