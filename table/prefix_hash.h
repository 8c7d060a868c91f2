#ifndef SIEVEDB_TABLE_PREFIX_HASH_H_
#define SIEVEDB_TABLE_PREFIX_HASH_H_

#include <cstdint>
#include <string_view>

#include "util/hash.h"

namespace sievedb {

// The hash by which a table's filter knows a prefix, where hash_seed is that of its keys.
// Its seed is another one, so that the prefix "ab" and the key "ab" are two things: one
// of them says nothing about the other. Part of the table format.
inline uint64_t PrefixHash(std::string_view prefix, uint64_t hash_seed) {
  constexpr uint64_t kPrefixSeed = 0x452821e638d01377;
  return Hash64(prefix, hash_seed ^ kPrefixSeed);
}

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_PREFIX_HASH_H_
