#ifndef SIEVEDB_DB_BACKUP_DESCRIPTION_H_
#define SIEVEDB_DB_BACKUP_DESCRIPTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "db/version_edit.h"

namespace sievedb {

// A directory of backups:
//
//   LOCK                         held while it is open
//   BACKUP-n                     describes backup n; written as a whole, last
//   number-fingerprint.sst       a table of one or more backups: the number that it has in
//                                its database, at least six digits, and XXH3-64 of its
//                                footer in hexadecimal. The footer has checksums of the
//                                table's properties, index and filter, so that it is
//                                another one in another table of that number
//
// The description. Little-endian.
//
//   offset  size  field
//   0       8     magic            "SVbackup"
//   8       4     format version   1
//   12      …     varint created (seconds since 1970), varint bytes that were new,
//                 length-prefixed version edit: the database as one edit, from which its
//                 MANIFEST begins (db/version_edit.cc); then of each of its tables, in
//                 that order:
//                   fixed64 fingerprint, fixed64 checksum
//   end-8   8     XXH3-64 of all before
//
// A table's checksum is that of its pieces of 1 MiB, each XXH3-64 seeded by the one
// before, the first by 0.
struct BackupTable {
  uint64_t fingerprint = 0;
  uint64_t checksum = 0;
};

struct BackupDescription {
  uint64_t created_seconds = 0;
  uint64_t new_bytes = 0;
  VersionEdit snapshot;
  std::vector<BackupTable> tables;  // as snapshot.added_files

  std::string Encode() const;
  // Errors: kDataLoss (the caller adds the file); kInvalidArgument for a newer version's.
  static absl::StatusOr<BackupDescription> Decode(std::string_view bytes);
};

std::string BackupFileName(uint64_t id);                             // BACKUP-000001
std::string BackupTableName(uint64_t number, uint64_t fingerprint);  // 000007-0123….sst
// The id in the name of a description; nullopt for another name.
std::optional<uint64_t> ParseBackupFileName(std::string_view name);
// Whether it is one of a table, or one that a description has until it is whole.
bool IsBackupTableName(std::string_view name);

}  // namespace sievedb

#endif  // SIEVEDB_DB_BACKUP_DESCRIPTION_H_
