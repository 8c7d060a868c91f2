#include "util/cuckoo.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace sievedb {

// With n buckets, fingerprints of f bits and g = 0x9e3779b97f4a7c15 a hash has
//
//   m              MixHash(hash, g)
//   fingerprint p  floor((m mod 2^32) * (2^f - 1) / 2^32) + 1, so never 0
//   bucket b       floor(m * n / 2^64)
//   other bucket   (floor((p g mod 2^64) * n / 2^64) - b) mod n
//
// Bucket b is bits 4 f b to 4 f (b + 1) of the array, bit i being bit i % 8 of byte
// i / 8: four fingerprints, the first in the lowest bits; 0 is an empty slot. Behind
// the last bucket there are zeros, 16 bytes of them and up to a multiple of 64.
//
// The other bucket is a reflection rather than the paper's XOR, so that the number of
// buckets need not be a power of two, which would waste up to half of the memory.

Cuckoo::Shape Cuckoo::ShapeFor(uint64_t keys, double bits_per_key) {
  Shape shape;
  // The fingerprint takes what the load leaves; what a whole number of bits leaves
  // over makes the filter less full.
  shape.bits = static_cast<int>(
      std::clamp<double>(std::floor(bits_per_key * kLoad + 1e-9), kMinBits, kMaxBits));
  const double slots =
      std::max(static_cast<double>(keys) * bits_per_key / shape.bits, static_cast<double>(keys));
  // In a few buckets chance can fill some twice as much as others.
  const double buckets = std::ceil(slots / kSlots) + 4;
  shape.buckets = static_cast<uint64_t>(std::min(buckets, static_cast<double>(kMaxBuckets)));
  return shape;
}

double Cuckoo::BitsPerKeyFor(double fpr) {
  for (int bits = kMinBits; bits < kMaxBits; ++bits) {
    if (2 * kSlots * kLoad / (std::exp2(bits) - 1) <= fpr) return bits / kLoad;
  }
  return kMaxBits / kLoad;
}

void Cuckoo::StoreBucket(char* array, const Shape& shape, uint64_t bucket, Uint128 fingerprints) {
  char* const at = array + bucket * static_cast<uint64_t>(shape.bits) / 2;
  const uint64_t shift = (bucket * static_cast<uint64_t>(shape.bits) % 2) * 4;
  const Uint128 mask = ((Uint128{1} << (4 * shape.bits)) - 1) << shift;
  Uint128 word;
  std::memcpy(&word, at, sizeof(word));
  word = (word & ~mask) | fingerprints << shift;
  std::memcpy(at, &word, sizeof(word));
}

uint32_t Cuckoo::Swap(char* array, const Shape& shape, uint64_t bucket, unsigned slot,
                      uint32_t fingerprint) {
  const Uint128 all = LoadBucket(array, shape, bucket);
  const unsigned shift = slot * static_cast<unsigned>(shape.bits);
  const Uint128 mask = ((Uint128{1} << shape.bits) - 1) << shift;
  StoreBucket(array, shape, bucket, (all & ~mask) | Uint128{fingerprint} << shift);
  return static_cast<uint32_t>((all & mask) >> shift);
}

bool Cuckoo::AddToBucket(char* array, const Shape& shape, uint64_t bucket, uint32_t fingerprint) {
  const Uint128 all = LoadBucket(array, shape, bucket);
  const Uint128 lane = (Uint128{1} << shape.bits) - 1;
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    if (((all >> slot * static_cast<unsigned>(shape.bits)) & lane) == 0) {
      Swap(array, shape, bucket, slot, fingerprint);
      return true;
    }
  }
  return false;
}

bool Cuckoo::RemoveFromBucket(char* array, const Shape& shape, uint64_t bucket,
                              uint32_t fingerprint) {
  const Uint128 all = LoadBucket(array, shape, bucket);
  const Uint128 lane = (Uint128{1} << shape.bits) - 1;
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    if (((all >> slot * static_cast<unsigned>(shape.bits)) & lane) == fingerprint) {
      Swap(array, shape, bucket, slot, 0);
      return true;
    }
  }
  return false;
}

bool Cuckoo::Add(char* array, const Shape& shape, uint64_t hash) {
  const Place place = PlaceFor(hash, shape);
  Prefetch(array, shape, place);
  if (AddToBucket(array, shape, place.bucket, place.fingerprint) ||
      AddToBucket(array, shape, place.other, place.fingerprint)) {
    return true;
  }
  // A walk: the fingerprint takes a slot at random, and who was there goes to its
  // other bucket. The slots are noted, for the way back.
  struct Kick {
    uint64_t bucket;
    unsigned slot;
  };
  std::array<Kick, kMaxKicks> kicks;
  uint64_t random = MixHash(hash, ~kSeed);
  uint64_t bucket = (random >> 63) != 0 ? place.bucket : place.other;
  uint32_t homeless = place.fingerprint;
  for (size_t i = 0; i < kicks.size(); ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    kicks[i] = {bucket, static_cast<unsigned>(random >> 62)};
    homeless = Swap(array, shape, bucket, kicks[i].slot, homeless);
    bucket = Other(bucket, homeless, shape.buckets);
    if (AddToBucket(array, shape, bucket, homeless)) return true;
  }
  for (size_t i = kicks.size(); i-- > 0;) {
    homeless = Swap(array, shape, kicks[i].bucket, kicks[i].slot, homeless);
  }
  assert(homeless == place.fingerprint);
  return false;
}

bool Cuckoo::Remove(char* array, const Shape& shape, uint64_t hash) {
  const Place place = PlaceFor(hash, shape);
  Prefetch(array, shape, place);
  return RemoveFromBucket(array, shape, place.bucket, place.fingerprint) ||
         RemoveFromBucket(array, shape, place.other, place.fingerprint);
}

uint64_t Cuckoo::CountUsed(const char* array, const Shape& shape) {
  const Uint128 lane = (Uint128{1} << shape.bits) - 1;
  uint64_t used = 0;
  for (uint64_t bucket = 0; bucket < shape.buckets; ++bucket) {
    Uint128 all = LoadBucket(array, shape, bucket);
    for (int slot = 0; slot < kSlots; ++slot) {
      used += (all & lane) != 0 ? 1 : 0;
      all >>= shape.bits;
    }
  }
  return used;
}

}  // namespace sievedb
