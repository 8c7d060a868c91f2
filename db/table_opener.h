#ifndef SIEVEDB_DB_TABLE_OPENER_H_
#define SIEVEDB_DB_TABLE_OPENER_H_

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "db/file_meta.h"
#include "sievedb/options.h"
#include "table/table_reader.h"
#include "util/file_util.h"
#include "util/mutex.h"

namespace sievedb {

// Opens tables when they are first needed; the open table then belongs to its
// FileMeta.
//
// Threads: safe. Get of an open table is one atomic load.
class TableOpener {
 public:
  // options must outlive the opener; its file_system and block_cache are not
  // null.
  TableOpener(const Options& options, std::string db_path);

  absl::StatusOr<const TableReader*> Get(const FileMeta& file) {
    const TableReader* table = file.table.load(std::memory_order_acquire);
    if (table != nullptr) [[likely]]
      return table;
    return Open(file);
  }

  // What lookups are hashed with. Requires: before the first table is opened.
  void SetHashSeed(uint64_t seed) { hash_seed_ = seed; }
  // Called by a read that met so many false "maybe"s of a filter that its audit
  // should not wait for the next flush; seldom, and under an EpochGuard. Set before
  // the first read.
  void set_want_audit(std::function<void()> want_audit) { want_audit_ = std::move(want_audit); }
  void WantAudit() const {
    if (want_audit_ != nullptr) want_audit_();
  }

  // Takes a table that was just written, already open, or opens it.
  absl::StatusOr<const TableReader*> Open(const FileMeta& file);

 private:
  const Options& options_;
  const std::string db_path_;
  uint64_t hash_seed_ = 0;
  std::function<void()> want_audit_;
  OpenFileLimiter limiter_;
  // No table is opened twice at a time. Several, so that a read seldom waits while the
  // background opens one table after the other, always ready to take the lock again.
  std::array<Mutex, 16> mutexes_;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_TABLE_OPENER_H_
