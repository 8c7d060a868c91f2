#ifndef SIEVEDB_TOOLS_KEY_VALUE_GENERATOR_H_
#define SIEVEDB_TOOLS_KEY_VALUE_GENERATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sievedb {

// Numbers that look random and follow from the seed alone (splitmix64).
//
// Threads: not safe for concurrent use.
class BenchRandom {
 public:
  explicit BenchRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next();

  // Evenly spread over [0, limit). Requires: limit > 0.
  uint64_t Uniform(uint64_t limit);

  // One well-mixed number from another.
  static uint64_t Mix(uint64_t number);

 private:
  uint64_t state_;
};

// Every number of [0, count) once, in an order that looks random and follows
// from the seed alone, without a table: a Feistel network over the next power of
// four, walked until it falls into the range.
//
// Threads: safe.
class Permutation {
 public:
  // Requires: count > 0.
  Permutation(uint64_t count, uint64_t seed);

  // Requires: index < count.
  uint64_t operator()(uint64_t index) const;

 private:
  static constexpr int kRounds = 4;

  uint64_t count_;
  int half_bits_;
  uint64_t half_mask_;
  uint64_t round_keys_[kRounds];
};

// Keys of one size from numbers, in the order of the numbers: decimal digits
// with leading zeros. Keys that are too short for that take the number's bytes,
// most significant first; keys longer than any number have zeros behind it, so
// that keys differ in their first 20 bytes, as real ones tend to.
//
// Threads: safe.
class KeyGenerator {
 public:
  // kInvalidArgument where keys of key_bytes can't tell the numbers up to
  // max_number apart.
  static absl::StatusOr<KeyGenerator> Create(size_t key_bytes, uint64_t max_number);

  size_t key_bytes() const { return key_bytes_; }

  // Overwrites *key, whose memory is reused. Requires: number <= max_number.
  void Format(uint64_t number, std::string* key) const;

  // The number that key was made from. Requires: key was made by Format.
  uint64_t Parse(std::string_view key) const;

 private:
  KeyGenerator(size_t key_bytes, size_t number_bytes, bool decimal)
      : key_bytes_(key_bytes), number_bytes_(number_bytes), decimal_(decimal) {}

  size_t key_bytes_;
  size_t number_bytes_;
  bool decimal_;
};

// Values of one size that a compressor shrinks to about compression_ratio of it:
// a part of random bytes, repeated. They are slices of a pool made once, so that
// a value costs next to nothing beside the write that it is for.
//
// Threads: safe.
class ValueGenerator {
 public:
  // compression_ratio is clamped to [0, 1]; 1: incompressible.
  ValueGenerator(size_t value_bytes, double compression_ratio, uint64_t seed);

  size_t value_bytes() const { return value_bytes_; }

  // The value that belongs to number: the same for every call, and for every
  // generator of the same arguments. The bytes live as long as the generator.
  std::string_view ValueOf(uint64_t number) const {
    const uint64_t index = BenchRandom::Mix(number) % values_;
    return std::string_view(pool_).substr(index * value_bytes_, value_bytes_);
  }

 private:
  size_t value_bytes_;
  uint64_t values_;  // in the pool
  std::string pool_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_KEY_VALUE_GENERATOR_H_
