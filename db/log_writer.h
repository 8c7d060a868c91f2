#ifndef SIEVEDB_DB_LOG_WRITER_H_
#define SIEVEDB_DB_LOG_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/log_format.h"
#include "sievedb/file_system.h"

namespace sievedb {

// Appends records to a WAL or MANIFEST. One Append of the file a record, or two
// for a large one, whose payload is then not copied.
//
// Threads: not safe for concurrent use.
class LogWriter {
 public:
  // Writes the file header into file, which is at its start (new, or recycled).
  // boot_id: of its file system.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Create(std::unique_ptr<WritableFile> file,
                                                           LogKind kind, uint64_t file_number,
                                                           LogPredecessor predecessor = {},
                                                           uint64_t boot_id = 0);

  // Errors: kInvalidArgument for a payload above 4 GiB - 64 (nothing is written);
  // those of the file, after which the writer must be given up.
  // Requires: payload is not empty.
  absl::Status AddRecord(std::string_view payload);
  absl::Status Sync();
  // Adds the record that ends a log, unless a call failed before, and closes it.
  absl::Status Close();

  uint64_t file_number() const { return file_number_; }
  uint64_t size() const { return offset_; }
  WritableFile* file() { return file_.get(); }

 private:
  LogWriter(std::unique_ptr<WritableFile> file, uint64_t file_number);
  std::unique_ptr<WritableFile> file_;
  const uint64_t file_number_;
  absl::Status Add(std::string_view payload);

  uint64_t offset_ = 0;
  uint64_t synced_ = 0;  // bytes that a Sync made safe
  bool failed_ = false;
  std::string buffer_;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_LOG_WRITER_H_
