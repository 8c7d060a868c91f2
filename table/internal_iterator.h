#ifndef SIEVEDB_TABLE_INTERNAL_ITERATOR_H_
#define SIEVEDB_TABLE_INTERNAL_ITERATOR_H_

#include <memory>
#include <string_view>

#include "absl/status/status.h"

namespace sievedb {

// A cursor over internal keys. The public Iterator is built on one.
//
// An error makes it not Valid and shows in status(); it stays until the next
// seek.
class InternalIterator {
 public:
  InternalIterator() = default;
  virtual ~InternalIterator() = default;
  InternalIterator(const InternalIterator&) = delete;
  InternalIterator& operator=(const InternalIterator&) = delete;

  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(std::string_view internal_key) = 0;         // first >= key
  virtual void SeekForPrev(std::string_view internal_key) = 0;  // last <= key
  // Starts loading what Seek(internal_key), which is the next call but for more of
  // these, will look at: one dependent memory access further each time. False where
  // nothing more can be started. A merge calls it for all its children in turns, so
  // that their cache misses overlap. Requires: an EpochGuard until the seek is done.
  virtual bool PrepareSeek(std::string_view /*internal_key*/) { return false; }
  virtual void Next() = 0;  // Requires: Valid()
  // Next, and what a caller in a loop asks for then, in one call: false where it is
  // not Valid() after it, otherwise *key is key().
  virtual bool NextKey(std::string_view* key) {
    Next();
    if (!Valid()) return false;
    *key = this->key();
    return true;
  }
  virtual void Prev() = 0;  // Requires: Valid()
  // Requires: Valid(). The bytes stay until the iterator moves.
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual absl::Status status() const = 0;

  // Once this was called, a seek may end without reading anything where a bound of
  // the entry to stand on is known beforehand. The iterator is then deferred(): it is
  // Valid(), and key() is an internal key that the entry is not before (after
  // SeekForPrev and SeekToLast: not behind). Nothing else may be asked of it until
  // Resolve() has brought it to the entry, or found none, or an error. A merge needs
  // of most runs no more than that.
  virtual void AllowDeferral() {}
  virtual bool deferred() const { return false; }
  virtual void Resolve() {}
};

// One with no entries, that carries status.
std::unique_ptr<InternalIterator> NewEmptyInternalIterator(absl::Status status = absl::OkStatus());

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_INTERNAL_ITERATOR_H_
