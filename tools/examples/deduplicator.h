#ifndef SIEVEDB_TOOLS_EXAMPLES_DEDUPLICATOR_H_
#define SIEVEDB_TOOLS_EXAMPLES_DEDUPLICATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/db.h"
#include "sievedb/filter.h"
#include "sievedb/statistics.h"

namespace sievedb {

struct DedupSettings {
  std::string db;
  uint64_t expected = 1'000'000;  // distinct records; more only make the filter grow
  double fpr = 0.01;              // bound on the share of new records that are "maybe"
  uint64_t batch = 1000;          // new records that are written at once
  bool use_filter = true;         // false: every record is looked up
};

struct DedupCounts {
  uint64_t records = 0;
  uint64_t unique = 0;
  uint64_t certainly_new = 0;  // by the filter's answer alone
  uint64_t maybes = 0;         // looked up exactly
  uint64_t false_maybes = 0;   // of them, new after all
  uint64_t block_reads = 0;    // of the database's tables
};

// Tells new records from those that were seen before, in this run or an earlier one
// on the same database. A scalable Bloom filter in memory answers "new" for certain,
// and then the database is not read; its "maybe" is checked there. The database has no
// filters of its own: this one does their work.
//
// Threads: not safe for concurrent use.
//
// Invariant: every record of the database is in the filter, whatever was lost. Between
// runs the filter is in the file FILTER.dedup of the database's directory, which is
// deleted before anything is written and serves only where the database still has the
// sequence number that is in the file. Without one the filter is built from the records.
//
//   offset  size  field
//   0       n     filter    what Filter::Serialize returns
//   n       8     sequence  the database's, when the filter was written
//   n+8     8     checksum  XXH3-64 of all before it
class Deduplicator {
 public:
  // print is given each new record, once, before it is remembered: what was not
  // printed when a run ended is new in the next one, and what was printed just before
  // a crash may be so once more.
  using Print = std::function<absl::Status(std::string_view record)>;
  // Called after the prints of a batch, before it is written.
  using Flush = std::function<absl::Status()>;

  // Errors: those of DB::Open, and of reading all records where the filter is built.
  static absl::StatusOr<std::unique_ptr<Deduplicator>> Open(const DedupSettings& settings,
                                                            Print print, Flush flush);

  // Errors: those of print and of the database. The run is over then.
  absl::Status Add(std::string_view record);

  // Writes what is pending, then the filter's file, and closes the database. After an
  // error of Add there is no need to call it.
  absl::Status Finish();

  const DedupCounts& counts() const { return counts_; }
  // What the filter was made from: "new", "file" or "records".
  const std::string& filter_origin() const { return filter_origin_; }
  // Why the file did not serve, where it was there.
  const std::string& filter_problem() const { return filter_problem_; }
  size_t FilterBytes() const { return filter_.MemoryBytes(); }

 private:
  Deduplicator(const DedupSettings& settings, Print print, Flush flush, ScalableBloomFilter filter);

  absl::Status LoadFilter();
  absl::Status ReadFilterFile(const std::string& path);
  absl::Status BuildFilter();
  absl::StatusOr<bool> IsKnown(std::string_view record);
  absl::Status Commit();

  const DedupSettings settings_;
  const Print print_;
  const Flush flush_;
  const std::shared_ptr<Statistics> statistics_ = NewStatistics();
  ScalableBloomFilter filter_;
  std::string filter_origin_;
  std::string filter_problem_;
  std::unique_ptr<DB> db_;
  WriteBatch batch_;
  std::set<std::string, std::less<>> pending_;  // the records of batch_
  DedupCounts counts_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_EXAMPLES_DEDUPLICATOR_H_
