#include "table/range_hiding_iterator.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "table/format.h"

namespace sievedb {
namespace {

using Run = RangeTombstoneStack::Run;
using Fragment = RangeTombstones::Fragment;

// Keys [begin, end) (nullopt: open) over which the same tombstones count.
struct Stretch {
  std::optional<std::string_view> begin;
  std::optional<std::string_view> end;
  bool covered_by_newer = false;
  uint64_t own_sequence = 0;  // highest of the own run's tombstones; 0: none

  bool hides_nothing() const { return !covered_by_newer && own_sequence == 0; }
};

class RangeHidingIterator final : public InternalIterator {
 public:
  RangeHidingIterator(const InternalKeyOrder& order, uint64_t sequence,
                      std::shared_ptr<const std::vector<Run>> newer, Run own,
                      std::unique_ptr<InternalIterator> entries)
      : order_(order),
        sequence_(sequence),
        newer_(std::move(newer)),
        own_(std::move(own)),
        entries_(std::move(entries)) {}

  bool Valid() const override { return entries_->Valid(); }
  std::string_view key() const override { return entries_->key(); }
  std::string_view value() const override { return entries_->value(); }
  absl::Status status() const override { return entries_->status(); }

  void SeekToFirst() override {
    entries_->SeekToFirst();
    SkipForward();
  }
  void SeekToLast() override {
    entries_->SeekToLast();
    SkipBackward();
  }
  void Seek(std::string_view internal_key) override {
    entries_->Seek(internal_key);
    SkipForward();
  }
  bool PrepareSeek(std::string_view internal_key) override {
    return entries_->PrepareSeek(internal_key);
  }
  void SeekForPrev(std::string_view internal_key) override {
    entries_->SeekForPrev(internal_key);
    SkipBackward();
  }
  // Only a seek of the caller's may end deferred, not one that skips what is hidden.
  void Next() override {
    entries_->Next();
    SkipForward();
    Resolve();
  }
  void Prev() override {
    entries_->Prev();
    SkipBackward();
    Resolve();
  }

  // A border that is deferred is passed on: what is left out only moves the entry
  // further away from it.
  void AllowDeferral() override { entries_->AllowDeferral(); }
  bool deferred() const override { return entries_->deferred(); }
  void Resolve() override {
    while (entries_->deferred()) {
      entries_->Resolve();
      forward_ ? SkipForward() : SkipBackward();
    }
  }

 private:
  bool IsIn(const Stretch& stretch, std::string_view key) const {
    const KeyOrder& order = order_.user();
    return (!stretch.begin || order.Compare(*stretch.begin, key) <= 0) &&
           (!stretch.end || order.Compare(key, *stretch.end) < 0);
  }

  // Narrows stretch_, which key is in, to where the same of run's tombstones count.
  // Returns the highest sequence that is seen of them there.
  uint64_t Narrow(const Run& run, std::string_view key) {
    const KeyOrder& order = order_.user();
    const auto list = std::partition_point(run.begin(), run.end(), [&](const auto* tombstones) {
      return order.Compare(tombstones->fragments().back().end, key) <= 0;
    });
    if (list == run.end()) {
      RaiseBegin(run.back()->fragments().back().end);
      return 0;
    }
    const absl::Span<const Fragment> fragments = (*list)->fragments();
    const size_t i = (*list)->Find(key);
    if (order.Compare(fragments[i].begin, key) <= 0) {
      RaiseBegin(fragments[i].begin);
      LowerEnd(fragments[i].end);
      return fragments[i].NewestSeen(sequence_);
    }
    LowerEnd(fragments[i].begin);
    if (i > 0) {
      RaiseBegin(fragments[i - 1].end);
    } else if (list != run.begin()) {
      RaiseBegin((*std::prev(list))->fragments().back().end);
    }
    return 0;
  }
  void RaiseBegin(std::string_view begin) {
    if (!stretch_.begin || order_.user().Compare(*stretch_.begin, begin) < 0) {
      stretch_.begin = begin;
    }
  }
  void LowerEnd(std::string_view end) {
    if (!stretch_.end || order_.user().Compare(end, *stretch_.end) < 0) stretch_.end = end;
  }

  // Makes stretch_ one that key is in.
  void Locate(std::string_view key) {
    if (located_ && IsIn(stretch_, key)) return;
    located_ = true;
    stretch_ = {};
    if (newer_ != nullptr) {
      for (const Run& run : *newer_) {
        if (Narrow(run, key) == 0) continue;
        stretch_.covered_by_newer = true;
        return;  // the fragment is a stretch, whatever else covers parts of it
      }
    }
    if (!own_.empty()) stretch_.own_sequence = Narrow(own_, key);
  }

  // Moves on to the first entry that is not hidden.
  void SkipForward() {
    forward_ = true;
    while (entries_->Valid()) {
      const std::string_view internal_key = entries_->key();
      if (internal_key.size() < kTagBytes) return;  // reported by who shows it
      Locate(UserKey(internal_key));
      if (stretch_.covered_by_newer) {
        target_.clear();
        AppendInternalKey(&target_, *stretch_.end, kMaxTag);
        entries_->Seek(target_);
      } else if (!entries_->deferred() && TagSequence(Tag(internal_key)) < stretch_.own_sequence) {
        entries_->Next();
      } else {
        return;
      }
    }
  }

  void SkipBackward() {
    forward_ = false;
    while (entries_->Valid()) {
      const std::string_view internal_key = entries_->key();
      if (internal_key.size() < kTagBytes) return;
      if (entries_->deferred() && Tag(internal_key) == kMaxTag) {
        // The border may be the end of a range, which no entry of it has as its key: what
        // covers the border's key says nothing of those before it.
        return;
      }
      Locate(UserKey(internal_key));
      if (stretch_.covered_by_newer) {
        // Behind the last entry of any key before the stretch.
        target_.clear();
        AppendInternalKey(&target_, *stretch_.begin, kMaxTag);
        entries_->SeekForPrev(target_);
      } else if (!entries_->deferred() && TagSequence(Tag(internal_key)) < stretch_.own_sequence) {
        entries_->Prev();
      } else {
        return;
      }
    }
  }

  const InternalKeyOrder order_;
  const uint64_t sequence_;
  const std::shared_ptr<const std::vector<Run>> newer_;  // null: none
  const Run own_;
  const std::unique_ptr<InternalIterator> entries_;
  bool forward_ = true;  // of the last move
  bool located_ = false;
  Stretch stretch_;  // where located_
  std::string target_;
};

}  // namespace

std::unique_ptr<InternalIterator> RangeTombstoneStack::Hide(
    Run run, std::unique_ptr<InternalIterator> entries) {
  if (runs_ == nullptr && run.empty()) return entries;
  auto hiding =
      std::make_unique<RangeHidingIterator>(order_, sequence_, runs_, run, std::move(entries));
  if (!run.empty()) {
    auto runs = runs_ == nullptr ? std::make_shared<std::vector<Run>>()
                                 : std::make_shared<std::vector<Run>>(*runs_);
    runs->push_back(std::move(run));
    runs_ = std::move(runs);
  }
  return hiding;
}

}  // namespace sievedb
