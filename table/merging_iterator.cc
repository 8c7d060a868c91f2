#include "table/merging_iterator.h"

#include <cassert>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"
#include "table/key_words.h"
#include "util/epoch.h"

namespace sievedb {
namespace {

// A binary heap of the children that stand on an entry, the next one to show on
// top: the smallest going forward, the largest going backward. Each slot has a copy
// of what comparisons need.
//
// runner_up_ is the better of the top's two sons, so as long as the top child stays
// ahead of it a step is one comparison.
class MergingIterator final : public InternalIterator {
 public:
  MergingIterator(const InternalKeyOrder& order,
                  std::vector<std::unique_ptr<InternalIterator>> children)
      : order_(order), children_(std::move(children)) {
    heap_.reserve(children_.size());
  }

  bool Valid() const override { return !heap_.empty(); }

  void SeekToFirst() override {
    Start<true>([](InternalIterator* child) { child->SeekToFirst(); });
  }
  void SeekToLast() override {
    Start<false>([](InternalIterator* child) { child->SeekToLast(); });
  }
  void Seek(std::string_view target) override {
    const EpochGuard guard;
    for (bool more = true; more;) {
      more = false;
      for (const auto& child : children_) more |= child->PrepareSeek(target);
    }
    Start<true>([target](InternalIterator* child) { child->Seek(target); });
  }
  void SeekForPrev(std::string_view target) override {
    Start<false>([target](InternalIterator* child) { child->SeekForPrev(target); });
  }

  void Next() override {
    assert(Valid());
    if (!forward_ && !TurnForward()) [[unlikely]]
      return;
    heap_[0].child->Next();
    AfterStep<true>();
  }
  void Prev() override {
    assert(Valid());
    if (forward_ && !TurnBackward()) [[unlikely]]
      return;
    heap_[0].child->Prev();
    AfterStep<false>();
  }

  std::string_view key() const override { return heap_[0].key; }
  std::string_view value() const override { return heap_[0].child->value(); }
  absl::Status status() const override { return status_; }

 private:
  struct Slot {
    KeyWords words;
    std::string_view key;
    InternalIterator* child = nullptr;
    size_t index = 0;  // in children_: the earlier of two equals goes first
  };

  // Whether a is shown before b in the direction of travel.
  template <bool kForward>
  bool Ahead(const Slot& a, const Slot& b) const {
    if (a.words != b.words) [[likely]] {
      return kForward ? KeyWords::Before(a.words, b.words) : KeyWords::Before(b.words, a.words);
    }
    const int r = order_.Compare(a.key, b.key);
    if (r != 0) return kForward ? r < 0 : r > 0;
    return kForward ? a.index < b.index : a.index > b.index;
  }

  // Key may be damaged.
  bool IsAt(std::string_view key, const Slot& slot) const {
    return key.size() >= kTagBytes && order_.Compare(key, slot.key) == 0;
  }

  bool Fail(absl::Status status) {
    assert(!status.ok());
    heap_.clear();
    status_ = std::move(status);
    return false;
  }

  // Notes where slot's child stands, which is Valid(). False after an error.
  bool Load(Slot* slot) {
    slot->key = slot->child->key();
    if (slot->key.size() < kTagBytes) [[unlikely]] {
      return Fail(absl::DataLossError(absl::StrFormat(
          "internal key of %d bytes, expected at least %d", slot->key.size(), kTagBytes)));
    }
    slot->words = InternalKeyWords(order_.user(), slot->key);
    return true;
  }

  // Adds child index to the heap's slots, not yet in heap order, where it stands on
  // an entry. False after an error.
  bool Collect(size_t index) {
    InternalIterator* const child = children_[index].get();
    if (!child->Valid()) {
      absl::Status status = child->status();
      return status.ok() || Fail(std::move(status));
    }
    Slot slot;
    slot.child = child;
    slot.index = index;
    if (!Load(&slot)) return false;
    heap_.push_back(slot);
    return true;
  }

  template <bool kForward, typename SeekChild>
  void Start(SeekChild seek) {
    heap_.clear();
    status_ = absl::OkStatus();
    forward_ = kForward;
    for (size_t i = 0; i < children_.size(); ++i) {
      seek(children_[i].get());
      if (!Collect(i)) return;
    }
    Heapify<kForward>();
  }

  template <bool kForward>
  void Heapify() {
    for (size_t i = heap_.size() / 2; i-- > 0;) SiftDown<kForward>(i);
    FindRunnerUp<kForward>();
  }

  template <bool kForward>
  void SiftDown(size_t hole) {
    const Slot slot = heap_[hole];
    while (true) {
      size_t son = 2 * hole + 1;
      if (son >= heap_.size()) break;
      if (son + 1 < heap_.size() && Ahead<kForward>(heap_[son + 1], heap_[son])) ++son;
      if (Ahead<kForward>(slot, heap_[son])) break;
      heap_[hole] = heap_[son];
      hole = son;
    }
    heap_[hole] = slot;
  }

  template <bool kForward>
  void FindRunnerUp() {
    runner_up_ = heap_.size() > 2 && Ahead<kForward>(heap_[2], heap_[1]) ? 2 : 1;
  }

  // Puts the heap in order after the top child has moved.
  template <bool kForward>
  void AfterStep() {
    Slot* const top = &heap_[0];
    if (top->child->Valid()) [[likely]] {
      if (!Load(top)) return;
      if (heap_.size() == 1 || Ahead<kForward>(*top, heap_[runner_up_])) return;
    } else {
      absl::Status status = top->child->status();
      if (!status.ok()) {
        Fail(std::move(status));
        return;
      }
      *top = heap_.back();
      heap_.pop_back();
      if (heap_.empty()) return;
    }
    SiftDown<kForward>(0);
    FindRunnerUp<kForward>();
  }

  // The children but the current one stand on the other side of the current entry;
  // these move them to where a journey in the other direction would have them. Of
  // entries equal to the current one, those of earlier children lie before it.
  // False after an error.
  bool TurnForward() {
    return Turn<true>([](InternalIterator* child, std::string_view key) { child->Seek(key); },
                      [](InternalIterator* child) { child->Next(); });
  }
  bool TurnBackward() {
    return Turn<false>(
        [](InternalIterator* child, std::string_view key) { child->SeekForPrev(key); },
        [](InternalIterator* child) { child->Prev(); });
  }

  template <bool kForward, typename SeekChild, typename StepChild>
  bool Turn(SeekChild seek, StepChild step) {
    const Slot current = heap_[0];  // its child does not move, so the key stays
    heap_.clear();
    heap_.push_back(current);
    forward_ = kForward;
    for (size_t i = 0; i < children_.size(); ++i) {
      if (i == current.index) continue;
      InternalIterator* const child = children_[i].get();
      seek(child, current.key);
      const bool behind = kForward ? i < current.index : i > current.index;
      if (behind && child->Valid() && IsAt(child->key(), current)) step(child);
      if (!Collect(i)) return false;
    }
    // All others are ahead of the current one, which is on top already.
    Heapify<kForward>();
    assert(heap_[0].index == current.index);
    return true;
  }

  const InternalKeyOrder order_;
  const std::vector<std::unique_ptr<InternalIterator>> children_;
  std::vector<Slot> heap_;
  size_t runner_up_ = 1;
  bool forward_ = true;
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
