#ifndef SIEVEDB_DB_WRITE_BATCH_INTERNAL_H_
#define SIEVEDB_DB_WRITE_BATCH_INTERNAL_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "sievedb/comparator.h"
#include "sievedb/write_batch.h"

namespace sievedb {

class MemTable;

// What the engine does with a WriteBatch.
//
// The batch's bytes, which are also a WAL record's payload:
//   offset  size  field
//   0       8     sequence of the first change (fixed64; 0 until it is written)
//   8       4     number of changes (fixed32)
//   12      …     changes, each:
//                   type     1 byte, EntryType
//                   family   varint, 0: column families are not in version 1
//                   key      varint length, bytes; of kDeleteRange the begin
//                   value    varint length, bytes; kPut: the value, kDeleteRange: the
//                            end; kDelete has none
class WriteBatchInternal {
 public:
  static constexpr size_t kHeaderBytes = 12;

  static std::string_view Bytes(const WriteBatch& batch);
  static absl::Status Error(const WriteBatch& batch);  // of an earlier Put

  static bool HasRanges(const WriteBatch& batch) { return batch.has_ranges_; }
  // Errors: kInvalidArgument where a DeleteRange of the batch begins after its end.
  static absl::Status CheckRanges(const WriteBatch& batch, const Comparator& comparator);

  // Checks the header and every change. Errors: kDataLoss.
  static absl::Status SetBytes(WriteBatch* batch, std::string_view bytes);

  static uint64_t Sequence(const WriteBatch& batch);
  static void SetSequence(WriteBatch* batch, uint64_t sequence);

  // The bytes of several batches as one record that starts at sequence.
  static void Concatenate(std::string* to, uint64_t sequence, const WriteBatch* const* batches,
                          size_t count);

  // Adds the changes to memtable under sequences first_sequence, +1 …
  static absl::Status InsertInto(const WriteBatch& batch, uint64_t first_sequence,
                                 MemTable* memtable);
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_WRITE_BATCH_INTERNAL_H_
