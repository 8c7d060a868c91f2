#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/coding.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/hash_partition.h"
#include "util/ribbon.h"
#include "util/status_macros.h"

namespace sievedb {

// The block of a ribbon filter. Little-endian.
//
//   offset  size  field
//   0       …     layers    one after the other, each padded to 64 bytes (ribbon.cc)
//   …       8*r   rest      mixed hashes of the keys that no layer took, ascending:
//                           of a key whose hash is h, after l layers,
//                           MixHash(… MixHash(h, MixSeed(0)) …, MixSeed(l))
//   …       64    shapes    of four layers, 16 bytes each; zeros where there is none:
//             0     8   segments  at least 2
//             8     8   lower     those with `probes` bits a slot
//
// then the trailer (filter_trailer.h), whose check covers the shapes too:
//
//   extent        r
//   keys
//   bits_per_key  1 to 64
//   probes        bits of a slot in a lower segment, 1 to 32
//   detail        layers, 0 to 4
//   version       1
//   kind          4
namespace {

constexpr std::string_view kName = "ribbon filter";
constexpr uint8_t kVersion = 1;
constexpr size_t kShapeBytes = 16;
constexpr size_t kShapeSegmentsOffset = 0;
constexpr size_t kShapeLowerOffset = 8;
constexpr size_t kShapesBytes = kShapeBytes * Ribbon::kMaxLayers;
constexpr uint64_t kLayerAlignment = 64;
static_assert(kShapeLowerOffset + sizeof(uint64_t) == kShapeBytes);
static_assert(kShapesBytes == 64);

// A filter for many keys has so many bits a key for each bit of its fingerprints.
constexpr double kBitsPerBit = 1.008;

uint64_t PaddedBytes(const Ribbon::Shape& shape) {
  return (shape.Bytes() + kLayerAlignment - 1) / kLayerAlignment * kLayerAlignment;
}

class RibbonReader final : public FilterReader {
 public:
  static FilterReaderOr Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override { return AskMixed(MixHash(hash, MixSeed(0))); }
  void Prefetch(uint64_t hash) const override {
    if (num_layers_ > 0) Ribbon::Prefetch(layers_[0], MixHash(hash, MixSeed(0)));
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    assert(hashes.size() == results.size());
    ProbeInGroups<uint64_t>(
        hashes, results,
        [this](uint64_t hash) {
          const uint64_t mixed = MixHash(hash, MixSeed(0));
          if (num_layers_ > 0) Ribbon::Prefetch(layers_[0], mixed);
          return mixed;
        },
        [this](uint64_t mixed) { return AskMixed(mixed); });
  }
  FilterFigures Figures() const override;
  size_t MemoryBytes() const override { return sizeof(*this) + bytes_.size(); }

 private:
  RibbonReader() = default;

  // mixed: as the first layer sees the hash.
  bool AskMixed(uint64_t mixed) const;
  absl::Status TakeLayers(size_t shapes_at, size_t layers, int bits, uint64_t* end);

  std::string_view bytes_;
  std::array<Ribbon::Layer, Ribbon::kMaxLayers> layers_;
  size_t num_layers_ = 0;
  const char* rest_ = nullptr;
  uint64_t rest_size_ = 0;
  uint64_t keys_ = 0;
  double bits_per_key_ = 0;
  int bits_ = 0;
};

bool RibbonReader::AskMixed(uint64_t mixed) const {
  for (size_t i = 0; i < num_layers_; ++i) {
    const Ribbon::Answer answer = Ribbon::Ask(layers_[i], mixed);
    if (answer != Ribbon::Answer::kNextLayer) [[likely]]
      return answer == Ribbon::Answer::kMaybe;
    mixed = MixHash(mixed, MixSeed(i + 1));
  }
  // Where bytes are damaged the list may not be in order: the answer is then wrong, no
  // more.
  uint64_t begin = 0;
  uint64_t end = rest_size_;
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    if (DecodeFixed64(rest_ + middle * 8) < mixed) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin < rest_size_ && DecodeFixed64(rest_ + begin * 8) == mixed;
}

// Finds the layers, and where they end.
absl::Status RibbonReader::TakeLayers(size_t shapes_at, size_t layers, int bits, uint64_t* end) {
  *end = 0;
  for (size_t i = 0; i < Ribbon::kMaxLayers; ++i) {
    const size_t at = shapes_at + i * kShapeBytes;
    const uint64_t segments = DecodeFixed64(bytes_.data() + at + kShapeSegmentsOffset);
    const uint64_t lower = DecodeFixed64(bytes_.data() + at + kShapeLowerOffset);
    if (i >= layers) {
      SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "segments of no layer", at, 0, 0, segments));
      SIEVEDB_RETURN_IF_ERROR(
          CheckFilterField(kName, "lower segments of no layer", at + 8, 0, 0, lower));
      continue;
    }
    // A segment has at least 8 bytes, so nothing below can overflow.
    SIEVEDB_RETURN_IF_ERROR(
        CheckFilterField(kName, "segments", at, 2, bytes_.size() / 8, segments));
    SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "lower segments", at + kShapeLowerOffset,
                                             bits == Ribbon::kMaxBits ? segments : 0, segments,
                                             lower));
    const Ribbon::Shape shape{segments, lower, bits};
    const uint64_t begin = *end;
    *end += PaddedBytes(shape);
    if (*end > shapes_at) {
      return FilterFieldDamaged(kName, "end of a layer", at, shapes_at, *end);
    }
    layers_[i] = Ribbon::Layer(shape, bytes_.data() + begin);
  }
  num_layers_ = layers;
  return absl::OkStatus();
}

FilterReaderOr RibbonReader::Open(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kRibbonKind, kVersion, kShapesBytes));
  const size_t at = bytes.size() - kFilterTrailerBytes;
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "bits of a slot", at + kFilterProbesOffset,
                                           Ribbon::kMinBits, Ribbon::kMaxBits, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "layers", at + kFilterDetailOffset, 0,
                                           Ribbon::kMaxLayers, trailer.detail));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterBitsPerKey(kName, at, kMinPolicyBitsPerKey,
                                                kMaxPolicyBitsPerKey, trailer.bits_per_key));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "rest", at + kFilterExtentOffset, 0,
                                           bytes.size() / 8, trailer.extent));
  std::unique_ptr<RibbonReader> reader(new RibbonReader());
  reader->bytes_ = bytes;
  uint64_t end = 0;
  SIEVEDB_RETURN_IF_ERROR(
      reader->TakeLayers(at - kShapesBytes, trailer.detail, trailer.probes, &end));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterSize(
      kName, end + trailer.extent * 8 + kShapesBytes + kFilterTrailerBytes, bytes.size()));
  reader->rest_ = bytes.data() + end;
  reader->rest_size_ = trailer.extent;
  reader->keys_ = trailer.keys;
  reader->bits_per_key_ = trailer.bits_per_key;
  reader->bits_ = trailer.probes;
  return reader;
}

FilterFigures RibbonReader::Figures() const {
  FilterFigures figures;
  figures.keys = keys_;
  const uint64_t words = (bytes_.size() - kShapesBytes - kFilterTrailerBytes) / 8;
  figures.bits = words * 64;
  for (uint64_t i = 0; i < words; ++i) {
    figures.bits_set += static_cast<uint64_t>(std::popcount(DecodeFixed64(bytes_.data() + i * 8)));
  }
  figures.bits_per_key = bits_per_key_;
  figures.probes = bits_;
  double reached = 1;
  for (size_t i = 0; i < num_layers_; ++i) {
    double maybe = 0;
    double next = 0;
    Ribbon::Rates(layers_[i], &maybe, &next);
    figures.expected_fpr += reached * maybe;
    reached *= next;
  }
  figures.expected_fpr += reached * static_cast<double>(rest_size_) * 0x1p-64;
  return figures;
}

uint64_t BlockBytes(const Ribbon::Built& built) {
  uint64_t bytes = built.rest.size() * 8 + kShapesBytes + kFilterTrailerBytes;
  for (const Ribbon::Shape& shape : built.shapes) bytes += PaddedBytes(shape);
  return bytes;
}

// Writes BlockBytes(*built) to `to`, which are zeros, and lets go of each layer.
void WriteBlock(Ribbon::Built* built, double bits_per_slot, double bits_per_key, char* to) {
  for (size_t i = 0; i < built->layers.size(); ++i) {
    std::memcpy(to, built->layers[i].data(), built->layers[i].size());
    to += PaddedBytes(built->shapes[i]);
    built->layers[i] = AlignedBuffer();
  }
  for (const uint64_t hash : built->rest) {
    EncodeFixed64(to, hash);
    to += 8;
  }
  for (size_t i = 0; i < built->shapes.size(); ++i) {
    EncodeFixed64(to + i * kShapeBytes + kShapeSegmentsOffset, built->shapes[i].segments);
    EncodeFixed64(to + i * kShapeBytes + kShapeLowerOffset, built->shapes[i].lower);
  }
  to += kShapesBytes;
  FilterTrailer trailer;
  trailer.extent = built->rest.size();
  trailer.keys = built->keys;
  trailer.bits_per_key = bits_per_key;
  trailer.probes = static_cast<uint8_t>(Ribbon::ShapeFor(0, bits_per_slot).bits);
  trailer.detail = static_cast<uint8_t>(built->shapes.size());
  trailer.version = kVersion;
  trailer.kind = kRibbonKind;
  EncodeFilterTrailer(trailer, to, kShapesBytes);
}

class RibbonBuilder final : public FilterBuilder {
 public:
  RibbonBuilder(double bits_per_key, double bits_per_slot, uint64_t max_build_bytes)
      : bits_per_key_(bits_per_key),
        bits_per_slot_(bits_per_slot),
        max_build_bytes_(max_build_bytes) {}

  void AddHash(uint64_t hash) override { hashes_.Add(hash); }

  std::string Finish() override {
    const std::vector<uint64_t> hashes = hashes_.Take();
    if (Ribbon::BuildBytes(hashes.size(), bits_per_slot_) + hashes.size() * sizeof(uint64_t) >
        max_build_bytes_) {
      kind_ = kBlockedBloomKind;
      const std::unique_ptr<FilterBuilder> bloom =
          NewBlockedBloomPolicy(bits_per_key_)->NewBuilder({});
      for (const uint64_t hash : hashes) bloom->AddHash(hash);
      return bloom->Finish();
    }
    Ribbon::Built built = Ribbon::Build(hashes, bits_per_slot_);
    std::string block(BlockBytes(built), '\0');
    WriteBlock(&built, bits_per_slot_, bits_per_key_, block.data());
    return block;
  }

  uint8_t Kind() const override { return kind_; }

 private:
  const double bits_per_key_;
  const double bits_per_slot_;
  const uint64_t max_build_bytes_;
  FilterHashes hashes_;
  uint8_t kind_ = kRibbonKind;
};

class RibbonPolicy final : public FilterPolicy {
 public:
  RibbonPolicy(double bits_per_key, uint64_t max_build_bytes)
      : bits_per_key_(ClampPolicyBitsPerKey(bits_per_key)), max_build_bytes_(max_build_bytes) {}

  uint8_t Kind() const override { return kRibbonKind; }
  const char* Name() const override { return "sievedb.Ribbon"; }
  double BitsPerKey(const FilterContext& context) const override {
    return PolicyBitsPerKey(context, bits_per_key_);
  }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    const double bits = BitsPerKey(context);
    const double rate = FilterSizing::ExpectedFpr(bits, FilterSizing::OptimalProbes(bits));
    return std::make_unique<RibbonBuilder>(bits, Ribbon::BitsPerSlotFor(rate), max_build_bytes_);
  }
  FilterReaderOr NewReader(std::string_view bytes) const override {
    return OpenRibbonFilter(bytes);
  }

 private:
  const double bits_per_key_;
  const uint64_t max_build_bytes_;
};

}  // namespace

FilterReaderOr OpenRibbonFilter(std::string_view bytes) { return RibbonReader::Open(bytes); }

absl::StatusOr<RibbonFilter> RibbonFilter::Create(const FilterSizing& sizing,
                                                  absl::Span<const uint64_t> hashes) {
  constexpr double kMinBitsPerKey = 1.1;
  constexpr double kMaxBitsPerKey = 32;
  SIEVEDB_RETURN_IF_ERROR(CheckSizing(sizing));
  double bits_per_slot = sizing.bits_per_key / kBitsPerBit;
  if (sizing.fpr != 0) {
    if (sizing.fpr > 0.5 || sizing.fpr < 0x1p-28) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: expected a rate of %g to 0.5, found %g", kName, 0x1p-28, sizing.fpr));
    }
    bits_per_slot = Ribbon::BitsPerSlotFor(sizing.fpr);
  } else {
    SIEVEDB_RETURN_IF_ERROR(CheckBitsPerKey(sizing.bits_per_key, kMinBitsPerKey, kMaxBitsPerKey));
  }
  Ribbon::Built built = Ribbon::Build(hashes, bits_per_slot);
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, AllocateFilterMemory(BlockBytes(built)));
  WriteBlock(&built, bits_per_slot, bits_per_slot * kBitsPerBit, memory.data());
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenRibbonFilter({memory.data(), memory.size()}));
  return RibbonFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<RibbonFilter> RibbonFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kRibbonKind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenRibbonFilter({memory.data(), memory.size()}));
  return RibbonFilter(std::move(memory), std::move(reader));
}

std::shared_ptr<const FilterPolicy> NewRibbonPolicy(double bits_per_key, uint64_t max_build_bytes) {
  return std::make_shared<RibbonPolicy>(bits_per_key, max_build_bytes);
}

std::shared_ptr<const FilterPolicy> NewRibbonPolicy(double bits_per_key) {
  return NewRibbonPolicy(bits_per_key, kMaxFilterBuildBytes);
}

}  // namespace sievedb
