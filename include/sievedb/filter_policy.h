#ifndef SIEVEDB_FILTER_POLICY_H_
#define SIEVEDB_FILTER_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/export.h"

namespace sievedb {

// The hash of a key that the classes of filter.h are built from and asked with: XXH3-64
// with seed 0. The tables of a database use XXH3-64 with a random seed of the database,
// so that nobody can choose keys that collide; it is computed once per lookup.
SIEVEDB_EXPORT uint64_t FilterHash(std::string_view key);

// Figures of one filter, for sst_dump, properties and the audit.
struct FilterFigures {
  uint64_t keys = 0;  // added
  uint64_t bits = 0;  // in the array that is probed
  uint64_t bits_set = 0;
  uint64_t blocks = 0;      // 512-bit blocks; 0 where the kind has none
  double bits_per_key = 0;  // asked for when it was built
  int probes = 0;           // bits or cells read for a key that is there
  double expected_fpr = 0;  // from the bits really set
};

// A filter that can be asked. Threads: safe.
class SIEVEDB_EXPORT FilterReader {
 public:
  virtual ~FilterReader();
  // False is certain: no key with this hash was added.
  virtual bool MayContain(uint64_t hash) const = 0;
  // Starts loading the cache lines that MayContain(hash) will read.
  virtual void Prefetch(uint64_t hash) const;
  // results[i] = MayContain(hashes[i]), with the cache misses of several keys
  // overlapping. Requires: as many results as hashes.
  virtual void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const;
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
  // The kind of what Finish returned, where a policy's builders differ in it (by
  // level, or since a structure could not be built); 0 stands for the policy's kind.
  virtual uint8_t Kind() const;
};

// What is known of a table when its filter is begun.
struct FilterContext {
  int level = 0;
  bool bottommost = false;  // no older run can hold keys of this table's range
  // What the plan for the tree's filter memory gives this table
  // (Options::plan_filter_memory); 0: as many as the policy was made with. Policies
  // whose filters have one size only may ignore it.
  double bits_per_key = 0;
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

// The policies below clamp bits_per_key to 1 … 64; NaN counts as 10. All understand
// each other's tables.

// The blocked Bloom filter: every key in one 64-byte cache line (Putze, Sanders &
// Singler 2007). 0.97 % at 10 bits. The default: fastest to build and to ask.
SIEVEDB_EXPORT std::shared_ptr<const FilterPolicy> NewBlockedBloomPolicy(double bits_per_key);

// The same line, in which the bits of each group of keys are turned to where they set
// the fewest new ones: 0.63 % at 10 bits, asked as fast, three to four times slower
// to build.
SIEVEDB_EXPORT std::shared_ptr<const FilterPolicy> NewDenseBlockedBloomPolicy(double bits_per_key);

// The textbook filter (Bloom 1970): 0.82 % at 10 bits, one cache miss a probe.
SIEVEDB_EXPORT std::shared_ptr<const FilterPolicy> NewBloomPolicy(double bits_per_key);

// Ribbon (Dillinger & Walzer 2021): the rate that a Bloom filter would have at
// bits_per_key, though not below 2^-32, in about 70 % of the memory; slower to build. A
// table whose filter would take more than 512 MiB to build, at some 18 million keys,
// gets a blocked Bloom filter of bits_per_key.
SIEVEDB_EXPORT std::shared_ptr<const FilterPolicy> NewRibbonPolicy(double bits_per_key);

// Binary fuse with 8-bit fingerprints (Graf & Lemire 2022): 0.39 % at 9 bits, three
// cache lines a probe. As for ribbon, very large tables get a blocked Bloom filter.
SIEVEDB_EXPORT std::shared_ptr<const FilterPolicy> NewBinaryFusePolicy();

}  // namespace sievedb

#endif  // SIEVEDB_FILTER_POLICY_H_
