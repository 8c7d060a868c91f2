#ifndef SIEVEDB_DB_DB_ITERATOR_H_
#define SIEVEDB_DB_DB_ITERATOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "db/prefix_scope.h"
#include "sievedb/iterator.h"
#include "sievedb/options.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "util/statistics_impl.h"

namespace sievedb {

// What a DBIterator reads: every entry of one pinned view.
struct IteratorSource {
  std::shared_ptr<const void> view;  // keeps what the iterator reads; dies last
  std::unique_ptr<InternalIterator> entries;
  uint64_t sequence = 0;  // entries above it are not seen
};

// The public Iterator over internal entries: shows each user key's newest version
// that sequence sees, leaves out deleted ones, keeps within the bounds.
// make_source is called at once and by each Refresh. scope: what the entries' iterators go
// by; with prefix_same_as_start each seek takes it to the prefix that is then stayed in.
std::unique_ptr<Iterator> NewDBIterator(const InternalKeyOrder& order, const ReadOptions& options,
                                        StatisticsImpl* statistics,
                                        std::function<absl::StatusOr<IteratorSource>()> make_source,
                                        std::unique_ptr<PrefixScope> scope = nullptr);

}  // namespace sievedb

#endif  // SIEVEDB_DB_DB_ITERATOR_H_
