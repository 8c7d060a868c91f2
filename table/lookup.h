#ifndef SIEVEDB_TABLE_LOOKUP_H_
#define SIEVEDB_TABLE_LOOKUP_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "sievedb/options.h"
#include "table/internal_key.h"
#include "table/range_tombstones.h"
#include "util/block_cache_impl.h"
#include "util/filter_tally.h"
#include "util/hash.h"
#include "util/statistics_impl.h"

namespace sievedb {

// Keeps a block's bytes: a buffer from the cache that the surrounding EpochGuard
// protects, or one that nobody else knows, of which it owns the only reference.
class BlockPin {
 public:
  BlockPin() = default;
  static BlockPin Guarded(BlockBuffer* buffer) { return BlockPin(buffer, false); }
  static BlockPin Owned(BlockBuffer* buffer) { return BlockPin(buffer, true); }
  BlockPin(BlockPin&& other) noexcept
      : buffer_(std::exchange(other.buffer_, nullptr)), owned_(other.owned_) {}
  BlockPin& operator=(BlockPin&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~BlockPin() {
    if (buffer_ != nullptr && owned_) buffer_->Unref();
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  std::string_view bytes() const { return {buffer_->data(), buffer_->size()}; }

  // Gives the caller a reference of its own, that outlives the guard.
  BlockBuffer* TakeReference() {
    if (!owned_) buffer_->Ref();
    owned_ = false;
    return std::exchange(buffer_, nullptr);
  }

 private:
  BlockPin(BlockBuffer* buffer, bool owned) : buffer_(buffer), owned_(owned) {}
  BlockBuffer* buffer_ = nullptr;
  bool owned_ = false;
};

// One point lookup on its way down the layers: what is asked, and what was found.
// It is made once a Get, with the one hash of its key, and lives on the stack
// under one EpochGuard.
struct Lookup {
  Lookup(std::string_view key, uint64_t sequence_seen, const KeyOrder& order,
         const ReadOptions& read_options, StatisticsImpl* stats, uint64_t seed = 0,
         EpochRecord* thread = ThisThreadEpochRecord())
      : user_key(key),
        sequence(sequence_seen),
        seek_tag(SeekTag(sequence_seen)),
        hash_seed(seed),
        hash(Hash64(key, seed)),
        word(order.Word(key)),
        options(read_options),
        statistics(stats),
        counted_as_(stats),
        other_seed_(seed),
        other_hash_(hash) {
    if (FilterTally::Sample(thread)) [[unlikely]]
      counted_as_ = &kSampled;
  }

  const std::string_view user_key;
  const uint64_t sequence;  // entries above it are not seen
  const uint64_t seek_tag;
  const uint64_t hash_seed;  // the database's: that of its memtables and nearly all tables
  const uint64_t hash;       // Hash64(user_key, hash_seed)
  const uint64_t word;       // KeyOrder::Word(user_key)
  const ReadOptions& options;
  StatisticsImpl* const statistics;  // null: off
  // Whether filters' tallies count what each answers, and whether anything does.
  bool sampled() const { return counted_as_ == &kSampled; }
  bool counted() const { return counted_as_ != nullptr; }

  enum class State { kSearching, kFound, kDeleted };
  State state = State::kSearching;
  std::string_view value;  // where kFound; in pin, or in the memtable
  BlockPin pin;

  bool decided() const { return state != State::kSearching; }

  // The highest sequence of a range tombstone seen so far that covers the key; 0: none.
  uint64_t tombstone_sequence = 0;
  // Takes notice of a run's range tombstones.
  void Meet(const RangeTombstones& tombstones) {
    tombstone_sequence = std::max(tombstone_sequence, tombstones.Covering(user_key, sequence));
  }
  // Whether an entry of the key is hidden by one of them.
  bool HidesTag(uint64_t tag) const { return tag < tombstone_sequence << 8; }

  // Hash64(user_key, seed), for a table that another database wrote. The last one is
  // kept: tables mostly come many from one database.
  uint64_t HashWith(uint64_t seed) const {
    if (seed != other_seed_) {
      other_seed_ = seed;
      other_hash_ = Hash64(user_key, seed);
    }
    return other_hash_;
  }

 private:
  static constexpr char kSampled = 0;
  const void* counted_as_;  // null: not; otherwise statistics, or kSampled's address

  mutable uint64_t other_seed_;
  mutable uint64_t other_hash_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_LOOKUP_H_
