#include <cassert>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/cuckoo.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/hash_partition.h"
#include "util/status_macros.h"

namespace sievedb {

// The block of a cuckoo filter. Little-endian.
//
//   offset  size  field
//   0       n     buckets, and zeros behind them (cuckoo.cc)
//
// then the trailer (filter_trailer.h):
//
//   extent        number of buckets, 1 to 2^53
//   keys          added and not removed
//   bits_per_key  6 to 32
//   probes        bits of a fingerprint, 4 to 30
//   detail        0
//   version       1
//   kind          7
namespace {

constexpr std::string_view kName = "cuckoo filter";
constexpr uint8_t kVersion = 1;
constexpr double kMinBitsPerKey = 6;
constexpr double kMaxBitsPerKey = 32;

class CuckooReader final : public FilterReader {
 public:
  static FilterReaderOr Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override {
    return Cuckoo::MayContain(array_, shape_, Cuckoo::PlaceFor(hash, shape_));
  }
  void Prefetch(uint64_t hash) const override {
    Cuckoo::Prefetch(array_, shape_, Cuckoo::PlaceFor(hash, shape_));
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    assert(hashes.size() == results.size());
    ProbeInGroups<Cuckoo::Place>(
        hashes, results,
        [this](uint64_t hash) {
          const Cuckoo::Place place = Cuckoo::PlaceFor(hash, shape_);
          Cuckoo::Prefetch(array_, shape_, place);
          return place;
        },
        [this](const Cuckoo::Place& place) { return Cuckoo::MayContain(array_, shape_, place); });
  }
  FilterFigures Figures() const override;
  size_t MemoryBytes() const override {
    return sizeof(*this) + shape_.ArrayBytes() + kFilterTrailerBytes;
  }

  const Cuckoo::Shape& shape() const { return shape_; }
  uint64_t keys() const { return keys_; }
  double bits_per_key() const { return bits_per_key_; }

 private:
  CuckooReader() = default;

  const char* array_ = nullptr;
  Cuckoo::Shape shape_;
  uint64_t keys_ = 0;
  double bits_per_key_ = 0;
};

FilterReaderOr CuckooReader::Open(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kCuckooKind, kVersion));
  const size_t at = bytes.size() - kFilterTrailerBytes;
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "buckets", at + kFilterExtentOffset, 1,
                                           Cuckoo::kMaxBuckets, trailer.extent));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "bits of a fingerprint", at + kFilterProbesOffset,
                                           Cuckoo::kMinBits, Cuckoo::kMaxBits, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterField(kName, "detail", at + kFilterDetailOffset, 0, 0, trailer.detail));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterBitsPerKey(kName, at, kMinBitsPerKey, kMaxBitsPerKey, trailer.bits_per_key));
  const Cuckoo::Shape shape{trailer.extent, trailer.probes};
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterSize(kName, shape.ArrayBytes() + kFilterTrailerBytes, bytes.size()));

  std::unique_ptr<CuckooReader> reader(new CuckooReader());
  reader->array_ = bytes.data();
  reader->shape_ = shape;
  reader->keys_ = trailer.keys;
  reader->bits_per_key_ = trailer.bits_per_key;
  return reader;
}

FilterFigures CuckooReader::Figures() const {
  FilterFigures figures;
  const uint64_t used = Cuckoo::CountUsed(array_, shape_);
  figures.keys = keys_;
  figures.bits = shape_.buckets * Cuckoo::kSlots * static_cast<uint64_t>(shape_.bits);
  figures.bits_set = used * static_cast<uint64_t>(shape_.bits);
  figures.bits_per_key = bits_per_key_;
  figures.probes = 2;
  // An absent key meets the fingerprints of two buckets.
  const double met = 2 * static_cast<double>(used) / static_cast<double>(shape_.buckets);
  const double values = static_cast<double>((uint64_t{1} << shape_.bits) - 1);
  figures.expected_fpr = -std::expm1(met * std::log1p(-1 / values));
  return figures;
}

const CuckooReader& AsCuckoo(const FilterReader& reader) {
  return static_cast<const CuckooReader&>(reader);
}

FilterTrailer TrailerFor(const Cuckoo::Shape& shape, double bits_per_key, uint64_t keys) {
  FilterTrailer trailer;
  trailer.extent = shape.buckets;
  trailer.keys = keys;
  trailer.bits_per_key = bits_per_key;
  trailer.probes = static_cast<uint8_t>(shape.bits);
  trailer.version = kVersion;
  trailer.kind = kCuckooKind;
  return trailer;
}

}  // namespace

FilterReaderOr OpenCuckooFilter(std::string_view bytes) { return CuckooReader::Open(bytes); }

absl::StatusOr<CuckooFilter> CuckooFilter::Create(const FilterSizing& sizing) {
  SIEVEDB_RETURN_IF_ERROR(CheckSizing(sizing));
  double bits_per_key = sizing.bits_per_key;
  if (sizing.fpr != 0) {
    bits_per_key = std::max(kMinBitsPerKey, Cuckoo::BitsPerKeyFor(sizing.fpr));
    if (sizing.fpr < Cuckoo::kMinRate) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: expected a rate of at least %g, found %g", kName, Cuckoo::kMinRate, sizing.fpr));
    }
  }
  SIEVEDB_RETURN_IF_ERROR(CheckBitsPerKey(bits_per_key, kMinBitsPerKey, kMaxBitsPerKey));
  const Cuckoo::Shape shape = Cuckoo::ShapeFor(sizing.keys, bits_per_key);
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory,
                           AllocateFilterMemory(shape.ArrayBytes() + kFilterTrailerBytes));
  EncodeFilterTrailer(TrailerFor(shape, bits_per_key, 0), memory.data() + shape.ArrayBytes());
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenCuckooFilter({memory.data(), memory.size()}));
  return CuckooFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<CuckooFilter> CuckooFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kCuckooKind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenCuckooFilter({memory.data(), memory.size()}));
  CuckooFilter filter(std::move(memory), std::move(reader));
  filter.keys_ = AsCuckoo(*filter.reader_).keys();
  return filter;
}

absl::Status CuckooFilter::AddHash(uint64_t hash) {
  if (!Cuckoo::Add(memory_.data(), AsCuckoo(*reader_).shape(), hash)) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s: no place for another key beside %d in %d slots", kName, keys_,
                        AsCuckoo(*reader_).shape().buckets * Cuckoo::kSlots));
  }
  ++keys_;
  return absl::OkStatus();
}

bool CuckooFilter::RemoveHash(uint64_t hash) {
  if (!Cuckoo::Remove(memory_.data(), AsCuckoo(*reader_).shape(), hash)) return false;
  // The count comes from the bytes of a trailer, where it may be anything.
  if (keys_ > 0) --keys_;
  return true;
}

FilterFigures CuckooFilter::Figures() const {
  FilterFigures figures = reader_->Figures();
  figures.keys = keys_;
  return figures;
}

void CuckooFilter::WriteTrailer(char* trailer) const {
  const CuckooReader& reader = AsCuckoo(*reader_);
  EncodeFilterTrailer(TrailerFor(reader.shape(), reader.bits_per_key(), keys_), trailer);
}

}  // namespace sievedb
