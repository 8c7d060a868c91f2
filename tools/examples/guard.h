#ifndef SIEVEDB_TOOLS_EXAMPLES_GUARD_H_
#define SIEVEDB_TOOLS_EXAMPLES_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/filter.h"

namespace sievedb {

// The ids of a store and those that are not in it, all made from their numbers:
// 64-bit, no two the same.
class IdSpace {
 public:
  explicit IdSpace(uint64_t seed);

  // Hash of the id with this number, its eight bytes being the key.
  uint64_t HashOf(uint64_t number) const;

 private:
  uint64_t offset_;
};

// A filter in front of a store, built here or mapped from a file in which other
// processes may have mapped it too.
class Guard {
 public:
  // Of the ids numbered 0 to ids - 1. kind is blocked, dense, bloom, ribbon or fuse; fuse
  // has a rate of its own, and fpr is not read.
  static absl::StatusOr<Guard> Build(const std::string& kind, const IdSpace& space, uint64_t ids,
                                     double fpr);
  // Errors: those of the file system; kDataLoss where it does not hold a filter.
  static absl::StatusOr<Guard> Map(const std::string& path);

  // Requires: it was built, not mapped.
  absl::Status Save(const std::string& path) const;

  bool MayContain(uint64_t hash) const {
    return built_ != nullptr ? built_->ContainsHash(hash) : mapped_->MayContain(hash);
  }
  void MayContainMany(absl::Span<const uint64_t> hashes, absl::Span<bool> results) const;
  FilterFigures Figures() const;
  size_t MemoryBytes() const;

 private:
  Guard() = default;

  std::unique_ptr<const Filter> built_;         // or
  std::shared_ptr<const void> mapping_;         // the bytes of
  std::unique_ptr<const FilterReader> mapped_;  // which goes first
};

// A share that was observed, with the interval that holds the true one in 95 of 100
// cases (Wilson 1927: good for rare events too).
struct ObservedShare {
  static ObservedShare Of(uint64_t hits, uint64_t trials);
  double share = 0, low = 0, high = 1;
};

struct StreamSettings {
  uint64_t ids = 0;
  uint64_t lookups = 0;  // a day
  double absent = 0;     // the share of ids that are not there
  uint64_t seed = 0;
};

// One day's lookups. A stretch is asked in batches, the next one id by id, in turn.
struct DayReport {
  void Add(const DayReport& other);

  uint64_t lookups = 0;
  uint64_t absent = 0;
  uint64_t turned_away = 0;
  uint64_t false_positives = 0;
  uint64_t wrongly_turned_away = 0;  // ids that are there: anything but 0 is a bug
  uint64_t batched = 0, single = 0;  // lookups
  double batched_seconds = 0, single_seconds = 0;
};

// Lookups of the day with this number; each absent id of a run is asked for once, so
// that false positives are independent of each other.
DayReport RunDay(const Guard& guard, const IdSpace& space, const StreamSettings& settings,
                 uint64_t day);

// How many of the ids that are there the filter denies: 0, or it is not theirs.
uint64_t CountDenied(const Guard& guard, const IdSpace& space, uint64_t ids);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_EXAMPLES_GUARD_H_
