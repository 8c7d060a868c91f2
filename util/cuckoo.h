#ifndef SIEVEDB_UTIL_CUCKOO_H_
#define SIEVEDB_UTIL_CUCKOO_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "util/hash_partition.h"
#include "util/multiply.h"
#include "util/prefetch.h"

namespace sievedb {

// A cuckoo filter (Fan, Andersen, Kaminsky & Mitzenmacher 2014): fingerprints of 4 to
// 30 bits in buckets of four, each in one of two buckets that are found from each
// other and the fingerprint. Any number of buckets. Pure functions over the array;
// its bytes are a format, described in cuckoo.cc.
class Cuckoo {
 public:
  static constexpr int kSlots = 4;
  static constexpr int kMinBits = 4;
  static constexpr int kMaxBits = 30;
  static constexpr int kMaxKicks = 500;
  // How full the planned number of keys makes it.
  static constexpr double kLoad = 0.95;
  // That of the longest fingerprints, at that load.
  static constexpr double kMinRate = 2 * kSlots * kLoad / ((uint64_t{1} << kMaxBits) - 1);
  static constexpr uint64_t kMaxBuckets = uint64_t{1} << 53;

  struct Shape {
    uint64_t buckets = 2;
    int bits = kMinBits;  // of a fingerprint

    // A bucket is read as 16 bytes, of which the last may lie behind the buckets.
    uint64_t ArrayBytes() const {
      const uint64_t half_bytes = buckets * static_cast<uint64_t>(bits);
      return (half_bytes / 2 + 16 + 63) / 64 * 64;
    }
    bool operator==(const Shape&) const = default;
  };

  // What a key has: its first bucket and its fingerprint, which is never 0.
  struct Place {
    uint64_t bucket;
    uint64_t other;
    uint32_t fingerprint;
  };

  static Shape ShapeFor(uint64_t keys, double bits_per_key);
  // The bits per key at which ShapeFor's filter, full, has at most this rate.
  // Requires: fpr >= kMinRate.
  static double BitsPerKeyFor(double fpr);

  static Place PlaceFor(uint64_t hash, const Shape& shape) {
    const uint64_t mixed = MixHash(hash, kSeed);
    const uint64_t values = (uint64_t{1} << shape.bits) - 1;
    const auto fingerprint = static_cast<uint32_t>(((mixed & 0xffffffff) * values >> 32) + 1);
    const uint64_t bucket = MultiplyHigh(mixed, shape.buckets);
    return {bucket, Other(bucket, fingerprint, shape.buckets), fingerprint};
  }

  // The other bucket of a fingerprint that is in this one: Other(Other(b)) == b, and
  // both are below buckets.
  static uint64_t Other(uint64_t bucket, uint32_t fingerprint, uint64_t buckets) {
    const uint64_t sum = MultiplyHigh(fingerprint * uint64_t{0x9e3779b97f4a7c15}, buckets);
    return sum >= bucket ? sum - bucket : sum + buckets - bucket;
  }

  // False, with the array as it was, where no place could be made.
  static bool Add(char* array, const Shape& shape, uint64_t hash);
  // Removes one fingerprint like the hash's; false where none is there.
  static bool Remove(char* array, const Shape& shape, uint64_t hash);

  static bool MayContain(const char* array, const Shape& shape, const Place& place) {
    return BucketHas(array, shape, place.bucket, place.fingerprint) ||
           BucketHas(array, shape, place.other, place.fingerprint);
  }
  static void Prefetch(const char* array, const Shape& shape, const Place& place) {
    PrefetchLine(BucketAt(array, shape, place.bucket));
    PrefetchLine(BucketAt(array, shape, place.other));
  }

  // Fingerprints that are there, over all buckets.
  static uint64_t CountUsed(const char* array, const Shape& shape);

 private:
  static constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

  static const char* BucketAt(const char* array, const Shape& shape, uint64_t bucket) {
    return array + bucket * static_cast<uint64_t>(shape.bits) / 2;
  }

  // The four fingerprints of a bucket, the first in the lowest bits.
  static Uint128 LoadBucket(const char* array, const Shape& shape, uint64_t bucket) {
    Uint128 word;
    std::memcpy(&word, BucketAt(array, shape, bucket), sizeof(word));
    // A bucket begins at a byte or in the middle of one.
    word >>= (bucket * static_cast<uint64_t>(shape.bits) % 2) * 4;
    return word & ((Uint128{1} << (4 * shape.bits)) - 1);
  }
  static void StoreBucket(char* array, const Shape& shape, uint64_t bucket, Uint128 fingerprints);

  static bool BucketHas(const char* array, const Shape& shape, uint64_t bucket,
                        uint32_t fingerprint) {
    // Each lane of x is zero where its fingerprint is this one. Borrowing from a lane
    // below needs that lane to be zero, so the test is exact for all four together.
    const Uint128 ones = Uint128{1} | Uint128{1} << shape.bits | Uint128{1} << 2 * shape.bits |
                         Uint128{1} << 3 * shape.bits;
    const Uint128 x = LoadBucket(array, shape, bucket) ^ (ones * fingerprint);
    return ((x - ones) & ~x & (ones << (shape.bits - 1))) != 0;
  }

  static bool AddToBucket(char* array, const Shape& shape, uint64_t bucket, uint32_t fingerprint);
  static bool RemoveFromBucket(char* array, const Shape& shape, uint64_t bucket,
                               uint32_t fingerprint);
  // Puts the fingerprint into a slot and returns what was there.
  static uint32_t Swap(char* array, const Shape& shape, uint64_t bucket, unsigned slot,
                       uint32_t fingerprint);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_CUCKOO_H_
