// Data blocks from anywhere: every search and every walk ends and reads nothing
// outside of the bytes. The first byte chooses the order and a key.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "sievedb/comparator.h"
#include "table/block.h"
#include "util/hash.h"

namespace {

using sievedb::Block;
using sievedb::BlockIterator;
using sievedb::InternalKeyOrder;

// Not one of the built-in orders, which are compared another way.
class OtherComparator final : public sievedb::Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override { return a.compare(b); }
  const char* Name() const override { return "fuzz.Other"; }
};

void Search(const Block& block, const InternalKeyOrder& order, std::string_view key, uint64_t tag) {
  uint64_t found_tag = 0;
  std::string_view value;
  if (block.Find(order.user(), key, tag, sievedb::Hash64(key), &found_tag, &value) ==
          Block::Result::kFound &&
      (found_tag > tag || value.data() < block.data() ||
       value.data() + value.size() > block.limit())) {
    std::abort();
  }
}

void Walk(std::string_view bytes, const InternalKeyOrder& order, std::string_view key) {
  Block block;
  BlockIterator it(order);
  if (!block.Parse(bytes) || !it.Init(bytes)) return;
  Search(block, order, key, sievedb::SeekTag(5));
  size_t steps = 0;
  const auto step = [&] {
    if (++steps > 4 * bytes.size() + 16) std::abort();
  };
  for (it.SeekToFirst(); it.Valid(); it.Next()) {
    step();
    if (steps <= 64) {
      Search(block, order, sievedb::UserKey(it.key()), sievedb::Tag(it.key()));
      Search(block, order, sievedb::UserKey(it.key()), sievedb::Tag(it.key()) - 1);
    }
  }
  for (it.SeekToLast(); it.Valid(); it.Prev()) step();
  it.Seek(key, sievedb::SeekTag(5));
  for (int i = 0; i < 4 && it.Valid(); ++i) it.Prev();
  for (int i = 0; i < 8 && it.Valid(); ++i) it.Next();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const OtherComparator other;
  // A copy of the exact size: a read beyond it is found.
  const std::unique_ptr<char[]> copy(new char[size]);
  std::memcpy(copy.get(), data, size);
  const std::string_view bytes(copy.get() + 1, size - 1);
  const std::string_view key = bytes.substr(size > 8 ? data[0] % 8 : 0, data[0] / 8);
  for (const sievedb::Comparator* comparator :
       {sievedb::BytewiseComparator(), sievedb::ReverseBytewiseComparator(),
        static_cast<const sievedb::Comparator*>(&other)}) {
    Walk(bytes, InternalKeyOrder(comparator), key);
  }
  return 0;
}
