#include "sievedb/comparator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sievedb {
namespace {

constexpr unsigned char kMaxByte = 0xff;

unsigned char ByteAt(std::string_view bytes, size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

size_t SharedPrefixBytes(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

// Cuts *key behind the first byte, from `from` on, that can be counted up, and
// counts it up: the shortest key above *key that keeps the bytes before `from`.
// Leaves *key alone where that would not make it shorter.
void IncrementFrom(std::string* key, size_t from) {
  for (size_t i = from; i + 1 < key->size(); ++i) {
    const unsigned char byte = ByteAt(*key, i);
    if (byte != kMaxByte) {
      (*key)[i] = static_cast<char>(byte + 1);
      key->resize(i + 1);
      return;
    }
  }
}

class BytewiseOrder final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return "sievedb.BytewiseComparator"; }

  void FindShortestSeparator(std::string* start, std::string_view limit) const override {
    if (Compare(*start, limit) >= 0) return;
    const size_t shared = SharedPrefixBytes(*start, limit);
    // A start that is a prefix of limit has nothing shorter in between, nor has one
    // that differs from it in its last byte only.
    if (shared + 1 >= start->size()) return;
    // start < limit, and they differ at byte `shared`, which limit has too. Counted
    // up, that byte is below limit's, or it is the same and what follows is cut off.
    const bool differ_by_more = ByteAt(*start, shared) + 1 < ByteAt(limit, shared);
    if (differ_by_more || shared + 1 < limit.size()) {
      IncrementFrom(start, shared);
    } else {
      // Counted up it would be limit itself. It must stay; any byte behind it may grow.
      IncrementFrom(start, shared + 1);
    }
  }

  void FindShortSuccessor(std::string* key) const override { IncrementFrom(key, 0); }
};

// Here a key's prefixes come behind it, so that cutting is all there is to do.
class ReverseBytewiseOrder final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return b.compare(a); }
  const char* Name() const override { return "sievedb.ReverseBytewiseComparator"; }

  void FindShortestSeparator(std::string* start, std::string_view limit) const override {
    if (Compare(*start, limit) >= 0) return;
    // limit's bytes are less than start's: where they differ start has the greater
    // byte, or limit has none. start up to that byte still comes before limit.
    start->resize(SharedPrefixBytes(*start, limit) + 1);
  }

  void FindShortSuccessor(std::string* key) const override {
    // The empty key would do, but a first byte tells more.
    if (key->size() > 1) key->resize(1);
  }
};

// Constant initialized, and never destroyed: the orders serve other static objects.
template <typename T>
union Immortal {
  constexpr Immortal() : value() {}
  ~Immortal() {}  // NOLINT(modernize-use-equals-default): it would be deleted
  T value;
};
constinit Immortal<BytewiseOrder> bytewise_order;
constinit Immortal<ReverseBytewiseOrder> reverse_bytewise_order;

}  // namespace

Comparator::~Comparator() = default;

void Comparator::FindShortestSeparator(std::string* /*start*/, std::string_view /*limit*/) const {}

void Comparator::FindShortSuccessor(std::string* /*key*/) const {}

const Comparator* BytewiseComparator() { return &bytewise_order.value; }

const Comparator* ReverseBytewiseComparator() { return &reverse_bytewise_order.value; }

}  // namespace sievedb
