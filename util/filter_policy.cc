#include <algorithm>
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
#include "util/aligned_buffer.h"
#include "util/blocked_bloom.h"
#include "util/coding.h"
#include "util/filter_block.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr double kDefaultBitsPerKey = 10;
constexpr double kMinBitsPerKey = 1;
constexpr double kMaxBitsPerKey = 64;

double ClampBitsPerKey(double bits_per_key) {
  if (std::isnan(bits_per_key)) return kDefaultBitsPerKey;
  return std::clamp(bits_per_key, kMinBitsPerKey, kMaxBitsPerKey);
}

uint32_t TrailerCheck(const char* trailer) {
  return static_cast<uint32_t>(
      Hash64Pair({trailer, kFilterCheckOffset},
                 {trailer + kFilterProbesOffset, kFilterTrailerBytes - kFilterProbesOffset}, 0));
}

void EncodeTrailer(char* to, uint64_t num_blocks, uint64_t keys, double bits_per_key, int probes) {
  EncodeFixed64(to + kFilterNumBlocksOffset, num_blocks);
  EncodeFixed64(to + kFilterKeysOffset, keys);
  EncodeFixed64(to + kFilterBitsPerKeyOffset, std::bit_cast<uint64_t>(bits_per_key));
  to[kFilterProbesOffset] = static_cast<char>(probes);
  to[kFilterReservedOffset] = 0;
  to[kFilterVersionOffset] = static_cast<char>(kBlockedBloomVersion);
  to[kFilterKindOffset] = static_cast<char>(kBlockedBloomKind);
  EncodeFixed32(to + kFilterCheckOffset, TrailerCheck(to));
}

// The hashes are kept until the end, since only then the filter's size is known: it
// is that of the keys that came, not of a guess.
class BlockedBloomBuilder final : public FilterBuilder {
 public:
  BlockedBloomBuilder(double bits_per_key, int probes)
      : bits_per_key_(bits_per_key), probes_(probes) {}

  void AddHash(uint64_t hash) override {
    // Versions of one key lie side by side in a table and are one key here.
    if (keys_ > 0 && hash == last_) return;
    last_ = hash;
    if (keys_ % kPieceHashes == 0) {
      pieces_.push_back(std::make_unique_for_overwrite<uint64_t[]>(kPieceHashes));
    }
    pieces_.back()[keys_ % kPieceHashes] = hash;
    ++keys_;
  }

  std::string Finish() override {
    const uint64_t num_blocks = BlockedBloom::BlocksFor(keys_, bits_per_key_);
    const size_t bits_bytes = num_blocks * BlockedBloom::kBlockBytes;
    AlignedBuffer buffer = AlignedBuffer::Zeroed(bits_bytes + kFilterTrailerBytes);
    uint64_t left = keys_;
    for (std::unique_ptr<uint64_t[]>& piece : pieces_) {
      const size_t n = static_cast<size_t>(std::min<uint64_t>(left, kPieceHashes));
      BlockedBloom::AddAll(buffer.data(), num_blocks, probes_, absl::MakeConstSpan(piece.get(), n));
      piece.reset();
      left -= n;
    }
    assert(left == 0);
    pieces_.clear();
    EncodeTrailer(buffer.data() + bits_bytes, num_blocks, keys_, bits_per_key_, probes_);
    return std::string(buffer.view());
  }

 private:
  // Pieces, so that a growing table never copies its hashes.
  static constexpr size_t kPieceHashes = 8192;

  const double bits_per_key_;
  const int probes_;
  uint64_t keys_ = 0;
  uint64_t last_ = 0;
  std::vector<std::unique_ptr<uint64_t[]>> pieces_;
};

class BlockedBloomPolicy final : public FilterPolicy {
 public:
  explicit BlockedBloomPolicy(double bits_per_key)
      : bits_per_key_(ClampBitsPerKey(bits_per_key)),
        probes_(FilterSizing::OptimalBlockedProbes(bits_per_key_)) {}

  uint8_t Kind() const override { return kBlockedBloomKind; }
  const char* Name() const override { return "sievedb.BlockedBloom"; }
  double BitsPerKey(const FilterContext&) const override { return bits_per_key_; }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext&) const override {
    return std::make_unique<BlockedBloomBuilder>(bits_per_key_, probes_);
  }
  absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view bytes) const override {
    return OpenBuiltInFilter(kBlockedBloomKind, bytes);
  }

 private:
  const double bits_per_key_;
  const int probes_;
};

absl::Status Damaged(std::string_view what, size_t offset, uint64_t expected, uint64_t found) {
  return absl::DataLossError(
      absl::StrFormat("blocked Bloom filter: %s at offset %d: expected %d, found %d", what, offset,
                      expected, found));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockedBloomReader>> BlockedBloomReader::Open(
    std::string_view bytes) {
  if (bytes.size() < BlockedBloom::kBlockBytes + kFilterTrailerBytes ||
      (bytes.size() - kFilterTrailerBytes) % BlockedBloom::kBlockBytes != 0) {
    return absl::DataLossError(absl::StrFormat(
        "blocked Bloom filter: %d bytes, expected a positive multiple of %d and %d more",
        bytes.size(), BlockedBloom::kBlockBytes, kFilterTrailerBytes));
  }
  const size_t at = bytes.size() - kFilterTrailerBytes;
  const char* const trailer = bytes.data() + at;
  const auto byte = [&](size_t offset) { return static_cast<uint8_t>(trailer[offset]); };

  // Kind and version first: they say what the rest means.
  if (byte(kFilterKindOffset) != kBlockedBloomKind) {
    return Damaged("kind", at + kFilterKindOffset, kBlockedBloomKind, byte(kFilterKindOffset));
  }
  if (byte(kFilterVersionOffset) != kBlockedBloomVersion) {
    return Damaged("version", at + kFilterVersionOffset, kBlockedBloomVersion,
                   byte(kFilterVersionOffset));
  }
  const uint32_t check = DecodeFixed32(trailer + kFilterCheckOffset);
  if (check != TrailerCheck(trailer)) {
    return Damaged("check of the trailer", at + kFilterCheckOffset, TrailerCheck(trailer), check);
  }
  const uint64_t num_blocks = DecodeFixed64(trailer + kFilterNumBlocksOffset);
  if (num_blocks != at / BlockedBloom::kBlockBytes) {
    return Damaged("number of blocks", at + kFilterNumBlocksOffset, at / BlockedBloom::kBlockBytes,
                   num_blocks);
  }
  const int probes = byte(kFilterProbesOffset);
  const double bits_per_key =
      std::bit_cast<double>(DecodeFixed64(trailer + kFilterBitsPerKeyOffset));
  if (probes < 1 || probes > BlockedBloom::kMaxProbes || byte(kFilterReservedOffset) != 0 ||
      !(bits_per_key >= kMinBitsPerKey && bits_per_key <= kMaxBitsPerKey)) {
    return absl::DataLossError(absl::StrFormat(
        "blocked Bloom filter: trailer at offset %d: expected 1 to %d probes, reserved 0 and %g to "
        "%g bits per key, found %d, %d and %g",
        at, BlockedBloom::kMaxProbes, kMinBitsPerKey, kMaxBitsPerKey, probes,
        byte(kFilterReservedOffset), bits_per_key));
  }

  std::unique_ptr<BlockedBloomReader> reader(new BlockedBloomReader());
  reader->blocks_ = bytes.data();
  reader->num_blocks_ = num_blocks;
  reader->probes_ = probes;
  reader->keys_ = DecodeFixed64(trailer + kFilterKeysOffset);
  reader->bits_per_key_ = bits_per_key;
  return reader;
}

FilterFigures BlockedBloomReader::Figures() const {
  FilterFigures figures;
  figures.keys = keys_;
  figures.bits = num_blocks_ * BlockedBloom::kBlockBits;
  figures.bits_set = BlockedBloom::CountSetBits(blocks_, num_blocks_);
  figures.blocks = num_blocks_;
  figures.bits_per_key = bits_per_key_;
  figures.probes = probes_;
  figures.expected_fpr = BlockedBloom::FprFromBits(blocks_, num_blocks_, probes_);
  return figures;
}

size_t BlockedBloomReader::MemoryBytes() const {
  return sizeof(*this) + num_blocks_ * BlockedBloom::kBlockBytes + kFilterTrailerBytes;
}

absl::StatusOr<std::unique_ptr<FilterReader>> OpenBuiltInFilter(uint8_t kind,
                                                                std::string_view bytes) {
  if (kind != kBlockedBloomKind) {
    return absl::DataLossError(absl::StrFormat("filter of kind %d: this version knows kind %d only",
                                               kind, kBlockedBloomKind));
  }
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<BlockedBloomReader> reader,
                           BlockedBloomReader::Open(bytes));
  return reader;
}

std::shared_ptr<const FilterPolicy> NewBlockedBloomPolicy(double bits_per_key) {
  return std::make_shared<BlockedBloomPolicy>(bits_per_key);
}

}  // namespace sievedb
