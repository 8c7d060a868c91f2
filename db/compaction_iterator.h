#ifndef SIEVEDB_DB_COMPACTION_ITERATOR_H_
#define SIEVEDB_DB_COMPACTION_ITERATOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/key_words.h"
#include "table/range_tombstones.h"

namespace sievedb {

// Decides each entry's fate on its way through a flush or compaction.
//
// Of one user key's versions, the newest that each snapshot (and the present)
// sees is kept, the others are dropped: nobody can see them; and so is what a range
// tombstone hides from all who see it. A tombstone that no
// older snapshot needs is dropped where nothing below can hold its key.
//
// Threads: not safe for concurrent use.
class CompactionIterator {
 public:
  // snapshots: ascending. key_may_exist_below is asked for tombstones only; keys
  // come in order.
  CompactionIterator(const InternalKeyOrder& order, InternalIterator* input,
                     std::vector<uint64_t> snapshots,
                     absl::AnyInvocable<bool(std::string_view user_key)> key_may_exist_below);

  // Called every kEntriesBetweenChecks entries of the input; an error ends the iteration.
  static constexpr uint64_t kEntriesBetweenChecks = 1024;
  void set_check(absl::AnyInvocable<absl::Status()> check) { check_ = std::move(check); }

  // Only user keys [begin, end), null: open. They must outlive the iterator.
  void set_range(const std::string* begin, const std::string* end) {
    begin_ = begin;
    end_ = end;
  }

  // Those of all inputs (null: none): what they hide of the input is dropped.
  void set_range_tombstones(const RangeTombstones* tombstones) { tombstones_ = tombstones; }

  void SeekToFirst();
  bool Valid() const { return valid_; }
  void Next();
  std::string_view key() const { return key_; }  // internal
  std::string_view value() const { return value_; }
  // Whether no version of the current entry's user key was shown before it.
  bool is_first_version() const { return is_first_version_; }
  // kDataLoss for input keys that are malformed or out of order.
  absl::Status status() const { return status_; }

  uint64_t entries_in() const { return entries_in_; }
  uint64_t dropped_hidden() const { return dropped_hidden_; }
  uint64_t dropped_tombstones() const { return dropped_tombstones_; }

 private:
  // The snapshots cut the sequences into stripes: stripe i is what snapshot i sees
  // and the one before it does not; the last one only the present sees. Of each
  // stripe the newest version is all that anybody can see.
  size_t StripeOf(uint64_t sequence) const {
    if (snapshots_.empty()) return 0;
    return static_cast<size_t>(std::lower_bound(snapshots_.begin(), snapshots_.end(), sequence) -
                               snapshots_.begin());
  }
  // Shows the first entry that is kept, from the input's on: internal_key, where it is
  // on_entry.
  void FindNext(bool on_entry, std::string_view internal_key);
  // Looks at the input's entry: false where its key is not in order.
  bool CheckKey(std::string_view internal_key, bool* is_new_user_key);
  bool Drop(std::string_view user_key, uint64_t tag, bool is_new_user_key);
  // Whether all who see an entry of sequence see a range tombstone that hides it.
  // Requires: user keys come in order.
  bool IsCovered(std::string_view user_key, uint64_t sequence, size_t stripe);
  bool Fail(absl::Status status);

  const InternalKeyOrder order_;
  InternalIterator* const input_;
  const std::vector<uint64_t> snapshots_;
  absl::AnyInvocable<bool(std::string_view)> key_may_exist_below_;
  absl::AnyInvocable<absl::Status()> check_;  // null: none
  const std::string* begin_ = nullptr;
  const std::string* end_ = nullptr;
  const RangeTombstones* tombstones_ = nullptr;
  size_t next_fragment_ = 0;  // the first of them that ends after the current user key

  bool valid_ = false;
  std::string_view key_;
  std::string_view value_;
  absl::Status status_;
  bool is_first_version_ = false;
  // The last input entry's, whatever became of it.
  std::string current_user_key_;
  uint64_t current_tag_ = 0;
  KeyWords current_words_;
  bool has_current_user_key_ = false;
  size_t last_stripe_ = 0;       // of the last version that counts for the user key
  bool shown_user_key_ = false;  // whether a version of it was shown
  uint64_t entries_in_ = 0;
  uint64_t dropped_hidden_ = 0;
  uint64_t dropped_tombstones_ = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_DB_COMPACTION_ITERATOR_H_
