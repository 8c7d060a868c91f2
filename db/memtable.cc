#include "db/memtable.h"

#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "table/prefix_hash.h"
#include "util/hash.h"

namespace sievedb {
namespace {

constexpr size_t kFilterFraction = 64;

class MemTableIterator final : public InternalIterator {
 public:
  MemTableIterator(RefPtr<const MemTable> memtable, const EntryTree* tree)
      : memtable_(std::move(memtable)), tree_(tree) {}

  bool Valid() const override { return cursor_.Valid(); }
  void SeekToFirst() override { cursor_ = tree_->First(); }
  void SeekToLast() override { cursor_ = tree_->Last(); }
  void Seek(std::string_view internal_key) override {
    cursor_ = tree_->FindAtOrAfter({UserKey(internal_key), Tag(internal_key)});
  }
  void SeekForPrev(std::string_view internal_key) override {
    cursor_ = tree_->FindAtOrBefore({UserKey(internal_key), Tag(internal_key)});
  }
  void Next() override { cursor_.Next(); }
  void Prev() override { cursor_.Prev(); }
  std::string_view key() const override { return cursor_.entry()->internal_key(); }
  std::string_view value() const override { return cursor_.entry()->value(); }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const RefPtr<const MemTable> memtable_;
  const EntryTree* const tree_;
  EntryTree::Cursor cursor_;
};

}  // namespace

MemTable::MemTable(const InternalKeyOrder& order, uint64_t id, size_t expected_bytes,
                   uint64_t hash_seed, const PrefixExtractor* prefix_extractor)
    : id_(id),
      arena_(expected_bytes),
      order_(order),
      hash_seed_(hash_seed),
      use_filter_(order.user().equal_keys_have_equal_bytes()),
      prefix_extractor_(use_filter_ ? prefix_extractor : nullptr),
      filter_(expected_bytes / kFilterFraction),
      tree_(order, &arena_) {}

void MemTable::Add(uint64_t sequence, EntryType type, std::string_view key,
                   std::string_view value) {
  // Before the entry: who finds it there has no use for the filter, and who relies
  // on the filter acquired a sequence that is published after both.
  if (use_filter_) filter_.Add(Hash64(key, hash_seed_));
  if (prefix_extractor_ != nullptr) AddPrefix(key);
  tree_.Insert(key, MakeTag(sequence, type), value);
  if (type == EntryType::kDelete) tombstones_.fetch_add(1, std::memory_order_relaxed);
}

// Nobody reads it any more, under a guard or not.
MemTable::~MemTable() {
  const RangeTombstones* const tombstones = range_tombstones_.load(std::memory_order_relaxed);
  if (tombstones != nullptr) tombstones->Unref();
}

void MemTable::AddRange(uint64_t sequence, std::string_view begin, std::string_view end) {
  const KeyOrder& order = order_.user();
  if (order.Compare(begin, end) >= 0) return;
  const auto keep = [this](std::string_view bytes) {
    char* const copy = arena_.Allocate(bytes.size());
    if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
    return std::string_view(copy, bytes.size());
  };
  const std::string_view from = keep(begin);
  const std::string_view to = keep(end);
  const RangeTombstones* before = nullptr;
  {
    MutexLock lock(&range_mu_);
    before = range_tombstones_.load(std::memory_order_relaxed);
    range_tombstones_.store(
        RangeTombstones::With(order, before, from, to, sequence, &arena_).release(),
        std::memory_order_release);
  }
  if (before != nullptr) before->RetireRef();
}

void MemTable::AddPrefix(std::string_view key) {
  const std::optional<std::string_view> prefix = prefix_extractor_->Prefix(key);
  if (prefix.has_value() && filter_.Add(PrefixHash(*prefix, hash_seed_))) {
    prefixes_.fetch_add(1, std::memory_order_relaxed);
  }
}

const EntryTree::Entry* MemTable::Find(const Lookup& lookup) const {
  assert(lookup.hash_seed == hash_seed_);
  if (use_filter_ && !filter_.MayContain(lookup.hash)) return nullptr;
  const EntryTree::Entry* const entry =
      tree_.FindAtOrAfter({lookup.user_key, lookup.seek_tag}).entry();
  if (entry == nullptr || !order_.user().Equal(entry->user_key(), lookup.user_key)) return nullptr;
  return entry;
}

void MemTable::Get(Lookup* lookup) const {
  assert(!lookup->decided());
  const RangeTombstones* const tombstones = range_tombstones_.load(std::memory_order_acquire);
  if (tombstones != nullptr) [[unlikely]]
    return GetPast(*tombstones, lookup);
  const EntryTree::Entry* const entry = Find(*lookup);
  if (entry == nullptr) return;
  if (TagType(entry->tag()) == static_cast<uint8_t>(EntryType::kDelete)) {
    lookup->state = Lookup::State::kDeleted;
    return;
  }
  lookup->state = Lookup::State::kFound;
  lookup->value = entry->value();
}

void MemTable::GetPast(const RangeTombstones& tombstones, Lookup* lookup) const {
  lookup->Meet(tombstones);
  const EntryTree::Entry* const entry = Find(*lookup);
  // What is older than a tombstone of this memtable's is hidden by it wherever it is.
  if (entry == nullptr && lookup->tombstone_sequence == 0) return;
  if (entry == nullptr || lookup->HidesTag(entry->tag()) ||
      TagType(entry->tag()) == static_cast<uint8_t>(EntryType::kDelete)) {
    lookup->state = Lookup::State::kDeleted;
    return;
  }
  lookup->state = Lookup::State::kFound;
  lookup->value = entry->value();
}

bool MemTable::Contains(const Lookup& lookup) const {
  if (Find(lookup) != nullptr) return true;
  const RangeTombstones* const tombstones = range_tombstones_.load(std::memory_order_acquire);
  return tombstones != nullptr && tombstones->Covering(lookup.user_key, lookup.sequence) != 0;
}

std::unique_ptr<InternalIterator> MemTable::NewIterator() const {
  return std::make_unique<MemTableIterator>(RefPtr<const MemTable>::Share(this), &tree_);
}

RefPtr<const RangeTombstones> MergeRangeTombstones(const InternalKeyOrder& order,
                                                   absl::Span<const RefPtr<MemTable>> memtables,
                                                   const std::vector<uint64_t>& snapshots) {
  RangeTombstoneMerger merger(order.user(), snapshots);
  for (const RefPtr<MemTable>& memtable : memtables) {
    if (const auto tombstones = memtable->range_tombstones()) merger.Add(*tombstones);
  }
  return merger.Finish();
}

}  // namespace sievedb
