#ifndef SIEVEDB_DB_MEMTABLE_H_
#define SIEVEDB_DB_MEMTABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "db/entry_tree.h"
#include "sievedb/prefix_extractor.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/lookup.h"
#include "table/range_tombstones.h"
#include "util/arena.h"
#include "util/atomic_bloom.h"
#include "util/mutex.h"
#include "util/ref_counted.h"

namespace sievedb {

// The newest writes, in order, in memory.
//
// Threads: Add may be called concurrently with Add and with everything else;
//          readers take no lock. Entries are visible at once, so readers pass a
//          sequence that is published only when the whole group is in.
class MemTable : public RefCounted<MemTable> {
 public:
  // id grows with each memtable of a DB. expected_bytes: at which it will be
  // flushed; a 64th of it goes to a filter, so that most lookups of keys that are
  // not here cost one load. hash_seed: that of the lookups. prefix_extractor: whose
  // prefixes the filter is to know too (null: of none); it outlives the memtable.
  MemTable(const InternalKeyOrder& order, uint64_t id, size_t expected_bytes = size_t{1} << 20,
           uint64_t hash_seed = 0, const PrefixExtractor* prefix_extractor = nullptr);
  ~MemTable();

  // Requires: no entry with this key and sequence is in it; type is that of an entry.
  void Add(uint64_t sequence, EntryType type, std::string_view key, std::string_view value);

  // Adds a tombstone for the keys of [begin, end), all of them where nothing is in it.
  // Threads: as Add. Cost: O(range tombstones in here).
  void AddRange(uint64_t sequence, std::string_view begin, std::string_view end);

  // Decides lookup where an entry of its key or a range tombstone that covers it is in
  // here. lookup->value then points into the memtable. Requires: an EpochGuard.
  void Get(Lookup* lookup) const;

  // Whether Get would decide lookup. Requires: an EpochGuard.
  bool Contains(const Lookup& lookup) const;

  // False where no key is here whose prefix has this PrefixHash. Entries that a reader
  // may not see yet count or do not.
  bool MayContainPrefix(uint64_t hash) const {
    return prefix_extractor_ == nullptr || filter_.MayContain(hash);
  }

  // Starts loading what Get will look at first.
  void Prefetch(const Lookup& lookup) const { filter_.Prefetch(lookup.hash); }

  // Holds a reference to the memtable.
  std::unique_ptr<InternalIterator> NewIterator() const;

  // Null: there are none. They lie in the memtable, which must outlive them.
  // Requires: an EpochGuard, or that nobody adds any.
  RefPtr<const RangeTombstones> range_tombstones() const {
    return RefPtr<const RangeTombstones>::Share(range_tombstones_.load(std::memory_order_acquire));
  }

  uint64_t id() const { return id_; }
  // What it holds from the system, and what of that entries take.
  size_t MemoryBytes() const { return arena_.MemoryBytes() + filter_.MemoryBytes(); }
  size_t DataBytes() const { return arena_.UsedBytes(); }
  // Relaxed, as tombstones() is: who acquired a sequence sees at least the entries
  // that were added before it was published.
  uint64_t entries() const { return tree_.size(); }
  // Distinct ones, a few too little. 0 without an extractor.
  uint64_t prefixes() const { return prefixes_.load(std::memory_order_relaxed); }
  uint64_t tombstones() const { return tombstones_.load(std::memory_order_relaxed); }
  bool empty() const {
    return entries() == 0 && range_tombstones_.load(std::memory_order_relaxed) == nullptr;
  }

 private:
  void AddPrefix(std::string_view key);
  void GetPast(const RangeTombstones& tombstones, Lookup* lookup) const;
  // The newest entry of its key that lookup sees, or null.
  const EntryTree::Entry* Find(const Lookup& lookup) const;

  const uint64_t id_;
  Arena arena_;
  const InternalKeyOrder order_;
  const uint64_t hash_seed_;
  const bool use_filter_;                          // not where equal keys may have different bytes
  const PrefixExtractor* const prefix_extractor_;  // null without the filter too
  AtomicBloom filter_;
  EntryTree tree_;
  std::atomic<uint64_t> tombstones_{0};
  std::atomic<uint64_t> prefixes_{0};

  Mutex range_mu_;  // taken to change range_tombstones_
  // Null: none. Exchanged for a list with one more, and the old one retired: who loads it
  // under an EpochGuard may use it. Release-stored, acquire-loaded: who acquired a
  // sequence sees at least those that were added before it was published.
  std::atomic<const RangeTombstones*> range_tombstones_{nullptr};
};

// The range tombstones of memtables, of each fragment the newest that each of the snapshots
// (ascending) and the present sees; null: there are none. The memtables must outlive them.
// Requires: nobody adds any.
RefPtr<const RangeTombstones> MergeRangeTombstones(const InternalKeyOrder& order,
                                                   absl::Span<const RefPtr<MemTable>> memtables,
                                                   const std::vector<uint64_t>& snapshots);

}  // namespace sievedb

#endif  // SIEVEDB_DB_MEMTABLE_H_
