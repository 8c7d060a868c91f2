#include "db/memtable.h"

#include <cassert>
#include <optional>
#include <utility>

#include "table/prefix_hash.h"
#include "util/hash.h"
#include "util/prefetch.h"

namespace sievedb {
namespace {

constexpr size_t kFilterFraction = 64;

class MemTableIterator final : public InternalIterator {
 public:
  MemTableIterator(RefPtr<const MemTable> memtable, const SkipList* list)
      : memtable_(std::move(memtable)), list_(list) {}

  bool Valid() const override { return node_ != nullptr; }
  void SeekToFirst() override { node_ = list_->First(); }
  void SeekToLast() override { node_ = list_->Last(); }
  void Seek(std::string_view internal_key) override {
    node_ = list_->FindAtOrAfter(TargetOf(internal_key));
  }
  void SeekForPrev(std::string_view internal_key) override {
    node_ = list_->FindAtOrBefore(TargetOf(internal_key));
  }
  void Next() override {
    assert(Valid());
    node_ = node_->next();
    // Null at the end, which prefetch allows.
    if (node_ != nullptr) PrefetchLine(node_->next());
  }
  void Prev() override {
    assert(Valid());
    node_ = list_->FindBefore(TargetOf(node_->internal_key()));
  }
  std::string_view key() const override { return node_->internal_key(); }
  std::string_view value() const override { return node_->value(); }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  SkipList::Target TargetOf(std::string_view internal_key) const {
    return list_->MakeTarget(UserKey(internal_key), Tag(internal_key));
  }

  const RefPtr<const MemTable> memtable_;
  const SkipList* const list_;
  const SkipList::Node* node_ = nullptr;
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
      list_(order, &arena_) {}

void MemTable::Add(uint64_t sequence, EntryType type, std::string_view key,
                   std::string_view value) {
  // Before the entry: who finds it there has no use for the filter, and who relies
  // on the filter acquired a sequence that is published after both.
  if (use_filter_) filter_.Add(Hash64(key, hash_seed_));
  if (prefix_extractor_ != nullptr) AddPrefix(key);
  list_.Insert(key, MakeTag(sequence, type), value);
  if (type == EntryType::kDelete) tombstones_.fetch_add(1, std::memory_order_relaxed);
}

void MemTable::AddPrefix(std::string_view key) {
  const std::optional<std::string_view> prefix = prefix_extractor_->Prefix(key);
  if (prefix.has_value() && filter_.Add(PrefixHash(*prefix, hash_seed_))) {
    prefixes_.fetch_add(1, std::memory_order_relaxed);
  }
}

const SkipList::Node* MemTable::Find(const Lookup& lookup) const {
  assert(lookup.hash_seed == hash_seed_);
  if (use_filter_ && !filter_.MayContain(lookup.hash)) return nullptr;
  const SkipList::Node* const node =
      list_.FindAtOrAfter(list_.MakeTarget(lookup.user_key, lookup.seek_tag));
  if (node == nullptr || node->word() != lookup.word) return nullptr;
  return order_.user().Equal(node->user_key(), lookup.user_key) ? node : nullptr;
}

void MemTable::Get(Lookup* lookup) const {
  assert(!lookup->decided());
  const SkipList::Node* const node = Find(*lookup);
  if (node == nullptr) return;
  if (TagType(node->tag()) == static_cast<uint8_t>(EntryType::kDelete)) {
    lookup->state = Lookup::State::kDeleted;
    return;
  }
  lookup->state = Lookup::State::kFound;
  lookup->value = node->value();
}

std::unique_ptr<InternalIterator> MemTable::NewIterator() const {
  return std::make_unique<MemTableIterator>(RefPtr<const MemTable>::Share(this), &list_);
}

}  // namespace sievedb
