#ifndef SIEVEDB_TABLE_TABLE_BUILDER_H_
#define SIEVEDB_TABLE_TABLE_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/file_system.h"
#include "sievedb/options.h"
#include "table/internal_key.h"
#include "table/range_tombstones.h"
#include "table/table_properties.h"

namespace sievedb {

struct TableBuilderOptions {
  InternalKeyOrder order{BytewiseComparator()};
  const FilterPolicy* filter_policy = nullptr;  // null: no filter
  FilterContext filter_context;
  const PrefixExtractor* prefix_extractor = nullptr;  // null: the filter knows no prefixes
  Compression compression = Compression::kSnappy;
  size_t block_bytes = 4096;
  int block_restart_interval = 16;
  size_t bytes_per_writeback = 0;
  RateLimiter* rate_limiter = nullptr;  // null: no limit
  RateLimiter::Priority rate_priority = RateLimiter::Priority::kLow;
  uint64_t file_number = 0;  // seeds the checksums
  uint64_t db_id = 0;
  uint64_t hash_seed = 0;  // of the hashes of user keys, in the filter and in the blocks
  uint64_t creation_seconds = 0;
};

// What the MANIFEST keeps of a finished table.
struct TableSummary {
  uint64_t file_bytes = 0;
  uint64_t tail_bytes = 0;  // from behind the data to the end: one read opens it
  TableProperties properties;
};

// Writes one table: entries in order, then the tail. The format is described in
// table/format.h.
//
// Threads: not safe for concurrent use.
class TableBuilder {
 public:
  // file must outlive the builder, which neither syncs nor closes it.
  TableBuilder(const TableBuilderOptions& options, WritableFile* file);
  ~TableBuilder();

  // Requires: internal_key is after every key added before.
  // Errors: those of writing the file; the builder is then useless.
  absl::Status Add(std::string_view internal_key, std::string_view value);

  // Writes what is left. tombstones: the table's range tombstones; null: none.
  // Requires: at least one entry was added, or there are range tombstones.
  absl::StatusOr<TableSummary> Finish(const RangeTombstones* tombstones = nullptr);

  uint64_t entries() const;
  // Of the file, if Finish came now; a little too low.
  uint64_t EstimatedFileBytes() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_TABLE_BUILDER_H_
