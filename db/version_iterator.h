#ifndef SIEVEDB_DB_VERSION_ITERATOR_H_
#define SIEVEDB_DB_VERSION_ITERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "db/file_meta.h"
#include "db/table_opener.h"
#include "sievedb/options.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace sievedb {

// Tables in order that don't overlap, not even in a user key, and what their
// search is made fast with.
struct SortedRun {
  absl::Span<const FileRef> files;
  // KeyOrder::Word(largest user key, skip) of each file, or null: then whole keys
  // are compared. All user keys of the files begin with the same skip bytes.
  const uint64_t* largest_words = nullptr;
  std::string_view prefix;  // those bytes
  // The same of the smallest user keys. Null only where largest_words is.
  const uint64_t* smallest_words = nullptr;
};

// The number of words < word, of n in ascending order. Each step is arithmetic: the
// comparison's outcome is as good as random, so a branch, which compilers make of a
// conditional expression here, would be mispredicted half the time.
inline size_t CountBelow(const uint64_t* words, size_t n, uint64_t word) {
  const uint64_t* base = words;
  while (n > 1) {
    const size_t half = n / 2;
    base += half & -static_cast<size_t>(base[half - 1] < word);
    n -= half;
  }
  return static_cast<size_t>(base - words) + (n == 1 && *base < word ? 1 : 0);
}

// The index of the first file that does not end before user_key; files.size() where there
// is none.
size_t FindFile(const KeyOrder& order, const SortedRun& run, std::string_view user_key);

// The same where word is KeyOrder::Word(user_key, skip) and user_key begins with
// the run's prefix.
size_t FindFileByWord(const KeyOrder& order, const SortedRun& run, std::string_view user_key,
                      uint64_t word);

// All entries of a run. Tables that are not open are opened when it comes to them.
//
// Once deferral is allowed, a seek that ends at a table's border opens and reads
// nothing: the border is known from the table's description. So a merge touches no
// run before it has come to the run's first key, and a table that can't be read is an
// error only where its entries are wanted.
//
// The run's files and words, and opener, must outlive the iterator.
std::unique_ptr<InternalIterator> NewRunIterator(const InternalKeyOrder& order,
                                                 const SortedRun& run, TableOpener* opener,
                                                 const ReadOptions& options,
                                                 bool for_compaction = false);

// A table that is open, or that options allows to open: kUnavailable where
// options.cache_only forbids it.
absl::StatusOr<const TableReader*> OpenForRead(TableOpener* opener, const FileMeta& file,
                                               const ReadOptions& options);

}  // namespace sievedb

#endif  // SIEVEDB_DB_VERSION_ITERATOR_H_
