#ifndef SIEVEDB_TOOLS_EXTERNAL_TABLE_FILES_H_
#define SIEVEDB_TOOLS_EXTERNAL_TABLE_FILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "sievedb/db.h"
#include "sievedb/sst_file_writer.h"

namespace sievedb {

// Sorted entries on their way into a database, as tables of target_file_bytes beside its
// directory, on the same disk. The files are deleted in the end.
//
// Threads: not safe for concurrent use.
class ExternalTableFiles {
 public:
  // options: the database's. number: tells the files of several writers apart.
  ExternalTableFiles(const Options& options, std::string_view db_path, int number);
  ~ExternalTableFiles();
  ExternalTableFiles(const ExternalTableFiles&) = delete;
  ExternalTableFiles& operator=(const ExternalTableFiles&) = delete;

  // Requires: key is after the one before it. Errors: those of SstFileWriter.
  absl::Status Put(std::string_view key, std::string_view value);

  // Adds all tables to db: all of them or none. Requires: comes last.
  absl::Status Ingest(DB* db);

  size_t tables() const { return paths_.size(); }

 private:
  absl::Status EndTable();

  const Options options_;
  const std::string prefix_;
  SstFileWriter writer_;
  bool open_ = false;
  std::vector<std::string> paths_;  // the one that is being written included
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_EXTERNAL_TABLE_FILES_H_
