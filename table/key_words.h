#ifndef SIEVEDB_TABLE_KEY_WORDS_H_
#define SIEVEDB_TABLE_KEY_WORDS_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "table/internal_key.h"
#include "util/coding.h"
#include "util/key_order.h"

namespace sievedb {

// The first 16 bytes of a user key as two numbers, padded with zeros, that never
// contradict the order: Before(a, b) implies that a's key comes before b's. One
// word is not enough where keys begin with a table's name or with zeros. Both are
// always 0 under a user's comparator.
struct KeyWords {
  uint64_t first = 0;
  uint64_t second = 0;

  friend bool operator==(const KeyWords&, const KeyWords&) = default;
  static bool Before(const KeyWords& a, const KeyWords& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  }
};
inline constexpr size_t kKeyWordsBytes = sizeof(KeyWords);

inline KeyWords WordsOf(const KeyOrder& order, std::string_view user_key) {
  return {order.Word(user_key, 0), order.Word(user_key, sizeof(uint64_t))};
}

// The first 8 of the bytes bytes at from as a number, padded with zeros. Reads 8
// bytes whatever bytes is.
inline uint64_t PaddedWord(const char* from, size_t bytes) {
  const uint64_t word = __builtin_bswap64(DecodeFixed64(from));
  if (bytes >= sizeof(word)) [[likely]]
    return word;
  return bytes == 0 ? 0 : word & (~uint64_t{0} << (64 - 8 * bytes));
}

// The same as WordsOf(order, UserKey(internal_key)), without a branch on each
// length: the tag behind the user key makes whole words readable.
inline KeyWords InternalKeyWords(const KeyOrder& order, std::string_view internal_key) {
  assert(internal_key.size() >= kTagBytes);
  if (!order.has_words()) [[unlikely]]
    return {};
  const uint64_t flip = order.Word({});  // all ones where the order is reversed
  const char* const from = internal_key.data();
  const size_t bytes = internal_key.size() - kTagBytes;
  const uint64_t second = bytes > 8 ? PaddedWord(from + 8, bytes - 8) : 0;
  return {PaddedWord(from, bytes) ^ flip, second ^ flip};
}

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_KEY_WORDS_H_
