#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/filter_block.h"
#include "util/filter_support.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

struct Shape {
  uint64_t num_blocks;
  int probes;
  double bits_per_key;
  uint64_t keys;
};

// What the two readers, which have no common type, say of themselves.
Shape ShapeOf(const FilterReader& reader, bool dense) {
  const auto shape = [](const auto& blocks) {
    return Shape{blocks.num_blocks(), blocks.probes(), blocks.bits_per_key(), blocks.keys()};
  };
  return dense ? shape(static_cast<const DenseBlockedBloomReader&>(reader))
               : shape(static_cast<const BlockedBloomReader&>(reader));
}

FilterTrailer TrailerFor(const Shape& shape, bool dense) {
  FilterTrailer trailer;
  trailer.extent = shape.num_blocks;
  trailer.keys = shape.keys;
  trailer.bits_per_key = shape.bits_per_key;
  trailer.probes = static_cast<uint8_t>(shape.probes);
  trailer.version = dense ? kDenseBlockedBloomVersion : kBlockedBloomVersion;
  trailer.kind = dense ? kDenseBlockedBloomKind : kBlockedBloomKind;
  return trailer;
}

absl::StatusOr<FilterMemory> Allocate(const Shape& shape, bool dense) {
  const size_t bytes = shape.num_blocks * BlockedBloom::kBlockBytes;
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, AllocateFilterMemory(bytes + kFilterTrailerBytes));
  EncodeFilterTrailer(TrailerFor(shape, dense), memory.data() + bytes);
  return memory;
}

}  // namespace

absl::StatusOr<BlockedBloomFilter> BlockedBloomFilter::Create(const FilterSizing& sizing) {
  SIEVEDB_ASSIGN_OR_RETURN(
      const double bits_per_key,
      BitsPerKeyFor(sizing, kMinPolicyBitsPerKey, kMaxPolicyBitsPerKey, [](double bits) {
        return FilterSizing::ExpectedBlockedFpr(bits, FilterSizing::OptimalBlockedProbes(bits));
      }));
  const Shape shape{BlockedBloom::BlocksFor(sizing.keys, bits_per_key),
                    FilterSizing::OptimalBlockedProbes(bits_per_key), bits_per_key, 0};
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, Allocate(shape, /*dense=*/false));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenBlockedBloomFilter({memory.data(), memory.size()}));
  return BlockedBloomFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<BlockedBloomFilter> BlockedBloomFilter::CreateDense(
    const FilterSizing& sizing, absl::Span<const uint64_t> hashes) {
  SIEVEDB_ASSIGN_OR_RETURN(const double bits_per_key,
                           BitsPerKeyFor(sizing, kMinPolicyBitsPerKey, kMaxPolicyBitsPerKey,
                                         DenseBlockedBloom::ExpectedFpr));
  const Shape shape{BlockedBloom::BlocksFor(hashes.size(), bits_per_key),
                    DenseBlockedBloom::OptimalProbes(bits_per_key), bits_per_key, hashes.size()};
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, Allocate(shape, /*dense=*/true));
  DenseBlockedBloom::Build(memory.data(), shape.num_blocks, shape.probes, {hashes});
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenDenseBlockedBloomFilter({memory.data(), memory.size()}));
  BlockedBloomFilter filter(std::move(memory), std::move(reader));
  filter.dense_ = true;
  filter.keys_ = hashes.size();
  return filter;
}

absl::StatusOr<BlockedBloomFilter> BlockedBloomFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string_view block, CheckedFilterBlock(bytes));
  const bool dense = static_cast<uint8_t>(block.back()) == kDenseBlockedBloomKind;
  const uint8_t kind = dense ? kDenseBlockedBloomKind : kBlockedBloomKind;
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenBuiltInFilter(kind, {memory.data(), memory.size()}));
  BlockedBloomFilter filter(std::move(memory), std::move(reader));
  filter.dense_ = dense;
  filter.keys_ = ShapeOf(*filter.reader_, dense).keys;
  return filter;
}

void BlockedBloomFilter::AddManyHashes(absl::Span<const uint64_t> hashes) {
  const Shape shape = ShapeOf(*reader_, dense_);
  if (dense_) {
    for (const uint64_t hash : hashes) {
      DenseBlockedBloom::Add(memory_.data(), shape.num_blocks, shape.probes, hash);
    }
  } else {
    BlockedBloom::AddAll(memory_.data(), shape.num_blocks, shape.probes, hashes);
  }
  keys_ += hashes.size();
}

FilterFigures BlockedBloomFilter::Figures() const {
  FilterFigures figures = reader_->Figures();
  figures.keys = keys_;
  return figures;
}

void BlockedBloomFilter::WriteTrailer(char* trailer) const {
  Shape shape = ShapeOf(*reader_, dense_);
  shape.keys = keys_;
  EncodeFilterTrailer(TrailerFor(shape, dense_), trailer);
}

}  // namespace sievedb
