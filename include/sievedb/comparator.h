#ifndef SIEVEDB_COMPARATOR_H_
#define SIEVEDB_COMPARATOR_H_

#include <string>
#include <string_view>

#include "sievedb/export.h"

namespace sievedb {

// A total order over keys. The order is part of the database: it is opened with
// a comparator of the same Name() for ever.
//
// Thread safety: implementations must be callable from any number of threads.
class SIEVEDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // < 0 where a comes before b, 0 where they are the same key, > 0 otherwise.
  virtual int Compare(std::string_view a, std::string_view b) const = 0;

  // Written to the MANIFEST. A database opened with a comparator of another
  // name is refused with kInvalidArgument. Names that begin with "sievedb." are
  // reserved.
  virtual const char* Name() const = 0;

  // May shorten *start to any key in [*start, limit): separators between blocks
  // become smaller. Leaving it alone is correct, and the default.
  virtual void FindShortestSeparator(std::string* start, std::string_view limit) const;

  // May shorten *key to any key >= *key. Leaving it alone is correct, and the
  // default.
  virtual void FindShortSuccessor(std::string* key) const;

  // Whether Compare(a, b) == 0 only where a and b have the same bytes. Where
  // not, hashes say nothing about equality, so filters and hash indexes are
  // neither built nor used.
  virtual bool EqualKeysHaveEqualBytes() const { return true; }
};

// The order of the bytes as unsigned numbers, and its reverse. Both live for
// ever; comparisons under them make no virtual call.
SIEVEDB_EXPORT const Comparator* BytewiseComparator();
SIEVEDB_EXPORT const Comparator* ReverseBytewiseComparator();

}  // namespace sievedb

#endif  // SIEVEDB_COMPARATOR_H_
