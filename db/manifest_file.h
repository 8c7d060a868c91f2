#ifndef SIEVEDB_DB_MANIFEST_FILE_H_
#define SIEVEDB_DB_MANIFEST_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "db/log_writer.h"
#include "db/version_edit.h"
#include "sievedb/file_system.h"

namespace sievedb {

// A number that no other database has; not 0.
uint64_t NewDatabaseId();

// The number of the MANIFEST that CURRENT names.
// Errors: kDataLoss, I/O; kNotFound without CURRENT.
absl::StatusOr<uint64_t> ReadCurrent(FileSystem* file_system, const std::string& db_path);

// Begins MANIFEST number in the directory of a database with one edit that says all,
// syncs it and the directory, and makes CURRENT name it. The directory must be synced
// once more for CURRENT to survive the death of the machine; until then the old one may.
// Errors: those of the file system. What CURRENT says is then either.
absl::StatusOr<std::unique_ptr<LogWriter>> BeginManifest(FileSystem* file_system,
                                                         const std::string& db_path,
                                                         uint64_t number,
                                                         const VersionEdit& snapshot);

}  // namespace sievedb

#endif  // SIEVEDB_DB_MANIFEST_FILE_H_
