#include "util/filter_tally.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace sievedb {

FilterCounts& FilterCounts::operator+=(const FilterCounts& other) {
  sampled_no += other.sampled_no;
  sampled_present += other.sampled_present;
  false_maybe += other.false_maybe;
  false_maybe_keys += other.false_maybe_keys;
  return *this;
}

double FilterCounts::SaidNo() const {
  return static_cast<double>(sampled_no) * FilterTally::kSampleEvery;
}
double FilterCounts::Present() const {
  return static_cast<double>(sampled_present) * FilterTally::kSampleEvery;
}

ObservedFpr ObserveFpr(const FilterCounts& counts, uint64_t false_maybe, double z) {
  ObservedFpr observed;
  const double passed = static_cast<double>(false_maybe);
  const double absent = counts.SaidNo() + passed;
  if (absent <= 0) return observed;
  observed.share = passed / absent;
  // The logarithm of passed / said_no has the variance 1 / passed + 1 / sampled_no;
  // with n trials that were all counted it would be 1 / (n * share * (1 - share)).
  const double trials =
      absent * absent /
      (FilterTally::kSampleEvery * (passed + static_cast<double>(counts.sampled_no)));
  observed.interval = WilsonInterval(observed.share, trials, z);
  return observed;
}

FilterTally::~FilterTally() {
  for (std::atomic<Cell*>& cell : cells_) {
    const std::unique_ptr<Cell> owned(cell.load(std::memory_order_acquire));
  }
}

void FilterTally::DrawDistance(EpochRecord* record) {
  // xorshift64 (Marsaglia 2003), which must not start at 0.
  uint64_t& random = record->sample_random;
  if (random == 0) random = 0x9E3779B97F4A7C15 * (record->index + uint64_t{1});
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  // From 0 to 2 * kSampleEvery - 2 lookups that are not sampled, then one that is.
  record->lookups_until_sample = static_cast<int32_t>((random >> 32) % (2 * kSampleEvery - 1));
}

// Relaxed: figures say nothing about other memory.
uint64_t FilterTally::Increase(std::atomic<uint64_t>* figure, bool shared) {
  if (shared) return figure->fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t now = figure->load(std::memory_order_relaxed) + 1;
  figure->store(now, std::memory_order_relaxed);
  return now;
}

FilterTally::Cell* FilterTally::MyCell(bool* shared) {
  const size_t i = std::min<size_t>(ThreadIndex(), kCells - 1);
  *shared = i == kCells - 1;
  // Acquire: the cell was made before it was put here.
  Cell* const cell = cells_[i].load(std::memory_order_acquire);
  if (cell != nullptr) return cell;
  auto made = std::make_unique<Cell>();
  Cell* existing = nullptr;
  // Only the shared one can have been made by another thread meanwhile.
  if (!cells_[i].compare_exchange_strong(existing, made.get(), std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
    return existing;
  }
  return made.release();
}

void FilterTally::CountNo() {
  bool shared = false;
  Cell* const cell = MyCell(&shared);
  Increase(&cell->sampled_no, shared);
}

void FilterTally::CountPresent() {
  bool shared = false;
  Cell* const cell = MyCell(&shared);
  Increase(&cell->sampled_present, shared);
}

bool FilterTally::CountFalse(uint64_t hash) {
  bool shared = false;
  Cell* const cell = MyCell(&shared);
  // Multiplied: filters use the hash's halves as they are, so those that one lets pass
  // may be alike in them.
  const uint64_t mixed = hash * 0x9E3779B97F4A7C15;
  std::atomic<uint32_t>& recent = cell->recent[mixed >> 61];
  const auto mark = static_cast<uint32_t>(mixed >> 29) | 1;  // 0: none yet
  if (recent.load(std::memory_order_relaxed) != mark) {
    recent.store(mark, std::memory_order_relaxed);
    Increase(&cell->false_maybe_keys, shared);
  }
  const uint64_t now = Increase(&cell->false_maybe, shared);
  return now >= kLookAgain && std::has_single_bit(now);
}

FilterCounts FilterTally::Sum() const {
  FilterCounts sum;
  for (const std::atomic<Cell*>& slot : cells_) {
    const Cell* const cell = slot.load(std::memory_order_acquire);
    if (cell == nullptr) continue;
    sum.sampled_no += cell->sampled_no.load(std::memory_order_relaxed);
    sum.sampled_present += cell->sampled_present.load(std::memory_order_relaxed);
    sum.false_maybe += cell->false_maybe.load(std::memory_order_relaxed);
    sum.false_maybe_keys += cell->false_maybe_keys.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace sievedb
