// Reads: Get, MultiGet, MayContain, iterators and snapshots.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "db/db_impl.h"
#include "table/merging_iterator.h"
#include "util/epoch.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Without a message, which allocates nothing.
absl::Status KeyNotFound() { return absl::Status(absl::StatusCode::kNotFound, ""); }

// What a lookup that went all the way comes to.
absl::Status Outcome(const Lookup& lookup) {
  if (lookup.state != Lookup::State::kFound) return KeyNotFound();
  Count(lookup.statistics, Counter::kGetHits);
  return absl::OkStatus();
}

absl::Status ClosedError() { return absl::FailedPreconditionError("the database is closed"); }

void GiveTo(PinnedValue* value, Lookup* lookup) {
  if (lookup->pin) {
    const std::string_view bytes = lookup->value;
    value->AssignPinned(bytes, &BlockBuffer::Release, lookup->pin.TakeReference());
  } else {
    value->AssignCopy(lookup->value);
  }
}

}  // namespace

// The sequence is loaded behind the view. The view is looked at again behind that: where an
// ingestion came in between, the first view does not have its tables, but its memtable may
// have what was written after it, which must not be seen without them.
inline DBImpl::Seen DBImpl::Look(const ReadOptions& options) const {
  Seen seen;
  // An address that stays is the same view: the guard keeps it.
  do {
    seen.view = view();
    seen.sequence = options.snapshot != nullptr ? options.snapshot->sequence()
                                                : visible_sequence_.load(std::memory_order_acquire);
  } while (view() != seen.view);
  return seen;
}

void DBImpl::PrefetchInMemtables(const ReadView& view, const Lookup& lookup) {
  view.memtable->Prefetch(lookup);
  for (const RefPtr<MemTable>& immutable : view.immutables) immutable->Prefetch(lookup);
}

void DBImpl::FindInMemtables(const ReadView& view, Lookup* lookup) {
  view.memtable->Get(lookup);
  for (const RefPtr<MemTable>& immutable : view.immutables) {
    if (lookup->decided()) break;
    immutable->Get(lookup);
  }
}

// memtable -> immutables -> tables, newest first, until one of them decides. The
// tables' filters are on their way while the memtables are asked.
absl::Status DBImpl::Find(const ReadView& view, Lookup* lookup) {
  PrefetchInMemtables(view, *lookup);
  Version::Candidates candidates;
  view.version->FindCandidates(*lookup, &candidates);
  FindInMemtables(view, lookup);
  if (lookup->decided()) {
    Count(lookup->statistics, Counter::kGetMemtableHits);
  } else {
    SIEVEDB_RETURN_IF_ERROR(view.version->Get(&candidates, lookup));
  }
  return Outcome(*lookup);
}

template <typename Found>
absl::Status DBImpl::GetWith(const ReadOptions& options, std::string_view key, Found found) {
  const LatencyTimer timer(statistics_, Latency::kGet, LatencyTimer::When::kSampled);
  Count(statistics_, Counter::kGets);
  const EpochGuard guard;
  const auto [seen, sequence] = Look(options);
  if (seen == nullptr) return ClosedError();
  Lookup lookup(key, sequence, order_.user(), options, statistics_, hash_seed_, guard.record());
  SIEVEDB_RETURN_IF_ERROR(Find(*seen, &lookup));
  found(&lookup);
  return absl::OkStatus();
}

absl::Status DBImpl::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  return GetWith(options, key, [value](Lookup* lookup) {
    value->assign(lookup->value.data(), lookup->value.size());
  });
}

absl::Status DBImpl::Get(const ReadOptions& options, std::string_view key, PinnedValue* value) {
  value->Reset();
  return GetWith(options, key, [value](Lookup* lookup) { GiveTo(value, lookup); });
}

void DBImpl::MultiGet(const ReadOptions& options, absl::Span<const std::string_view> keys,
                      absl::Span<PinnedValue> values, absl::Span<absl::Status> statuses) {
  assert(keys.size() == values.size() && keys.size() == statuses.size());
  const LatencyTimer timer(statistics_, Latency::kMultiGet, LatencyTimer::When::kAlways);
  Count(statistics_, Counter::kMultiGetKeys, keys.size());
  const EpochGuard guard;
  // One view and one sequence for all keys: they are read as of one moment.
  const auto [seen, sequence] = Look(options);
  for (PinnedValue& value : values) value.Reset();
  if (seen == nullptr) {
    for (absl::Status& status : statuses) status = ClosedError();
    return;
  }
  for (size_t begin = 0; begin < keys.size(); begin += Version::kMaxBatch) {
    const size_t n = std::min(keys.size() - begin, Version::kMaxBatch);
    GetBatch(*seen, sequence, options, keys.subspan(begin, n), values.subspan(begin, n),
             statuses.subspan(begin, n));
  }
}

void DBImpl::GetBatch(const ReadView& view, uint64_t sequence, const ReadOptions& options,
                      absl::Span<const std::string_view> keys, absl::Span<PinnedValue> values,
                      absl::Span<absl::Status> statuses) {
  absl::InlinedVector<Lookup, Version::kMaxBatch> lookups;
  for (size_t i = 0; i < keys.size(); ++i) {
    lookups.emplace_back(keys[i], sequence, order_.user(), options, statistics_, hash_seed_);
    PrefetchInMemtables(view, lookups[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    FindInMemtables(view, &lookups[i]);
    if (lookups[i].decided()) Count(statistics_, Counter::kGetMemtableHits);
    statuses[i] = absl::OkStatus();
  }
  view.version->MultiGet(absl::MakeSpan(lookups), statuses);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!statuses[i].ok()) continue;
    statuses[i] = Outcome(lookups[i]);
    if (statuses[i].ok()) GiveTo(&values[i], &lookups[i]);
  }
}

bool DBImpl::MayContain(const ReadOptions& options, std::string_view key) {
  const EpochGuard guard;
  const auto [seen, sequence] = Look(options);
  if (seen == nullptr) return true;
  Lookup lookup(key, sequence, order_.user(), options, statistics_, hash_seed_);
  PrefetchInMemtables(*seen, lookup);
  FindInMemtables(*seen, &lookup);
  if (lookup.decided()) return lookup.state == Lookup::State::kFound;
  return seen->version->MayContain(lookup);
}

absl::StatusOr<IteratorSource> DBImpl::MakeIteratorSource(const ReadOptions& options,
                                                          const PrefixScope* scope) {
  if (options.prefix_same_as_start && scope == nullptr) {
    return absl::InvalidArgumentError(
        "prefix_same_as_start: the database was opened without a prefix_extractor");
  }
  IteratorSource source;
  const ReadView* pinned = nullptr;
  {
    const EpochGuard guard;
    const Seen seen = Look(options);
    if (seen.view == nullptr) return ClosedError();
    pinned = seen.view;
    pinned->Ref();
    source.sequence = seen.sequence;
  }
  // Letting go of the view may make tables obsolete; nobody else may come by to
  // delete them.
  source.view = std::shared_ptr<const void>(pinned, [this](const void* object) {
    static_cast<const ReadView*>(object)->Unref();
    DeleteObsoleteTables();
  });

  std::vector<std::unique_ptr<InternalIterator>> children;
  RangeTombstoneStack stack(order_, source.sequence);
  std::vector<RefPtr<const RangeTombstones>> lists;
  const auto append_memtable = [&](const RefPtr<MemTable>& memtable) {
    std::unique_ptr<InternalIterator> entries =
        scope == nullptr
            ? memtable->NewIterator()
            : NewPrefixMemTableIterator(RefPtr<const MemTable>::Share(memtable.get()), scope);
    RangeTombstoneStack::Run run;
    {
      const EpochGuard guard;
      RefPtr<const RangeTombstones> tombstones = memtable->range_tombstones();
      if (tombstones) {
        run.push_back(tombstones.get());
        lists.push_back(std::move(tombstones));
      }
    }
    children.push_back(stack.Hide(std::move(run), std::move(entries)));
  };
  if (!pinned->memtable->empty()) append_memtable(pinned->memtable);
  for (const RefPtr<MemTable>& immutable : pinned->immutables) append_memtable(immutable);
  const std::string* lower = options.lower_bound ? &*options.lower_bound : nullptr;
  const std::string* upper = options.upper_bound ? &*options.upper_bound : nullptr;
  SIEVEDB_RETURN_IF_ERROR(
      pinned->version->AppendIterators(options, lower, upper, &children, scope, &stack));
  source.entries = NewMergingIterator(order_, std::move(children));
  if (!lists.empty()) {
    // What the memtables' lists point to lies in them.
    auto pins = std::make_shared<std::pair<std::shared_ptr<const void>, decltype(lists)>>(
        std::move(source.view), std::move(lists));
    source.view = std::move(pins);
  }
  return source;
}

std::unique_ptr<Iterator> DBImpl::NewIterator(const ReadOptions& options) {
  std::unique_ptr<PrefixScope> scope =
      NewPrefixScope(options_.prefix_extractor.get(), options, hash_seed_, statistics_);
  auto make_source = [this, options, entered = scope.get()] {
    return MakeIteratorSource(options, entered);
  };
  return NewDBIterator(order_, options, statistics_, std::move(make_source), std::move(scope));
}

std::shared_ptr<const Snapshot> DBImpl::GetSnapshot() {
  return snapshots_->Create([this] { return visible_sequence_.load(std::memory_order_acquire); });
}

uint64_t DBImpl::LatestSequence() const {
  return visible_sequence_.load(std::memory_order_acquire);
}

}  // namespace sievedb
