#ifndef SIEVEDB_DB_PREFIX_SCOPE_H_
#define SIEVEDB_DB_PREFIX_SCOPE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "db/memtable.h"
#include "db/table_opener.h"
#include "db/version_iterator.h"
#include "sievedb/options.h"
#include "sievedb/prefix_extractor.h"
#include "table/internal_iterator.h"
#include "util/statistics_impl.h"

namespace sievedb {

// The prefix that an iterator stays in, if any. The iterator says which one it is before
// it seeks; the iterators below it, over memtables and runs, ask their filters for it,
// and show nothing where it is denied. So what they show is complete for keys of the
// prefix only, and who is above them must stop where it ends.
//
// That is enough because the keys of a prefix are contiguous: let t be the key that is
// sought, and f the table of a sorted run whose range holds t. Were f without keys of
// t's prefix and a further table with one, k, then f's last key would lie between t and
// k and have the prefix. So when f denies the prefix no other table of the run has to be
// asked; the same holds for each table that is stepped into, and in both directions. A
// table with range tombstones may have its range from them, and is not asked.
//
// Threads: not safe for concurrent use.
class PrefixScope {
 public:
  // The extractor outlives the scope. hash_seed: the database's. statistics may be null.
  PrefixScope(const PrefixExtractor* extractor, uint64_t hash_seed, StatisticsImpl* statistics)
      : extractor_(extractor), hash_seed_(hash_seed), statistics_(statistics) {}

  // Goes to the prefix of user_key; to none, where it has none. Returns active().
  bool Enter(std::string_view user_key);
  void Leave();

  bool active() const { return active_; }
  // Whether user_key has the prefix. Requires: active().
  bool Holds(std::string_view user_key) const;
  // Grows with each change.
  uint64_t generation() const { return generation_; }

  // Starts loading what Denies will look at.
  void Prefetch(const TableReader& table) const;
  // Whether no key of the prefix is there; counted for tables that know prefixes. False
  // where not active().
  bool Denies(const TableReader& table) const;
  bool Denies(const MemTable& memtable) const {
    return active_ && !memtable.MayContainPrefix(hash_);
  }

 private:
  const PrefixExtractor* const extractor_;
  const uint64_t hash_seed_;
  StatisticsImpl* const statistics_;
  bool active_ = false;
  std::string prefix_;
  uint64_t hash_ = 0;  // PrefixHash(prefix_, hash_seed_)
  uint64_t generation_ = 1;
};

// The scope of an iterator with these options; null where it needs none. Where the bounds
// have one prefix, all keys between them do: the scope has entered it already.
// Requires: prefix_same_as_start only with an extractor.
std::unique_ptr<PrefixScope> NewPrefixScope(const PrefixExtractor* extractor,
                                            const ReadOptions& options, uint64_t hash_seed,
                                            StatisticsImpl* statistics);

// The entries of a run, but for those tables that scope denies: their index and data are
// not touched. As NewRunIterator, and scope must outlive the iterator.
// Requires: SeekToFirst and SeekToLast are not called while scope is active.
std::unique_ptr<InternalIterator> NewPrefixRunIterator(const InternalKeyOrder& order,
                                                       const SortedRun& run, TableOpener* opener,
                                                       const ReadOptions& options,
                                                       const PrefixScope* scope);

// The same for a memtable, of which the iterator holds a reference.
std::unique_ptr<InternalIterator> NewPrefixMemTableIterator(RefPtr<const MemTable> memtable,
                                                            const PrefixScope* scope);

}  // namespace sievedb

#endif  // SIEVEDB_DB_PREFIX_SCOPE_H_
