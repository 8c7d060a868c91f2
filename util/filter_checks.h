#ifndef SIEVEDB_UTIL_FILTER_CHECKS_H_
#define SIEVEDB_UTIL_FILTER_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "sievedb/filter_policy.h"
#include "util/filter_trailer.h"

namespace sievedb {

// What opening a filter block checks, for every kind alike. name begins the messages:
// "ribbon filter".

// kDataLoss with the field, its offset in the block, and both numbers.
absl::Status FilterFieldDamaged(std::string_view name, std::string_view field, size_t offset,
                                uint64_t expected, uint64_t found);
// kDataLoss where a field of the trailer at trailer_at is outside of min to max.
absl::Status CheckFilterField(std::string_view name, std::string_view field, size_t offset,
                              uint64_t min, uint64_t max, uint64_t found);
// kDataLoss where the trailer's bits per key are outside of min to max.
absl::Status CheckFilterBitsPerKey(std::string_view name, size_t trailer_at, double min, double max,
                                   double found);
// kDataLoss where a block has another size than its trailer says.
absl::Status CheckFilterSize(std::string_view name, uint64_t expected, uint64_t found);

// The construction memory above which a policy's builder makes a blocked Bloom filter
// instead of a ribbon or a binary fuse filter: some 18 million keys. Compactions build
// several tables at a time, and the memory they take must not grow with a table.
inline constexpr uint64_t kMaxFilterBuildBytes = uint64_t{512} << 20;

// The policies of filter_policy.h with another limit.
std::shared_ptr<const FilterPolicy> NewRibbonPolicy(double bits_per_key, uint64_t max_build_bytes);
std::shared_ptr<const FilterPolicy> NewBinaryFusePolicy(uint64_t max_build_bytes);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_CHECKS_H_
