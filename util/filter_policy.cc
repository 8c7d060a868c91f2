#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sievedb/filter.h"
#include "util/aligned_buffer.h"
#include "util/filter_block.h"
#include "util/filter_support.h"

namespace sievedb {
namespace {

// Both blocked Bloom filters, which differ in how their blocks are filled.
class BlockBuilder final : public FilterBuilder {
 public:
  BlockBuilder(uint8_t kind, double bits_per_key, int probes)
      : kind_(kind), bits_per_key_(bits_per_key), probes_(probes) {}

  void AddHash(uint64_t hash) override { hashes_.Add(hash); }

  std::string Finish() override {
    FilterTrailer trailer;
    trailer.keys = hashes_.size();
    trailer.extent = BlockedBloom::BlocksFor(trailer.keys, bits_per_key_);
    trailer.bits_per_key = bits_per_key_;
    trailer.probes = static_cast<uint8_t>(probes_);
    trailer.kind = kind_;
    const size_t bits_bytes = trailer.extent * BlockedBloom::kBlockBytes;
    AlignedBuffer buffer = AlignedBuffer::Zeroed(bits_bytes + kFilterTrailerBytes);
    if (kind_ == kDenseBlockedBloomKind) {
      trailer.version = kDenseBlockedBloomVersion;
      DenseBlockedBloom::Build(buffer.data(), trailer.extent, probes_, hashes_.Pieces());
      hashes_ = FilterHashes();
    } else {
      trailer.version = kBlockedBloomVersion;
      hashes_.Drain([&](absl::Span<const uint64_t> piece) {
        BlockedBloom::AddAll(buffer.data(), trailer.extent, probes_, piece);
      });
    }
    EncodeFilterTrailer(trailer, buffer.data() + bits_bytes);
    return std::string(buffer.view());
  }

 private:
  const uint8_t kind_;
  const double bits_per_key_;
  const int probes_;
  FilterHashes hashes_;
};

class BlockPolicy final : public FilterPolicy {
 public:
  BlockPolicy(uint8_t kind, double bits_per_key)
      : kind_(kind), bits_per_key_(ClampPolicyBitsPerKey(bits_per_key)) {}

  uint8_t Kind() const override { return kind_; }
  const char* Name() const override {
    return kind_ == kBlockedBloomKind ? "sievedb.BlockedBloom" : "sievedb.DenseBlockedBloom";
  }
  double BitsPerKey(const FilterContext& context) const override {
    return PolicyBitsPerKey(context, bits_per_key_);
  }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    const double bits = BitsPerKey(context);
    const int probes = kind_ == kBlockedBloomKind ? FilterSizing::OptimalBlockedProbes(bits)
                                                  : DenseBlockedBloom::OptimalProbes(bits);
    return std::make_unique<BlockBuilder>(kind_, bits, probes);
  }
  FilterReaderOr NewReader(std::string_view bytes) const override {
    return OpenBuiltInFilter(kind_, bytes);
  }

 private:
  const uint8_t kind_;
  const double bits_per_key_;
};

}  // namespace

std::shared_ptr<const FilterPolicy> NewBlockedBloomPolicy(double bits_per_key) {
  return std::make_shared<BlockPolicy>(kBlockedBloomKind, bits_per_key);
}

std::shared_ptr<const FilterPolicy> NewDenseBlockedBloomPolicy(double bits_per_key) {
  return std::make_shared<BlockPolicy>(kDenseBlockedBloomKind, bits_per_key);
}

}  // namespace sievedb
