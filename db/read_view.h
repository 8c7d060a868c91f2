#ifndef SIEVEDB_DB_READ_VIEW_H_
#define SIEVEDB_DB_READ_VIEW_H_

#include <memory>
#include <utility>
#include <vector>

#include "db/memtable.h"
#include "db/version.h"
#include "util/ref_counted.h"

namespace sievedb {

// Everything that a read looks at, as of one moment: a read pins one of these and
// nothing else. Immutable; what its parts point to stays as long as it does.
//
// A point read pins it by an EpochGuard alone; an iterator takes a reference.
class ReadView : public RefCounted<ReadView> {
 public:
  ReadView(RefPtr<MemTable> active, std::vector<RefPtr<MemTable>> waiting,
           std::shared_ptr<const Version> tables)
      : memtable(std::move(active)), immutables(std::move(waiting)), version(std::move(tables)) {}

  const RefPtr<MemTable> memtable;                 // takes writes
  const std::vector<RefPtr<MemTable>> immutables;  // newest first
  const std::shared_ptr<const Version> version;

 private:
  friend class RefCounted<ReadView>;
  ~ReadView() = default;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_READ_VIEW_H_
