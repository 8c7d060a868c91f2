#ifndef SIEVEDB_UTIL_FILTER_TRAILER_H_
#define SIEVEDB_UTIL_FILTER_TRAILER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace sievedb {

// The last 32 bytes of the block of every built-in filter. Little-endian.
//
//   offset  size  field
//   0       8     extent        the kind's own: cells, bits or blocks of the array
//   8       8     keys          hashes that were added
//   16      8     bits_per_key  IEEE 754 double: asked for
//   24      4     check         low half of XXH3-64 of the trailer's other 28 bytes,
//                               and of the extra bytes before them where a kind has
//                               such: a wrong field would deny keys
//   28      1     probes        the kind's own
//   29      1     detail        the kind's own; 0 where it has no use for it
//   30      1     version       of the kind's format
//   31      1     kind          util/filter_kinds.h
//
// The array comes first: in a buffer that begins at a cache line its blocks are cache
// lines. Its bits are covered by the checksum of the table's block that holds them.
// A kind with more parameters than fit has extra bytes between array and trailer.
inline constexpr size_t kFilterTrailerBytes = 32;
inline constexpr size_t kFilterExtentOffset = 0;
inline constexpr size_t kFilterKeysOffset = 8;
inline constexpr size_t kFilterBitsPerKeyOffset = 16;
inline constexpr size_t kFilterCheckOffset = 24;
inline constexpr size_t kFilterProbesOffset = 28;
inline constexpr size_t kFilterDetailOffset = 29;
inline constexpr size_t kFilterVersionOffset = 30;
inline constexpr size_t kFilterKindOffset = 31;
static_assert(kFilterKindOffset + 1 == kFilterTrailerBytes);
static_assert(kFilterCheckOffset + sizeof(uint32_t) == kFilterProbesOffset);
static_assert(sizeof(double) == 8);

struct FilterTrailer {
  uint64_t extent = 0;
  uint64_t keys = 0;
  double bits_per_key = 0;
  uint8_t probes = 0;
  uint8_t detail = 0;
  uint8_t version = 0;
  uint8_t kind = 0;
};

// Writes the 32 bytes at to. The check covers the extra_bytes before to as well,
// which must have been written.
void EncodeFilterTrailer(const FilterTrailer& trailer, char* to, size_t extra_bytes = 0);

// The trailer at the end of bytes. name begins the messages: "ribbon filter".
//
// Errors: kDataLoss where bytes are too few for it and the extra bytes, the kind or
// version is another, or the check fails. What the fields may be is the caller's to
// check.
absl::StatusOr<FilterTrailer> DecodeFilterTrailer(std::string_view bytes, std::string_view name,
                                                  uint8_t kind, uint8_t version,
                                                  size_t extra_bytes = 0);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_TRAILER_H_
