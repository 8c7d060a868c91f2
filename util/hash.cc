#include "util/hash.h"

#include <cstring>

// Compiled in rather than linked: the branches on the length are then resolved
// in one place without a call through the PLT.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sievedb {

static_assert(XXH_VERSION_NUMBER >= 800, "XXH3's result is stable from 0.8.0 on");

uint64_t Hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t Hash64Pair(std::string_view a, std::string_view b, uint64_t seed) {
  if (b.empty()) return Hash64(a, seed);
  if (a.empty()) return Hash64(b, seed);
  // Below this, joining the two costs less than setting the streaming state up.
  constexpr size_t kJoinBytes = 256;
  if (a.size() <= kJoinBytes && b.size() <= kJoinBytes - a.size()) {
    char joined[kJoinBytes];
    std::memcpy(joined, a.data(), a.size());
    std::memcpy(joined + a.size(), b.data(), b.size());
    return XXH3_64bits_withSeed(joined, a.size() + b.size(), seed);
  }
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  // Neither fails: that is for null arguments.
  static_cast<void>(XXH3_64bits_reset_withSeed(&state, seed));
  static_cast<void>(XXH3_64bits_update(&state, a.data(), a.size()));
  static_cast<void>(XXH3_64bits_update(&state, b.data(), b.size()));
  return XXH3_64bits_digest(&state);
}

}  // namespace sievedb
