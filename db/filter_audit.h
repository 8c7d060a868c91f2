#ifndef SIEVEDB_DB_FILTER_AUDIT_H_
#define SIEVEDB_DB_FILTER_AUDIT_H_

#include <optional>
#include <string>

#include "db/file_meta.h"
#include "sievedb/listener.h"
#include "table/table_reader.h"
#include "util/filter_tally.h"

namespace sievedb {

// Whether filters do what they promise. The rate that a filter must have follows from
// the bits that are really set in it (expected) and from the bits per key that it was
// made with (promised); the rate that it has, from its tally.

// Z of the intervals that are shown: they hold the true rate in 95 of 100 cases.
inline constexpr double kShownZ = 1.96;

// What the audit knows of one filter, or of a level's.
struct FilterAudit {
  FilterCounts counts;
  double expected_fpr = 0;  // 0: not known
  ObservedFpr observed;     // at kShownZ
};

// Of an open table with a filter. Cost: the first call for a table counts the bits of
// its filter.
double ExpectedFpr(const FileMeta& file, const TableReader& table);
FilterAudit AuditOf(const FileMeta& file, const TableReader& table);

// Whether so many false "maybe"s are neither chance nor a few unlucky keys that are
// asked for again and again: the rate is half as high again as the expected one, or
// three times the promised one, with five standard deviations to spare, and so it is
// counting only false "maybe"s of keys that had none lately. promised_fpr 0: not known.
bool IsAboveExpectation(const FilterCounts& counts, double expected_fpr, double promised_fpr);

// What is to be told of a table's filter, where that is not told yet: true once a table.
// Cost: where there is something to tell, reads the filter's block of the file again,
// to see whether the one in memory is still the same.
std::optional<FilterEvent> FilterEventFor(const FileMeta& file, int level,
                                          const std::string& db_path);

}  // namespace sievedb

#endif  // SIEVEDB_DB_FILTER_AUDIT_H_
