#include "util/filter_trailer.h"

#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/filter_checks.h"
#include "util/hash.h"

namespace sievedb {
namespace {

uint32_t Check(const char* trailer, size_t extra_bytes) {
  return static_cast<uint32_t>(
      Hash64Pair({trailer - extra_bytes, extra_bytes + kFilterCheckOffset},
                 {trailer + kFilterProbesOffset, kFilterTrailerBytes - kFilterProbesOffset}, 0));
}

}  // namespace

void EncodeFilterTrailer(const FilterTrailer& trailer, char* to, size_t extra_bytes) {
  EncodeFixed64(to + kFilterExtentOffset, trailer.extent);
  EncodeFixed64(to + kFilterKeysOffset, trailer.keys);
  EncodeFixed64(to + kFilterBitsPerKeyOffset, std::bit_cast<uint64_t>(trailer.bits_per_key));
  to[kFilterProbesOffset] = static_cast<char>(trailer.probes);
  to[kFilterDetailOffset] = static_cast<char>(trailer.detail);
  to[kFilterVersionOffset] = static_cast<char>(trailer.version);
  to[kFilterKindOffset] = static_cast<char>(trailer.kind);
  EncodeFixed32(to + kFilterCheckOffset, Check(to, extra_bytes));
}

absl::StatusOr<FilterTrailer> DecodeFilterTrailer(std::string_view bytes, std::string_view name,
                                                  uint8_t kind, uint8_t version,
                                                  size_t extra_bytes) {
  if (bytes.size() < kFilterTrailerBytes || bytes.size() - kFilterTrailerBytes < extra_bytes) {
    return absl::DataLossError(absl::StrFormat("%s: %d bytes, expected at least %d", name,
                                               bytes.size(), kFilterTrailerBytes + extra_bytes));
  }
  const size_t at = bytes.size() - kFilterTrailerBytes;
  const char* const from = bytes.data() + at;
  const auto byte = [&](size_t offset) { return static_cast<uint8_t>(from[offset]); };

  // Kind and version first: they say what the rest means.
  FilterTrailer trailer;
  trailer.kind = byte(kFilterKindOffset);
  if (trailer.kind != kind)
    return FilterFieldDamaged(name, "kind", at + kFilterKindOffset, kind, trailer.kind);
  trailer.version = byte(kFilterVersionOffset);
  if (trailer.version != version) {
    return FilterFieldDamaged(name, "version", at + kFilterVersionOffset, version, trailer.version);
  }
  const uint32_t expected = Check(from, extra_bytes);
  const uint32_t found = DecodeFixed32(from + kFilterCheckOffset);
  if (found != expected) {
    return FilterFieldDamaged(name, "check of the trailer", at + kFilterCheckOffset, expected,
                              found);
  }
  trailer.extent = DecodeFixed64(from + kFilterExtentOffset);
  trailer.keys = DecodeFixed64(from + kFilterKeysOffset);
  trailer.bits_per_key = std::bit_cast<double>(DecodeFixed64(from + kFilterBitsPerKeyOffset));
  trailer.probes = byte(kFilterProbesOffset);
  trailer.detail = byte(kFilterDetailOffset);
  return trailer;
}

}  // namespace sievedb
