#ifndef SIEVEDB_UTIL_FILTER_KINDS_H_
#define SIEVEDB_UTIL_FILTER_KINDS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "sievedb/filter_policy.h"

namespace sievedb {

// The kinds of filters that are built in, as table footers and trailers
// (util/filter_trailer.h) have them: never given a second meaning. Those from 128 on
// belong to the users' policies.
inline constexpr uint8_t kBlockedBloomKind = 1;
inline constexpr uint8_t kDenseBlockedBloomKind = 2;
inline constexpr uint8_t kBloomKind = 3;
inline constexpr uint8_t kRibbonKind = 4;
inline constexpr uint8_t kBinaryFuseKind = 5;
inline constexpr uint8_t kCountingBloomKind = 6;
inline constexpr uint8_t kCuckooKind = 7;
inline constexpr uint8_t kScalableBloomKind = 8;
inline constexpr uint8_t kFirstUserFilterKind = 128;

// Readers over the bytes of a filter block, one a kind. bytes outlives the reader;
// where it is not 64-byte aligned the answers are the same, but a probe may touch a
// cache line more.
//
// Errors: kDataLoss where bytes are not a filter of the kind and a known version.
// That the array's bits are those that were written is the caller's to check.
using FilterReaderOr = absl::StatusOr<std::unique_ptr<FilterReader>>;
FilterReaderOr OpenBlockedBloomFilter(std::string_view bytes);
FilterReaderOr OpenDenseBlockedBloomFilter(std::string_view bytes);
FilterReaderOr OpenBloomFilter(std::string_view bytes);
FilterReaderOr OpenRibbonFilter(std::string_view bytes);
FilterReaderOr OpenBinaryFuseFilter(std::string_view bytes);
FilterReaderOr OpenCountingBloomFilter(std::string_view bytes);
FilterReaderOr OpenCuckooFilter(std::string_view bytes);
FilterReaderOr OpenScalableBloomFilter(std::string_view bytes);

// The opener of a kind below 128.
//
// Errors: kDataLoss as above, and where no such kind is built in.
FilterReaderOr OpenBuiltInFilter(uint8_t kind, std::string_view bytes);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_KINDS_H_
