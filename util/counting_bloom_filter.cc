#include <cassert>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "sievedb/filter.h"
#include "util/counting_bloom.h"
#include "util/filter_checks.h"
#include "util/filter_kinds.h"
#include "util/filter_support.h"
#include "util/filter_trailer.h"
#include "util/status_macros.h"

namespace sievedb {

// The block of a counting Bloom filter. Little-endian.
//
//   offset  size  field
//   0       n/2   counters      n of 4 bits (counting_bloom.cc)
//
// then the trailer (filter_trailer.h):
//
//   extent        n, a positive multiple of 128
//   keys          added and not removed
//   bits_per_key  4 to 256
//   probes        1 to 32
//   detail        0
//   version       1
//   kind          6
namespace {

constexpr std::string_view kName = "counting Bloom filter";
constexpr uint8_t kVersion = 1;
constexpr uint64_t kCounterUnit = 128;
constexpr double kMinBitsPerKey = 4;
constexpr double kMaxBitsPerKey = 256;

class CountingBloomReader final : public FilterReader {
 public:
  static FilterReaderOr Open(std::string_view bytes);

  bool MayContain(uint64_t hash) const override {
    return CountingBloom::MayContain(counters_, num_counters_, probes_, hash);
  }
  void Prefetch(uint64_t hash) const override {
    CountingBloom::Prefetch(counters_, num_counters_, probes_, hash);
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const override {
    assert(hashes.size() == results.size());
    CountingBloom::MayContainMany(counters_, num_counters_, probes_, hashes, results);
  }
  FilterFigures Figures() const override;
  size_t MemoryBytes() const override {
    return sizeof(*this) + num_counters_ / 2 + kFilterTrailerBytes;
  }

  uint64_t num_counters() const { return num_counters_; }
  int probes() const { return probes_; }
  uint64_t keys() const { return keys_; }
  double bits_per_key() const { return bits_per_key_; }

 private:
  CountingBloomReader() = default;

  const uint8_t* counters_ = nullptr;
  uint64_t num_counters_ = 0;
  int probes_ = 0;
  uint64_t keys_ = 0;
  double bits_per_key_ = 0;
};

FilterReaderOr CountingBloomReader::Open(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const FilterTrailer trailer,
                           DecodeFilterTrailer(bytes, kName, kCountingBloomKind, kVersion));
  const size_t at = bytes.size() - kFilterTrailerBytes;
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "counters", at + kFilterExtentOffset,
                                           kCounterUnit, CountingBloom::kMaxCounters,
                                           trailer.extent));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "rest of counters", at + kFilterExtentOffset, 0,
                                           0, trailer.extent % kCounterUnit));
  SIEVEDB_RETURN_IF_ERROR(CheckFilterField(kName, "probes", at + kFilterProbesOffset, 1,
                                           CountingBloom::kMaxProbes, trailer.probes));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterField(kName, "detail", at + kFilterDetailOffset, 0, 0, trailer.detail));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterBitsPerKey(kName, at, kMinBitsPerKey, kMaxBitsPerKey, trailer.bits_per_key));
  SIEVEDB_RETURN_IF_ERROR(
      CheckFilterSize(kName, trailer.extent / 2 + kFilterTrailerBytes, bytes.size()));

  std::unique_ptr<CountingBloomReader> reader(new CountingBloomReader());
  reader->counters_ = reinterpret_cast<const uint8_t*>(bytes.data());
  reader->num_counters_ = trailer.extent;
  reader->probes_ = trailer.probes;
  reader->keys_ = trailer.keys;
  reader->bits_per_key_ = trailer.bits_per_key;
  return reader;
}

FilterFigures CountingBloomReader::Figures() const {
  FilterFigures figures;
  figures.keys = keys_;
  figures.bits = num_counters_;  // a counter answers as a bit would
  figures.bits_set = CountingBloom::CountNonzero(counters_, num_counters_);
  figures.bits_per_key = bits_per_key_;
  figures.probes = probes_;
  figures.expected_fpr =
      std::pow(static_cast<double>(figures.bits_set) / static_cast<double>(num_counters_), probes_);
  return figures;
}

const CountingBloomReader& Counting(const FilterReader& reader) {
  return static_cast<const CountingBloomReader&>(reader);
}

FilterTrailer TrailerFor(uint64_t num_counters, int probes, double bits_per_key, uint64_t keys) {
  FilterTrailer trailer;
  trailer.extent = num_counters;
  trailer.keys = keys;
  trailer.bits_per_key = bits_per_key;
  trailer.probes = static_cast<uint8_t>(probes);
  trailer.version = kVersion;
  trailer.kind = kCountingBloomKind;
  return trailer;
}

uint8_t* Counters(const FilterMemory& memory) { return reinterpret_cast<uint8_t*>(memory.data()); }

}  // namespace

FilterReaderOr OpenCountingBloomFilter(std::string_view bytes) {
  return CountingBloomReader::Open(bytes);
}

absl::StatusOr<CountingBloomFilter> CountingBloomFilter::Create(const FilterSizing& sizing) {
  SIEVEDB_RETURN_IF_ERROR(CheckSizing(sizing));
  double bits_per_key = sizing.bits_per_key;
  if (sizing.fpr != 0) bits_per_key = 4 * -std::log(sizing.fpr) / (M_LN2 * M_LN2);
  SIEVEDB_RETURN_IF_ERROR(CheckBitsPerKey(bits_per_key, kMinBitsPerKey, kMaxBitsPerKey));
  const uint64_t num_counters = CountingBloom::CountersFor(sizing.keys, bits_per_key);
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory,
                           AllocateFilterMemory(num_counters / 2 + kFilterTrailerBytes));
  EncodeFilterTrailer(
      TrailerFor(num_counters, CountingBloom::ProbesFor(bits_per_key), bits_per_key, 0),
      memory.data() + num_counters / 2);
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenCountingBloomFilter({memory.data(), memory.size()}));
  return CountingBloomFilter(std::move(memory), std::move(reader));
}

absl::StatusOr<CountingBloomFilter> CountingBloomFilter::Deserialize(std::string_view bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(FilterMemory memory, CopyFilterBlock(bytes, kCountingBloomKind));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<FilterReader> reader,
                           OpenCountingBloomFilter({memory.data(), memory.size()}));
  CountingBloomFilter filter(std::move(memory), std::move(reader));
  filter.keys_ = Counting(*filter.reader_).keys();
  return filter;
}

void CountingBloomFilter::AddHash(uint64_t hash) {
  const CountingBloomReader& reader = Counting(*reader_);
  CountingBloom::Add(Counters(memory_), reader.num_counters(), reader.probes(), hash);
  ++keys_;
}

bool CountingBloomFilter::RemoveHash(uint64_t hash) {
  const CountingBloomReader& reader = Counting(*reader_);
  if (!CountingBloom::Remove(Counters(memory_), reader.num_counters(), reader.probes(), hash)) {
    return false;
  }
  // Another key's counters may have been taken for this one's.
  if (keys_ > 0) --keys_;
  return true;
}

FilterFigures CountingBloomFilter::Figures() const {
  FilterFigures figures = reader_->Figures();
  figures.keys = keys_;
  return figures;
}

void CountingBloomFilter::WriteTrailer(char* trailer) const {
  const CountingBloomReader& reader = Counting(*reader_);
  EncodeFilterTrailer(
      TrailerFor(reader.num_counters(), reader.probes(), reader.bits_per_key(), keys_), trailer);
}

}  // namespace sievedb
