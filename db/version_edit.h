#ifndef SIEVEDB_DB_VERSION_EDIT_H_
#define SIEVEDB_DB_VERSION_EDIT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "db/file_meta.h"

namespace sievedb {

// One step from a version to the next: a record of the MANIFEST. The format is
// described in version_edit.cc.
struct VersionEdit {
  std::optional<std::string> comparator_name;
  std::optional<uint64_t> db_id;
  std::optional<uint64_t> hash_seed;   // of user keys' hashes; none anywhere: 0
  std::optional<uint64_t> log_number;  // the oldest WAL that is still needed
  std::optional<uint64_t> next_file_number;
  std::optional<uint64_t> last_sequence;
  std::vector<std::pair<int, uint64_t>> removed_files;                 // level, number
  std::vector<std::pair<int, std::shared_ptr<FileMeta>>> added_files;  // level, table

  std::string Encode() const;
  // Errors: kDataLoss, saying which field (the caller adds file and offset);
  // kInvalidArgument for a field that only a newer version can understand.
  static absl::StatusOr<VersionEdit> Decode(std::string_view bytes);
  std::string DebugString() const;  // one line
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_VERSION_EDIT_H_
