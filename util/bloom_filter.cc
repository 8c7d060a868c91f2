#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/bloom.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// The block of a Bloom filter. Little-endian.
//
//   offset  size  field
//   0       m/8   bits          m bits (bloom.h)
//
// then the trailer (filter_trailer.h), at m/8, with
//
//   0       8     extent        m, a multiple of 512 and at least 512
//   16      8     bits_per_key  1 to 64
//   28      1     probes        1 to 44
//   29      1     detail        0
//   30      1     version       1
//   31      1     kind          3
constexpr uint8_t kBloomVersion = 1;
constexpr const char* kName = "Bloom filter";

class BloomReader final : public FilterReader {
 public:
  BloomReader(std::string_view bytes, const FilterTrailer& trailer)
      : array_(bytes.data()),
        bits_(trailer.extent),
        probes_(trailer.probes),
        keys_(trailer.keys),
        bits_per_key_(trailer.bits_per_key) {}

  bool MayContain(uint64_t hash) const override {
    return Bloom::MayContain(array_, bits_, probes_, hash);
  }
  void Prefetch(uint64_t hash) const override { Bloom::Prefetch(array_, bits_, probes_, hash); }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    Bloom::MayContainMany(array_, bits_, probes_, hashes, results);
  }
  FilterFigures Figures() const override {
    FilterFigures figures;
    figures.keys = keys_;
    figures.bits = bits_;
    figures.bits_set = Bloom::CountSetBits(array_, bits_);
    figures.bits_per_key = bits_per_key_;
    figures.probes = probes_;
    figures.expected_fpr = std::pow(
        static_cast<double>(figures.bits_set) / static_cast<double>(figures.bits), probes_);
    return figures;
  }
  size_t MemoryBytes() const override { return sizeof(*this) + bits_ / 8 + kFilterTrailerBytes; }

  uint64_t bits() const { return bits_; }
  int probes() const { return probes_; }
  uint64_t keys() const { return keys_; }
  double bits_per_key() const { return bits_per_key_; }

 private:
  const char* const array_;
  const uint64_t bits_;
  const int probes_;
  const uint64_t keys_;
  const double bits_per_key_;
};

const BloomReader& AsBloom(const FilterReader& reader) {
  return static_cast<const BloomReader&>(reader);
}

int ProbesFor(double bits_per_key) {
  return std::min(FilterSizing::OptimalProbes(bits_per_key), Bloom::kMaxProbes);
}

FilterTrailer Trailer(uint64_t bits, uint64_t keys, double bits_per_key, int probes) {
  FilterTrailer trailer;
  trailer.extent = bits;
  trailer.keys = keys;
  trailer.bits_per_key = bits_per_key;
  trailer.probes = static_cast<uint8_t>(probes);
  trailer.version = kBloomVersion;
  trailer.kind = kBloomKind;
  return trailer;
}

class BloomBuilder final : public FilterBuilder {
 public:
  explicit BloomBuilder(double bits_per_key) : bits_per_key_(bits_per_key) {}

  void AddHash(uint64_t hash) override { hashes_.Add(hash); }
  std::string Finish() override {
    const uint64_t keys = hashes_.size();
    const uint64_t bits = Bloom::BitsFor(keys, bits_per_key_);
    const FilterTrailer trailer = Trailer(bits, keys, bits_per_key_, ProbesFor(bits_per_key_));
    std::string bytes(bits / 8 + kFilterTrailerBytes, '\0');
    hashes_.Drain([&](absl::Span<const uint64_t> piece) {
      Bloom::AddAll(bytes.data(), bits, trailer.probes, piece);
    });
    EncodeFilterTrailer(trailer, bytes.data() + bits / 8);
    return bytes;
  }

 private:
  const double bits_per_key_;
  FilterHashes hashes_;
};

class BloomPolicy final : public FilterPolicy {
 public:
  explicit BloomPolicy(double bits_per_key) : bits_per_key_(ClampPolicyBitsPerKey(bits_per_key)) {}

  uint8_t Kind() const override { return kBloomKind; }
  const char* Name() const override { return "sievedb.Bloom"; }
  double BitsPerKey(const FilterContext& context) const override {
    return PolicyBitsPerKey(context, bits_per_key_);
  }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    return std::make_unique<BloomBuilder>(BitsPerKey(context));
  }
  FilterReaderOr NewReader(std::string_view bytes) const override { return OpenBloomFilter(bytes); }

 private:
  const double bits_per_key_;
};

}  // namespace

FilterReaderOr OpenBloomFilter(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kBloomKind, kBloomVersion));
  const size_t at = bytes.size() - kFilterTrailerBytes;
  if (at < 64 || at % 64 != 0 || trailer.extent / 8 != at || trailer.extent % 8 != 0) {
    return absl::DataLossError(
        absl::StrFormat("%s: bits at offset %d: expected %d, a positive multiple of 512, found %d",
                        kName, at + kFilterExtentOffset, uint64_t{at} * 8, trailer.extent));
  }
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "probes", at + kFilterProbesOffset, 1,
                                           Bloom::kMaxProbes, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterField(kName, "detail", at + kFilterDetailOffset, 0, 0, trailer.detail));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterBitsPerKey(kName, at, kMinPolicyBitsPerKey,
                                                kMaxPolicyBitsPerKey, trailer.bits_per_key));
  return std::make_unique<BloomReader>(bytes, trailer);
}

absl::StatusOr<BloomFilter> BloomFilter::Create(const FilterSizing& sizing) {
  SIEVEDB_ASSIGN_OR_RETURN(
      const double bits_per_key,
      BitsPerKeyFor(sizing, kMinPolicyBitsPerKey, kMaxPolicyBitsPerKey,
                    [](double bits) { return FilterSizing::ExpectedFpr(bits, ProbesFor(bits)); }));
  const uint64_t bits = Bloom::BitsFor(sizing.keys, bits_per_key);
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory,
                           AllocateFilterMemory(bits / 8 + kFilterTrailerBytes));
  EncodeFilterTrailer(Trailer(bits, 0, bits_per_key, ProbesFor(bits_per_key)),
                      memory.data() + bits / 8);
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenBloomFilter({memory.data(), memory.size()}));
  return BloomFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<BloomFilter> BloomFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kBloomKind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenBloomFilter({memory.data(), memory.size()}));
  BloomFilter filter(std::move(memory), std::move(reader));
  filter.keys_ = AsBloom(*filter.reader_).keys();
  return filter;
}

void BloomFilter::AddManyHashes(absl::Span<const uint64_t> hashes) {
  const BloomReader& reader = AsBloom(*reader_);
  Bloom::AddAll(memory_.data(), reader.bits(), reader.probes(), hashes);
  keys_ += hashes.size();
}

FilterFigures BloomFilter::Figures() const {
  FilterFigures figures = reader_->Figures();
  figures.keys = keys_;
  return figures;
}

void BloomFilter::WriteTrailer(char* trailer) const {
  const BloomReader& reader = AsBloom(*reader_);
  EncodeFilterTrailer(Trailer(reader.bits(), keys_, reader.bits_per_key(), reader.probes()),
                      trailer);
}

std::shared_ptr<const FilterPolicy> NewBloomPolicy(double bits_per_key) {
  return std::make_shared<BloomPolicy>(bits_per_key);
}

}  // namespace sievedb
