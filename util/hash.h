#ifndef SIEVEDB_UTIL_HASH_H_
#define SIEVEDB_UTIL_HASH_H_

#include <cstdint>
#include <string_view>

namespace sievedb {

// XXH3-64. The one hash of the project: keys (seed 0) and checksums.
uint64_t Hash64(std::string_view bytes, uint64_t seed = 0);

// XXH3-64 of a followed by b, as if they were one.
uint64_t Hash64Pair(std::string_view a, std::string_view b, uint64_t seed);

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_HASH_H_
