#include "sievedb/filter.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "util/aligned_buffer.h"
#include "util/coding.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {

// What Serialize returns. Little-endian.
//
//   offset  size  field
//   0       n     block     as an SSTable embeds it: array and trailer, which names
//                           the kind and the version (util/filter_trailer.h)
//   n       8     checksum  XXH3-64 of the block
namespace {
constexpr size_t kChecksumBytes = 8;
}  // namespace

FilterMemory::FilterMemory(size_t bytes)
    : data_(AlignedBuffer::AllocateZeroed(bytes, &memory_bytes_, &mapped_)),
      size_(data_ == nullptr ? 0 : bytes) {}

FilterMemory::~FilterMemory() { AlignedBuffer::Free(data_, memory_bytes_, mapped_); }

FilterMemory::FilterMemory(FilterMemory&& other) noexcept
    : memory_bytes_(std::exchange(other.memory_bytes_, 0)),
      mapped_(std::exchange(other.mapped_, false)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

FilterMemory& FilterMemory::operator=(FilterMemory&& other) noexcept {
  FilterMemory taken(std::move(other));
  std::swap(memory_bytes_, taken.memory_bytes_);
  std::swap(mapped_, taken.mapped_);
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  return *this;
}

Filter::Filter(FilterMemory memory, std::unique_ptr<FilterReader> reader)
    : memory_(std::move(memory)), reader_(std::move(reader)) {}

Filter::Filter(Filter&&) noexcept = default;
Filter& Filter::operator=(Filter&&) noexcept = default;
Filter::~Filter() = default;

void Filter::ContainsMany(absl::Span<const std::string_view> keys, absl::Span<bool> results) const {
  assert(keys.size() == results.size());
  // Enough that the last misses of one group weigh little, few enough for the stack
  // and the first level of the cache.
  constexpr size_t kGroup = 64;
  std::array<uint64_t, kGroup> hashes;
  for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
    const size_t n = std::min(kGroup, keys.size() - begin);
    for (size_t i = 0; i < n; ++i) hashes[i] = FilterHash(keys[begin + i]);
    reader_->MayContainMany(absl::MakeConstSpan(hashes.data(), n), results.subspan(begin, n));
  }
}

FilterFigures Filter::Figures() const { return reader_->Figures(); }

void Filter::WriteTrailer(char* /*trailer*/) const {}

std::string Filter::Serialize() const {
  assert(memory_.size() >= kFilterTrailerBytes);
  std::string bytes;
  bytes.reserve(memory_.size() + kChecksumBytes);
  bytes.append(memory_.data(), memory_.size());
  WriteTrailer(bytes.data() + bytes.size() - kFilterTrailerBytes);
  AppendFixed64(&bytes, Hash64(bytes));
  return bytes;
}

size_t Filter::MemoryBytes() const {
  if (reader_ == nullptr) return 0;
  // A reader counts the block as its own; the memory is that block, rounded up.
  return reader_->MemoryBytes() - memory_.size() + memory_.MemoryBytes();
}

absl::StatusOr<std::unique_ptr<FilterReader>> OpenFilter(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string_view block, CheckedFilterBlock(bytes));
  return OpenBuiltInFilter(static_cast<uint8_t>(block.back()), block);
}

absl::StatusOr<FilterMemory> AllocateFilterMemory(size_t bytes) {
  FilterMemory memory(bytes);
  if (memory.size() != bytes) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("filter: no memory for an array of %d bytes", bytes));
  }
  return memory;
}

absl::StatusOr<std::string_view> CheckedFilterBlock(std::string_view serialized) {
  if (serialized.size() < kFilterTrailerBytes + kChecksumBytes) {
    return absl::DataLossError(absl::StrFormat("serialized filter: %d bytes, expected at least %d",
                                               serialized.size(),
                                               kFilterTrailerBytes + kChecksumBytes));
  }
  const std::string_view block = serialized.substr(0, serialized.size() - kChecksumBytes);
  const uint64_t expected = Hash64(block);
  const uint64_t found = DecodeFixed64(serialized.data() + block.size());
  if (found != expected) {
    return absl::DataLossError(
        absl::StrFormat("serialized filter: checksum at offset %d: expected %016x, found %016x",
                        block.size(), expected, found));
  }
  return block;
}

absl::StatusOr<FilterMemory> CopyFilterBlock(std::string_view serialized, uint8_t kind) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string_view block, CheckedFilterBlock(serialized));
  const uint8_t found = static_cast<uint8_t>(block.back());
  if (found != kind) {
    return absl::InvalidArgumentError(
        absl::StrFormat("serialized filter: of kind %d, not of kind %d", found, kind));
  }
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, AllocateFilterMemory(block.size()));
  std::memcpy(memory.data(), block.data(), block.size());
  return memory;
}

absl::Status CheckSizing(const FilterSizing& sizing) {
  const bool by_bits = sizing.bits_per_key != 0;
  const bool by_rate = sizing.fpr != 0;
  if (by_bits == by_rate) {
    return absl::InvalidArgumentError(
        absl::StrFormat("filter sizing: expected either bits per key or a rate, found %g and %g",
                        sizing.bits_per_key, sizing.fpr));
  }
  if (by_rate && !(sizing.fpr > 0 && sizing.fpr < 1)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "filter sizing: expected a rate above 0 and below 1, found %g", sizing.fpr));
  }
  if (by_bits && !(sizing.bits_per_key > 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "filter sizing: expected bits per key above 0, found %g", sizing.bits_per_key));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> BitsPerKeyFor(const FilterSizing& sizing, double min, double max,
                                     absl::FunctionRef<double(double)> rate) {
  SIEVEDB_RETURN_IF_ERROR(CheckSizing(sizing));
  if (sizing.fpr == 0) {
    SIEVEDB_RETURN_IF_ERROR(CheckBitsPerKey(sizing.bits_per_key, min, max));
    return sizing.bits_per_key;
  }
  if (rate(min) <= sizing.fpr) return min;
  if (rate(max) > sizing.fpr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("filter sizing: a rate of %g needs more than the %g bits per key that "
                        "this kind can have",
                        sizing.fpr, max));
  }
  // To a thousandth of a bit, from above.
  double low = min;
  double high = max;
  while (high - low > 0.001) {
    const double middle = (low + high) / 2;
    (rate(middle) <= sizing.fpr ? high : low) = middle;
  }
  return high;
}

absl::Status CheckBitsPerKey(double bits_per_key, double min, double max) {
  if (bits_per_key >= min && bits_per_key <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "filter sizing: expected %g to %g bits per key, found %g", min, max, bits_per_key));
}

}  // namespace sievedb
