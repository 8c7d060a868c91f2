#include "db/compaction_iterator.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_format.h"
#include "util/escape.h"

namespace sievedb {

CompactionIterator::CompactionIterator(
    const InternalKeyOrder& order, InternalIterator* input, std::vector<uint64_t> snapshots,
    absl::AnyInvocable<bool(std::string_view user_key)> key_may_exist_below)
    : order_(order),
      input_(input),
      snapshots_(std::move(snapshots)),
      key_may_exist_below_(std::move(key_may_exist_below)) {
  assert(std::is_sorted(snapshots_.begin(), snapshots_.end()));
}

void CompactionIterator::SeekToFirst() {
  status_ = absl::OkStatus();
  has_current_user_key_ = false;
  next_fragment_ = 0;
  if (begin_ == nullptr) {
    input_->SeekToFirst();
  } else {
    std::string first;
    AppendInternalKey(&first, *begin_, SeekTag(kMaxSequence));
    input_->Seek(first);
  }
  const bool on_entry = input_->Valid();
  FindNext(on_entry, on_entry ? input_->key() : std::string_view());
}

void CompactionIterator::Next() {
  assert(valid_);
  std::string_view internal_key;
  const bool on_entry = input_->NextKey(&internal_key);
  FindNext(on_entry, internal_key);
}

void CompactionIterator::FindNext(bool on_entry, std::string_view internal_key) {
  valid_ = false;
  for (; on_entry; on_entry = input_->NextKey(&internal_key)) {
    if (entries_in_ % kEntriesBetweenChecks == 0 && check_ != nullptr) [[unlikely]] {
      status_ = check_();
      if (!status_.ok()) return;
    }
    bool is_new_user_key;
    if (!CheckKey(internal_key, &is_new_user_key)) return;
    if (end_ != nullptr && is_new_user_key &&
        order_.user().Compare(UserKey(internal_key), *end_) >= 0) {
      return;
    }
    ++entries_in_;
    if (Drop(UserKey(internal_key), current_tag_, is_new_user_key)) continue;
    is_first_version_ = !shown_user_key_;
    shown_user_key_ = true;
    key_ = internal_key;
    value_ = input_->value();
    valid_ = true;
    return;
  }
  status_ = input_->status();
}

bool CompactionIterator::Fail(absl::Status status) {
  status_ = std::move(status);
  return false;
}

bool CompactionIterator::CheckKey(std::string_view internal_key, bool* is_new_user_key) {
  if (internal_key.size() < kTagBytes || TagType(Tag(internal_key)) > kMaxEntryType) [[unlikely]] {
    return Fail(absl::DataLossError(
        absl::StrFormat("compaction input, entry %d: expected an internal key, found \"%s\"",
                        entries_in_ + 1, Escape(internal_key.substr(0, 256)))));
  }
  const std::string_view user_key = UserKey(internal_key);
  const uint64_t tag = Tag(internal_key);
  const KeyWords words = InternalKeyWords(order_.user(), internal_key);
  const int order = !has_current_user_key_    ? 1
                    : words != current_words_ ? (KeyWords::Before(words, current_words_) ? -1 : 1)
                                              : order_.user().Compare(user_key, current_user_key_);
  // One write may come from two sources, so equal keys are in order.
  if (order < 0 || (order == 0 && tag > current_tag_)) [[unlikely]] {
    return Fail(absl::DataLossError(absl::StrFormat(
        "compaction input, entry %d: expected a key after \"%s\" at sequence %d, found \"%s\" at "
        "%d",
        entries_in_ + 1, Escape(std::string_view(current_user_key_).substr(0, 256)),
        TagSequence(current_tag_), Escape(user_key.substr(0, 256)), TagSequence(tag))));
  }
  *is_new_user_key = order != 0;
  current_tag_ = tag;
  current_words_ = words;
  if (*is_new_user_key) {
    // The bytes of the input's key end when it moves on. Once the string is as long
    // as the longest key this allocates nothing.
    current_user_key_.assign(user_key);
    has_current_user_key_ = true;
    shown_user_key_ = false;
  }
  return true;
}

bool CompactionIterator::IsCovered(std::string_view user_key, uint64_t sequence, size_t stripe) {
  const absl::Span<const RangeTombstones::Fragment> fragments = tombstones_->fragments();
  const KeyOrder& order = order_.user();
  while (next_fragment_ < fragments.size() &&
         order.Compare(fragments[next_fragment_].end, user_key) <= 0) {
    ++next_fragment_;
  }
  if (next_fragment_ == fragments.size() ||
      order.Compare(fragments[next_fragment_].begin, user_key) > 0) {
    return false;
  }
  const uint64_t seen = stripe < snapshots_.size() ? snapshots_[stripe] : kMaxSequence;
  return fragments[next_fragment_].NewestSeen(seen) > sequence;
}

bool CompactionIterator::Drop(std::string_view user_key, uint64_t tag, bool is_new_user_key) {
  const size_t stripe = StripeOf(TagSequence(tag));
  if (!is_new_user_key && stripe == last_stripe_) {
    ++dropped_hidden_;
    return true;
  }
  last_stripe_ = stripe;
  if (tombstones_ != nullptr && IsCovered(user_key, TagSequence(tag), stripe)) [[unlikely]] {
    ++dropped_hidden_;
    return true;
  }
  // In the oldest stripe all older versions that come are hidden. In another one,
  // some are kept for a snapshot, and without the tombstone they would come back.
  if (stripe == 0 && TagType(tag) == static_cast<uint8_t>(EntryType::kDelete) &&
      !key_may_exist_below_(user_key)) {
    ++dropped_tombstones_;
    return true;
  }
  return false;
}

}  // namespace sievedb
