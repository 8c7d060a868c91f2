#ifndef SIEVEDB_UTIL_FILTER_TALLY_H_
#define SIEVEDB_UTIL_FILTER_TALLY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "util/binomial.h"
#include "util/epoch.h"

namespace sievedb {

// What point lookups found out about one filter, or several: sums of them may be
// added up.
struct FilterCounts {
  uint64_t sampled_no = 0;       // answers "no" of lookups that were sampled
  uint64_t sampled_present = 0;  // of the same lookups: "maybe", and the key was there
  uint64_t false_maybe = 0;      // all "maybe"s whose key was not there
  // The same, without those of a key that had one lately: many of them mean many keys.
  uint64_t false_maybe_keys = 0;

  FilterCounts& operator+=(const FilterCounts& other);
  double SaidNo() const;   // estimated
  double Present() const;  // estimated
  // Lookups of keys that were not there, estimated: each is a trial of the filter.
  double Absent() const { return SaidNo() + static_cast<double>(false_maybe); }
};

// The share of absent keys that a filter let pass.
struct ObservedFpr {
  double share = 0;
  ShareInterval interval;
};
// false_maybe: one of the two counts of counts. The interval is wider than that of as many
// trials one by one, since those that ended with "no" are estimated.
ObservedFpr ObserveFpr(const FilterCounts& counts, uint64_t false_maybe, double z);

// Counts for one filter what its answers were worth. A false "maybe" is rare and has
// just cost the search of a block, so all are counted; the others are counted in one
// lookup of kSampleEvery only, which a lookup that is not sampled pays with a decrement.
//
// Threads: safe. A thread whose ThreadIndex is below kCells - 1 has a cache line of its
// own, made when it first counts, and adds without a locked instruction; all others
// share the last one. Sums read meanwhile may miss what is being added.
class FilterTally {
 public:
  // The mean of a random distance: a fixed one could fall into step with a program
  // that asks for its keys in turn.
  static constexpr uint32_t kSampleEvery = 128;

  FilterTally() = default;
  ~FilterTally();
  FilterTally(const FilterTally&) = delete;
  FilterTally& operator=(const FilterTally&) = delete;

  // Whether the next lookup of the calling thread, whose record it is, is one whose
  // answers are counted.
  static bool Sample(EpochRecord* record) {
    if (--record->lookups_until_sample >= 0) [[likely]]
      return false;
    DrawDistance(record);
    return true;
  }

  // Requires: the lookup is sampled.
  void CountNo();
  void CountPresent();
  // True each time that one thread has counted kLookAgain of them, twice, four times …
  // as many: the audit should look.
  bool CountFalse(uint64_t hash);
  static constexpr uint64_t kLookAgain = 256;

  FilterCounts Sum() const;

 private:
  static constexpr size_t kCells = 64;
  struct alignas(64) Cell {
    std::atomic<uint64_t> sampled_no{0};
    std::atomic<uint64_t> sampled_present{0};
    std::atomic<uint64_t> false_maybe{0};
    std::atomic<uint64_t> false_maybe_keys{0};
    // Hashes of keys that had a false "maybe", each where its hash wants it.
    std::array<std::atomic<uint32_t>, 8> recent = {};
  };
  static_assert(sizeof(Cell) == 64, "one cache line a thread");

  static void DrawDistance(EpochRecord* record);
  static uint64_t Increase(std::atomic<uint64_t>* figure, bool shared);
  Cell* MyCell(bool* shared);

  std::array<std::atomic<Cell*>, kCells> cells_ = {};  // owned
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILTER_TALLY_H_
