#ifndef SIEVEDB_TOOLS_FILTER_AUDIT_H_
#define SIEVEDB_TOOLS_FILTER_AUDIT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/filter_levels.h"
#include "tools/table_files.h"

namespace sievedb {

// The keys of an audit: distinct, and as many as lines were read.
struct AuditKeys {
  std::vector<std::string> keys;
  uint64_t lines = 0;
};
// One key a line: escaped as sst_dump shows it, or hexadecimal. "-" is the standard
// input. A key that is there twice says nothing new of a filter, so it counts once.
//
// Errors: those of reading; kInvalidArgument for a line that is no key or a file
// without any, naming path and line.
absl::StatusOr<AuditKeys> ReadAuditKeys(const std::string& path, bool hex);

// What a filter answered, each answer checked by reading the table.
struct AuditCounts {
  uint64_t said_no = 0;        // and the key is absent
  uint64_t denied = 0;         // said no, and the key is there: never right
  uint64_t maybe_present = 0;  // said maybe, and the key is there
  uint64_t maybe_absent = 0;   // said maybe, and it is not: a false positive
  // False positives that the tables' rates predict for the absent keys asked.
  double expected_false = 0;

  uint64_t asked() const { return said_no + denied + maybe_present + maybe_absent; }
  uint64_t absent() const { return said_no + maybe_absent; }
  double measured_fpr() const;  // 0 where no absent key was asked for
  double expected_fpr() const;
  AuditCounts& operator+=(const AuditCounts& other);
};

// Asks table's filter for those of keys that are in the table's range, and reads each
// of them. keys are put into the table's order. Errors: those of reading the table.
absl::StatusOr<AuditCounts> AuditTable(const OpenedTable& table, double expected_fpr,
                                       std::vector<std::string>* keys);

// The 95 % confidence interval of a rate of which hits of trials were seen (Wilson
// 1927). All of [0, 1] where there were no trials.
std::pair<double, double> RateInterval(uint64_t hits, uint64_t trials);

// P(at least hits of trials) where each has probability rate.
double ChanceOfAtLeast(uint64_t hits, uint64_t trials, double rate);

// Whether more false positives were seen than chance explains: less often than once in
// 1,000 for a filter that is as it should be, comparisons being made at once. The
// expected rate is taken to be up to 3 % too low: it counts a key's probes as
// independent.
bool AboveExpected(const AuditCounts& counts, uint64_t comparisons);

// The audit of one table, level or all.
struct AuditRow {
  std::string name;  // the path of a table
  TablePlace place;
  AuditCounts counts;
  // The same table asked for random absent keys: what tells a filter that is wrong
  // from keys that are special. Nothing where none were asked for.
  AuditCounts random;
};
struct Audit {
  std::string keys_path;
  uint64_t lines = 0;
  uint64_t keys = 0;
  std::vector<AuditRow> tables;
};
// The sum over the tables of each level, ascending by database and level.
std::vector<AuditRow> SumAudit(const Audit& audit);

// One line that says how measured and expected rates stand, and what to do.
std::string AuditVerdict(const Audit& audit);
std::string AuditText(const Audit& audit);
nlohmann::ordered_json AuditJson(const Audit& audit);

// kDataLoss where a key that is there was denied.
absl::Status AuditStatus(const Audit& audit);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_FILTER_AUDIT_H_
