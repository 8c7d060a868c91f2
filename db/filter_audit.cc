#include "db/filter_audit.h"

#include <algorithm>

#include "sievedb/filter.h"
#include "util/filter_block.h"

namespace sievedb {
namespace {

constexpr double kAlarmZ = 5;
// Filters are measured to be within 3 % of theory. The rest is for absent keys that are
// asked for much more often than others: the popular ones may happen to be unlucky.
constexpr double kAboveExpected = 1.5;
constexpr double kAbovePromised = 3;
// A filter with fewer is not worth counting its bits.
constexpr uint64_t kFewestFalse = 4;

// The rate that a filter was made for; 0 for a kind of the user's. No kind of ours is
// worse than a blocked Bloom filter of as many bits per key.
double PromisedFpr(const TableReader& table) {
  if (table.filter_kind() >= kFirstUserFilterKind) return 0;
  const double bits = table.properties().filter_bits_per_key;
  return FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
}

std::string Advice(const TableReader& table, double expected, double promised) {
  const absl::Status memory = table.CompareFilterWithFile();
  if (!memory.ok()) {
    return std::string(memory.message()) +
           "; reads are slower but right; reopen the database, and test the machine's memory "
           "if it happens again";
  }
  if (promised > 0 && expected > kAbovePromised / kAboveExpected * promised) {
    return "it is overfull: it has more keys than it was made for; CompactRange over its keys "
           "writes it anew";
  }
  return "it is intact, so its hash does not suit the keys that are asked for, or somebody "
         "chooses keys that it lets pass; give it more bits per key or another filter_policy, "
         "then CompactRange with rewrite_bottommost, and see who asks";
}

}  // namespace

double ExpectedFpr(const FileMeta& file, const TableReader& table) {
  double expected = file.filter_audit.expected_fpr.load(std::memory_order_relaxed);
  if (expected < 0) {
    expected = table.filter()->Figures().expected_fpr;
    file.filter_audit.expected_fpr.store(expected, std::memory_order_relaxed);
  }
  return expected;
}

FilterAudit AuditOf(const FileMeta& file, const TableReader& table) {
  FilterAudit audit;
  audit.counts = file.filter_tally.Sum();
  audit.expected_fpr = ExpectedFpr(file, table);
  audit.observed = ObserveFpr(audit.counts, audit.counts.false_maybe, kShownZ);
  return audit;
}

bool IsAboveExpectation(const FilterCounts& counts, double expected_fpr, double promised_fpr) {
  double limit = 1;
  if (expected_fpr > 0) limit = std::min(limit, kAboveExpected * expected_fpr);
  if (promised_fpr > 0) limit = std::min(limit, kAbovePromised * promised_fpr);
  for (const uint64_t false_maybe : {counts.false_maybe, counts.false_maybe_keys}) {
    if (ObserveFpr(counts, false_maybe, kAlarmZ).interval.low <= limit) return false;
  }
  return true;
}

std::optional<FilterEvent> FilterEventFor(const FileMeta& file, int level,
                                          const std::string& db_path) {
  const TableReader* const table = file.table.load(std::memory_order_acquire);
  if (table == nullptr || table->filter() == nullptr) return std::nullopt;
  if (file.filter_audit.reported.load(std::memory_order_relaxed)) return std::nullopt;
  const FilterCounts counts = file.filter_tally.Sum();
  if (counts.false_maybe_keys < kFewestFalse) return std::nullopt;
  const double expected = ExpectedFpr(file, *table);
  const double promised = PromisedFpr(*table);
  if (!IsAboveExpectation(counts, expected, promised)) return std::nullopt;
  if (file.filter_audit.reported.exchange(true, std::memory_order_relaxed)) return std::nullopt;

  const ObservedFpr observed = ObserveFpr(counts, counts.false_maybe, kShownZ);
  FilterEvent event;
  event.db_path = db_path;
  event.file_number = file.number;
  event.level = level;
  event.filter_name = table->properties().filter_name;
  event.keys = table->FilterKeys();
  event.bits_per_key = table->properties().filter_bits_per_key;
  event.promised_fpr = promised;
  event.expected_fpr = expected;
  event.observed_fpr = observed.share;
  event.observed_fpr_low = observed.interval.low;
  event.observed_fpr_high = observed.interval.high;
  event.false_positives = counts.false_maybe;
  event.advice = Advice(*table, expected, promised);
  return event;
}

}  // namespace sievedb
