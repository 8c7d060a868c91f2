// Tables from anywhere, as they are and with their checksums put right (which would
// keep nearly every mutation out): errors or entries, never a crash or an endless walk.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "sievedb/comparator.h"
#include "table/format.h"
#include "table/index_reader.h"
#include "table/lookup.h"
#include "table/prefix_hash.h"
#include "table/table_reader.h"
#include "util/coding.h"
#include "util/epoch.h"
#include "util/hash.h"

namespace {

using sievedb::BlockHandle;
using sievedb::BytewiseComparator;
using sievedb::Compression;
using sievedb::Footer;
using sievedb::InternalKeyOrder;
using sievedb::kBlockTrailerBytes;
using sievedb::kFooterBytes;

class StringFile final : public sievedb::RandomAccessFile {
 public:
  explicit StringFile(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    const size_t at = std::min<uint64_t>(offset, bytes_.size());
    const size_t bytes = std::min(n, bytes_.size() - at);
    if (bytes != 0) std::memcpy(scratch, bytes_.data() + at, bytes);
    *result = {scratch, bytes};
    return absl::OkStatus();
  }
  void Readahead(uint64_t /*offset*/, size_t /*n*/) const override {}

 private:
  const std::string bytes_;
};

void Read(const std::string& bytes, bool verify_checksums) {
  sievedb::TableReaderOptions options;
  options.path = "fuzz";
  options.file_number = sievedb::kAnyFileNumber;
  options.file_bytes = bytes.size();
  // That of the seed which has prefixes in its filter.
  static const auto extractor = sievedb::NewFixedPrefixExtractor(4);
  options.prefix_extractor = extractor.get();
  const auto table = sievedb::TableReader::Open(options, std::make_unique<StringFile>(bytes));
  if (!table.ok()) return;
  sievedb::ReadOptions read;
  read.verify_checksums = verify_checksums;
  const auto it = (*table)->NewIterator(read);
  size_t entries = 0;
  std::string some_key = "key";
  // Snappy may make 32 bytes of one, and an entry has 11 at least.
  const size_t limit = bytes.size() * 4 + 16;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (++entries > limit) std::abort();
    if (entries % 7 == 1) some_key = sievedb::UserKey(it->key());
  }
  entries = 0;
  for (it->SeekToLast(); it->Valid(); it->Prev()) {
    if (++entries > limit) std::abort();
  }
  const bool verified = (*table)->Verify().ok();
  {
    const sievedb::EpochGuard guard;
    const InternalKeyOrder order(BytewiseComparator());
    sievedb::Lookup lookup(some_key, 1000, order.user(), read, nullptr);
    const absl::Status status = (*table)->Get(&lookup);
    if (verified && !status.ok()) std::abort();
    const auto prefix = extractor->Prefix(some_key);
    if (prefix.has_value()) {
      const bool maybe =
          (*table)->MayContainPrefix(*prefix, sievedb::PrefixHash(*prefix, options.hash_seed));
      if (verified && entries > 0 && !maybe) std::abort();
    }
  }
  const absl::Status walked =
      (*table)->ForEachBlock([](const sievedb::BlockDescription&) { return true; });
  if (verified && !walked.ok()) std::abort();
}

void PutRight(std::string* bytes, const BlockHandle& handle, uint64_t file_number) {
  char* const block = bytes->data() + handle.offset;
  sievedb::AddBlockTrailer(block, handle.size, static_cast<Compression>(block[handle.size]),
                           file_number, handle.offset);
}

// False where the footer says nothing useful.
bool PutChecksumsRight(std::string* bytes) {
  if (bytes->size() < kFooterBytes) return false;
  char* const footer_at = bytes->data() + bytes->size() - kFooterBytes;
  const uint32_t version = sievedb::DecodeFixed64(footer_at + 56) != 0 ? 2 : 1;  // has ranges
  sievedb::EncodeFixed32(footer_at + 112, version);
  sievedb::EncodeFixed32(footer_at + 116, ~version);
  sievedb::EncodeFixed64(footer_at + 120, sievedb::kTableMagic);
  sievedb::EncodeFixed64(footer_at + 104,
                         sievedb::Hash64Pair({footer_at, 104}, {footer_at + 112, 16}, 0));
  const auto footer = sievedb::DecodeFooter({footer_at, kFooterBytes}, bytes->size(), "fuzz");
  if (!footer.ok()) return false;
  for (const BlockHandle& handle :
       {footer->range_tombstones, footer->filter, footer->index, footer->properties}) {
    if (handle.size != 0) PutRight(bytes, handle, footer->file_number);
  }
  const auto index = sievedb::IndexReader::Decode(
      InternalKeyOrder(BytewiseComparator()),
      std::string_view(*bytes).substr(footer->index.offset, footer->index.size),
      bytes->size() - footer->tail_bytes);
  if (!index.ok()) return true;
  for (size_t i = 0; i < index->blocks(); ++i) {
    PutRight(bytes, index->handle(i), footer->file_number);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Read(bytes, true);
  Read(bytes, false);
  if (PutChecksumsRight(&bytes)) {
    Read(bytes, true);
    Read(bytes, false);
  }
  return 0;
}
