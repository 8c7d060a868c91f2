#include "db/db_iterator.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "table/key_words.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Versions of one key that are stepped over before a seek is tried instead.
constexpr int kMaxSteps = 8;
// Before and behind all entries of a user key.
constexpr uint64_t kFirstTag = ~uint64_t{0};
constexpr uint64_t kLastTag = 0;

constexpr uint64_t kCountsPerFlush = 256;  // steps counted here before they are told
constexpr size_t kMaxKeptValueBytes = 1 << 20;
constexpr size_t kMaxKeyBytesInMessage = 64;

absl::Status MalformedKey(std::string_view internal_key) {
  if (internal_key.size() < kTagBytes) {
    return absl::DataLossError(absl::StrFormat("internal key of %d bytes, expected at least %d",
                                               internal_key.size(), kTagBytes));
  }
  const std::string_view key = UserKey(internal_key);
  return absl::DataLossError(
      absl::StrFormat("entry of key \"%s\"%s at sequence %d has type %d, expected at most %d",
                      Escape(key.substr(0, kMaxKeyBytesInMessage)),
                      key.size() > kMaxKeyBytesInMessage ? " (its beginning)" : "",
                      TagSequence(Tag(internal_key)), TagType(Tag(internal_key)), kMaxEntryType));
}

// A user key to compare others with. Their words mostly decide, so the bytes are
// kept only where the words do not hold all of them.
class SavedKey {
 public:
  explicit SavedKey(const KeyOrder& order) : order_(order) {}

  void Set(std::string_view key, const KeyWords& words) {
    words_ = words;
    bytes_ = key.size();
    in_words_ = order_.has_words() && key.size() <= kKeyWordsBytes;
    if (!in_words_) rest_.assign(key.data(), key.size());
  }
  bool Is(std::string_view key, const KeyWords& words) const {
    if (words != words_) return false;
    if (in_words_) return key.size() == bytes_;
    return order_.Equal(key, rest_);
  }

 private:
  const KeyOrder order_;
  KeyWords words_;
  size_t bytes_ = 0;
  bool in_words_ = false;
  std::string rest_;
};

// A bound of the iteration, with its words.
struct Bound {
  Bound(const KeyOrder& order, const std::optional<std::string>& bound)
      : key(bound), words(key ? WordsOf(order, *key) : KeyWords()) {}

  const std::optional<std::string> key;
  const KeyWords words;
};

// Going forward, entries_ stands on the entry that is shown, and nothing is copied
// but what tells the next key from this one. Going backward, a key's newest version
// comes last, so entries_ stands before all of the shown key's entries and key and
// value are copies.
class DBIterator final : public Iterator {
 public:
  DBIterator(const InternalKeyOrder& order, const ReadOptions& options, StatisticsImpl* statistics,
             std::function<absl::StatusOr<IteratorSource>()> make_source,
             std::unique_ptr<PrefixScope> scope)
      : order_(order),
        of_snapshot_(options.snapshot != nullptr),
        lower_(order.user(), options.lower_bound),
        upper_(order.user(), options.upper_bound),
        statistics_(statistics),
        scope_(std::move(scope)),
        stays_in_prefix_(scope_ != nullptr && options.prefix_same_as_start),
        make_source_(std::move(make_source)),
        skip_(order.user()) {
    status_ = Renew();
  }

  ~DBIterator() override { FlushCounts(); }

  bool Valid() const override { return valid_; }
  absl::Status status() const override { return status_; }
  std::string_view key() const override {
    assert(valid_);
    return key_;
  }
  std::string_view value() const override {
    assert(valid_);
    return forward_ ? entries_->value() : std::string_view(saved_value_);
  }

  void SeekToFirst() override {
    const LatencyTimer timer(statistics_, Latency::kSeek, LatencyTimer::When::kSampled);
    if (!BeginSeek()) return;
    LeavePrefix();
    SeekFirst();
    EnterPrefixFound();
  }

  void Seek(std::string_view target) override {
    const LatencyTimer timer(statistics_, Latency::kSeek, LatencyTimer::When::kSampled);
    if (!BeginSeek()) return;
    EnterPrefix(target);
    if (lower_.key && order_.user().Compare(target, *lower_.key) < 0) {
      SeekFirst();
    } else {
      SeekFrom(target);
    }
  }

  void SeekToLast() override {
    const LatencyTimer timer(statistics_, Latency::kSeek, LatencyTimer::When::kSampled);
    if (!BeginSeek()) return;
    LeavePrefix();
    SeekLast();
    EnterPrefixFound();
  }

  void SeekForPrev(std::string_view target) override {
    const LatencyTimer timer(statistics_, Latency::kSeek, LatencyTimer::When::kSampled);
    if (!BeginSeek()) return;
    EnterPrefix(target);
    if (upper_.key && order_.user().Compare(target, *upper_.key) >= 0) {
      SeekLast();
    } else {
      entries_->SeekForPrev(SeekKey(target, kLastTag));
      FindBackward();
    }
  }

  void Next() override {
    assert(valid_);
    Step(&nexts_);
    std::string_view entry;
    if (forward_) [[likely]] {
      skip_.Set(key_, words_);
      if (!entries_->NextKey(&entry)) return EndForward();
    } else {
      skip_.Set(saved_key_, WordsOf(order_.user(), saved_key_));
      entries_->Seek(SeekKey(saved_key_, kLastTag));
      if (!entries_->Valid()) return EndForward();
      entry = entries_->key();
    }
    FindForward(entry, /*skipping=*/true);
  }

  void Prev() override {
    assert(valid_);
    Step(&prevs_);
    if (forward_) entries_->SeekForPrev(SeekKey(key_, kFirstTag));
    FindBackward();
  }

  absl::Status Refresh() override {
    if (of_snapshot_) {
      return absl::InvalidArgumentError("an iterator of a snapshot cannot be refreshed");
    }
    valid_ = false;
    status_ = Renew();
    return status_;
  }

 private:
  // On an error what was read before stays.
  absl::Status Renew() {
    absl::StatusOr<IteratorSource> source = make_source_();
    if (!source.ok()) return std::move(source).status();
    // The old one is in source then, where its entries go before its view does.
    std::swap(source_, *source);
    entries_ = source_.entries.get();
    return absl::OkStatus();
  }

  // False where there is nothing to seek in, which status_ explains.
  bool BeginSeek() {
    Count(statistics_, Counter::kSeeks);
    valid_ = false;
    if (entries_ == nullptr) return false;
    status_ = absl::OkStatus();
    return true;
  }

  // Where keys of one prefix only are shown, of which: that of a seek's target, or of the
  // key that was found without one. in_prefix_ stays false for a key that has none.
  void EnterPrefix(std::string_view target) {
    if (stays_in_prefix_) in_prefix_ = scope_->Enter(target);
  }
  void LeavePrefix() {
    if (stays_in_prefix_) scope_->Leave();
    in_prefix_ = false;
  }
  void EnterPrefixFound() {
    if (valid_) EnterPrefix(key_);
  }
  bool IsBeyondPrefix(std::string_view key) const { return in_prefix_ && !scope_->Holds(key); }

  void Step(uint64_t* counter) {
    if (++*counter >= kCountsPerFlush) FlushCounts();
  }
  void FlushCounts() {
    if (nexts_ != 0) Count(statistics_, Counter::kNexts, std::exchange(nexts_, 0));
    if (prevs_ != 0) Count(statistics_, Counter::kPrevs, std::exchange(prevs_, 0));
  }

  // The internal key as bytes that stay until the next call. user_key may lie in
  // entries_.
  std::string_view SeekKey(std::string_view user_key, uint64_t tag) {
    seek_key_.clear();
    AppendInternalKey(&seek_key_, user_key, tag);
    return seek_key_;
  }

  // Not Valid: the end, or an error.
  void End(absl::Status status = absl::OkStatus()) {
    valid_ = false;
    status_ = std::move(status);
    FlushCounts();
  }

  // Whether entries_, which is Valid(), stands on a key that can be an internal one;
  // ends the iteration with kDataLoss where not.
  bool IsWellFormed(std::string_view internal_key) {
    if (internal_key.size() >= kTagBytes && TagType(Tag(internal_key)) <= kMaxEntryType)
        [[likely]] {
      return true;
    }
    End(MalformedKey(internal_key));
    return false;
  }

  bool IsBeyondUpper(std::string_view key, const KeyWords& words) const {
    if (!upper_.key) return false;
    if (words != upper_.words) return !KeyWords::Before(words, upper_.words);
    return order_.user().Compare(key, *upper_.key) >= 0;
  }
  bool IsBelowLower(std::string_view key, const KeyWords& words) const {
    if (!lower_.key) return false;
    if (words != lower_.words) return KeyWords::Before(words, lower_.words);
    return order_.user().Compare(key, *lower_.key) < 0;
  }

  void SeekFirst() {
    if (lower_.key) {
      SeekFrom(*lower_.key);
    } else {
      entries_->SeekToFirst();
      FindAfterSeek();
    }
  }

  // Requires: target is not below the lower bound.
  void SeekFrom(std::string_view target) {
    if (upper_.key && order_.user().Compare(target, *upper_.key) >= 0) return End();
    entries_->Seek(SeekKey(target, SeekTag(source_.sequence)));
    FindAfterSeek();
  }

  void SeekLast() {
    if (upper_.key) {
      entries_->SeekForPrev(SeekKey(*upper_.key, kFirstTag));
    } else {
      entries_->SeekToLast();
    }
    FindBackward();
  }

  // The end going forward, or an error, whichever entries_ met.
  void EndForward() {
    forward_ = true;
    End(entries_->status());
  }

  void FindAfterSeek() {
    if (!entries_->Valid()) return EndForward();
    FindForward(entries_->key(), /*skipping=*/false);
  }

  // Moves entries_, which stands on internal_key, on to the next entry that is shown,
  // itself included; where skipping, not one of skip_'s key.
  void FindForward(std::string_view internal_key, bool skipping) {
    forward_ = true;
    valid_ = false;
    KeyWords run;   // of the key whose entries are stepped over
    int steps = 0;  // over entries of that key
    for (bool on_entry = true; on_entry;) {
      if (!IsWellFormed(internal_key)) return;
      const std::string_view key = UserKey(internal_key);
      const KeyWords words = InternalKeyWords(order_.user(), internal_key);
      if (IsBeyondUpper(key, words) || IsBeyondPrefix(key)) return End();
      const uint64_t tag = Tag(internal_key);
      const bool hidden = skipping && skip_.Is(key, words);
      if (!hidden && TagSequence(tag) <= source_.sequence) {
        if (TagType(tag) == static_cast<uint8_t>(EntryType::kPut)) [[likely]] {
          key_ = key;
          words_ = words;
          valid_ = true;
          return;
        }
        // A tombstone hides all that follows of its key.
        skip_.Set(key, words);
        skipping = true;
      }
      // Keys of the same words may be taken for one here: a seek to the place of
      // the entry's own key is right in any case, it only costs more.
      if (words != run) {
        run = words;
        steps = 0;
      }
      if (++steps <= kMaxSteps) {
        on_entry = entries_->NextKey(&internal_key);
      } else {
        steps = 0;
        entries_->Seek(SeekKey(key, hidden ? kLastTag : SeekTag(source_.sequence)));
        on_entry = entries_->Valid();
        if (on_entry) internal_key = entries_->key();
      }
    }
    EndForward();
  }

  // Moves entries_ back over the entries of the key that it stands on, and further
  // keys, until one of them is shown; saves it.
  void FindBackward() {
    forward_ = false;
    valid_ = false;
    while (entries_->Valid()) {
      const std::string_view internal_key = entries_->key();
      if (!IsWellFormed(internal_key)) return;
      const std::string_view key = UserKey(internal_key);
      if (IsBelowLower(key, InternalKeyWords(order_.user(), internal_key)) || IsBeyondPrefix(key)) {
        return End();
      }
      saved_key_.assign(key.data(), key.size());
      bool shown = false;
      if (!SaveVersion(&shown)) return;
      if (shown) {
        key_ = saved_key_;
        valid_ = true;
        return;
      }
    }
    End(entries_->status());
  }

  // Moves entries_ back over all entries of saved_key_, and saves the value of the
  // newest that is seen, where that is not a tombstone. False after an error.
  bool SaveVersion(bool* shown) {
    if (saved_value_.capacity() > kMaxKeptValueBytes) std::string().swap(saved_value_);
    for (int steps = 0; entries_->Valid(); ++steps) {
      const std::string_view internal_key = entries_->key();
      if (!IsWellFormed(internal_key)) return false;
      if (!order_.user().Equal(UserKey(internal_key), saved_key_)) return true;
      if (steps >= kMaxSteps) return SaveVersionBySeek(shown);
      const uint64_t tag = Tag(internal_key);
      if (TagSequence(tag) <= source_.sequence) TakeVersion(tag, shown);
      entries_->Prev();
    }
    // The beginning is no error: what was saved is the first key.
    absl::Status status = entries_->status();
    if (status.ok()) return true;
    End(std::move(status));
    return false;
  }

  // The same for a key of many versions: seeks to the one that is seen, and then to
  // before them all.
  bool SaveVersionBySeek(bool* shown) {
    *shown = false;
    entries_->Seek(SeekKey(saved_key_, SeekTag(source_.sequence)));
    if (entries_->Valid()) {
      const std::string_view internal_key = entries_->key();
      if (!IsWellFormed(internal_key)) return false;
      if (order_.user().Equal(UserKey(internal_key), saved_key_)) {
        TakeVersion(Tag(internal_key), shown);
      }
    } else if (absl::Status status = entries_->status(); !status.ok()) {
      End(std::move(status));
      return false;
    }
    entries_->SeekForPrev(SeekKey(saved_key_, kFirstTag));
    if (entries_->Valid()) return true;
    absl::Status status = entries_->status();
    if (status.ok()) return true;
    End(std::move(status));
    return false;
  }

  void TakeVersion(uint64_t tag, bool* shown) {
    *shown = TagType(tag) == static_cast<uint8_t>(EntryType::kPut);
    if (!*shown) return;
    // The bytes too: a comparator may take other bytes for the same key.
    const std::string_view key = UserKey(entries_->key());
    if (!order_.user().equal_keys_have_equal_bytes()) saved_key_.assign(key.data(), key.size());
    const std::string_view value = entries_->value();
    saved_value_.assign(value.data(), value.size());
  }

  const InternalKeyOrder order_;
  const bool of_snapshot_;
  const Bound lower_;
  const Bound upper_;
  StatisticsImpl* const statistics_;
  const std::unique_ptr<PrefixScope> scope_;  // null: none; source_ refers to it
  const bool stays_in_prefix_;
  bool in_prefix_ = false;  // of scope_, since the last seek
  // Outlives the sources it made: they may refer to what it captured.
  const std::function<absl::StatusOr<IteratorSource>()> make_source_;
  IteratorSource source_;
  InternalIterator* entries_ = nullptr;  // source_'s; null where there never was one

  bool valid_ = false;
  bool forward_ = true;
  absl::Status status_;
  std::string_view key_;   // what is shown: entries_'s going forward, else saved_key_
  KeyWords words_;         // going forward: key_'s
  SavedKey skip_;          // going forward: the key whose older versions are hidden
  std::string saved_key_;  // going backward: what is shown
  std::string saved_value_;
  std::string seek_key_;
  uint64_t nexts_ = 0;  // counted, not yet told to statistics_
  uint64_t prevs_ = 0;
};

}  // namespace

std::unique_ptr<Iterator> NewDBIterator(const InternalKeyOrder& order, const ReadOptions& options,
                                        StatisticsImpl* statistics,
                                        std::function<absl::StatusOr<IteratorSource>()> make_source,
                                        std::unique_ptr<PrefixScope> scope) {
  return std::make_unique<DBIterator>(order, options, statistics, std::move(make_source),
                                      std::move(scope));
}

}  // namespace sievedb
