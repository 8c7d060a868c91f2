#include "db/version_iterator.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_format.h"
#include "util/escape.h"

namespace sievedb {
namespace {

constexpr size_t kMaxKeyBytesInMessage = 64;

std::string_view LargestUserKey(const FileRef& file) { return UserKey(file->largest); }

// The first i of [begin, end) that does not end before user_key, or end.
size_t FindByKey(const KeyOrder& order, absl::Span<const FileRef> files, size_t begin, size_t end,
                 std::string_view user_key) {
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    const int r = order.Compare(LargestUserKey(files[middle]), user_key);
    if (r < 0 || (r == 0 && files[middle]->largest_is_outside())) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

class RunIterator final : public InternalIterator {
 public:
  RunIterator(const InternalKeyOrder& order, const SortedRun& run, TableOpener* opener,
              const ReadOptions& options, bool for_compaction)
      : order_(order),
        run_(run),
        opener_(opener),
        options_(options),
        for_compaction_(for_compaction) {}

  bool Valid() const override { return deferred_ || (table_ != nullptr && table_->Valid()); }
  std::string_view key() const override { return deferred_ ? Border() : table_->key(); }
  std::string_view value() const override { return table_->value(); }
  absl::Status status() const override {
    if (!status_.ok()) return status_;
    return table_ == nullptr || deferred_ ? absl::OkStatus() : table_->status();
  }

  void AllowDeferral() override { may_defer_ = true; }
  bool deferred() const override { return deferred_; }
  void Resolve() override {
    if (!deferred_) return;
    const std::string_view border = Border();
    deferred_ = false;
    if (!Open(border_index_)) return;
    forward_ ? table_->SeekToFirst() : table_->SeekToLast();
    if (!KeepsTo(border)) return;
    forward_ ? SkipForward() : SkipBackward();
  }

  void SeekToFirst() override { GoToBorder(0, /*forward=*/true); }
  void SeekToLast() override { GoToBorder(run_.files.size() - 1, /*forward=*/false); }

  void Seek(std::string_view internal_key) override {
    const size_t index = std::exchange(prepared_, false)
                             ? prepared_index_
                             : FindFile(order_.user(), run_, UserKey(internal_key));
    if (index < run_.files.size() && !BeginsBefore(index, internal_key)) {
      return GoToBorder(index, /*forward=*/true);
    }
    deferred_ = false;
    if (!Open(index)) return;
    table_->Seek(internal_key);
    SkipForward();
  }

  bool PrepareSeek(std::string_view internal_key) override {
    if (!prepared_) {
      prepared_ = true;
      deferred_ = false;
      prepared_index_ = FindFile(order_.user(), run_, UserKey(internal_key));
      prepare_table_ = prepared_index_ < run_.files.size() &&
                       BeginsBefore(prepared_index_, internal_key) && Open(prepared_index_);
    }
    return prepare_table_ && table_->PrepareSeek(internal_key);
  }

  void SeekForPrev(std::string_view internal_key) override {
    const size_t index = FindFile(order_.user(), run_, UserKey(internal_key));
    if (index == run_.files.size()) return SeekToLast();
    if (!BeginsBefore(index, internal_key) &&
        order_.Compare(run_.files[index]->smallest, internal_key) != 0) {
      return GoToBorder(index - 1, /*forward=*/false);
    }
    deferred_ = false;
    if (!Open(index)) return;
    table_->SeekForPrev(internal_key);
    SkipBackward();
  }

  void Next() override {
    assert(Valid());
    table_->Next();
    if (!table_->Valid()) [[unlikely]]
      SkipForward();
  }

  bool NextKey(std::string_view* key) override {
    assert(Valid() && !deferred_);
    if (table_->NextKey(key)) [[likely]]
      return true;
    SkipForward();
    if (!Valid()) return false;
    *key = table_->key();
    return true;
  }

  void Prev() override {
    assert(Valid());
    table_->Prev();
    if (!table_->Valid()) [[unlikely]]
      SkipBackward();
  }

 private:
  // Whether the file at index begins before internal_key. That word arrays mostly
  // know, without a look at the file's description.
  bool BeginsBefore(size_t index, std::string_view internal_key) const {
    const std::string_view user_key = UserKey(internal_key);
    const size_t skip = run_.prefix.size();
    if (run_.smallest_words != nullptr && user_key.substr(0, skip) == run_.prefix) {
      const uint64_t word = order_.user().Word(user_key, skip);
      if (word != run_.smallest_words[index]) return run_.smallest_words[index] < word;
    }
    return order_.Compare(run_.files[index]->smallest, internal_key) < 0;
  }

  // To the first entry of the file at index and those behind it, or the last one of it
  // and those before it. Below the first, index - 1 is past every file.
  void GoToBorder(size_t index, bool forward) {
    status_ = absl::OkStatus();
    deferred_ = false;
    if (index >= run_.files.size()) {
      table_.reset();
      return;
    }
    border_index_ = index;
    forward_ = forward;
    deferred_ = true;
    if (!may_defer_) Resolve();
  }

  // Where deferred_: what the description says.
  std::string_view Border() const {
    const FileMeta& file = *run_.files[border_index_];
    return forward_ ? file.smallest : file.largest;
  }

  // False, with an error, where the table goes beyond the border that its description
  // says: what a merge has shown by now may be out of order.
  bool KeepsTo(std::string_view border) {
    // A key too short is reported by who shows it.
    if (!table_->Valid() || table_->key().size() < kTagBytes) return true;
    const int r = order_.Compare(table_->key(), border);
    if (forward_ ? r >= 0 : r <= 0) return true;
    status_ = absl::DataLossError(absl::StrFormat(
        "table %06d: expected keys %s \"%s\" at sequence %d, found \"%s\" at %d",
        run_.files[index_]->number, forward_ ? "from" : "up to",
        Escape(UserKey(border).substr(0, kMaxKeyBytesInMessage)), TagSequence(Tag(border)),
        Escape(UserKey(table_->key()).substr(0, kMaxKeyBytesInMessage)),
        TagSequence(Tag(table_->key()))));
    table_.reset();
    return false;
  }

  // Makes the table at index the current one. False where there is none or it
  // can't be opened.
  bool Open(size_t index) {
    status_ = absl::OkStatus();
    if (index >= run_.files.size()) {
      table_.reset();
      return false;
    }
    if (table_ != nullptr && index == index_) return true;
    table_.reset();
    index_ = index;
    absl::StatusOr<const TableReader*> table = OpenForRead(opener_, *run_.files[index], options_);
    if (!table.ok()) {
      status_ = std::move(table).status();
      return false;
    }
    table_ = (*table)->NewIterator(options_, for_compaction_);
    return true;
  }

  // An error stays where it is: what follows it must not be taken for the next
  // entry.
  void SkipForward() {
    while (!table_->Valid() && table_->status().ok()) {
      if (!Open(index_ + 1)) return;
      table_->SeekToFirst();
    }
  }

  void SkipBackward() {
    while (!table_->Valid() && table_->status().ok()) {
      // Below the first, index_ - 1 is past every file.
      if (!Open(index_ - 1)) return;
      table_->SeekToLast();
    }
  }

  const InternalKeyOrder order_;
  const SortedRun run_;
  TableOpener* const opener_;
  const ReadOptions options_;
  const bool for_compaction_;
  bool may_defer_ = false;
  bool deferred_ = false;    // stands before a border, whatever table_ is
  bool forward_ = true;      // where deferred_: to the file's first entry, not its last
  size_t border_index_ = 0;  // where deferred_: the file
  bool prepared_ = false;    // since the last Seek
  bool prepare_table_ = false;
  size_t prepared_index_ = 0;
  size_t index_ = 0;
  std::unique_ptr<InternalIterator> table_;  // of the file at index_, or null
  absl::Status status_;
};

}  // namespace

size_t FindFileByWord(const KeyOrder& order, const SortedRun& run, std::string_view user_key,
                      uint64_t word) {
  const size_t n = run.files.size();
  if (run.largest_words == nullptr) return FindByKey(order, run.files, 0, n, user_key);
  const size_t begin = CountBelow(run.largest_words, n, word);
  if (begin == n || run.largest_words[begin] != word) return begin;
  // Equal words say nothing: whole keys decide among the files that share it.
  size_t end = begin + 1;
  if (end < n && run.largest_words[end] == word) {
    end += word == ~uint64_t{0} ? n - end : CountBelow(run.largest_words + end, n - end, word + 1);
  }
  return FindByKey(order, run.files, begin, end, user_key);
}

size_t FindFile(const KeyOrder& order, const SortedRun& run, std::string_view user_key) {
  const size_t skip = run.prefix.size();
  if (run.largest_words == nullptr || user_key.substr(0, skip) != run.prefix) {
    return FindByKey(order, run.files, 0, run.files.size(), user_key);
  }
  return FindFileByWord(order, run, user_key, order.Word(user_key, skip));
}

absl::StatusOr<const TableReader*> OpenForRead(TableOpener* opener, const FileMeta& file,
                                               const ReadOptions& options) {
  const TableReader* table = file.table.load(std::memory_order_acquire);
  if (table != nullptr) [[likely]]
    return table;
  if (options.cache_only) {
    return absl::UnavailableError(
        absl::StrFormat("table %06d is not open, and cache_only forbids to open it", file.number));
  }
  return opener->Get(file);
}

std::unique_ptr<InternalIterator> NewRunIterator(const InternalKeyOrder& order,
                                                 const SortedRun& run, TableOpener* opener,
                                                 const ReadOptions& options, bool for_compaction) {
  return std::make_unique<RunIterator>(order, run, opener, options, for_compaction);
}

}  // namespace sievedb
