#ifndef SIEVEDB_DB_LOG_READER_H_
#define SIEVEDB_DB_LOG_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/log_format.h"
#include "sievedb/file_system.h"

namespace sievedb {

// Reads the records of a WAL or MANIFEST in order.
//
// A record that is not whole or whose checksum fails ends the log. It is a torn
// tail, which is normal after a crash, where no whole record of this file's life
// follows it. Where one does, it is damage (kDataLoss), unless the machine was
// started anew since and nothing says that the bytes were synced: a crash of the
// machine leaves any of the pages that were on their way. Invariant: no byte of an
// earlier life of a recycled file is ever returned.
//
// Threads: not safe for concurrent use.
class LogReader {
 public:
  // path is for messages; boot_id is the file system's, 0 where the machine is not
  // to count as started anew. Errors: kDataLoss for a foreign or damaged header or
  // another file number; kInvalidArgument for a newer format version. A file that
  // is empty, or shorter than its header, or whose header is all zero, is a log
  // whose creation a crash cut off: it has no records. So is a WAL whose header is
  // still, wholly or in its second part, that of an earlier life (a smaller
  // number). All that only where no whole record of this life is in the file, or,
  // with a boot_id and a header that is zeros or wholly an earlier life's, none that
  // says that something was synced; where one is, the header was damaged.
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(std::unique_ptr<RandomAccessFile> file,
                                                         uint64_t file_bytes,
                                                         const std::string& path, LogKind kind,
                                                         uint64_t file_number,
                                                         uint64_t boot_id = 0);

  // The next record, or false at the end. *payload stays until the next call.
  // Errors: kDataLoss for damage before the tail, naming path, offset, expected
  // and found; I/O errors.
  absl::StatusOr<bool> ReadRecord(std::string_view* payload);

  LogPredecessor predecessor() const;

  // Whether there are whole records from here on, and a flag that says that what
  // comes before one was synced. Errors: I/O errors. Cost: reads the whole log.
  absl::StatusOr<bool> SyncedBytesFollow();

  // The offset behind the last record returned: where a torn tail would begin.
  uint64_t offset() const;
  // Bytes at offset() of a record that a crash tore, as far as they can be told
  // from what an earlier life left: those whose header is whole, or that only
  // zeros or nothing follow. Valid after ReadRecord returned false.
  uint64_t torn_bytes() const;

  ~LogReader();

 private:
  struct Rep;
  explicit LogReader(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_LOG_READER_H_
