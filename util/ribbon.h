#ifndef SIEVEDB_UTIL_RIBBON_H_
#define SIEVEDB_UTIL_RIBBON_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "util/aligned_buffer.h"
#include "util/coding.h"
#include "util/hash_partition.h"
#include "util/multiply.h"
#include "util/prefetch.h"

namespace sievedb {

// A ribbon filter (Dillinger & Walzer 2021) in the form that bumps (Dillinger,
// Hübschle-Schneider, Sanders & Walzer 2022): each key is an equation over 64
// neighbouring slots whose XOR is the key's fingerprint of r bits. Keys that their
// neighbourhood has no room for go to the next, much smaller layer, and what is left
// after the last layer is a list of hashes: so building needs no second attempt, no
// keys make it fail, and nearly every slot is used. About r * 1.01 bits a key and a
// rate of 2^-r; r is any number, since a part of the slots has one bit more.
//
// Pure functions over arrays; their bytes are a format, described in ribbon.cc.
class Ribbon {
 public:
  static constexpr int kWidth = 64;
  static constexpr int kMaxLayers = 4;
  static constexpr int kMinBits = 1;
  static constexpr int kMaxBits = 32;

  // A layer with segments of 64 slots: the first `lower` of them have `bits` bits a
  // slot, the others one more.
  struct Shape {
    uint64_t segments = 0;  // at least 2
    uint64_t lower = 0;     // at most segments
    int bits = 1;           // 1 to 31, or 32 where lower == segments

    uint64_t Starts() const { return (segments - 1) * kWidth; }
    uint64_t Buckets() const { return (Starts() + kBucketSlots - 1) / kBucketSlots; }
    // 8-byte words of the slots. The first columns of all segments come first, since
    // they alone turn away 15 of 16 absent keys: so most of those need one or two lines.
    uint64_t FirstColumns() const { return static_cast<uint64_t>(bits < 4 ? bits : 4); }
    uint64_t FirstWord(uint64_t segment) const { return segment * FirstColumns(); }
    // Of the other columns, of which a segment may have none.
    uint64_t OtherWord(uint64_t segment) const {
      const uint64_t other = static_cast<uint64_t>(bits) - FirstColumns();
      return segments * FirstColumns() + segment * other + (segment > lower ? segment - lower : 0);
    }
    uint64_t OtherColumns(uint64_t segment) const {
      return static_cast<uint64_t>(bits) - FirstColumns() + (segment >= lower ? 1 : 0);
    }
    uint64_t Words() const { return OtherWord(segments); }
    // Slots, then a byte for each bucket, padded to whole words.
    uint64_t Bytes() const { return Words() * 8 + (Buckets() + 7) / 8 * 8; }
  };

  // A layer of a filter, and what asking it needs of its shape. Its bytes need not be
  // aligned.
  struct Layer {
    Layer() = default;
    Layer(const Shape& layer_shape, const char* first_byte)
        : shape(layer_shape),
          bytes(first_byte),
          thresholds(bytes + shape.Words() * 8),
          starts(shape.Starts()),
          first_columns(shape.FirstColumns()) {}

    Shape shape;
    const char* bytes = nullptr;
    const char* thresholds = nullptr;
    uint64_t starts = 0;
    uint64_t first_columns = 0;
  };

  enum class Answer { kNo, kMaybe, kNextLayer };

  static constexpr uint64_t kBucketSlots = 256;
  // Of one bucket, keys whose start is below 2 * the bucket's byte were bumped.
  static constexpr uint64_t kBumpUnit = 2;

  // The average bits of a slot at which absent keys are "maybe" at this rate: between
  // -log2(fpr) and 0.09 more, since a mix of r and r + 1 bits has the mean of their
  // rates. 1 to 32.
  static double BitsPerSlotFor(double fpr);

  // A layer for keys, with an average of bits_per_slot or a little more.
  static Shape ShapeFor(uint64_t keys, double bits_per_slot);

  struct Built {
    uint64_t keys = 0;  // distinct ones
    std::vector<Shape> shapes;
    std::vector<AlignedBuffer> layers;
    // What no layer took, as the layer after the last would see it; ascending.
    std::vector<uint64_t> rest;
  };
  // Builds from hashes, equal ones counting once.
  static Built Build(absl::Span<const uint64_t> hashes, double bits_per_slot);

  // What Build holds besides the hashes, about.
  static uint64_t BuildBytes(uint64_t keys, double bits_per_slot);

  // Fills the layer at `to`, shape.Bytes() of zeros, from mixed hashes in ascending
  // order, each once. Appends those that are bumped to *bumped.
  static void BuildLayer(absl::Span<const uint64_t> mixed, const Shape& shape, char* to,
                         std::vector<uint64_t>* bumped);

  static uint64_t Start(uint64_t mixed, const Shape& shape) {
    return MultiplyHigh(mixed, shape.Starts());
  }
  // The slots of a key, from its start on: always the first.
  static uint64_t Coefficients(uint64_t mixed) {
    return MultiplyFold(mixed, 0x9fb21c651e98df25) | 1;
  }
  static uint32_t Fingerprint(uint64_t mixed) {
    return static_cast<uint32_t>((mixed * 0xc2b2ae3d27d4eb4f) >> 32);
  }

  // No byte outside the layer is read, whatever hash and bytes are.
  static Answer Ask(const Layer& layer, uint64_t mixed);

  static void Prefetch(const Layer& layer, uint64_t mixed) {
    const uint64_t start = MultiplyHigh(mixed, layer.starts);
    const char* const words = layer.bytes + start / kWidth * layer.first_columns * 8;
    PrefetchLine(words);
    PrefetchLine(words + layer.first_columns * 16 - 1);
    PrefetchLine(layer.thresholds + start / kBucketSlots);
  }

  // The share of absent keys that the layer says maybe to, and that which it sends to
  // the next one; the shares are of all, found in the bumped starts of each bucket.
  static void Rates(const Layer& layer, double* maybe, double* next);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_RIBBON_H_
