#include "db/prefix_scope.h"

#include <cassert>
#include <optional>
#include <utility>

#include "table/prefix_hash.h"

namespace sievedb {

bool PrefixScope::Enter(std::string_view user_key) {
  const std::optional<std::string_view> prefix = extractor_->Prefix(user_key);
  if (!prefix.has_value()) {
    Leave();
    return false;
  }
  // What was answered for it still holds.
  if (active_ && *prefix == prefix_) return true;
  prefix_.assign(prefix->data(), prefix->size());
  hash_ = PrefixHash(prefix_, hash_seed_);
  active_ = true;
  ++generation_;
  return true;
}

void PrefixScope::Leave() {
  active_ = false;
  ++generation_;
}

bool PrefixScope::Holds(std::string_view user_key) const {
  assert(active_);
  return extractor_->Prefix(user_key) == std::optional<std::string_view>(prefix_);
}

void PrefixScope::Prefetch(const TableReader& table) const {
  if (active_) table.PrefetchPrefix(prefix_, hash_);
}

bool PrefixScope::Denies(const TableReader& table) const {
  if (!active_ || !table.knows_prefixes()) return false;
  const bool denies = !table.MayContainPrefix(prefix_, hash_);
  Count(statistics_, Counter::kPrefixChecks);
  if (denies) Count(statistics_, Counter::kPrefixSkips);
  return denies;
}

std::unique_ptr<PrefixScope> NewPrefixScope(const PrefixExtractor* extractor,
                                            const ReadOptions& options, uint64_t hash_seed,
                                            StatisticsImpl* statistics) {
  if (extractor == nullptr) return nullptr;
  auto scope = std::make_unique<PrefixScope>(extractor, hash_seed, statistics);
  if (options.prefix_same_as_start) return scope;
  if (!options.lower_bound.has_value() || !options.upper_bound.has_value()) return nullptr;
  if (!scope->Enter(*options.lower_bound) || !scope->Holds(*options.upper_bound)) return nullptr;
  return scope;
}

namespace {

// A RunIterator that asks each table's filter before it goes into it.
class PrefixRunIterator final : public InternalIterator {
 public:
  PrefixRunIterator(const InternalKeyOrder& order, const SortedRun& run, TableOpener* opener,
                    const ReadOptions& options, const PrefixScope* scope)
      : order_(order), run_(run), opener_(opener), options_(options), scope_(*scope) {}

  bool Valid() const override { return open_ && table_->Valid(); }
  std::string_view key() const override { return table_->key(); }
  std::string_view value() const override { return table_->value(); }
  absl::Status status() const override {
    if (!status_.ok()) return status_;
    return open_ ? table_->status() : absl::OkStatus();
  }

  void SeekToFirst() override {
    assert(!scope_.active());
    aimed_ = false;
    if (!Open(0)) return;
    table_->SeekToFirst();
    SkipForward();
  }

  void SeekToLast() override {
    assert(!scope_.active());
    aimed_ = false;
    if (!Open(run_.files.size() - 1)) return;
    table_->SeekToLast();
    SkipBackward();
  }

  void Seek(std::string_view internal_key) override {
    const size_t index = std::exchange(aimed_, false) ? aim_ : FileFor(internal_key);
    if (!Open(index)) return;
    table_->Seek(internal_key);
    SkipForward();
  }

  // First the filters' lines of all runs, then what lies in the tables that are left.
  bool PrepareSeek(std::string_view internal_key) override {
    if (aimed_) return Open(aim_) && table_->PrepareSeek(internal_key);
    aimed_ = true;
    aim_ = FileFor(internal_key);
    if (aim_ == run_.files.size()) return false;
    const TableReader* const table = run_.files[aim_]->table.load(std::memory_order_acquire);
    if (table != nullptr) scope_.Prefetch(*table);
    return true;
  }

  void SeekForPrev(std::string_view internal_key) override {
    aimed_ = false;
    size_t index = FileFor(internal_key);
    // Where the key lies between two tables, what comes before it is in the first.
    if (index == run_.files.size() ||
        order_.user().Compare(UserKey(run_.files[index]->smallest), UserKey(internal_key)) > 0) {
      --index;  // below the first, it is past every file
    }
    if (!Open(index)) return;
    table_->SeekForPrev(internal_key);
    SkipBackward();
  }

  void Next() override {
    assert(Valid());
    aimed_ = false;
    table_->Next();
    if (!table_->Valid()) [[unlikely]]
      SkipForward();
  }

  void Prev() override {
    assert(Valid());
    aimed_ = false;
    table_->Prev();
    if (!table_->Valid()) [[unlikely]]
      SkipBackward();
  }

 private:
  size_t FileFor(std::string_view internal_key) const {
    return FindFile(order_.user(), run_, UserKey(internal_key));
  }

  // Makes the table at index the current one. False where there is none, it is denied,
  // or it can't be opened.
  bool Open(size_t index) {
    status_ = absl::OkStatus();
    open_ = false;
    if (index >= run_.files.size()) return false;
    if (index != asked_ || scope_.generation() != asked_generation_) {
      absl::StatusOr<const TableReader*> table = OpenForRead(opener_, *run_.files[index], options_);
      if (!table.ok()) {
        status_ = std::move(table).status();
        return false;
      }
      asked_ = index;
      asked_generation_ = scope_.generation();
      reader_ = *table;
      // Where range tombstones widen a table's range, its keys may all lie before the
      // prefix, and the next table's have it.
      denied_ = run_.files[index]->range_tombstones == 0 && scope_.Denies(*reader_);
    }
    if (denied_) return false;
    if (table_ == nullptr || index != index_) {
      table_ = reader_->NewIterator(options_);
      index_ = index;
    }
    open_ = true;
    return true;
  }

  // As in RunIterator, an error stays where it is.
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
  const PrefixScope& scope_;
  // The table that was asked last, for which prefix, and what it said.
  size_t asked_ = 0;
  uint64_t asked_generation_ = 0;  // 0: none yet
  const TableReader* reader_ = nullptr;
  bool denied_ = false;
  // The last table that was gone into; only while open_ it is what is shown.
  size_t index_ = 0;
  std::unique_ptr<InternalIterator> table_;
  bool open_ = false;
  bool aimed_ = false;  // PrepareSeek has found that the next Seek goes to aim_
  size_t aim_ = 0;
  absl::Status status_;
};

class PrefixMemTableIterator final : public InternalIterator {
 public:
  PrefixMemTableIterator(RefPtr<const MemTable> memtable, const PrefixScope* scope)
      : memtable_(std::move(memtable)), scope_(*scope), entries_(memtable_->NewIterator()) {}

  bool Valid() const override { return open_ && entries_->Valid(); }
  void SeekToFirst() override {
    open_ = true;
    entries_->SeekToFirst();
  }
  void SeekToLast() override {
    open_ = true;
    entries_->SeekToLast();
  }
  void Seek(std::string_view internal_key) override {
    open_ = !scope_.Denies(*memtable_);
    if (open_) entries_->Seek(internal_key);
  }
  void SeekForPrev(std::string_view internal_key) override {
    open_ = !scope_.Denies(*memtable_);
    if (open_) entries_->SeekForPrev(internal_key);
  }
  void Next() override { entries_->Next(); }
  void Prev() override { entries_->Prev(); }
  std::string_view key() const override { return entries_->key(); }
  std::string_view value() const override { return entries_->value(); }
  absl::Status status() const override { return entries_->status(); }

 private:
  const RefPtr<const MemTable> memtable_;
  const PrefixScope& scope_;
  const std::unique_ptr<InternalIterator> entries_;
  bool open_ = false;
};

}  // namespace

std::unique_ptr<InternalIterator> NewPrefixRunIterator(const InternalKeyOrder& order,
                                                       const SortedRun& run, TableOpener* opener,
                                                       const ReadOptions& options,
                                                       const PrefixScope* scope) {
  return std::make_unique<PrefixRunIterator>(order, run, opener, options, scope);
}

std::unique_ptr<InternalIterator> NewPrefixMemTableIterator(RefPtr<const MemTable> memtable,
                                                            const PrefixScope* scope) {
  return std::make_unique<PrefixMemTableIterator>(std::move(memtable), scope);
}

}  // namespace sievedb
