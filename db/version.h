#ifndef SIEVEDB_DB_VERSION_H_
#define SIEVEDB_DB_VERSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/file_meta.h"
#include "db/table_opener.h"
#include "db/version_edit.h"
#include "db/version_iterator.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/lookup.h"
#include "table/range_hiding_iterator.h"
#include "table/table_reader.h"

namespace sievedb {

class PrefixScope;

// The set of tables that make up the database at one moment. Immutable.
//
// Threads: safe.
// Invariants:
// 1. A level is an array of sorted runs. The tables of a run are ordered by smallest key
//    and don't overlap, not even in a user key.
// 2. Of a user key's entries those of a newer run are newer, and those of a level newer
//    than those of the levels below it. Runs of a level are ordered newest first.
// 3. In level 0 each table is a run, by largest sequence. Further down runs have numbers,
//    which count within their level: of two the higher one is the newer.
class Version {
 public:
  Version(const InternalKeyOrder& order, TableOpener* opener);  // an empty one

  // base with edit applied. Errors: kDataLoss where the edit does not fit the
  // version or breaks an invariant.
  static absl::StatusOr<std::shared_ptr<const Version>> Apply(const Version& base,
                                                              const VersionEdit& edit);

  // --- the read path. Requires: an EpochGuard.
  // What the read path needs of a file once its range covers the key. The table is
  // a copy of FileMeta::table, taken when a read first finds it open, so that a
  // warm read does not touch the FileMeta: set once, and any reader may set it.
  struct Slot {
    const FileMeta* file = nullptr;
    mutable std::atomic<const TableReader*> table{nullptr};

    const TableReader* OpenTable() const {
      const TableReader* open = table.load(std::memory_order_acquire);
      if (open != nullptr) [[likely]]
        return open;
      open = file->table.load(std::memory_order_acquire);
      // Who acquires it from here sees what its opener released to us.
      if (open != nullptr) table.store(open, std::memory_order_release);
      return open;
    }
  };
  struct Candidate {
    const Slot* slot;
    const TableReader* table;  // null: not open yet
    int level;
  };
  // Few databases have more runs than this; those that do pay an allocation.
  using Candidates = absl::InlinedVector<Candidate, 48>;
  // Every run whose range covers the key, newest first; its filter is on its way
  // into the cache.
  void FindCandidates(const Lookup& lookup, Candidates* to) const;
  // Asks each candidate's filter, and searches those tables only that say maybe,
  // until lookup is decided.
  // Errors: those of TableReader::Get and of opening a table.
  absl::Status Get(Candidates* candidates, Lookup* lookup) const;
  // Get for each lookup that is not decided yet, with an error into its status. All
  // are taken through the runs together, step by step, so that the cache misses of
  // one overlap with those of the others.
  // Requires: as many statuses as lookups, at most kMaxBatch; the statuses are OK.
  static constexpr size_t kMaxBatch = 32;
  void MultiGet(absl::Span<Lookup> lookups, absl::Span<absl::Status> statuses) const;
  // False where every run's range or filter rules the key out, or range tombstones do.
  // No I/O: a table that is not open yet counts as maybe.
  bool MayContain(const Lookup& lookup) const;

  // One iterator a run, newest first, of the tables that can hold keys of
  // [lower, upper) (null: open; user keys). scope: the prefix
  // that they stay in, null: none. stack: of the runs that are newer; the iterators go
  // through it. Null: range tombstones are not looked at. The version and scope must
  // outlive the iterators. Only tables with range tombstones are opened here.
  // Errors: those of opening one.
  absl::Status AppendIterators(const ReadOptions& options, const std::string* lower,
                               const std::string* upper,
                               std::vector<std::unique_ptr<InternalIterator>>* to,
                               const PrefixScope* scope = nullptr,
                               RangeTombstoneStack* stack = nullptr) const;

  // --- what it consists of
  // Run by run, newest first.
  absl::Span<const FileRef> files(int level) const { return levels_[level].files; }
  struct Run {
    uint64_t number = 0;  // of level 0: 0
    size_t begin = 0;     // of files(level)
    size_t end = 0;
    uint64_t bytes = 0;
  };
  absl::Span<const Run> runs(int level) const { return levels_[level].runs; }
  // The number of the oldest run of a level; 0 where there is none.
  uint64_t OldestRun(int level) const {
    return runs(level).empty() ? 0 : runs(level).back().number;
  }
  absl::Span<const FileRef> files(int level, const Run& run) const {
    return files(level).subspan(run.begin, run.end - run.begin);
  }
  uint64_t LevelBytes(int level) const { return levels_[level].bytes; }
  int DeepestLevel() const;  // with a table; 0 where there is none
  // Tables of level that overlap user keys [begin, end] (null: open), and those of older
  // runs of the level that overlap what newer ones gave: what may go down together. Level
  // 0: grown until no other table of the level overlaps the result's range.
  std::vector<FileRef> Overlapping(int level, const std::string_view* begin,
                                   const std::string_view* end) const;
  // Tables of one run of a level >= 1 that overlap [begin, end], as indexes [first, last)
  // of files(level).
  std::pair<size_t, size_t> OverlappingRange(int level, const Run& run,
                                             const std::string_view* begin,
                                             const std::string_view* end) const;
  // Whether one of the tables of a level >= 1 overlaps [begin, end], and their bytes.
  bool Overlaps(int level, std::string_view begin, std::string_view end) const;
  uint64_t OverlapBytes(int level, std::string_view begin, std::string_view end) const;
  // Whether a table of a level below `level` may hold user_key.
  bool KeyMayExistBelow(int level, std::string_view user_key) const;
  // Bytes of tables in [begin, end) of user keys.
  uint64_t ApproximateBytes(std::string_view begin, std::string_view end) const;
  uint64_t EntriesEstimate() const;  // entries - 2 * tombstones, not below zero
  const InternalKeyOrder& order() const { return order_; }
  TableOpener* opener() const { return opener_; }
  std::string DebugString() const;

 private:
  friend class VersionBuilder;  // fills a new one

  struct Level {
    std::vector<FileRef> files;
    std::vector<Run> runs;
    // The flat arrays that the read path searches: KeyOrder::Word(user key, size of
    // prefix_) of each file's smallest and largest key.
    std::vector<uint64_t> smallest_words;
    std::vector<uint64_t> largest_words;
    std::unique_ptr<Slot[]> slots;
    uint64_t bytes = 0;
  };
  // A run below level 0 as the read path searches it.
  struct SearchedRun {
    const uint64_t* smallest_words;
    const uint64_t* largest_words;
    const Slot* slots;
    size_t size;
    int level;
    size_t begin;  // of the level's files
  };
  // Of a lookup among others, those whose filters said maybe.
  struct Way {
    Candidates candidates;
    size_t next = 0;
    TableReader::Preparation preparation;
  };

  void FinishLevels();
  // Takes those candidates away that are older than a range tombstone that covers the key:
  // a filter's no must not hide it. Such a table's no is no answer of its tombstones.
  absl::Status CutAtRangeTombstone(const Lookup& lookup, bool may_open, Candidates* to) const;
  bool HasPrefix(const Lookup& lookup) const;
  std::string SharedPrefix() const;
  std::vector<FileRef> OverlappingInLevel0(const std::string_view* begin,
                                           const std::string_view* end) const;
  std::vector<FileRef> OverlappingInRuns(int level, const std::string_view* begin,
                                         const std::string_view* end) const;
  SortedRun Tables(int level, size_t begin, size_t end) const;
  // Of the run's tables; those that have any are opened.
  absl::StatusOr<RangeTombstoneStack::Run> RangeTombstonesOf(const SortedRun& run,
                                                             const ReadOptions& options) const;
  // Whether candidate's filter rules lookup out, which is counted.
  bool RuledOut(const Candidate& candidate, const Lookup& lookup) const;
  // Counts what became of a candidate for the statistics and the table's tally.
  void CountAnswer(const Candidate& candidate, const Lookup& lookup, FilterAnswer answer) const;
  // Searches candidate's table, whose filter said maybe.
  absl::Status GetFrom(const Candidate& candidate, const TableReader::Preparation* preparation,
                       Lookup* lookup) const;
  bool Covers(const Level& level, size_t index, std::string_view user_key, uint64_t word) const;

  const InternalKeyOrder order_;
  TableOpener* const opener_;
  Level levels_[kNumLevels];
  // What all boundaries of all tables begin with. Words are taken behind it, so
  // that keys with a long common beginning still differ in their words.
  std::string prefix_;
  uint64_t prefix_word_ = 0;  // KeyOrder::Word of it, of which the mask says what counts
  uint64_t prefix_mask_ = 0;
  uint64_t prefix_end_ = 0;                 // its last 8 bytes, where it has more
  std::vector<SearchedRun> searched_runs_;  // newest first
  int deepest_level_ = 0;
  bool has_range_tombstones_ = false;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_VERSION_H_
