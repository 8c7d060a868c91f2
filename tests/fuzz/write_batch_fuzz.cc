// Any bytes as a batch: refused, or a batch whose changes, written again, are the
// same changes.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "db/write_batch_internal.h"
#include "sievedb/write_batch.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

class Copier : public sievedb::WriteBatch::Handler {
 public:
  absl::Status Put(std::string_view key, std::string_view value) override {
    copy.Put(key, value);
    return absl::OkStatus();
  }
  absl::Status Delete(std::string_view key) override {
    copy.Delete(key);
    return absl::OkStatus();
  }
  absl::Status DeleteRange(std::string_view begin, std::string_view end) override {
    copy.DeleteRange(begin, end);
    return absl::OkStatus();
  }
  sievedb::WriteBatch copy;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sievedb::WriteBatchInternal;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  sievedb::WriteBatch batch;
  if (!WriteBatchInternal::SetBytes(&batch, bytes).ok()) {
    Require(batch.Count() == 0);
    return 0;
  }
  Copier first;
  Require(batch.Iterate(&first).ok());
  WriteBatchInternal::SetSequence(&first.copy, WriteBatchInternal::Sequence(batch));
  Require(first.copy.Count() == batch.Count());
  // Varints may be longer than they need to be, so the copy may be shorter.
  Require(first.copy.ByteSize() <= batch.ByteSize());
  Copier second;
  Require(first.copy.Iterate(&second).ok());
  WriteBatchInternal::SetSequence(&second.copy, WriteBatchInternal::Sequence(batch));
  Require(WriteBatchInternal::Bytes(first.copy) == WriteBatchInternal::Bytes(second.copy));
  Require(WriteBatchInternal::HasRanges(first.copy) == WriteBatchInternal::HasRanges(batch));
  return 0;
}
