#ifndef SIEVEDB_TOOLS_TABLE_FILES_H_
#define SIEVEDB_TOOLS_TABLE_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "table/table_reader.h"

namespace sievedb {

// A table opened on its own, outside any database.
struct OpenedTable {
  std::string path;
  uint64_t file_bytes = 0;
  InternalKeyOrder order{BytewiseComparator()};  // the built-in order that it is in
  std::unique_ptr<TableReader> reader;
};

// Opens the table in path, in whichever built-in order it was written.
//
// Errors: those of TableReader::Open; kInvalidArgument for a user's comparator.
absl::StatusOr<OpenedTable> OpenTableFile(const std::string& path);

// The tables that arguments name, files or directories of them, sorted.
//
// Errors: kNotFound where there is no such file, or a directory has no tables.
absl::StatusOr<std::vector<std::string>> ListTableFiles(const std::vector<std::string>& arguments);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_TABLE_FILES_H_
