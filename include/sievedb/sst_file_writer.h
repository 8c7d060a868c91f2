#ifndef SIEVEDB_SST_FILE_WRITER_H_
#define SIEVEDB_SST_FILE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/export.h"
#include "sievedb/options.h"

namespace sievedb {

// A table that SstFileWriter has finished.
struct ExternalTableInfo {
  std::string path;
  std::string smallest_key;
  std::string largest_key;
  uint64_t entries = 0;
  uint64_t tombstones = 0;
  uint64_t file_bytes = 0;
};

// Writes a table outside of any database, for DB::IngestExternalFiles: the fastest way
// to bring much sorted data in, since it is written once, without a WAL, a memtable or
// a compaction. Tables of one call must not overlap; a large load is cut into several,
// each with the next stretch of keys, where FileSize() reaches target_file_bytes, say.
//
// Threads: not safe for concurrent use. Writers beside each other are independent.
class SIEVEDB_EXPORT SstFileWriter {
 public:
  // options: those of the database that is to take the table. Comparator, filter
  // policy, prefix extractor, compression, sizes of blocks, file system and rate limiter
  // count; only the comparator must be the database's.
  explicit SstFileWriter(const Options& options);
  // Deletes a table that was begun and not finished.
  ~SstFileWriter();
  SstFileWriter(const SstFileWriter&) = delete;
  SstFileWriter& operator=(const SstFileWriter&) = delete;

  // Begins a table in a new file at path. A file that is there already is deleted, not
  // written over: a database may have it under another name.
  //
  // Errors: kFailedPrecondition where the last one is not finished; kInvalidArgument for
  //         options that make no sense; those of the file system.
  absl::Status Open(const std::string& path);

  // The next entry: a value for key, or that key is deleted. Each key comes once, after
  // all that are before it in comparator order.
  //
  // Errors: kInvalidArgument for a key that is not after the last one, or a key or value
  //         that is too long (64 MiB; 3 GiB): the entry is left out and others can
  //         follow. kFailedPrecondition without a table. Those of writing the file,
  //         which stay.
  absl::Status Put(std::string_view key, std::string_view value);
  absl::Status Delete(std::string_view key);

  // Ends the table, syncs the file and closes it. Open may follow.
  //
  // Errors: kInvalidArgument for a table without entries, kFailedPrecondition without a
  //         table, those of writing the file. The file is deleted in each case.
  absl::StatusOr<ExternalTableInfo> Finish();

  // Bytes of the table so far, a little too low: where to cut. After Finish, of the
  // file; 0 before the first Open.
  uint64_t FileSize() const;
  uint64_t entries() const;  // of the same table

 private:
  struct Rep;
  const std::unique_ptr<Rep> rep_;
};

}  // namespace sievedb

#endif  // SIEVEDB_SST_FILE_WRITER_H_
