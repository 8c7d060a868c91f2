#ifndef SIEVEDB_DB_VERSION_BUILDER_H_
#define SIEVEDB_DB_VERSION_BUILDER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/version.h"
#include "db/version_edit.h"

namespace sievedb {

// A version and the edits that are to be applied to it, so that a MANIFEST of
// thousands of edits makes one version and not thousands.
//
// Threads: not safe for concurrent use.
class VersionBuilder {
 public:
  // base must outlive the builder.
  explicit VersionBuilder(const Version& base) : base_(base) {}

  // Errors: kDataLoss where the edit adds a table twice.
  absl::Status Add(const VersionEdit& edit);

  // Errors: kDataLoss where an edit removed a table that was not there, or the
  // result breaks an invariant of Version.
  absl::StatusOr<std::shared_ptr<const Version>> Build();

  // Tables of base that the version built last does not have.
  std::vector<FileRef> TakeDropped() { return std::move(dropped_); }

 private:
  struct Added {
    int level;
    uint64_t run;
    FileRef file;
  };
  struct RunTable {
    uint64_t run;
    FileRef file;
  };
  // Orders the tables of a level and makes its runs of them.
  // Errors: kDataLoss where a run's tables overlap.
  absl::Status FillLevel(int level, std::vector<RunTable> tables, Version* version) const;
  absl::Status CheckRun(int level, absl::Span<const FileRef> files) const;

  const Version& base_;
  std::set<std::pair<int, uint64_t>> removed_;  // of base: level, number
  absl::flat_hash_map<uint64_t, Added> added_;  // by number
  std::vector<FileRef> dropped_;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_VERSION_BUILDER_H_
