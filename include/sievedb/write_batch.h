#ifndef SIEVEDB_WRITE_BATCH_H_
#define SIEVEDB_WRITE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sievedb/export.h"

namespace sievedb {

// Changes that are applied as one, in order: a later change to a key hides an
// earlier one of the same batch.
//
// Threads: not safe for concurrent use.
class SIEVEDB_EXPORT WriteBatch {
 public:
  // Receives the changes of a batch in order. Returning an error stops the
  // iteration and is returned by it.
  class SIEVEDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual absl::Status Put(std::string_view key, std::string_view value) = 0;
    virtual absl::Status Delete(std::string_view key) = 0;
    // The default returns kUnimplemented: a handler that knows no ranges must not pass over
    // one.
    virtual absl::Status DeleteRange(std::string_view begin, std::string_view end);
  };

  WriteBatch();
  ~WriteBatch();
  WriteBatch(const WriteBatch&);
  WriteBatch& operator=(const WriteBatch&);
  WriteBatch(WriteBatch&&) noexcept;
  WriteBatch& operator=(WriteBatch&&) noexcept;

  // A key or value beyond the limits of a database (64 MiB, 3 GiB) is not added;
  // DB::Write then returns kInvalidArgument and writes nothing of the batch.
  void Put(std::string_view key, std::string_view value);
  void Delete(std::string_view key);
  // Deletes every key k with begin <= k < end, by one tombstone; nothing where begin and
  // end are equal. Where begin is after end, by the comparator of the database,
  // DB::Write returns kInvalidArgument and writes nothing of the batch.
  void DeleteRange(std::string_view begin, std::string_view end);

  // Forgets all changes, and an error of an earlier Put.
  void Clear();

  // Adds the changes of other behind those of this batch.
  void Append(const WriteBatch& other);

  // Errors: kDataLoss where the bytes are malformed, or what the handler returned.
  absl::Status Iterate(Handler* handler) const;

  uint32_t Count() const;   // changes in the batch; a DeleteRange is one
  size_t ByteSize() const;  // bytes that it takes in the WAL

 private:
  friend class WriteBatchInternal;

  // The format is described in db/write_batch_internal.h.
  std::string rep_;
  absl::Status error_;
  bool has_ranges_ = false;  // a DeleteRange is among the changes
};

}  // namespace sievedb

#endif  // SIEVEDB_WRITE_BATCH_H_
