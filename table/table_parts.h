#ifndef SIEVEDB_TABLE_TABLE_PARTS_H_
#define SIEVEDB_TABLE_TABLE_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "table/block_file.h"
#include "table/format.h"
#include "table/index_reader.h"
#include "table/internal_key.h"
#include "table/range_tombstones.h"
#include "table/table_properties.h"
#include "table/table_reader.h"
#include "util/packed_heap.h"

namespace sievedb {

// What an open table is made of: shared by its reader, its iterators and what
// verifies it. Nothing of it changes once the table is open.
struct TableParts {
  TableParts(const InternalKeyOrder& key_order, IndexReader decoded_index)
      : order(key_order), index(std::move(decoded_index)) {}

  const InternalKeyOrder order;
  const IndexReader index;
  std::unique_ptr<const BlockFile> file;
  std::unique_ptr<CachedBlocks> cached;  // null: blocks are read each time
  StatisticsImpl* statistics = nullptr;

  uint64_t file_bytes = 0;
  Footer footer;
  TableProperties properties;
  RefPtr<const RangeTombstones> range_tombstones;  // null: none
  std::vector<char, PackedAllocator<char>> filter_bytes;
  std::unique_ptr<const FilterReader> filter;  // reads filter_bytes
  absl::Status filter_status;
  // Whose prefixes the filter knows; null: of none, or of an extractor that is not here.
  const PrefixExtractor* prefix_extractor = nullptr;
};

// Implement the methods of TableReader (table_verify.cc).
absl::Status VerifyTable(const TableParts& parts);
absl::Status DescribeTableBlocks(const TableParts& parts,
                                 const std::function<bool(const BlockDescription&)>& fn);

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_TABLE_PARTS_H_
