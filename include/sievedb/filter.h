#ifndef SIEVEDB_FILTER_H_
#define SIEVEDB_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/export.h"

namespace sievedb {

// The arithmetic of Bloom filters (Bloom 1970; blocked: Putze, Sanders & Singler
// 2007). Pure functions; arguments out of range are clamped to it.
struct SIEVEDB_EXPORT FilterSizing {
  // Bits for keys at a false-positive rate: ceil(-n ln p / (ln 2)^2).
  static uint64_t OptimalBits(uint64_t keys, double fpr);
  // round(m/n ln 2), at least 1.
  static int OptimalProbes(double bits_per_key);
  // (1 - e^(-k n/m))^k.
  static double ExpectedFpr(double bits_per_key, int probes);
  // The same where each key's probes stay inside one 512-bit block.
  static double ExpectedBlockedFpr(double bits_per_key, int probes);
  // The number of probes that gives the lowest ExpectedBlockedFpr: fewer than
  // OptimalProbes from about 8 bits per key on.
  static int OptimalBlockedProbes(double bits_per_key);
};

// The hash of a user key that every filter is built from and asked with:
// XXH3-64 with seed 0. Computed once per lookup.
SIEVEDB_EXPORT uint64_t FilterHash(std::string_view key);

// Figures of one filter block, for sst_dump, properties and the audit.
struct FilterFigures {
  uint64_t keys = 0;  // added
  uint64_t bits = 0;  // in the bit array
  uint64_t bits_set = 0;
  uint64_t blocks = 0;      // 512-bit blocks; 0 where the kind has none
  double bits_per_key = 0;  // asked for when it was built
  int probes = 0;
  double expected_fpr = 0;  // from the bits really set
};

// A filter loaded from a table. Threads: safe.
class SIEVEDB_EXPORT FilterReader {
 public:
  virtual ~FilterReader();
  // False is certain: no key with this FilterHash was added.
  virtual bool MayContain(uint64_t hash) const = 0;
  // Starts loading the cache lines that MayContain(hash) will read.
  virtual void Prefetch(uint64_t hash) const;
  virtual FilterFigures Figures() const = 0;
  virtual size_t MemoryBytes() const = 0;
};

// Gathers the keys of one table. Threads: not safe for concurrent use.
class SIEVEDB_EXPORT FilterBuilder {
 public:
  virtual ~FilterBuilder();
  // Called once for each distinct user key.
  virtual void AddHash(uint64_t hash) = 0;
  // The bytes of the filter. The builder is then used up.
  virtual std::string Finish() = 0;
};

// What is known of a table when its filter is begun.
struct FilterContext {
  int level = 0;
  bool bottommost = false;  // no older run can hold keys of this table's range
};

// Makes the filter block that an SSTable embeds. Users may write their own.
//
// Threads: safe.
class SIEVEDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  // The kind, as stored in each table's footer: a table whose kind the policy
  // does not know is read without a filter. Kinds below 128 are SieveDB's own and
  // are understood whatever the policy is.
  virtual uint8_t Kind() const = 0;
  virtual const char* Name() const = 0;
  virtual double BitsPerKey(const FilterContext& context) const = 0;
  virtual std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const = 0;

  // A reader over bytes that Finish returned once. bytes is 64-byte aligned and
  // outlives the reader.
  //
  // Errors: kDataLoss where bytes are not such; the table is then read without a
  // filter.
  virtual absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view bytes) const = 0;
};

// The blocked Bloom filter: every key in one 64-byte cache line.
// bits_per_key below 1 counts as 1, above 64 as 64; NaN as 10.
SIEVEDB_EXPORT std::shared_ptr<const FilterPolicy> NewBlockedBloomPolicy(double bits_per_key);

}  // namespace sievedb

#endif  // SIEVEDB_FILTER_H_
