#include "util/filter_block.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "util/filter_checks.h"
#include "util/filter_support.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr const char* NameOf(uint8_t kind) {
  return kind == kBlockedBloomKind ? "blocked Bloom filter" : "dense blocked Bloom filter";
}
constexpr uint8_t VersionOf(uint8_t kind) {
  return kind == kBlockedBloomKind ? kBlockedBloomVersion : kDenseBlockedBloomVersion;
}

}  // namespace

template <typename Bits, uint8_t kKind>
absl::StatusOr<std::unique_ptr<BlockReader<Bits, kKind>>> BlockReader<Bits, kKind>::Open(
    std::string_view bytes) {
  constexpr const char* kName = NameOf(kKind);
  if (bytes.size() < BlockedBloom::kBlockBytes + kFilterTrailerBytes ||
      (bytes.size() - kFilterTrailerBytes) % BlockedBloom::kBlockBytes != 0) {
    return absl::DataLossError(
        absl::StrFormat("%s: %d bytes, expected a positive multiple of %d and %d more", kName,
                        bytes.size(), BlockedBloom::kBlockBytes, kFilterTrailerBytes));
  }
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kKind, VersionOf(kKind)));
  const size_t at = bytes.size() - kFilterTrailerBytes;
  if (trailer.extent != at / BlockedBloom::kBlockBytes) {
    return FilterFieldDamaged(kName, "number of blocks", at + kFilterExtentOffset,
                              at / BlockedBloom::kBlockBytes, trailer.extent);
  }
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "probes", at + kFilterProbesOffset, 1,
                                           BlockedBloom::kMaxProbes, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterField(kName, "detail", at + kFilterDetailOffset, 0, 0, trailer.detail));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterBitsPerKey(kName, at, kMinPolicyBitsPerKey,
                                                kMaxPolicyBitsPerKey, trailer.bits_per_key));

  std::unique_ptr<BlockReader> reader(new BlockReader());
  reader->blocks_ = bytes.data();
  reader->num_blocks_ = trailer.extent;
  reader->probes_ = trailer.probes;
  reader->keys_ = trailer.keys;
  reader->bits_per_key_ = trailer.bits_per_key;
  return reader;
}

template <typename Bits, uint8_t kKind>
FilterFigures BlockReader<Bits, kKind>::Figures() const {
  FilterFigures figures;
  figures.keys = keys_;
  figures.bits = num_blocks_ * uint64_t{Bits::kProbedBits};
  figures.bits_set = Bits::CountSetBits(blocks_, num_blocks_);
  figures.blocks = num_blocks_;
  figures.bits_per_key = bits_per_key_;
  figures.probes = probes_;
  figures.expected_fpr = Bits::FprFromBits(blocks_, num_blocks_, probes_);
  return figures;
}

template <typename Bits, uint8_t kKind>
size_t BlockReader<Bits, kKind>::MemoryBytes() const {
  return sizeof(*this) + num_blocks_ * BlockedBloom::kBlockBytes + kFilterTrailerBytes;
}

template class BlockReader<BlockedBloom, kBlockedBloomKind>;
template class BlockReader<DenseBlockedBloom, kDenseBlockedBloomKind>;

FilterReaderOr OpenBlockedBloomFilter(std::string_view bytes) {
  return BlockedBloomReader::Open(bytes);
}

FilterReaderOr OpenDenseBlockedBloomFilter(std::string_view bytes) {
  return DenseBlockedBloomReader::Open(bytes);
}

FilterReaderOr OpenBuiltInFilter(uint8_t kind, std::string_view bytes) {
  switch (kind) {
    case kBlockedBloomKind:
      return OpenBlockedBloomFilter(bytes);
    case kDenseBlockedBloomKind:
      return OpenDenseBlockedBloomFilter(bytes);
    case kBloomKind:
      return OpenBloomFilter(bytes);
    case kRibbonKind:
      return OpenRibbonFilter(bytes);
    case kBinaryFuseKind:
      return OpenBinaryFuseFilter(bytes);
    case kCountingBloomKind:
      return OpenCountingBloomFilter(bytes);
    case kCuckooKind:
      return OpenCuckooFilter(bytes);
    case kScalableBloomKind:
      return OpenScalableBloomFilter(bytes);
    default:
      return absl::DataLossError(
          absl::StrFormat("filter of kind %d: this version knows kinds %d to %d only", kind,
                          kBlockedBloomKind, kScalableBloomKind));
  }
}

}  // namespace sievedb
