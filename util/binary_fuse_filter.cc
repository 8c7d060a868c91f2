#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/binary_fuse.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/hash_partition.h"
#include "util/status_macros.h"

namespace sievedb {

// The block of a binary fuse filter. Little-endian.
//
//   offset  size  field
//   0       n     array     n = (segments + 2) * 2^length_log2 (binary_fuse.cc)
//
// then the trailer (filter_trailer.h):
//
//   extent        segments, 1 to 2^40
//   keys          where it is 0 the filter denies all, whatever the array has
//   bits_per_key  9
//   probes        the attempt whose seed the keys are mixed with: 0 to 63
//   detail        length_log2, 2 to 18
//   version       1
//   kind          5
namespace {

constexpr std::string_view kName = "binary fuse filter";
constexpr uint8_t kVersion = 1;
constexpr double kBitsPerKey = 9;
constexpr uint64_t kMaxSegments = uint64_t{1} << 40;
static_assert(BinaryFuse::kMaxAttempts <= 256, "an attempt is a byte of the trailer");

class BinaryFuseReader final : public FilterReader {
 public:
  static FilterReaderOr Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override { return Test(CellsFor(hash)); }
  void Prefetch(uint64_t hash) const override { BinaryFuse::Prefetch(array_, CellsFor(hash)); }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    assert(hashes.size() == results.size());
    ProbeInGroups<BinaryFuse::Cells>(
        hashes, results,
        [this](uint64_t hash) {
          const BinaryFuse::Cells cells = CellsFor(hash);
          BinaryFuse::Prefetch(array_, cells);
          return cells;
        },
        [this](const BinaryFuse::Cells& cells) { return Test(cells); });
  }
  FilterFigures Figures() const override;
  size_t MemoryBytes() const override {
    return sizeof(*this) + shape_.ArrayBytes() + kFilterTrailerBytes;
  }

 private:
  BinaryFuseReader() = default;

  BinaryFuse::Cells CellsFor(uint64_t hash) const {
    return BinaryFuse::CellsFor(MixHash(hash, seed_), shape_);
  }
  bool Test(const BinaryFuse::Cells& cells) const {
    return BinaryFuse::MayContain(array_, cells) && keys_ > 0;
  }

  const uint8_t* array_ = nullptr;
  BinaryFuse::Shape shape_;
  uint64_t seed_ = 0;
  uint64_t keys_ = 0;
};

FilterReaderOr BinaryFuseReader::Open(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kBinaryFuseKind, kVersion));
  const size_t at = bytes.size() - kFilterTrailerBytes;
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "segments", at + kFilterExtentOffset, 1,
                                           kMaxSegments, trailer.extent));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "segment length", at + kFilterDetailOffset, 2,
                                           BinaryFuse::kMaxSegmentLengthLog2, trailer.detail));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "attempt", at + kFilterProbesOffset, 0,
                                           BinaryFuse::kMaxAttempts - 1, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterBitsPerKey(kName, at, kBitsPerKey, kBitsPerKey, trailer.bits_per_key));
  const BinaryFuse::Shape shape{trailer.extent, trailer.detail};
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterSize(kName, shape.ArrayBytes() + kFilterTrailerBytes, bytes.size()));

  std::unique_ptr<BinaryFuseReader> reader(new BinaryFuseReader());
  reader->array_ = reinterpret_cast<const uint8_t*>(bytes.data());
  reader->shape_ = shape;
  reader->seed_ = MixSeed(trailer.probes);
  reader->keys_ = trailer.keys;
  return reader;
}

FilterFigures BinaryFuseReader::Figures() const {
  FilterFigures figures;
  figures.keys = keys_;
  figures.bits = shape_.ArrayBytes() * 8;
  for (uint64_t i = 0; i < shape_.ArrayBytes(); ++i) {
    figures.bits_set += static_cast<uint64_t>(std::popcount(array_[i]));
  }
  figures.bits_per_key = kBitsPerKey;
  figures.probes = 3;
  // The fingerprint of an absent key has nothing to do with what its bytes are.
  figures.expected_fpr = keys_ == 0 ? 0 : 1.0 / 256;
  return figures;
}

// Builds into memory that allocate(bytes), zeros or nullptr, gives for the whole block.
// False where it could not be built.
bool BuildBlock(absl::Span<const uint64_t> hashes, absl::FunctionRef<char*(size_t)> allocate) {
  char* block = nullptr;
  const std::optional<BinaryFuse::Built> built =
      BinaryFuse::Build(hashes, [&](const BinaryFuse::Shape& shape) {
        block = allocate(shape.ArrayBytes() + kFilterTrailerBytes);
        return reinterpret_cast<uint8_t*>(block);
      });
  if (!built.has_value()) return false;
  FilterTrailer trailer;
  trailer.extent = built->shape.segments;
  trailer.keys = built->keys;
  trailer.bits_per_key = kBitsPerKey;
  trailer.probes = static_cast<uint8_t>(built->attempt);
  trailer.detail = static_cast<uint8_t>(built->shape.length_log2);
  trailer.version = kVersion;
  trailer.kind = kBinaryFuseKind;
  EncodeFilterTrailer(trailer, block + built->shape.ArrayBytes());
  return true;
}

class BinaryFuseBuilder final : public FilterBuilder {
 public:
  explicit BinaryFuseBuilder(uint64_t max_build_bytes) : max_build_bytes_(max_build_bytes) {}

  void AddHash(uint64_t hash) override { hashes_.Add(hash); }

  std::string Finish() override {
    const std::vector<uint64_t> hashes = hashes_.Take();
    std::string block;
    const bool fits = hashes.size() <= BinaryFuse::kMaxKeys &&
                      BinaryFuse::BuildBytes(hashes.size()) + hashes.size() * sizeof(uint64_t) <=
                          max_build_bytes_;
    if (fits && BuildBlock(hashes, [&](size_t bytes) {
          block.assign(bytes, '\0');
          return block.data();
        })) {
      return block;
    }
    kind_ = kBlockedBloomKind;
    const std::unique_ptr<FilterBuilder> bloom = NewBlockedBloomPolicy(kBitsPerKey)->NewBuilder({});
    for (const uint64_t hash : hashes) bloom->AddHash(hash);
    return bloom->Finish();
  }

  uint8_t Kind() const override { return kind_; }

 private:
  const uint64_t max_build_bytes_;
  FilterHashes hashes_;
  uint8_t kind_ = kBinaryFuseKind;
};

class BinaryFusePolicy final : public FilterPolicy {
 public:
  explicit BinaryFusePolicy(uint64_t max_build_bytes) : max_build_bytes_(max_build_bytes) {}

  uint8_t Kind() const override { return kBinaryFuseKind; }
  const char* Name() const override { return "sievedb.BinaryFuse"; }
  double BitsPerKey(const FilterContext&) const override { return kBitsPerKey; }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext&) const override {
    return std::make_unique<BinaryFuseBuilder>(max_build_bytes_);
  }
  FilterReaderOr NewReader(std::string_view bytes) const override {
    return OpenBinaryFuseFilter(bytes);
  }

 private:
  const uint64_t max_build_bytes_;
};

}  // namespace

FilterReaderOr OpenBinaryFuseFilter(std::string_view bytes) {
  return BinaryFuseReader::Open(bytes);
}

absl::StatusOr<BinaryFuseFilter> BinaryFuseFilter::Create(absl::Span<const uint64_t> hashes) {
  FilterMemory memory;
  absl::Status status = absl::OkStatus();
  const bool built = BuildBlock(hashes, [&](size_t bytes) -> char* {
    absl::StatusOr<FilterMemory> allocated = AllocateFilterMemory(bytes);
    status = allocated.status();
    if (!status.ok()) return nullptr;
    memory = *std::move(allocated);
    return memory.data();
  });
  SIEVEDB_RETURN_IF_ERROR(status);
  if (!built) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s: %d keys cannot be built", kName, hashes.size()));
  }
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenBinaryFuseFilter({memory.data(), memory.size()}));
  return BinaryFuseFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<BinaryFuseFilter> BinaryFuseFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kBinaryFuseKind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenBinaryFuseFilter({memory.data(), memory.size()}));
  return BinaryFuseFilter(std::move(memory), std::move(reader));
}

std::shared_ptr<const FilterPolicy> NewBinaryFusePolicy(uint64_t max_build_bytes) {
  return std::make_shared<BinaryFusePolicy>(max_build_bytes);
}

std::shared_ptr<const FilterPolicy> NewBinaryFusePolicy() {
  return NewBinaryFusePolicy(kMaxFilterBuildBytes);
}

}  // namespace sievedb
