#ifndef SIEVEDB_UTIL_KEY_ORDER_H_
#define SIEVEDB_UTIL_KEY_ORDER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "sievedb/comparator.h"

namespace sievedb {

// A comparator, with the built-in orders compared inline. Copyable, one word and
// a kind.
class KeyOrder {
 public:
  explicit KeyOrder(const Comparator* comparator)
      : comparator_(comparator),
        kind_(comparator == BytewiseComparator()          ? Kind::kBytewise
              : comparator == ReverseBytewiseComparator() ? Kind::kReverse
                                                          : Kind::kUser) {}

  const Comparator* comparator() const { return comparator_; }
  bool equal_keys_have_equal_bytes() const {
    return kind_ != Kind::kUser || comparator_->EqualKeysHaveEqualBytes();
  }

  int Compare(std::string_view a, std::string_view b) const {
    if (kind_ == Kind::kBytewise) [[likely]]
      return CompareBytes(a, b);
    if (kind_ == Kind::kReverse) return CompareBytes(b, a);
    return comparator_->Compare(a, b);
  }

  // Whether a and b are one key.
  bool Equal(std::string_view a, std::string_view b) const {
    return kind_ == Kind::kUser ? comparator_->Compare(a, b) == 0 : a == b;
  }

  // The first 8 bytes of key (from byte skip on) as a number that never
  // contradicts the order: Word(a) < Word(b) implies Compare(a, b) < 0, for keys
  // that share their first skip bytes. Equal words say nothing. Always 0 under a
  // user's comparator.
  uint64_t Word(std::string_view key, size_t skip = 0) const {
    if (kind_ == Kind::kUser) return 0;
    const size_t left = key.size() > skip ? key.size() - skip : 0;
    uint64_t word = 0;
    if (left >= 8) {
      std::memcpy(&word, key.data() + skip, 8);
      word = __builtin_bswap64(word);
    } else if (left > 0 && key.size() >= 8) {
      // The last 8 bytes, without those before skip: cheaper than to copy some.
      std::memcpy(&word, key.data() + key.size() - 8, 8);
      word = __builtin_bswap64(word) << (8 * (8 - left));
    } else if (left > 0) {
      std::memcpy(&word, key.data() + skip, left);
      word = __builtin_bswap64(word);
    }
    return kind_ == Kind::kReverse ? ~word : word;
  }
  // Whether Word says anything.
  bool has_words() const { return kind_ != Kind::kUser; }

 private:
  enum class Kind : uint8_t { kBytewise, kReverse, kUser };

  static int CompareBytes(std::string_view a, std::string_view b) {
    const size_t shared = std::min(a.size(), b.size());
    const int r = shared == 0 ? 0 : std::memcmp(a.data(), b.data(), shared);
    if (r != 0) return r;
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }

  const Comparator* comparator_;
  Kind kind_;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_KEY_ORDER_H_
