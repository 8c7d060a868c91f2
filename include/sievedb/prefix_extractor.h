#ifndef SIEVEDB_PREFIX_EXTRACTOR_H_
#define SIEVEDB_PREFIX_EXTRACTOR_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "sievedb/export.h"

namespace sievedb {

// Says what the prefix of a key is, so that filters can be asked for prefixes too: an
// iterator that stays in one prefix (ReadOptions::prefix_same_as_start) then reads only
// tables that may hold keys of it.
//
// Threads: safe.
// Invariants, on which right answers depend:
// 1. Keys of one prefix are contiguous in the comparator's order: what lies between two
//    of them has the same prefix. Equal keys have equal prefixes.
// 2. The answer for a key never changes while the name stays the same.
class SIEVEDB_EXPORT PrefixExtractor {
 public:
  virtual ~PrefixExtractor();

  // Stored in each table, with every parameter that answers depend on. A table written
  // with an extractor of another name, or with none, is never ruled out by prefix.
  virtual const char* Name() const = 0;

  // The prefix of key, a part of its bytes; it may be empty. None: the key belongs to no
  // prefix, and only whole-key filters know it.
  virtual std::optional<std::string_view> Prefix(std::string_view key) const = 0;
};

// The first bytes of a key; shorter keys have none. For the built-in comparators.
SIEVEDB_EXPORT std::shared_ptr<const PrefixExtractor> NewFixedPrefixExtractor(size_t bytes);

// All up to the count-th delimiter, itself included; keys with fewer have none: with '/'
// and 2, "a/b/" of "a/b/c". For the built-in comparators. count below 1 counts as 1.
SIEVEDB_EXPORT std::shared_ptr<const PrefixExtractor> NewDelimiterPrefixExtractor(char delimiter,
                                                                                  int count = 1);

}  // namespace sievedb

#endif  // SIEVEDB_PREFIX_EXTRACTOR_H_
