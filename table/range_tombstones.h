#ifndef SIEVEDB_TABLE_RANGE_TOMBSTONES_H_
#define SIEVEDB_TABLE_RANGE_TOMBSTONES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "util/arena.h"
#include "util/key_order.h"
#include "util/ref_counted.h"

namespace sievedb {

// Range tombstones of one run, cut at each other's borders into fragments that don't
// overlap, so that one binary search finds all that cover a key. A tombstone hides every
// entry of a lower sequence whose user key is in [begin, end).
//
// Threads: immutable.
//
// The block of a table, first of its tail (table/format.h):
//   varint                number of fragments, at least 1
//   each fragment, in order, none beginning before the end of the one before:
//     varint, bytes       begin
//     varint, bytes       end, after begin
//     varint              number of sequences, at least 1
//     varint each         sequences, strictly descending
class RangeTombstones : public RefCounted<RangeTombstones> {
 public:
  // A sequence and those below it; fragments share the ends of their lists.
  struct Stamp {
    uint64_t sequence;
    const Stamp* older;  // null: none
  };
  struct Fragment {
    std::string_view begin;
    std::string_view end;  // after begin; itself not covered
    const Stamp* newest;   // never null

    // The highest sequence that is at most seen; 0: none is.
    uint64_t NewestSeen(uint64_t seen) const {
      const Stamp* stamp = newest;
      while (stamp != nullptr && stamp->sequence > seen) stamp = stamp->older;
      return stamp == nullptr ? 0 : stamp->sequence;
    }
  };

  // What fragments of a list of its own point to.
  struct Storage {
    std::deque<Stamp> stamps;
    std::string bytes;
  };
  // Requires: fragments are in order and don't overlap. storage may be null where others
  // keep what they point to.
  RangeTombstones(const KeyOrder& order, std::vector<Fragment> fragments,
                  std::unique_ptr<const Storage> storage = nullptr);

  // base (null: empty) with one more. begin and end, which must stay, and what is new of
  // the result, which must not outlive it, lie in arena.
  // Requires: begin < end; sequence is in no fragment of base.
  // Cost: O(fragments).
  static RefPtr<const RangeTombstones> With(const KeyOrder& order, const RangeTombstones* base,
                                            std::string_view begin, std::string_view end,
                                            uint64_t sequence, Arena* arena);

  absl::Span<const Fragment> fragments() const { return fragments_; }
  bool empty() const { return fragments_.empty(); }
  // Pairs of a fragment and a sequence.
  uint64_t count() const { return count_; }
  uint64_t smallest_sequence() const { return smallest_sequence_; }
  uint64_t largest_sequence() const { return largest_sequence_; }

  // The first fragment that ends after key; fragments().size(): none does.
  size_t Find(std::string_view key) const;
  // The highest sequence that is at most seen of a tombstone that covers key; 0: none does.
  uint64_t Covering(std::string_view key, uint64_t seen) const;
  // Whether each key of [smallest, largest], or of [smallest, largest) where not
  // with_largest, is covered by a tombstone that fits(sequence).
  bool CoversAll(std::string_view smallest, std::string_view largest, bool with_largest,
                 absl::FunctionRef<bool(uint64_t)> fits) const;
  // Whether a key of [smallest, largest] is covered.
  bool Overlaps(std::string_view smallest, std::string_view largest) const;

  // What of them lies in [begin, end) (null: open). Refers to this one's keys and
  // sequences, which must outlive it.
  RefPtr<const RangeTombstones> Clip(const std::string_view* begin,
                                     const std::string_view* end) const;
  // Those of which keep(fragment, sequence) says so. The same holds.
  RefPtr<const RangeTombstones> Keep(
      absl::FunctionRef<bool(const Fragment&, uint64_t sequence)> keep) const;

  std::string Encode() const;
  // Errors: kDataLoss, without file and offset: the caller adds them.
  static absl::StatusOr<RefPtr<const RangeTombstones>> Decode(const KeyOrder& order,
                                                              std::string_view block);

  size_t MemoryBytes() const;

 private:
  friend class RefCounted<RangeTombstones>;
  ~RangeTombstones() = default;

  const KeyOrder order_;
  const std::vector<Fragment> fragments_;
  const std::unique_ptr<const Storage> storage_;
  uint64_t count_ = 0;
  uint64_t smallest_sequence_ = ~uint64_t{0};
  uint64_t largest_sequence_ = 0;
};

// Makes one list of tombstones that may overlap.
//
// Of those that cover a key, only the newest that each of the snapshots and the present
// sees are kept: the others hide nothing that those do not hide.
//
// Cost: O(n log n), and the output times the tombstones that overlap at a key.
class RangeTombstoneMerger {
 public:
  // snapshots: ascending.
  RangeTombstoneMerger(const KeyOrder& order, std::vector<uint64_t> snapshots)
      : order_(order), snapshots_(std::move(snapshots)) {}

  // The bytes of the keys must outlive what Finish returns. Requires: begin < end.
  void Add(std::string_view begin, std::string_view end, uint64_t sequence) {
    tombstones_.push_back({begin, end, sequence});
  }
  void Add(const RangeTombstones& tombstones);

  // Null where nothing was added.
  RefPtr<const RangeTombstones> Finish();

 private:
  struct Tombstone {
    std::string_view begin;
    std::string_view end;
    uint64_t sequence;
  };
  // Calls fn with those of sequences, which descend, that are kept.
  template <typename Next, typename Fn>
  void ForEachKept(Next next, Fn fn) const;
  size_t StripeOf(uint64_t sequence) const;

  const KeyOrder order_;
  const std::vector<uint64_t> snapshots_;
  std::vector<Tombstone> tombstones_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_RANGE_TOMBSTONES_H_
