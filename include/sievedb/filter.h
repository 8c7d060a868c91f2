#ifndef SIEVEDB_FILTER_H_
#define SIEVEDB_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/export.h"
#include "sievedb/filter_policy.h"

namespace sievedb {

// Approximate sets: "no" is certain, "maybe" is wrong at a known rate. Usable with
// no database at all; what SSTables embed is chosen by a FilterPolicy.
//
//   filter                at 1 % false positives, for one key
//   BloomFilter           9.6 bits, 7 cache lines; the textbook's
//   BlockedBloomFilter    10 bits, 1 cache line; the one to begin with
//   RibbonFilter          7 bits, 1 to 2 lines, built once from all keys
//   BinaryFuseFilter      9 bits for 0.39 %, 3 lines, built once from all keys
//   CountingBloomFilter   40 bits, Remove works
//   CuckooFilter          10.5 bits, 2 lines, Remove works; can be full
//   ScalableBloomFilter   grows past its planned size at a bounded rate

// How large a filter is to be: the number of keys it is made for, and either its
// bits per key or its false-positive rate. The static functions are the arithmetic
// of Bloom filters (Bloom 1970; blocked: Putze, Sanders & Singler 2007): pure;
// arguments out of range are clamped to it.
struct SIEVEDB_EXPORT FilterSizing {
  uint64_t keys = 0;
  double bits_per_key = 0;  // 0: from fpr
  double fpr = 0;           // 0: from bits_per_key

  static FilterSizing ForBitsPerKey(uint64_t keys, double bits_per_key) {
    return {keys, bits_per_key, 0};
  }
  static FilterSizing ForRate(uint64_t keys, double fpr) { return {keys, 0, fpr}; }

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

// What filters are made of: memory that begins at a cache line, in huge pages where
// it is large and the system gives them. Movable.
class SIEVEDB_EXPORT FilterMemory {
 public:
  FilterMemory() = default;
  // bytes of zeros; no memory at all, and a size() of 0, where they cannot be had.
  explicit FilterMemory(size_t bytes);
  ~FilterMemory();
  FilterMemory(FilterMemory&& other) noexcept;
  FilterMemory& operator=(FilterMemory&& other) noexcept;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // What is held from the system: size() rounded up to a cache line or a page.
  size_t MemoryBytes() const { return memory_bytes_; }

 private:
  size_t memory_bytes_ = 0;
  bool mapped_ = false;
  char* data_ = nullptr;
  size_t size_ = 0;
};

// What every filter can do. Move-only; holds its bytes and nothing else of size. One
// that was moved from can be destroyed or assigned to.
//
// Threads: const methods are safe beside each other, not beside Add or Remove.
class SIEVEDB_EXPORT Filter {
 public:
  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;
  virtual ~Filter();

  // False is certain: the key was not added (or was removed). One hash of the key.
  bool Contains(std::string_view key) const { return ContainsHash(FilterHash(key)); }
  // The same for a FilterHash that the caller has.
  bool ContainsHash(uint64_t hash) const { return reader_->MayContain(hash); }

  // results[i] = Contains(keys[i]), the misses of several keys overlapping: several
  // times faster than one by one where the filter is not in the CPU's cache.
  // Requires: as many results as keys.
  void ContainsMany(absl::Span<const std::string_view> keys, absl::Span<bool> results) const;
  void ContainsManyHashes(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const {
    reader_->MayContainMany(hashes, results);
  }

  // The false-positive rate that the bits really set give. Cost: reads every bit.
  double EstimatedFpr() const { return Figures().expected_fpr; }
  // Cost: as EstimatedFpr.
  virtual FilterFigures Figures() const;

  // Bytes that any later version reads, on any CPU: the filter's own memory and a
  // trailer with version, kind, parameters and checksum. The array comes first, so
  // bytes that begin at a cache line (as an mmapped file does) can be asked as they
  // are: OpenFilter.
  std::string Serialize() const;

  // All memory that this filter holds beside the object itself, in bytes; exact.
  virtual size_t MemoryBytes() const;

 protected:
  Filter(FilterMemory memory, std::unique_ptr<FilterReader> reader);

  // Brings trailer, a copy of the last 32 bytes of memory_ after a copy of all before
  // them, up to date with what Add and Remove counted.
  virtual void WriteTrailer(char* trailer) const;

  FilterMemory memory_;  // array and trailer, as in a table's filter block
  std::unique_ptr<FilterReader> reader_;
};

// A reader of what Serialize of any filter returned, without a copy: for filters that
// are shared between processes by mmap. bytes outlives the reader.
//
// Errors: kDataLoss where bytes are damaged, cut, or of a newer version.
// Cost: reads all bytes once, for the checksum.
SIEVEDB_EXPORT absl::StatusOr<std::unique_ptr<FilterReader>> OpenFilter(std::string_view bytes);

// All below: Create has kInvalidArgument where a sizing names neither or both of
// bits per key and rate, or one that the kind cannot have (each says its range), and
// kResourceExhausted where the memory cannot be had. Deserialize copies, and has the
// errors of OpenFilter and kInvalidArgument for a filter of another kind.

// The textbook filter (Bloom 1970): k probes over m bits, all from one 64-bit hash. 1
// to 64 bits per key; a rate is turned into the bits per key that have it.
class SIEVEDB_EXPORT BloomFilter : public Filter {
 public:
  static absl::StatusOr<BloomFilter> Create(const FilterSizing& sizing);
  static absl::StatusOr<BloomFilter> Deserialize(std::string_view bytes);

  void Add(std::string_view key) { AddHash(FilterHash(key)); }
  void AddHash(uint64_t hash) { AddManyHashes({&hash, 1}); }
  // The same for many, with their cache misses overlapping.
  void AddManyHashes(absl::Span<const uint64_t> hashes);

  FilterFigures Figures() const override;

 private:
  using Filter::Filter;
  void WriteTrailer(char* trailer) const override;
  uint64_t keys_ = 0;
};

// Every key in one 64-byte cache line: the one that SSTables embed. 1 to 64 bits per
// key; a rate is turned into the bits per key that have it.
class SIEVEDB_EXPORT BlockedBloomFilter : public Filter {
 public:
  static absl::StatusOr<BlockedBloomFilter> Create(const FilterSizing& sizing);
  // With the bits of each group of keys turned to where they set the fewest new ones: a
  // lower rate for the same memory, 0.63 % at 10 bits, as fast to ask, three to four
  // times slower to build; the keys are given at once. sizing.keys is not read.
  // Cost: about 8 bytes a key while it builds.
  static absl::StatusOr<BlockedBloomFilter> CreateDense(const FilterSizing& sizing,
                                                        absl::Span<const uint64_t> hashes);
  // Of either.
  static absl::StatusOr<BlockedBloomFilter> Deserialize(std::string_view bytes);

  // To a dense filter too, but without the choice that makes it dense.
  void Add(std::string_view key) { AddHash(FilterHash(key)); }
  void AddHash(uint64_t hash) { AddManyHashes({&hash, 1}); }
  // The same for many, with their cache misses overlapping.
  void AddManyHashes(absl::Span<const uint64_t> hashes);
  bool dense() const { return dense_; }

  FilterFigures Figures() const override;

 private:
  using Filter::Filter;
  void WriteTrailer(char* trailer) const override;
  uint64_t keys_ = 0;
  bool dense_ = false;
};

// Built once from all keys; about 30 % smaller than a Bloom filter of the same rate.
// bits_per_key are those of the filter itself, which for few keys takes more: 1.1 to 32
// (a rate of 2^-1 to 2^-28).
class SIEVEDB_EXPORT RibbonFilter : public Filter {
 public:
  // sizing.keys is not read; equal hashes count once.
  // Cost: about 24 bytes a key while it builds.
  static absl::StatusOr<RibbonFilter> Create(const FilterSizing& sizing,
                                             absl::Span<const uint64_t> hashes);
  static absl::StatusOr<RibbonFilter> Deserialize(std::string_view bytes);

 private:
  using Filter::Filter;
};

// Built once from all keys: 9 bits per key (more for few keys) and a rate of 1/256.
class SIEVEDB_EXPORT BinaryFuseFilter : public Filter {
 public:
  // Equal hashes count once. Cost: about 20 bytes a key while it builds.
  static absl::StatusOr<BinaryFuseFilter> Create(absl::Span<const uint64_t> hashes);
  static absl::StatusOr<BinaryFuseFilter> Deserialize(std::string_view bytes);

 private:
  using Filter::Filter;
};

// A Bloom filter of 4-bit counters (Fan et al. 1998). bits_per_key are those of the
// memory: four times a Bloom filter's; 4 to 256.
class SIEVEDB_EXPORT CountingBloomFilter : public Filter {
 public:
  static absl::StatusOr<CountingBloomFilter> Create(const FilterSizing& sizing);
  static absl::StatusOr<CountingBloomFilter> Deserialize(std::string_view bytes);

  void Add(std::string_view key) { AddHash(FilterHash(key)); }
  void AddHash(uint64_t hash);
  // Requires: the key was added, and not removed since. Returns false, and changes
  // nothing, where the filter can tell that it was not. A counter that reached 15
  // stays there: its keys are then "maybe" for good.
  bool Remove(std::string_view key) { return RemoveHash(FilterHash(key)); }
  bool RemoveHash(uint64_t hash);

  FilterFigures Figures() const override;

 private:
  using Filter::Filter;
  void WriteTrailer(char* trailer) const override;
  uint64_t keys_ = 0;
};

// Fingerprints in buckets of four (Fan et al. 2014). 6 to 32 bits per key.
class SIEVEDB_EXPORT CuckooFilter : public Filter {
 public:
  static absl::StatusOr<CuckooFilter> Create(const FilterSizing& sizing);
  static absl::StatusOr<CuckooFilter> Deserialize(std::string_view bytes);

  // Errors: kResourceExhausted where no place was found, from about 95 % full on or
  // where the same key was added more than eight times; the filter is unchanged.
  absl::Status Add(std::string_view key) { return AddHash(FilterHash(key)); }
  absl::Status AddHash(uint64_t hash);
  // Requires: the key was added, and not removed since: removing another may make a
  // key that is there "no". Returns false where nothing like it is there.
  bool Remove(std::string_view key) { return RemoveHash(FilterHash(key)); }
  bool RemoveHash(uint64_t hash);

  FilterFigures Figures() const override;

 private:
  using Filter::Filter;
  void WriteTrailer(char* trailer) const override;
  uint64_t keys_ = 0;
};

// A row of blocked Bloom filters, each larger and stricter than the one before, so
// that the sum of their rates stays under the bound (Almeida et al. 2007).
// sizing.keys is the planned number; a rate, or the rate of its bits per key, is the
// bound for any number.
class SIEVEDB_EXPORT ScalableBloomFilter : public Filter {
 public:
  static absl::StatusOr<ScalableBloomFilter> Create(const FilterSizing& sizing);
  static absl::StatusOr<ScalableBloomFilter> Deserialize(std::string_view bytes);

  // A key that is "maybe" already adds nothing.
  // Errors: kResourceExhausted where memory for growing cannot be had; the filter is
  // unchanged.
  // Cost: as a blocked Bloom filter's, and a copy of all layers where it grows: each
  // time to twice its size.
  absl::Status Add(std::string_view key) { return AddHash(FilterHash(key)); }
  absl::Status AddHash(uint64_t hash);

 private:
  using Filter::Filter;
  void WriteTrailer(char* trailer) const override;
};

}  // namespace sievedb

#endif  // SIEVEDB_FILTER_H_
