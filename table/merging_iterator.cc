#include "table/merging_iterator.h"

#include <cassert>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"
#include "table/key_words.h"
#include "util/epoch.h"

namespace sievedb {
namespace {

// A loser tree (Knuth 5.4.1) of the children: the leaves are the children, each inner
// node has the child that lost there, and the winner of all is the next to show: the
// smallest key going forward, the largest going backward. A child that moved plays
// against the losers between its leaf and the root, one comparison a level. Once a
// child has won twice in a row, the best of those losers is known too, and as long as
// the child stays ahead of it a step is one comparison.
//
// A deferred child takes part with its bound, and is resolved once it has won.
class MergingIterator final : public InternalIterator {
 public:
  MergingIterator(const InternalKeyOrder& order,
                  std::vector<std::unique_ptr<InternalIterator>> children)
      : order_(order),
        has_words_(order.user().has_words()),
        children_(std::move(children)),
        slots_(children_.size()),
        losers_(2 * children_.size()) {
    assert(children_.size() >= 2);
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].child = children_[i].get();
      slots_[i].child->AllowDeferral();
    }
  }

  bool Valid() const override { return valid_; }

  void SeekToFirst() override {
    Start(/*forward=*/true, [](InternalIterator* child) { child->SeekToFirst(); });
  }
  void SeekToLast() override {
    Start(/*forward=*/false, [](InternalIterator* child) { child->SeekToLast(); });
  }
  void Seek(std::string_view target) override {
    const EpochGuard guard;
    for (bool more = true; more;) {
      more = false;
      for (const auto& child : children_) more |= child->PrepareSeek(target);
    }
    Start(/*forward=*/true, [target](InternalIterator* child) { child->Seek(target); });
  }
  void SeekForPrev(std::string_view target) override {
    Start(/*forward=*/false, [target](InternalIterator* child) { child->SeekForPrev(target); });
  }

  void Next() override {
    std::string_view key;
    NextKey(&key);
  }
  bool NextKey(std::string_view* key) override {
    assert(Valid());
    if (!forward_ && !Turn(/*forward=*/true)) [[unlikely]]
      return false;
    Slot* const slot = &slots_[winner_];
    if (slot->child->NextKey(&slot->key)) [[likely]] {
      if (!SetWords(slot)) return false;
    } else if (!Retire(slot)) {
      return false;
    }
    if (!Play()) return false;
    *key = slots_[winner_].key;
    return true;
  }
  void Prev() override {
    assert(Valid());
    if (forward_ && !Turn(/*forward=*/false)) [[unlikely]]
      return;
    Slot* const slot = &slots_[winner_];
    slot->child->Prev();
    if (Load(slot)) Play();
  }

  std::string_view key() const override { return slots_[winner_].key; }
  std::string_view value() const override { return slots_[winner_].child->value(); }
  absl::Status status() const override { return status_; }

 private:
  static constexpr size_t kNone = ~size_t{0};
  static constexpr uint64_t kAllOnes = ~uint64_t{0};

  // What comparisons need of a child, in one place.
  struct Slot {
    // Of its key, so that the child with the lesser words is shown first: inverted
    // going backward. All ones where the child stands on nothing.
    KeyWords words{kAllOnes, kAllOnes};
    std::string_view key;
    InternalIterator* child = nullptr;
    bool on_entry = false;
    bool deferred = false;
  };

  // Whether child a is shown before child b in the direction of travel.
  bool Ahead(size_t a, size_t b) const {
    const KeyWords& x = slots_[a].words;
    const KeyWords& y = slots_[b].words;
    if (x.first != y.first) return x.first < y.first;
    if (x.second != y.second) [[likely]]
      return x.second < y.second;
    return AheadByKey(a, b);
  }
  // The same where words don't tell. Of equal keys, that of the earlier child is first.
  bool AheadByKey(size_t a, size_t b) const {
    const Slot& x = slots_[a];
    const Slot& y = slots_[b];
    if (!x.on_entry || !y.on_entry) return x.on_entry;
    const int r = order_.Compare(x.key, y.key);
    if (r != 0) return forward_ ? r < 0 : r > 0;
    return forward_ ? a < b : a > b;
  }

  // Key may be damaged.
  bool IsAt(std::string_view key, const Slot& slot) const {
    return key.size() >= kTagBytes && order_.Compare(key, slot.key) == 0;
  }

  bool Fail(absl::Status status) {
    assert(!status.ok());
    valid_ = false;
    status_ = std::move(status);
    return false;
  }

  // Notes the words of slot's key. False, with an error, where it is none.
  bool SetWords(Slot* slot) {
    if (slot->key.size() < kTagBytes) [[unlikely]] {
      return Fail(absl::DataLossError(absl::StrFormat(
          "internal key of %d bytes, expected at least %d", slot->key.size(), kTagBytes)));
    }
    if (!has_words_) [[unlikely]]
      return true;
    slot->words = InternalKeyWords(order_.user(), slot->key);
    if (!forward_) slot->words = {~slot->words.first, ~slot->words.second};
    return true;
  }

  // Notes that slot's child stands on nothing. False where that is an error.
  bool Retire(Slot* slot) {
    absl::Status status = slot->child->status();
    if (!status.ok()) return Fail(std::move(status));
    slot->on_entry = false;
    slot->words = {kAllOnes, kAllOnes};
    return true;
  }

  // Notes where slot's child stands. False after an error.
  bool Load(Slot* slot) {
    slot->deferred = slot->child->deferred();
    if (!slot->child->Valid()) return Retire(slot);
    slot->key = slot->child->key();
    slot->on_entry = true;
    if (!has_words_) slot->words = {};
    return SetWords(slot);
  }

  template <typename SeekChild>
  void Start(bool forward, SeekChild seek) {
    status_ = absl::OkStatus();
    forward_ = forward;
    for (Slot& slot : slots_) {
      seek(slot.child);
      if (!Load(&slot)) return;
    }
    PlayAll();
    Settle();
  }

  // Plays the whole tournament.
  void PlayAll() {
    const size_t n = slots_.size();
    // For the time being the winner of each node, and in the upper half the leaves.
    for (size_t i = 0; i < n; ++i) losers_[n + i] = i;
    for (size_t node = n - 1; node > 0; --node) {
      const size_t a = losers_[2 * node];
      const size_t b = losers_[2 * node + 1];
      losers_[node] = Ahead(a, b) ? a : b;
    }
    winner_ = losers_[1];
    // From the root on, the sons are still winners where their parent becomes the loser.
    for (size_t node = 1; node < n; ++node) {
      const size_t a = losers_[2 * node];
      losers_[node] = losers_[node] == a ? losers_[2 * node + 1] : a;
    }
    runner_up_ = kNone;
  }

  // Finds the winner after the last one has moved, and resolves it. False where there
  // is none, or after an error.
  bool Play() {
    if (runner_up_ != kNone && Ahead(winner_, runner_up_)) [[likely]]
      return true;
    const size_t before = winner_;
    Replay();
    if (winner_ != before) {
      runner_up_ = kNone;
    } else {
      FindRunnerUp();
    }
    return Settle();
  }

  // Who wins is as good as random here, so that nothing branches on it but for the
  // rare words that don't tell.
  void Replay() {
    size_t winner = winner_;
    KeyWords words = slots_[winner].words;
    for (size_t node = (slots_.size() + winner) / 2; node > 0; node /= 2) {
      const size_t loser = losers_[node];
      const KeyWords& other = slots_[loser].words;
      const bool same_first = other.first == words.first;
      bool swap = (other.first < words.first) | (same_first & (other.second < words.second));
      if (same_first & (other.second == words.second)) [[unlikely]]
        swap = AheadByKey(loser, winner);
      const uint64_t mask = swap ? kAllOnes : 0;
      const size_t change = (loser ^ winner) & mask;
      losers_[node] = loser ^ change;
      winner ^= change;
      words.first ^= (words.first ^ other.first) & mask;
      words.second ^= (words.second ^ other.second) & mask;
    }
    winner_ = winner;
  }

  void FindRunnerUp() {
    size_t node = (slots_.size() + winner_) / 2;
    size_t best = losers_[node];
    for (node /= 2; node > 0; node /= 2) {
      if (Ahead(losers_[node], best)) best = losers_[node];
    }
    runner_up_ = best;
  }

  // Resolves winners until one of them stands on its entry. False where none does, or
  // after an error.
  bool Settle() {
    while (slots_[winner_].deferred) [[unlikely]] {
        slots_[winner_].child->Resolve();
        if (!Load(&slots_[winner_])) return false;
        Replay();
        runner_up_ = kNone;
      }
    valid_ = slots_[winner_].on_entry;
    return valid_;
  }

  // The children but the current one stand on the other side of the current entry;
  // this moves them to where a journey in the other direction would have them. Of
  // entries equal to the current one, those of earlier children lie before it.
  // False after an error.
  bool Turn(bool forward) {
    forward_ = forward;
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot* const slot = &slots_[i];
      const Slot& current = slots_[winner_];  // its child does not move, so its key stays
      if (i != winner_) {
        InternalIterator* const child = slot->child;
        forward ? child->Seek(current.key) : child->SeekForPrev(current.key);
        const bool behind = forward ? i < winner_ : i > winner_;
        if (behind) StepOver(child, current);
      }
      if (!Load(slot)) return false;
    }
    [[maybe_unused]] const size_t current = winner_;
    PlayAll();
    assert(winner_ == current);  // all others are ahead of it
    return true;
  }

  // Moves child off an entry that equals current's.
  void StepOver(InternalIterator* child, const Slot& current) {
    if (!child->Valid() || !IsAt(child->key(), current)) return;
    if (child->deferred()) {
      child->Resolve();
      if (!child->Valid() || !IsAt(child->key(), current)) return;
    }
    forward_ ? child->Next() : child->Prev();
  }

  const InternalKeyOrder order_;
  const bool has_words_;
  const std::vector<std::unique_ptr<InternalIterator>> children_;
  std::vector<Slot> slots_;     // by child
  std::vector<size_t> losers_;  // by inner node, 1 the root; children, then room to play
  size_t winner_ = 0;
  size_t runner_up_ = kNone;  // the best of all but the winner, where it is known
  bool forward_ = true;
  bool valid_ = false;
  absl::Status status_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewMergingIterator(
    const InternalKeyOrder& order, std::vector<std::unique_ptr<InternalIterator>> children) {
  if (children.empty()) return NewEmptyInternalIterator();
  if (children.size() == 1) return std::move(children[0]);
  return std::make_unique<MergingIterator>(order, std::move(children));
}

}  // namespace sievedb
