#ifndef SIEVEDB_UTIL_SCALABLE_BLOOM_H_
#define SIEVEDB_UTIL_SCALABLE_BLOOM_H_

#include <cstdint>

namespace sievedb {

// How a scalable Bloom filter grows (Almeida, Baquero, Preguiça & Hutchison 2007):
// each layer holds twice the keys of the one before, and has so many bits a key that
// the sum of all layers' rates stays under the bound.
class ScalableBloom {
 public:
  static constexpr int kMaxLayers = 48;
  // Below the least, a layer for hundreds of times the planned keys would need more
  // bits a key than a blocked Bloom filter can use.
  static constexpr double kMinBound = 1e-6;
  static constexpr double kMaxBound = 0.5;

  struct Layer {
    uint64_t num_blocks = 0;
    uint64_t capacity = 0;  // keys at which the next layer begins
    int probes = 0;
  };

  // Layer i, from 0, of a filter planned for keys.
  static Layer LayerFor(uint64_t keys, double bound, int i);

  // The bits per key at which a blocked Bloom filter has this rate: 1 to 64.
  static double BlockedBitsPerKeyFor(double fpr);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_SCALABLE_BLOOM_H_
