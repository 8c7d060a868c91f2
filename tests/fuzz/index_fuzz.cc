// Index blocks from anywhere: refused, or good for searching.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sievedb/comparator.h"
#include "table/format.h"
#include "table/index_reader.h"
#include "util/coding.h"

namespace {

using sievedb::IndexReader;
using sievedb::InternalKeyOrder;

class OtherComparator final : public sievedb::Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return "fuzz.Other"; }
};

// The sum of the sizes that an index names, as far as it can be read: with any other
// size of the data every input would be refused.
uint64_t DataBytes(std::string_view bytes) {
  sievedb::ByteReader in(bytes);
  const uint64_t blocks = in.Varint64();
  in.LengthPrefixed();
  uint64_t sum = 0;
  for (uint64_t i = 0; i < blocks && in.ok(); ++i) {
    const uint64_t key = in.Varint64();
    sum += in.Varint64() + sievedb::kBlockTrailerBytes;
    in.Bytes((key >> 1) + (key & 1) * sievedb::kTagBytes);
  }
  return sum;
}

void Search(const InternalKeyOrder& order, std::string_view bytes, uint64_t data_bytes) {
  const auto index = IndexReader::Decode(order, bytes, data_bytes);
  if (!index.ok()) return;
  const size_t blocks = index->blocks();
  // Only a table without data has an index without blocks.
  if ((blocks == 0) != (data_bytes == 0) || index->offset(blocks) != data_bytes) std::abort();
  for (size_t i = 0; i < blocks; ++i) {
    const std::string separator = index->Separator(i);
    // Separators ascend, so each is found where it is.
    if (index->Find(sievedb::UserKey(separator), sievedb::Tag(separator)) != i) std::abort();
    if (!index->SeparatorHasKey(i, sievedb::UserKey(separator))) std::abort();
    if (index->FirstBlockFrom(index->offset(i)) != i) std::abort();
  }
  for (size_t n = 0; n < bytes.size() && n < 40; ++n) {
    if (index->Find(bytes.substr(n / 2, n), 7) > blocks) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const OtherComparator other;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const uint64_t data_bytes = DataBytes(bytes);
  for (const sievedb::Comparator* comparator :
       {sievedb::BytewiseComparator(), sievedb::ReverseBytewiseComparator(),
        static_cast<const sievedb::Comparator*>(&other)}) {
    Search(InternalKeyOrder(comparator), bytes, data_bytes);
    Search(InternalKeyOrder(comparator), bytes, data_bytes + 1);
  }
  return 0;
}
