#ifndef SIEVEDB_UTIL_BINARY_FUSE_H_
#define SIEVEDB_UTIL_BINARY_FUSE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "util/hash_partition.h"
#include "util/multiply.h"
#include "util/prefetch.h"

namespace sievedb {

// A 3-wise binary fuse filter with fingerprints of 8 bits (Graf & Lemire 2022): an
// array of bytes in which three bytes of each key, in three neighbouring segments,
// XOR to the key's fingerprint. 1.125 bytes a key for many keys, more for few; wrong
// for one absent key in 256. Pure functions over the array; its bytes are a format,
// described in binary_fuse.cc.
class BinaryFuse {
 public:
  // Attempts at building, each with a seed of its own. One in some fails for few
  // keys, hardly any for many; all fail only for a reason that no seed cures.
  static constexpr int kMaxAttempts = 64;
  static constexpr int kMaxSegmentLengthLog2 = 18;
  // Cells are numbered by 32 bits while the array is built.
  static constexpr uint64_t kMaxKeys = uint64_t{3} << 30;

  struct Shape {
    uint64_t segments = 1;  // that a key's first byte may be in; two more follow
    int length_log2 = 2;    // of a segment in bytes

    uint64_t ArrayBytes() const { return (segments + 2) << length_log2; }
    bool operator==(const Shape&) const = default;
  };

  struct Cells {
    uint64_t at[3];
    uint8_t fingerprint;
  };

  static Shape ShapeFor(uint64_t keys);

  // What Build holds besides the hashes, the array included.
  static uint64_t BuildBytes(uint64_t keys);

  // The three bytes and the fingerprint of a key. Inside the array whatever hash is.
  static Cells CellsFor(uint64_t mixed, const Shape& shape) {
    const uint64_t mask = (uint64_t{1} << shape.length_log2) - 1;
    const uint64_t length = mask + 1;
    const uint64_t first = MultiplyHigh(mixed, shape.segments << shape.length_log2);
    return {
        {first, (first + length) ^ ((mixed >> 18) & mask), (first + 2 * length) ^ (mixed & mask)},
        static_cast<uint8_t>(mixed ^ (mixed >> 32))};
  }

  struct Built {
    uint64_t keys = 0;  // distinct ones
    int attempt = 0;    // its seed is MixSeed(attempt)
    Shape shape;
  };
  // Builds from hashes, equal ones counting once. Once it is known that it can be
  // done, asks for zeroed memory of ArrayBytes() and fills it. nullopt where no seed
  // of the attempts does it, or where the memory is null.
  static std::optional<Built> Build(absl::Span<const uint64_t> hashes,
                                    absl::FunctionRef<uint8_t*(const Shape&)> allocate,
                                    int max_attempts = kMaxAttempts);

  static bool MayContain(const uint8_t* array, const Cells& cells) {
    return (array[cells.at[0]] ^ array[cells.at[1]] ^ array[cells.at[2]]) == cells.fingerprint;
  }
  static void Prefetch(const uint8_t* array, const Cells& cells) {
    PrefetchLine(array + cells.at[0]);
    PrefetchLine(array + cells.at[1]);
    PrefetchLine(array + cells.at[2]);
  }
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_BINARY_FUSE_H_
