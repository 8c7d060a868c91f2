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

// A table that an edit adds. run: of its level's sorted runs the one that it belongs to;
// of two runs that of the higher number is newer. Level 0 has no numbers there: 0.
struct AddedFile {
  AddedFile(int to_level, std::shared_ptr<FileMeta> table, uint64_t of_run = 0)
      : level(to_level), file(std::move(table)), run(of_run) {}

  int level;
  std::shared_ptr<FileMeta> file;
  uint64_t run;
};

// One step from a version to the next: a record of the MANIFEST. The format is
// described in version_edit.cc.
struct VersionEdit {
  std::optional<std::string> comparator_name;
  std::optional<uint64_t> db_id;
  std::optional<uint64_t> hash_seed;   // of user keys' hashes; none anywhere: 0
  std::optional<uint64_t> log_number;  // the oldest WAL that is still needed
  std::optional<uint64_t> next_file_number;
  std::optional<uint64_t> last_sequence;
  std::vector<std::pair<int, uint64_t>> removed_files;  // level, number
  std::vector<AddedFile> added_files;

  std::string Encode() const;
  // Errors: kDataLoss, saying which field (the caller adds file and offset);
  // kInvalidArgument for a field that only a newer version can understand.
  static absl::StatusOr<VersionEdit> Decode(std::string_view bytes);
  std::string DebugString() const;  // one line
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_VERSION_EDIT_H_
