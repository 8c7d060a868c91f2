#ifndef SIEVEDB_TOOLS_SST_DUMP_FILTER_H_
#define SIEVEDB_TOOLS_SST_DUMP_FILTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/table_files.h"

namespace sievedb {

// What sst_dump tells of one table's filter.
struct FilterReport {
  bool present = false;
  std::string problem;  // why it is not used, where it is there and damaged
  std::string kind;
  uint8_t filter_kind = 0;       // util/filter_kinds.h
  double bits_per_key = 0;       // asked for when it was built
  double bits_per_key_used = 0;  // of the filter block, for each key added
  int probes = 0;
  uint64_t keys = 0;             // added: user keys, and prefixes
  std::string prefix_extractor;  // empty: no prefixes
  uint64_t prefixes = 0;
  uint64_t blocks = 0;
  uint64_t bits_per_block = 0;  // that are probed; 0 where the kind has no blocks
  uint64_t bytes = 0;           // of the filter block
  double fill_ratio = 0;        // bits set of all bits
  // Bits set in a 512-bit block; 0 where the kind has no blocks.
  int block_bits_min = 0, block_bits_median = 0, block_bits_max = 0;
  double expected_fpr = 0;  // from the bits really set
  double measured_fpr = 0;  // with absent_keys random keys
  uint64_t absent_keys = 0;
  uint64_t false_positives = 0;  // of absent_keys
  uint64_t present_keys = 0;     // distinct user keys of the table, every one asked for
  uint64_t denied_keys = 0;      // of them; anything but 0 would be a bug
};

// Reads every key of the table, and asks the filter for each of them and for
// absent_keys that are not there. Errors: those of reading the table.
absl::StatusOr<FilterReport> ReportFilter(const OpenedTable& table, uint64_t absent_keys);

// The bits set of each block, in order. Empty where the filter has no blocks.
std::vector<int> BlockSetBits(const TableReader& table);

// What the filter says of one key.
struct FilterKeyReport {
  std::string_view key;
  uint64_t hash = 0;
  bool admitted = false;      // the filter says maybe
  bool really_there = false;  // an entry of the key is in the table (a tombstone counts)
  bool has_blocks = false;
  uint64_t block = 0;
  struct Probe {
    int bit;  // in the block
    bool set;
  };
  std::vector<Probe> probes;
};
absl::StatusOr<FilterKeyReport> ReportFilterKey(const OpenedTable& table, std::string_view key);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_SST_DUMP_FILTER_H_
