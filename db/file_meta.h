#ifndef SIEVEDB_DB_FILE_META_H_
#define SIEVEDB_DB_FILE_META_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/format.h"
#include "table/table_reader.h"
#include "util/filter_tally.h"
#include "util/mutex.h"

namespace sievedb {

inline constexpr int kNumLevels = 7;

// Tables that no version refers to any more, waiting to be deleted.
// Threads: safe.
class ObsoleteTables {
 public:
  struct Entry {
    uint64_t number;
    uint64_t file_bytes;
  };
  void Add(Entry entry) {
    MutexLock lock(&mu_);
    entries_.push_back(entry);
  }
  std::vector<Entry> Take() {
    MutexLock lock(&mu_);
    return std::exchange(entries_, {});
  }

 private:
  Mutex mu_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
};

// What the audit of filters remembers of one table.
struct FilterAuditState {
  // FilterFigures::expected_fpr, once it was looked at (it takes the whole filter to
  // count its bits); negative: not yet. Relaxed: a figure on its own.
  std::atomic<double> expected_fpr{-1};
  std::atomic<bool> reported{false};
};

// How often lookups of absent keys came to a table of late (UpdateFilterHeat).
struct FilterHeat {
  // Relaxed: a figure on its own.
  std::atomic<double> absent{0};
  // Of the tally, what is in absent already. Only UpdateFilterHeat touches it.
  double counted = 0;
};

// One table of a database, as the MANIFEST describes it, and the open table once
// it is open. Shared by every version that has the table; when the last of them
// goes and the table was removed from the current version, it is obsolete.
//
// Threads: the description is constant; the rest is atomic.
struct FileMeta {
  FileMeta() = default;
  ~FileMeta() {
    delete table.load(std::memory_order_acquire);
    if (removed.load(std::memory_order_acquire) && obsolete_tables != nullptr) {
      obsolete_tables->Add({number, file_bytes});
    }
  }
  FileMeta(const FileMeta&) = delete;
  FileMeta& operator=(const FileMeta&) = delete;

  uint64_t number = 0;
  uint64_t file_bytes = 0;
  uint64_t tail_bytes = 0;
  // Internal keys, of entries or, where a range tombstone goes further, with kMaxTag. As
  // the largest that is the tombstone's end: the table goes up to it, and has nothing of
  // that key, which the next table of its run may begin with.
  std::string smallest;
  std::string largest;
  bool largest_is_outside() const { return Tag(largest) == kMaxTag; }
  uint64_t smallest_sequence = 0;
  uint64_t largest_sequence = 0;
  uint64_t entries = 0;
  uint64_t tombstones = 0;
  uint64_t range_tombstones = 0;
  uint64_t raw_bytes = 0;  // keys and values, uncompressed
  // The file number in the footer of a table that SstFileWriter made, with
  // kExternalNumberBit; 0: it is `number`, as in all that the database wrote. All
  // entries of such a table count as of one sequence, though the table says 0.
  uint64_t external_number = 0;
  uint64_t checksum_number() const { return external_number != 0 ? external_number : number; }
  uint64_t global_sequence() const { return external_number != 0 ? largest_sequence : 0; }

  // Null until it is opened (TableOpener). Release-stored once, acquire-loaded.
  mutable std::atomic<TableReader*> table{nullptr};
  // Set when a version edit removes the table from the current version.
  mutable std::atomic<bool> removed{false};
  std::shared_ptr<ObsoleteTables> obsolete_tables;

  // What lookups found out about the table's filter.
  mutable FilterTally filter_tally;
  mutable FilterAuditState filter_audit;
  mutable FilterHeat filter_heat;
};
using FileRef = std::shared_ptr<const FileMeta>;

}  // namespace sievedb

#endif  // SIEVEDB_DB_FILE_META_H_
