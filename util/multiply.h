#ifndef SIEVEDB_UTIL_MULTIPLY_H_
#define SIEVEDB_UTIL_MULTIPLY_H_

#include <cstdint>

namespace sievedb {

// Not standard C++, but in every compiler for 64-bit machines.
__extension__ typedef unsigned __int128 Uint128;  // NOLINT(modernize-use-using)

// The upper half of a * b. For a random hash a: a number below b, without dividing
// (multiply-shift).
inline uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<Uint128>(a) * b) >> 64);
}

// Both halves of a * b in one word: every bit of the result depends on all of a.
inline uint64_t MultiplyFold(uint64_t a, uint64_t b) {
  const Uint128 product = static_cast<Uint128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_MULTIPLY_H_
