#include "table/range_tombstones.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <numeric>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "table/internal_key.h"
#include "util/coding.h"

namespace sievedb {
namespace {

using Fragment = RangeTombstones::Fragment;
using Stamp = RangeTombstones::Stamp;

// Two keys and a count, and a sequence.
constexpr uint64_t kMinFragmentBytes = 4;

const Stamp* NewStamp(Arena* arena, uint64_t sequence, const Stamp* older) {
  return new (arena->Allocate(sizeof(Stamp))) Stamp{sequence, older};
}

// list with sequence at its place. Mostly that is the front.
const Stamp* WithSequence(Arena* arena, const Stamp* list, uint64_t sequence) {
  if (list == nullptr || list->sequence < sequence) return NewStamp(arena, sequence, list);
  std::vector<uint64_t> newer;
  for (; list != nullptr && list->sequence > sequence; list = list->older) {
    newer.push_back(list->sequence);
  }
  assert(list == nullptr || list->sequence != sequence);
  const Stamp* result = NewStamp(arena, sequence, list);
  for (; !newer.empty(); newer.pop_back()) result = NewStamp(arena, newer.back(), result);
  return result;
}

bool SameSequences(const Stamp* a, const Stamp* b) {
  while (a != b) {
    if (a == nullptr || b == nullptr || a->sequence != b->sequence) return false;
    a = a->older;
    b = b->older;
  }
  return true;
}

// Puts a fragment behind the others; one that goes on where the last one ends, with the
// same sequences, is made one with it.
void AppendFragment(const KeyOrder& order, std::vector<Fragment>* to, const Fragment& fragment) {
  assert(order.Compare(fragment.begin, fragment.end) < 0);
  if (!to->empty() && order.Equal(to->back().end, fragment.begin) &&
      SameSequences(to->back().newest, fragment.newest)) {
    to->back().end = fragment.end;
    return;
  }
  to->push_back(fragment);
}

// Makes lists from sequences in descending order.
class ListWriter {
 public:
  explicit ListWriter(RangeTombstones::Storage* storage) : storage_(storage) {}
  void Begin() { first_ = last_ = nullptr; }
  void Add(uint64_t sequence) {
    storage_->stamps.push_back({sequence, nullptr});
    Stamp* const stamp = &storage_->stamps.back();
    if (last_ != nullptr) last_->older = stamp;
    if (first_ == nullptr) first_ = stamp;
    last_ = stamp;
  }
  const Stamp* list() const { return first_; }

 private:
  RangeTombstones::Storage* const storage_;
  Stamp* first_ = nullptr;
  Stamp* last_ = nullptr;
};

}  // namespace

RangeTombstones::RangeTombstones(const KeyOrder& order, std::vector<Fragment> fragments,
                                 std::unique_ptr<const Storage> storage)
    : order_(order), fragments_(std::move(fragments)), storage_(std::move(storage)) {
  for (const Fragment& fragment : fragments_) {
    largest_sequence_ = std::max(largest_sequence_, fragment.newest->sequence);
    for (const Stamp* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) {
      ++count_;
      if (stamp->older == nullptr) {
        smallest_sequence_ = std::min(smallest_sequence_, stamp->sequence);
      }
    }
  }
}

RefPtr<const RangeTombstones> RangeTombstones::With(const KeyOrder& order,
                                                    const RangeTombstones* base,
                                                    std::string_view begin, std::string_view end,
                                                    uint64_t sequence, Arena* arena) {
  assert(order.Compare(begin, end) < 0);
  std::vector<Fragment> to;
  std::string_view from = begin;  // [from, end) is still to come
  size_t i = 0;
  if (base != nullptr) {
    const std::vector<Fragment>& old = base->fragments_;
    i = base->Find(begin);
    to.reserve(old.size() + 3);
    to.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(i));
    for (; i < old.size() && order.Compare(old[i].begin, end) < 0; ++i) {
      const Fragment& fragment = old[i];
      const int before = order.Compare(fragment.begin, from);
      if (before < 0) {
        to.push_back({fragment.begin, from, fragment.newest});
      } else if (before > 0) {
        to.push_back({from, fragment.begin, NewStamp(arena, sequence, nullptr)});
        from = fragment.begin;
      }
      const bool goes_beyond = order.Compare(fragment.end, end) > 0;
      const std::string_view stop = goes_beyond ? end : fragment.end;
      to.push_back({from, stop, WithSequence(arena, fragment.newest, sequence)});
      if (goes_beyond) to.push_back({end, fragment.end, fragment.newest});
      from = stop;
    }
  }
  if (order.Compare(from, end) < 0) {
    to.push_back({from, end, NewStamp(arena, sequence, nullptr)});
  }
  if (base != nullptr) {
    to.insert(to.end(), base->fragments_.begin() + static_cast<std::ptrdiff_t>(i),
              base->fragments_.end());
  }
  return RefPtr<const RangeTombstones>::New(order, std::move(to));
}

size_t RangeTombstones::Find(std::string_view key) const {
  const auto it = std::partition_point(
      fragments_.begin(), fragments_.end(),
      [&](const Fragment& fragment) { return order_.Compare(fragment.end, key) <= 0; });
  return static_cast<size_t>(it - fragments_.begin());
}

uint64_t RangeTombstones::Covering(std::string_view key, uint64_t seen) const {
  const size_t i = Find(key);
  if (i == fragments_.size() || order_.Compare(fragments_[i].begin, key) > 0) return 0;
  return fragments_[i].NewestSeen(seen);
}

bool RangeTombstones::CoversAll(std::string_view smallest, std::string_view largest,
                                bool with_largest, absl::FunctionRef<bool(uint64_t)> fits) const {
  std::string_view from = smallest;  // all before it is covered
  for (size_t i = Find(smallest); i < fragments_.size(); ++i) {
    const Fragment& fragment = fragments_[i];
    if (order_.Compare(fragment.begin, from) > 0) return false;
    const Stamp* stamp = fragment.newest;
    while (stamp != nullptr && !fits(stamp->sequence)) stamp = stamp->older;
    if (stamp == nullptr) return false;
    const int r = order_.Compare(largest, fragment.end);
    if (r < 0 || (r == 0 && !with_largest)) return true;
    from = fragment.end;
  }
  return false;
}

bool RangeTombstones::Overlaps(std::string_view smallest, std::string_view largest) const {
  const size_t i = Find(smallest);
  return i < fragments_.size() && order_.Compare(fragments_[i].begin, largest) <= 0;
}

RefPtr<const RangeTombstones> RangeTombstones::Clip(const std::string_view* begin,
                                                    const std::string_view* end) const {
  std::vector<Fragment> to;
  for (size_t i = begin == nullptr ? 0 : Find(*begin); i < fragments_.size(); ++i) {
    Fragment fragment = fragments_[i];
    if (end != nullptr && order_.Compare(fragment.begin, *end) >= 0) break;
    if (begin != nullptr && order_.Compare(fragment.begin, *begin) < 0) fragment.begin = *begin;
    if (end != nullptr && order_.Compare(fragment.end, *end) > 0) fragment.end = *end;
    to.push_back(fragment);
  }
  return RefPtr<const RangeTombstones>::New(order_, std::move(to));
}

RefPtr<const RangeTombstones> RangeTombstones::Keep(
    absl::FunctionRef<bool(const Fragment&, uint64_t)> keep) const {
  std::vector<Fragment> to;
  auto storage = std::make_unique<Storage>();
  ListWriter list(storage.get());
  for (const Fragment& fragment : fragments_) {
    list.Begin();
    for (const Stamp* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) {
      if (keep(fragment, stamp->sequence)) list.Add(stamp->sequence);
    }
    if (list.list() == nullptr) continue;
    AppendFragment(order_, &to, {fragment.begin, fragment.end, list.list()});
  }
  return RefPtr<const RangeTombstones>::New(order_, std::move(to), std::move(storage));
}

std::string RangeTombstones::Encode() const {
  assert(!fragments_.empty());
  std::string block;
  AppendVarint64(&block, fragments_.size());
  for (const Fragment& fragment : fragments_) {
    AppendLengthPrefixed(&block, fragment.begin);
    AppendLengthPrefixed(&block, fragment.end);
    uint64_t sequences = 0;
    for (const Stamp* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) ++sequences;
    AppendVarint64(&block, sequences);
    for (const Stamp* stamp = fragment.newest; stamp != nullptr; stamp = stamp->older) {
      AppendVarint64(&block, stamp->sequence);
    }
  }
  return block;
}

absl::StatusOr<RefPtr<const RangeTombstones>> RangeTombstones::Decode(const KeyOrder& order,
                                                                      std::string_view block) {
  auto storage = std::make_unique<Storage>();
  storage->bytes = block;
  ByteReader in(storage->bytes);
  const uint64_t n = in.Varint64();
  // The second bound keeps a damaged count from allocating.
  if (!in.ok() || n == 0 || n > in.rest().size() / kMinFragmentBytes) {
    return absl::DataLossError(
        absl::StrFormat("range tombstones: %d fragments in %d bytes", n, block.size()));
  }
  std::vector<Fragment> fragments;
  fragments.reserve(n);
  ListWriter list(storage.get());
  for (uint64_t i = 0; i < n; ++i) {
    const std::string_view begin = in.LengthPrefixed();
    const std::string_view end = in.LengthPrefixed();
    const uint64_t sequences = in.Varint64();
    list.Begin();
    uint64_t last = kMaxSequence + 1;
    for (uint64_t j = 0; j < sequences && in.ok(); ++j) {
      const uint64_t sequence = in.Varint64();
      if (in.ok() && sequence >= last) {
        return absl::DataLossError(
            absl::StrFormat("range tombstones: fragment %d: expected a sequence below %d, found %d",
                            i, last, sequence));
      }
      last = sequence;
      list.Add(sequence);
    }
    if (!in.ok() || sequences == 0) {
      return absl::DataLossError(
          absl::StrFormat("range tombstones: fragment %d of %d is cut short", i, n));
    }
    if (order.Compare(begin, end) >= 0 ||
        (i > 0 && order.Compare(fragments.back().end, begin) > 0)) {
      return absl::DataLossError(
          absl::StrFormat("range tombstones: fragment %d is not in order", i));
    }
    fragments.push_back({begin, end, list.list()});
  }
  if (!in.done()) {
    return absl::DataLossError(
        absl::StrFormat("range tombstones: %d bytes left over", in.rest().size()));
  }
  return RefPtr<const RangeTombstones>::New(order, std::move(fragments), std::move(storage));
}

size_t RangeTombstones::MemoryBytes() const {
  return sizeof(*this) + fragments_.capacity() * sizeof(Fragment) +
         (storage_ == nullptr ? 0
                              : sizeof(Storage) + storage_->bytes.capacity() +
                                    storage_->stamps.size() * sizeof(Stamp));
}

// --- merging

size_t RangeTombstoneMerger::StripeOf(uint64_t sequence) const {
  return static_cast<size_t>(std::lower_bound(snapshots_.begin(), snapshots_.end(), sequence) -
                             snapshots_.begin());
}

template <typename Next, typename Fn>
void RangeTombstoneMerger::ForEachKept(Next next, Fn fn) const {
  size_t last_stripe = snapshots_.size() + 1;
  for (uint64_t sequence; next(&sequence);) {
    const size_t stripe = StripeOf(sequence);
    if (stripe != last_stripe) fn(sequence);
    last_stripe = stripe;
  }
}

void RangeTombstoneMerger::Add(const RangeTombstones& tombstones) {
  for (const Fragment& fragment : tombstones.fragments()) {
    const Stamp* stamp = fragment.newest;
    const auto next = [&](uint64_t* sequence) {
      if (stamp == nullptr) return false;
      *sequence = stamp->sequence;
      stamp = stamp->older;
      return true;
    };
    ForEachKept(next, [&](uint64_t sequence) { Add(fragment.begin, fragment.end, sequence); });
  }
}

// A sweep over the borders: between two of them the same tombstones are active.
RefPtr<const RangeTombstones> RangeTombstoneMerger::Finish() {
  if (tombstones_.empty()) return {};
  std::vector<size_t> by_begin(tombstones_.size());
  std::iota(by_begin.begin(), by_begin.end(), size_t{0});
  std::vector<size_t> by_end = by_begin;
  std::vector<std::string_view> borders;
  borders.reserve(2 * tombstones_.size());
  for (const Tombstone& tombstone : tombstones_) {
    borders.push_back(tombstone.begin);
    borders.push_back(tombstone.end);
  }
  const auto before = [this](std::string_view a, std::string_view b) {
    return order_.Compare(a, b) < 0;
  };
  std::sort(by_begin.begin(), by_begin.end(),
            [&](size_t a, size_t b) { return before(tombstones_[a].begin, tombstones_[b].begin); });
  std::sort(by_end.begin(), by_end.end(),
            [&](size_t a, size_t b) { return before(tombstones_[a].end, tombstones_[b].end); });
  std::sort(borders.begin(), borders.end(), before);
  borders.erase(
      std::unique(borders.begin(), borders.end(),
                  [this](std::string_view a, std::string_view b) { return order_.Equal(a, b); }),
      borders.end());

  std::vector<Fragment> fragments;
  auto storage = std::make_unique<RangeTombstones::Storage>();
  ListWriter list(storage.get());
  std::multiset<uint64_t, std::greater<>> active;
  size_t next_begin = 0;
  size_t next_end = 0;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    while (next_end < by_end.size() && !before(borders[i], tombstones_[by_end[next_end]].end)) {
      active.erase(active.find(tombstones_[by_end[next_end++]].sequence));
    }
    while (next_begin < by_begin.size() &&
           !before(borders[i], tombstones_[by_begin[next_begin]].begin)) {
      active.insert(tombstones_[by_begin[next_begin++]].sequence);
    }
    if (active.empty()) continue;
    list.Begin();
    auto it = active.begin();
    const auto next = [&](uint64_t* sequence) {
      if (it == active.end()) return false;
      *sequence = *it++;
      return true;
    };
    ForEachKept(next, [&](uint64_t sequence) { list.Add(sequence); });
    AppendFragment(order_, &fragments, {borders[i], borders[i + 1], list.list()});
  }
  return RefPtr<const RangeTombstones>::New(order_, std::move(fragments), std::move(storage));
}

}  // namespace sievedb
