#include "tools/table_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "util/status_macros.h"

namespace sievedb {

absl::StatusOr<OpenedTable> OpenTableFile(const std::string& path) {
  const std::shared_ptr<FileSystem> file_system = PosixFileSystem();
  OpenedTable table;
  table.path = path;
  SIEVEDB_ASSIGN_OR_RETURN(table.file_bytes, file_system->FileSize(path));
  absl::Status status;
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system->NewRandomAccessFile(path));
    TableReaderOptions options;
    options.order = InternalKeyOrder(comparator);
    options.path = path;
    options.file_number = kAnyFileNumber;
    options.file_bytes = table.file_bytes;
    absl::StatusOr<std::unique_ptr<TableReader>> reader =
        TableReader::Open(options, std::move(file));
    if (reader.ok()) {
      table.order = options.order;
      table.reader = *std::move(reader);
      return table;
    }
    status = reader.status();
    if (status.code() != absl::StatusCode::kInvalidArgument) break;
  }
  return status;
}

absl::StatusOr<std::vector<std::string>> ListTableFiles(const std::vector<std::string>& arguments) {
  const std::shared_ptr<FileSystem> file_system = PosixFileSystem();
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    const absl::StatusOr<std::vector<std::string>> children = file_system->GetChildren(argument);
    if (!children.ok()) {
      SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system->FileExists(argument));
      if (!exists) return absl::NotFoundError(argument + ": no such file or directory");
      files.push_back(argument);
      continue;
    }
    std::vector<std::string> tables;
    for (const std::string& name : *children) {
      if (absl::EndsWith(name, ".sst")) tables.push_back(argument + "/" + name);
    }
    if (tables.empty()) return absl::NotFoundError(argument + ": no *.sst files in it");
    std::sort(tables.begin(), tables.end());
    files.insert(files.end(), tables.begin(), tables.end());
  }
  return files;
}

}  // namespace sievedb
