#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/blocked_bloom.h"
#include "util/coding.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/hash_partition.h"
#include "util/prefetch.h"
#include "util/scalable_bloom.h"
#include "util/status_macros.h"

namespace sievedb {

// The block of a scalable Bloom filter. Little-endian.
//
//   offset  size  field
//   0       64*n  blocks   of all layers, the first layer's first (blocked_bloom.cc)
//   64*n    32*l  layers   l records:
//             0     8   num_blocks  at least 1
//             8     8   keys        added to it
//             16    8   capacity    keys at which the next layer begins, at least 1
//             24    8   probes      1 to 16
//   …       8     bound    IEEE 754 double: the rate that all layers stay under
//
// then the trailer (filter_trailer.h), whose check covers layers and bound too:
//
//   extent        n, the blocks of all layers
//   keys          the sum of the layers' keys
//   bits_per_key  1 to 64: those of a blocked Bloom filter with the bound as its rate
//   probes        0
//   detail        l, 1 to 48
//   version       1
//   kind          8
namespace {

constexpr std::string_view kName = "scalable Bloom filter";
constexpr uint8_t kVersion = 1;
constexpr size_t kRecordBytes = 32;
constexpr size_t kRecordNumBlocksOffset = 0;
constexpr size_t kRecordKeysOffset = 8;
constexpr size_t kRecordCapacityOffset = 16;
constexpr size_t kRecordProbesOffset = 24;
static_assert(kRecordProbesOffset + sizeof(uint64_t) == kRecordBytes);
constexpr double kMinBitsPerKey = 2;
constexpr double kMaxBitsPerKey = 32;

constexpr size_t ExtraBytes(size_t layers) { return layers * kRecordBytes + sizeof(double); }

struct LayerState {
  const char* blocks = nullptr;
  uint64_t keys = 0;
  ScalableBloom::Layer shape;
};

class ScalableBloomReader final : public FilterReader {
 public:
  static FilterReaderOr Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override {
    // The last layers hold most keys.
    for (size_t i = layers_.size(); i-- > 0;) {
      const LayerState& layer = layers_[i];
      if (BlockedBloom::MayContain(layer.blocks, layer.shape.num_blocks, layer.shape.probes,
                                   hash)) {
        return true;
      }
    }
    return false;
  }
  void Prefetch(uint64_t hash) const override {
    for (const LayerState& layer : layers_) {
      PrefetchLine(layer.blocks + BlockedBloom::BlockIndex(hash, layer.shape.num_blocks) *
                                      BlockedBloom::kBlockBytes);
    }
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    assert(hashes.size() == results.size());
    ProbeInGroups<uint64_t>(
        hashes, results,
        [this](uint64_t hash) {
          Prefetch(hash);
          return hash;
        },
        [this](uint64_t hash) { return MayContain(hash); });
  }
  FilterFigures Figures() const override;
  size_t MemoryBytes() const override {
    return sizeof(*this) + layers_.capacity() * sizeof(LayerState) + block_bytes_;
  }

  std::vector<LayerState>& layers() { return layers_; }
  const std::vector<LayerState>& layers() const { return layers_; }
  double bound() const { return bound_; }
  double bits_per_key() const { return bits_per_key_; }

 private:
  ScalableBloomReader() = default;

  std::vector<LayerState> layers_;
  double bound_ = 0;
  double bits_per_key_ = 0;
  size_t block_bytes_ = 0;  // of the whole block, trailer included
};

// Reads record i, whose blocks begin at `first`, of a block of blocks_bytes of blocks.
absl::StatusOr<LayerState> ReadLayer(std::string_view bytes, size_t blocks_bytes, uint64_t first,
                                     size_t i) {
  const size_t at = blocks_bytes + i * kRecordBytes;
  const char* const record = bytes.data() + at;
  const uint64_t blocks_left = blocks_bytes / BlockedBloom::kBlockBytes - first;
  LayerState layer;
  layer.shape.num_blocks = DecodeFixed64(record + kRecordNumBlocksOffset);
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "blocks of a layer", at + kRecordNumBlocksOffset,
                                           1, blocks_left, layer.shape.num_blocks));
  layer.keys = DecodeFixed64(record + kRecordKeysOffset);
  layer.shape.capacity = DecodeFixed64(record + kRecordCapacityOffset);
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "capacity of a layer", at + kRecordCapacityOffset,
                                           1, uint64_t{1} << 57, layer.shape.capacity));
  const uint64_t probes = DecodeFixed64(record + kRecordProbesOffset);
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "probes of a layer", at + kRecordProbesOffset, 1,
                                           BlockedBloom::kMaxProbes, probes));
  layer.shape.probes = static_cast<int>(probes);
  layer.blocks = bytes.data() + first * BlockedBloom::kBlockBytes;
  return layer;
}

FilterReaderOr ScalableBloomReader::Open(std::string_view bytes) {
  if (bytes.size() < kFilterTrailerBytes) {
    return absl::DataLossError(absl::StrFormat("%s: %d bytes, expected at least %d", kName,
                                               bytes.size(), kFilterTrailerBytes));
  }
  const size_t at = bytes.size() - kFilterTrailerBytes;
  // What this says is checked by the trailer's check, which covers the byte itself.
  const size_t num_layers = static_cast<uint8_t>(bytes[at + kFilterDetailOffset]);
  const size_t extra = ExtraBytes(num_layers);
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kScalableBloomKind, kVersion, extra));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "layers", at + kFilterDetailOffset, 1,
                                           ScalableBloom::kMaxLayers, num_layers));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterField(kName, "probes", at + kFilterProbesOffset, 0, 0, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterBitsPerKey(kName, at, kMinPolicyBitsPerKey,
                                                kMaxPolicyBitsPerKey, trailer.bits_per_key));
  const size_t blocks_bytes = at - extra;
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "blocks", at + kFilterExtentOffset, 1,
                                           blocks_bytes / BlockedBloom::kBlockBytes,
                                           trailer.extent));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterSize(
      kName, trailer.extent * BlockedBloom::kBlockBytes + extra + kFilterTrailerBytes,
      bytes.size()));

  std::unique_ptr<ScalableBloomReader> reader(new ScalableBloomReader());
  reader->layers_.reserve(num_layers);
  uint64_t first = 0;
  uint64_t keys = 0;
  for (size_t i = 0; i < num_layers; ++i) {
    SIEVEDB_ASSIGN_OR_RETURN(const LayerState layer, ReadLayer(bytes, blocks_bytes, first, i));
    first += layer.shape.num_blocks;
    keys += layer.keys;
    reader->layers_.push_back(layer);
  }
  if (first != trailer.extent) {
    return FilterFieldDamaged(kName, "blocks of all layers", at + kFilterExtentOffset, first,
                              trailer.extent);
  }
  if (keys != trailer.keys) {
    return FilterFieldDamaged(kName, "keys", at + kFilterKeysOffset, keys, trailer.keys);
  }
  reader->bound_ = std::bit_cast<double>(DecodeFixed64(bytes.data() + at - sizeof(double)));
  if (!(reader->bound_ >= ScalableBloom::kMinBound && reader->bound_ <= ScalableBloom::kMaxBound)) {
    return absl::DataLossError(absl::StrFormat(
        "%s: bound at offset %d: expected %g to %g, found %g", kName, at - sizeof(double),
        ScalableBloom::kMinBound, ScalableBloom::kMaxBound, reader->bound_));
  }
  reader->bits_per_key_ = trailer.bits_per_key;
  reader->block_bytes_ = bytes.size();
  return reader;
}

FilterFigures ScalableBloomReader::Figures() const {
  FilterFigures figures;
  double denied = 1;
  for (const LayerState& layer : layers_) {
    const ScalableBloom::Layer& shape = layer.shape;
    figures.keys += layer.keys;
    figures.blocks += shape.num_blocks;
    figures.bits_set += BlockedBloom::CountSetBits(layer.blocks, shape.num_blocks);
    denied *= 1 - BlockedBloom::FprFromBits(layer.blocks, shape.num_blocks, shape.probes);
    figures.probes = std::max(figures.probes, shape.probes);
  }
  figures.bits = figures.blocks * BlockedBloom::kBlockBits;
  figures.bits_per_key = bits_per_key_;
  figures.expected_fpr = 1 - denied;
  return figures;
}

// Writes the records, the bound and the trailer, of which `to` is the place.
void WriteEnd(const std::vector<LayerState>& layers, double bound, double bits_per_key, char* to) {
  FilterTrailer trailer;
  char* record = to - ExtraBytes(layers.size());
  for (const LayerState& layer : layers) {
    EncodeFixed64(record + kRecordNumBlocksOffset, layer.shape.num_blocks);
    EncodeFixed64(record + kRecordKeysOffset, layer.keys);
    EncodeFixed64(record + kRecordCapacityOffset, layer.shape.capacity);
    EncodeFixed64(record + kRecordProbesOffset, static_cast<uint64_t>(layer.shape.probes));
    record += kRecordBytes;
    trailer.extent += layer.shape.num_blocks;
    trailer.keys += layer.keys;
  }
  EncodeFixed64(record, std::bit_cast<uint64_t>(bound));
  trailer.bits_per_key = bits_per_key;
  trailer.detail = static_cast<uint8_t>(layers.size());
  trailer.version = kVersion;
  trailer.kind = kScalableBloomKind;
  EncodeFilterTrailer(trailer, to, ExtraBytes(layers.size()));
}

// Memory for layers, of which all but the last are in old; and a reader of it.
absl::Status Allocate(const std::vector<LayerState>& layers, double bound, double bits_per_key,
                      const FilterMemory& old, FilterMemory* memory,
                      std::unique_ptr<FilterReader>* reader) {
  uint64_t old_blocks = 0;
  for (size_t i = 0; i + 1 < layers.size(); ++i) old_blocks += layers[i].shape.num_blocks;
  const uint64_t blocks = old_blocks + layers.back().shape.num_blocks;
  if (blocks > uint64_t{1} << 57) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s: no memory for %d blocks", kName, blocks));
  }
  const size_t end = blocks * BlockedBloom::kBlockBytes + ExtraBytes(layers.size());
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory allocated, AllocateFilterMemory(end + kFilterTrailerBytes));
  if (old_blocks > 0) {
    std::memcpy(allocated.data(), old.data(), old_blocks * BlockedBloom::kBlockBytes);
  }
  WriteEnd(layers, bound, bits_per_key, allocated.data() + end);
  SIEVEDB_ASSIGN_OR_RETURN(*reader, OpenScalableBloomFilter({allocated.data(), allocated.size()}));
  *memory = std::move(allocated);
  return absl::OkStatus();
}

ScalableBloomReader& Scalable(FilterReader& reader) {
  return static_cast<ScalableBloomReader&>(reader);
}

}  // namespace

FilterReaderOr OpenScalableBloomFilter(std::string_view bytes) {
  return ScalableBloomReader::Open(bytes);
}

absl::StatusOr<ScalableBloomFilter> ScalableBloomFilter::Create(const FilterSizing& sizing) {
  SIEVEDB_RETURN_IF_ERROR(CheckSizing(sizing));
  double bound = sizing.fpr;
  if (bound == 0) {
    SIEVEDB_RETURN_IF_ERROR(CheckBitsPerKey(sizing.bits_per_key, kMinBitsPerKey, kMaxBitsPerKey));
    bound = FilterSizing::ExpectedBlockedFpr(
        sizing.bits_per_key, FilterSizing::OptimalBlockedProbes(sizing.bits_per_key));
  }
  if (!(bound >= ScalableBloom::kMinBound && bound <= ScalableBloom::kMaxBound)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: expected a rate of %g to %g, found %g",
                                                      kName, ScalableBloom::kMinBound,
                                                      ScalableBloom::kMaxBound, bound));
  }
  const double bits_per_key =
      sizing.fpr == 0 ? sizing.bits_per_key : ScalableBloom::BlockedBitsPerKeyFor(bound);
  LayerState layer;
  layer.shape = ScalableBloom::LayerFor(sizing.keys, bound, 0);
  FilterMemory memory;
  std::unique_ptr<FilterReader> reader;
  SIEVEDB_RETURN_IF_ERROR(Allocate({layer}, bound, bits_per_key, {}, &memory, &reader));
  return ScalableBloomFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<ScalableBloomFilter> ScalableBloomFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kScalableBloomKind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenScalableBloomFilter({memory.data(), memory.size()}));
  return ScalableBloomFilter(std::move(memory), std::move(reader));
}

absl::Status ScalableBloomFilter::AddHash(uint64_t hash) {
  if (reader_->MayContain(hash)) return absl::OkStatus();
  if (const std::vector<LayerState>& layers = Scalable(*reader_).layers();
      layers.back().keys >= layers.back().shape.capacity) {
    if (layers.size() == ScalableBloom::kMaxLayers) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("%s: more than %d layers", kName, ScalableBloom::kMaxLayers));
    }
    std::vector<LayerState> grown = layers;
    grown.emplace_back().shape = ScalableBloom::LayerFor(
        layers.front().shape.capacity, Scalable(*reader_).bound(), static_cast<int>(layers.size()));
    SIEVEDB_RETURN_IF_ERROR(Allocate(grown, Scalable(*reader_).bound(),
                                     Scalable(*reader_).bits_per_key(), memory_, &memory_,
                                     &reader_));
  }
  // The last layer is the end of the blocks.
  LayerState& last = Scalable(*reader_).layers().back();
  char* const blocks = memory_.data() + (last.blocks - memory_.data());
  BlockedBloom::AddAll(blocks, last.shape.num_blocks, last.shape.probes, {&hash, 1});
  ++last.keys;
  return absl::OkStatus();
}

void ScalableBloomFilter::WriteTrailer(char* trailer) const {
  const ScalableBloomReader& reader = Scalable(*reader_);
  WriteEnd(reader.layers(), reader.bound(), reader.bits_per_key(), trailer);
}

}  // namespace sievedb
