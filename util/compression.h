#ifndef SIEVEDB_UTIL_COMPRESSION_H_
#define SIEVEDB_UTIL_COMPRESSION_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/options.h"

namespace sievedb {

// Appends nothing and returns false where compressing raw saves less than an
// eighth of it; otherwise *compressed is replaced.
bool Compress(Compression compression, std::string_view raw, std::string* compressed);

// The size that compressed will have once decompressed. kDataLoss where it cannot
// be read or is above limit.
absl::StatusOr<size_t> DecompressedSize(Compression compression, std::string_view compressed,
                                        size_t limit);

// Requires: to has room for DecompressedSize. Errors: kDataLoss.
absl::Status Decompress(Compression compression, std::string_view compressed, char* to);

const char* CompressionName(Compression compression);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_COMPRESSION_H_
