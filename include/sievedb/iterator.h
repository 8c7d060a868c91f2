#ifndef SIEVEDB_ITERATOR_H_
#define SIEVEDB_ITERATOR_H_

#include <string_view>

#include "absl/status/status.h"
#include "sievedb/export.h"

namespace sievedb {

// A cursor over the keys of a database in comparator order, as of the moment of
// its creation (or of ReadOptions::snapshot). It must be destroyed before its
// DB is.
//
// Threads: not safe for concurrent use; different iterators are independent.
// Cost:    holds the memtables and tables that it was made from; a long-lived
//          iterator keeps files that compaction has replaced on the disk.
class SIEVEDB_EXPORT Iterator {
 public:
  virtual ~Iterator();

  // True where the iterator stands on an entry. False at either end, and after
  // an error: status() tells the two apart.
  virtual bool Valid() const = 0;

  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(std::string_view target) = 0;         // the first key >= target
  virtual void SeekForPrev(std::string_view target) = 0;  // the last key <= target

  // Requires: Valid().
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // Requires: Valid(). The bytes stay until the iterator moves or dies.
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;

  // OK unless a read failed. An error ends the iteration; a later seek may
  // succeed and clears it.
  virtual absl::Status status() const = 0;

  // Moves the iterator to the present state of the database. It is not Valid()
  // until the next seek.
  //
  // Errors: kInvalidArgument where the iterator was made for a snapshot.
  virtual absl::Status Refresh() = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_ITERATOR_H_
