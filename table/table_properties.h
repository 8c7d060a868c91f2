#ifndef SIEVEDB_TABLE_TABLE_PROPERTIES_H_
#define SIEVEDB_TABLE_TABLE_PROPERTIES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "sievedb/options.h"
#include "table/range_tombstones.h"
#include "util/key_order.h"

namespace sievedb {

// What a table says of itself.
struct TableProperties {
  uint64_t entries = 0;
  uint64_t tombstones = 0;        // of one key
  uint64_t range_tombstones = 0;  // pairs of a fragment and a sequence
  uint64_t distinct_user_keys = 0;
  uint64_t data_blocks = 0;
  uint64_t raw_key_bytes = 0;  // internal keys, before prefix compression
  uint64_t raw_value_bytes = 0;
  uint64_t raw_data_bytes = 0;  // data blocks before compression
  uint64_t data_bytes = 0;      // data blocks as stored, trailers included
  uint64_t index_bytes = 0;
  uint64_t filter_bytes = 0;
  uint64_t smallest_sequence = 0;
  uint64_t largest_sequence = 0;
  // Internal keys that all entries and range tombstones lie between, of an entry or, where
  // a range tombstone goes further, with kMaxTag. A largest key with kMaxTag is the end of
  // a range tombstone: itself it is not in the table.
  std::string smallest_key;
  std::string largest_key;
  Compression compression = Compression::kNone;  // asked for; blocks may differ
  std::string comparator_name;
  std::string filter_name;  // empty: no filter
  double filter_bits_per_key = 0;
  int filter_probes = 0;
  uint64_t creation_seconds = 0;  // since 1970
  uint64_t file_number = 0;       // when it was written
  uint64_t db_id = 0;             // of the database that wrote it
  std::string created_by;         // "sievedb 0.1.0"
  // Of Hash64 of user keys, from which the filter and the blocks' hash indexes are made.
  uint64_t hash_seed = 0;
  // Whose prefixes the filter knows, each by PrefixHash; empty: of none.
  std::string prefix_extractor_name;
  uint64_t prefixes = 0;  // distinct ones
};

// Counts the range tombstones, and widens the key and sequence ranges by theirs. The
// entries, if any, have been counted before.
void AddRangeTombstones(const RangeTombstones& tombstones, const KeyOrder& order,
                        TableProperties* properties);

// A properties block: fields as (varint id, length-prefixed bytes), ascending;
// unknown ids are skipped, so older readers read newer tables of one format
// version. A hash seed of 0 is left out, and so are
// a count of 0 range tombstones and the prefixes where no extractor is named.
std::string EncodeTableProperties(const TableProperties& properties);
// Errors: kDataLoss (without file and offset: the caller adds them).
absl::StatusOr<TableProperties> DecodeTableProperties(std::string_view bytes);

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_TABLE_PROPERTIES_H_
