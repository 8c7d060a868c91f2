#include "util/binary_fuse.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "util/aligned_buffer.h"

namespace sievedb {

// A key with hash h in an array of s + 2 segments of L = 2^l bytes, with seed d:
//
//   m            MixHash(h, d)
//   byte 0       floor(m * s * L / 2^64)
//   byte 1       (byte 0 + L)  XOR (floor(m / 2^18) mod L)
//   byte 2       (byte 0 + 2L) XOR (m mod L)
//   fingerprint  (m XOR floor(m / 2^32)) mod 256, the XOR of the three bytes
//
// L and s for n keys are those of the paper: ShapeFor.
//
// Building peels: a byte that only one key has is that key's to set, whatever the
// others are; without that key other bytes may become such. In reverse order of
// peeling each key then sets its byte. The keys are ordered by segment first, and
// peeling runs from the array's end to its begin, so that all that is touched at a
// time is some three segments: they are in the cache, however large the array is.

namespace {

// Cells in the making: for each byte of the array, how many keys have it (times 4)
// and the XOR of which of the three it is to each; and the XOR of their mixed hashes.
struct Peeler {
  Peeler(uint64_t keys, const BinaryFuse::Shape& array_shape)
      : shape(array_shape),
        hashes(keys * sizeof(uint64_t)),
        which(keys),
        counts(AlignedBuffer::Zeroed(shape.ArrayBytes())),
        xors(AlignedBuffer::Zeroed(shape.ArrayBytes() * sizeof(uint64_t))),
        stack(shape.ArrayBytes() * sizeof(uint32_t)) {}

  uint64_t* Hashes() { return reinterpret_cast<uint64_t*>(hashes.data()); }
  uint8_t* Which() { return reinterpret_cast<uint8_t*>(which.data()); }
  uint8_t* Counts() { return reinterpret_cast<uint8_t*>(counts.data()); }
  uint64_t* Xors() { return reinterpret_cast<uint64_t*>(xors.data()); }
  uint32_t* Stack() { return reinterpret_cast<uint32_t*>(stack.data()); }

  bool AddAll(uint64_t keys);
  uint64_t Peel();
  void Assign(uint64_t keys, uint8_t* array);

  const BinaryFuse::Shape shape;
  AlignedBuffer hashes;  // ordered by segment; later in the order of peeling
  AlignedBuffer which;   // of its three bytes each peeled key is to set
  AlignedBuffer counts;
  AlignedBuffer xors;
  AlignedBuffer stack;  // only as much of it is touched as a cascade is deep
};

// False where a count overflowed: equal hashes, or a very unlucky seed.
bool Peeler::AddAll(uint64_t keys) {
  const uint64_t* const all = Hashes();
  uint8_t* const count = Counts();
  uint64_t* const sums = Xors();
  bool overflow = false;
  for (uint64_t i = 0; i < keys; ++i) {
    const uint64_t hash = all[i];
    const BinaryFuse::Cells cells = BinaryFuse::CellsFor(hash, shape);
    for (unsigned j = 0; j < 3; ++j) {
      const auto now = static_cast<uint8_t>((count[cells.at[j]] + 4u) ^ j);
      overflow |= now < 4;
      count[cells.at[j]] = now;
      sums[cells.at[j]] ^= hash;
    }
  }
  return !overflow;
}

// The number of keys that could be peeled.
uint64_t Peeler::Peel() {
  uint64_t* const order = Hashes();
  uint8_t* const order_which = Which();
  uint8_t* const count = Counts();
  uint64_t* const sums = Xors();
  uint32_t* const waiting = Stack();
  uint64_t peeled = 0;
  for (uint64_t i = shape.ArrayBytes(); i-- > 0;) {
    if (count[i] >> 2 != 1) continue;
    waiting[0] = static_cast<uint32_t>(i);
    size_t depth = 1;
    while (depth > 0) {
      const uint32_t alone = waiting[--depth];
      // Its key may have been peeled by another byte meanwhile.
      if (count[alone] >> 2 != 1) continue;
      const uint64_t hash = sums[alone];
      const unsigned mine = count[alone] & 3;
      order[peeled] = hash;
      order_which[peeled] = static_cast<uint8_t>(mine);
      ++peeled;
      count[alone] = 0;
      const BinaryFuse::Cells cells = BinaryFuse::CellsFor(hash, shape);
      for (unsigned step = 1; step < 3; ++step) {
        const unsigned j = mine + step < 3 ? mine + step : mine + step - 3;
        const uint64_t other = cells.at[j];
        const auto now = static_cast<uint8_t>((count[other] - 4u) ^ j);
        count[other] = now;
        sums[other] ^= hash;
        waiting[depth] = static_cast<uint32_t>(other);
        depth += now >> 2 == 1 ? 1 : 0;
      }
    }
  }
  return peeled;
}

void Peeler::Assign(uint64_t keys, uint8_t* array) {
  const uint64_t* const order = Hashes();
  const uint8_t* const order_which = Which();
  for (uint64_t i = keys; i-- > 0;) {
    const BinaryFuse::Cells cells = BinaryFuse::CellsFor(order[i], shape);
    // The byte itself is still zero.
    array[cells.at[order_which[i]]] = static_cast<uint8_t>(cells.fingerprint ^ array[cells.at[0]] ^
                                                           array[cells.at[1]] ^ array[cells.at[2]]);
  }
}

}  // namespace

BinaryFuse::Shape BinaryFuse::ShapeFor(uint64_t keys) {
  Shape shape;
  if (keys < 2) return shape;
  const double n = static_cast<double>(keys);
  const double log2_length = std::floor(std::log(n) / std::log(3.33) + 2.25);
  shape.length_log2 = static_cast<int>(std::clamp<double>(log2_length, 2, kMaxSegmentLengthLog2));
  const double factor = std::max(1.125, 0.875 + 0.25 * std::log(1e6) / std::log(n));
  const double length = static_cast<double>(uint64_t{1} << shape.length_log2);
  const double segments = std::ceil(std::round(n * factor) / length) - 2;
  shape.segments = static_cast<uint64_t>(std::max(segments, 1.0));
  return shape;
}

uint64_t BinaryFuse::BuildBytes(uint64_t keys) {
  const uint64_t cells = ShapeFor(keys).ArrayBytes();
  return keys * (sizeof(uint64_t) + 1) + cells * (sizeof(uint64_t) + 2);
}

std::optional<BinaryFuse::Built> BinaryFuse::Build(
    absl::Span<const uint64_t> hashes, absl::FunctionRef<uint8_t*(const Shape&)> allocate,
    int max_attempts) {
  std::vector<uint64_t> distinct;  // filled where the first attempt fails
  for (int attempt = 0; attempt < max_attempts && hashes.size() <= kMaxKeys; ++attempt) {
    const Built built{hashes.size(), attempt, ShapeFor(hashes.size())};
    Peeler peeler(built.keys, built.shape);
    std::vector<uint64_t> begins;
    PartitionHashes(hashes, MixSeed(static_cast<uint64_t>(attempt)), built.shape.segments,
                    peeler.Hashes(), &begins);
    if (peeler.AddAll(built.keys) && peeler.Peel() == built.keys) {
      uint8_t* const array = allocate(built.shape);
      if (array == nullptr) return std::nullopt;
      peeler.Assign(built.keys, array);
      return built;
    }
    if (attempt == 0) {
      // A key that is there twice has no byte of its own under any seed.
      distinct.assign(hashes.begin(), hashes.end());
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      hashes = distinct;
    }
  }
  return std::nullopt;
}

}  // namespace sievedb
