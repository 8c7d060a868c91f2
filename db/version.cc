#include "db/version.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "absl/strings/str_format.h"
#include "db/prefix_scope.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Longer common beginnings are compared key by key.
constexpr size_t kMaxPrefixBytes = 256;

uint64_t LoadWord(const char* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

std::string_view SmallestUserKey(const FileRef& file) { return UserKey(file->smallest); }
std::string_view LargestUserKey(const FileRef& file) { return UserKey(file->largest); }

}  // namespace

Version::Version(const InternalKeyOrder& order, TableOpener* opener)
    : order_(order), opener_(opener) {}

// --- made by VersionBuilder

std::string Version::SharedPrefix() const {
  if (!order_.user().has_words()) return "";
  std::string_view shared;
  bool first = true;
  const auto include = [&](std::string_view key) {
    if (first) shared = key.substr(0, kMaxPrefixBytes);
    first = false;
    const size_t n = std::min(shared.size(), key.size());
    const auto differ = std::mismatch(shared.begin(), shared.begin() + n, key.begin());
    shared = shared.substr(0, static_cast<size_t>(differ.first - shared.begin()));
  };
  for (const Level& level : levels_) {
    for (const Run& run : level.runs) {
      // What the ends of a run share, all between them share.
      include(SmallestUserKey(level.files[run.begin]));
      include(LargestUserKey(level.files[run.end - 1]));
    }
  }
  return std::string(shared);
}

void Version::FinishLevels() {
  prefix_ = SharedPrefix();
  const KeyOrder& order = order_.user();
  prefix_word_ = order.Word(prefix_);
  if (prefix_.size() > 8) prefix_end_ = LoadWord(prefix_.data() + prefix_.size() - 8);
  prefix_mask_ = prefix_.size() >= 8 ? ~uint64_t{0} : ~(~uint64_t{0} >> (8 * prefix_.size()));
  for (Level& level : levels_) {
    const size_t n = level.files.size();
    level.smallest_words.reserve(n);
    level.largest_words.reserve(n);
    level.slots = std::make_unique<Slot[]>(n);
    for (size_t i = 0; i < n; ++i) {
      const FileRef& file = level.files[i];
      level.smallest_words.push_back(order.Word(SmallestUserKey(file), prefix_.size()));
      level.largest_words.push_back(order.Word(LargestUserKey(file), prefix_.size()));
      level.slots[i].file = file.get();
      level.slots[i].table.store(file->table.load(std::memory_order_acquire),
                                 std::memory_order_release);
      level.bytes += file->file_bytes;
      has_range_tombstones_ |= file->range_tombstones != 0;
    }
  }
  for (int l = 1; l < kNumLevels; ++l) {
    const Level& level = levels_[l];
    for (const Run& run : level.runs) {
      searched_runs_.push_back({level.smallest_words.data() + run.begin,
                                level.largest_words.data() + run.begin,
                                level.slots.get() + run.begin, run.end - run.begin, l, run.begin});
      deepest_level_ = l;
    }
  }
}

// --- the read path

inline bool Version::HasPrefix(const Lookup& lookup) const {
  const std::string_view key = lookup.user_key;
  const size_t skip = prefix_.size();
  if (key.size() < skip || ((lookup.word ^ prefix_word_) & prefix_mask_) != 0) return false;
  // The eight bytes before its end say the rest, but for prefixes beyond 16.
  return skip <= 8 || (LoadWord(key.data() + skip - 8) == prefix_end_ &&
                       (skip <= 16 || std::memcmp(key.data(), prefix_.data(), skip) == 0));
}

inline bool Version::Covers(const Level& level, size_t index, std::string_view user_key,
                            uint64_t word) const {
  const uint64_t smallest = level.smallest_words[index];
  const uint64_t largest = level.largest_words[index];
  if (word < smallest || word > largest) return false;
  const KeyOrder& order = order_.user();
  if (word == smallest && order.Compare(user_key, SmallestUserKey(level.files[index])) < 0) {
    return false;
  }
  if (word != largest) return true;
  const FileMeta& file = *level.files[index];
  const int r = order.Compare(user_key, UserKey(file.largest));
  return r < 0 || (r == 0 && !file.largest_is_outside());
}

void Version::FindCandidates(const Lookup& lookup, Candidates* to) const {
  const std::string_view key = lookup.user_key;
  uint64_t word = lookup.word;
  if (!prefix_.empty()) {
    // A key without the prefix is before all tables or after them.
    if (!HasPrefix(lookup)) return;
    word = order_.user().Word(key, prefix_.size());
  }
  const auto add = [&](const Slot& slot, int level) {
    const TableReader* table = slot.OpenTable();
    if (table != nullptr) [[likely]]
      table->PrefetchFilter(table->HashOf(lookup));
    to->push_back({&slot, table, level});
  };
  const Level& level0 = levels_[0];
  for (size_t i = 0; i < level0.files.size(); ++i) {
    if (Covers(level0, i, key, word)) add(level0.slots[i], 0);
  }
  for (const SearchedRun& run : searched_runs_) {
    const size_t n = run.size;
    size_t i = CountBelow(run.largest_words, n, word);
    if (i == n) continue;
    if (run.largest_words[i] == word) [[unlikely]] {
      i = FindFileByWord(order_.user(), Tables(run.level, run.begin, run.begin + n), key, word);
      if (i == n) continue;
    }
    if (word < run.smallest_words[i]) continue;
    if (word == run.smallest_words[i] &&
        order_.user().Compare(key, UserKey(run.slots[i].file->smallest)) < 0) [[unlikely]] {
      continue;
    }
    add(run.slots[i], run.level);
  }
}

void Version::CountAnswer(const Candidate& candidate, const Lookup& lookup,
                          FilterAnswer answer) const {
  if (lookup.statistics != nullptr && candidate.table->filter() != nullptr) {
    lookup.statistics->AddFilterAnswer(candidate.level, answer);
  }
  const FileMeta& file = *candidate.slot->file;
  // A key that was written after the lookup's snapshot is in the filter and is not
  // found: that is no mistake of the filter's.
  if (lookup.sequence < file.largest_sequence) return;
  if (answer == FilterAnswer::kMaybeAbsent) {
    if (file.filter_tally.CountFalse(lookup.hash)) opener_->WantAudit();
  } else if (lookup.sampled()) {
    answer == FilterAnswer::kNo ? file.filter_tally.CountNo() : file.filter_tally.CountPresent();
  }
}

inline bool Version::RuledOut(const Candidate& candidate, const Lookup& lookup) const {
  if (candidate.table->MayContain(candidate.table->HashOf(lookup))) return false;
  if (lookup.counted()) CountAnswer(candidate, lookup, FilterAnswer::kNo);
  return true;
}

inline absl::Status Version::GetFrom(const Candidate& candidate,
                                     const TableReader::Preparation* preparation,
                                     Lookup* lookup) const {
  SIEVEDB_RETURN_IF_ERROR(candidate.table->Get(lookup, preparation));
  if (!lookup->decided()) {
    CountAnswer(candidate, *lookup, FilterAnswer::kMaybeAbsent);
  } else if (lookup->counted()) {
    CountAnswer(candidate, *lookup, FilterAnswer::kMaybePresent);
  }
  return absl::OkStatus();
}

absl::Status Version::CutAtRangeTombstone(const Lookup& lookup, bool may_open,
                                          Candidates* to) const {
  for (size_t i = 0; i < to->size(); ++i) {
    Candidate& candidate = (*to)[i];
    if (candidate.table == nullptr) [[unlikely]] {
      if (candidate.slot->file->range_tombstones == 0) continue;
      if (!may_open) break;
      SIEVEDB_ASSIGN_OR_RETURN(candidate.table,
                               OpenForRead(opener_, *candidate.slot->file, lookup.options));
    }
    const RangeTombstones* const tombstones = candidate.table->range_tombstones();
    if (tombstones == nullptr || tombstones->Covering(lookup.user_key, lookup.sequence) == 0) {
      continue;
    }
    to->erase(to->begin() + static_cast<std::ptrdiff_t>(i) + 1, to->end());
    break;
  }
  return absl::OkStatus();
}

absl::Status Version::Get(Candidates* candidates, Lookup* lookup) const {
  if (has_range_tombstones_) [[unlikely]] {
    SIEVEDB_RETURN_IF_ERROR(CutAtRangeTombstone(*lookup, /*may_open=*/true, candidates));
  }
  for (Candidate& candidate : *candidates) {
    if (candidate.table == nullptr) [[unlikely]] {
      SIEVEDB_ASSIGN_OR_RETURN(candidate.table,
                               OpenForRead(opener_, *candidate.slot->file, lookup->options));
    }
    if (RuledOut(candidate, *lookup)) continue;
    SIEVEDB_RETURN_IF_ERROR(GetFrom(candidate, nullptr, lookup));
    if (lookup->decided()) break;
  }
  return absl::OkStatus();
}

void Version::MultiGet(absl::Span<Lookup> lookups, absl::Span<absl::Status> statuses) const {
  assert(lookups.size() <= kMaxBatch && statuses.size() == lookups.size());
  std::array<Way, kMaxBatch> ways;
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (!lookups[i].decided()) FindCandidates(lookups[i], &ways[i].candidates);
  }
  if (has_range_tombstones_) [[unlikely]] {
    for (size_t i = 0; i < lookups.size(); ++i) {
      statuses[i] = CutAtRangeTombstone(lookups[i], /*may_open=*/true, &ways[i].candidates);
    }
  }
  // By now the filters' lines are there. A table that must be opened first is asked
  // when its turn comes: a newer one may decide.
  for (size_t i = 0; i < lookups.size(); ++i) {
    auto& candidates = ways[i].candidates;
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& candidate) {
                                      return candidate.table != nullptr &&
                                             RuledOut(candidate, lookups[i]);
                                    }),
                     candidates.end());
  }
  for (bool more = true; more;) {
    const auto wants = [&](size_t i) {
      return ways[i].next < ways[i].candidates.size() && !lookups[i].decided() && statuses[i].ok();
    };
    for (bool preparing = true; preparing;) {
      preparing = false;
      for (size_t i = 0; i < lookups.size(); ++i) {
        if (!wants(i)) continue;
        Way& way = ways[i];
        const TableReader* const table = way.candidates[way.next].table;
        if (table != nullptr) preparing |= table->Prepare(lookups[i], &way.preparation);
      }
    }
    more = false;
    for (size_t i = 0; i < lookups.size(); ++i) {
      if (!wants(i)) continue;
      Way& way = ways[i];
      Candidate& candidate = way.candidates[way.next++];
      if (candidate.table == nullptr) [[unlikely]] {
        absl::StatusOr<const TableReader*> table =
            OpenForRead(opener_, *candidate.slot->file, lookups[i].options);
        statuses[i] = table.status();
        if (!table.ok()) continue;
        candidate.table = *table;
        if (!RuledOut(candidate, lookups[i]))
          statuses[i] = GetFrom(candidate, nullptr, &lookups[i]);
      } else {
        statuses[i] = GetFrom(candidate, &way.preparation, &lookups[i]);
      }
      way.preparation = {};
      more |= wants(i);
    }
  }
}

bool Version::MayContain(const Lookup& lookup) const {
  Candidates candidates;
  FindCandidates(lookup, &candidates);
  if (has_range_tombstones_) [[unlikely]] {
    CutAtRangeTombstone(lookup, /*may_open=*/false, &candidates).IgnoreError();  // opens none
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.table == nullptr ||
        candidate.table->MayContain(candidate.table->HashOf(lookup))) {
      return true;
    }
  }
  return false;
}

SortedRun Version::Tables(int level, size_t begin, size_t end) const {
  const Level& l = levels_[level];
  return {absl::MakeConstSpan(l.files).subspan(begin, end - begin),
          order_.user().has_words() ? l.largest_words.data() + begin : nullptr, prefix_,
          order_.user().has_words() ? l.smallest_words.data() + begin : nullptr};
}

absl::StatusOr<RangeTombstoneStack::Run> Version::RangeTombstonesOf(
    const SortedRun& run, const ReadOptions& options) const {
  RangeTombstoneStack::Run lists;
  if (!has_range_tombstones_) return lists;
  for (const FileRef& file : run.files) {
    if (file->range_tombstones == 0) continue;
    SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, OpenForRead(opener_, *file, options));
    if (table->range_tombstones() != nullptr) lists.push_back(table->range_tombstones());
  }
  return lists;
}

absl::Status Version::AppendIterators(const ReadOptions& options, const std::string* lower,
                                      const std::string* upper,
                                      std::vector<std::unique_ptr<InternalIterator>>* to,
                                      const PrefixScope* scope, RangeTombstoneStack* stack) const {
  const KeyOrder& order = order_.user();
  std::string_view begin;
  std::string_view end;
  if (lower != nullptr) begin = *lower;
  if (upper != nullptr) end = *upper;
  for (int level = 0; level < kNumLevels; ++level) {
    for (const Run& run : levels_[level].runs) {
      auto [first, last] = OverlappingRange(level, run, lower == nullptr ? nullptr : &begin,
                                            upper == nullptr ? nullptr : &end);
      // The upper bound itself is not wanted.
      if (first < last && upper != nullptr &&
          order.Compare(SmallestUserKey(levels_[level].files[last - 1]), end) >= 0) {
        --last;
      }
      if (first == last) continue;
      const SortedRun tables = Tables(level, first, last);
      std::unique_ptr<InternalIterator> entries =
          scope == nullptr ? NewRunIterator(order_, tables, opener_, options)
                           : NewPrefixRunIterator(order_, tables, opener_, options, scope);
      if (stack != nullptr) {
        SIEVEDB_ASSIGN_OR_RETURN(RangeTombstoneStack::Run lists,
                                 RangeTombstonesOf(tables, options));
        entries = stack->Hide(std::move(lists), std::move(entries));
      }
      to->push_back(std::move(entries));
    }
  }
  return absl::OkStatus();
}

// --- what it consists of

int Version::DeepestLevel() const { return deepest_level_; }

std::pair<size_t, size_t> Version::OverlappingRange(int level, const Run& run,
                                                    const std::string_view* begin,
                                                    const std::string_view* end) const {
  const SortedRun tables = Tables(level, run.begin, run.end);
  const size_t n = tables.files.size();
  const size_t first = begin == nullptr ? 0 : FindFile(order_.user(), tables, *begin);
  size_t last = n;
  if (end != nullptr) {
    last = FindFile(order_.user(), tables, *end);
    if (last < n && order_.user().Compare(SmallestUserKey(tables.files[last]), *end) <= 0) ++last;
  }
  return {run.begin + first, run.begin + std::max(first, last)};
}

bool Version::Overlaps(int level, std::string_view begin, std::string_view end) const {
  const absl::Span<const Run> all = runs(level);
  return std::any_of(all.begin(), all.end(), [&](const Run& run) {
    const auto [first, last] = OverlappingRange(level, run, &begin, &end);
    return first < last;
  });
}

uint64_t Version::OverlapBytes(int level, std::string_view begin, std::string_view end) const {
  uint64_t bytes = 0;
  for (const Run& run : runs(level)) {
    const auto [first, last] = OverlappingRange(level, run, &begin, &end);
    for (size_t i = first; i < last; ++i) bytes += files(level)[i]->file_bytes;
  }
  return bytes;
}

std::vector<FileRef> Version::Overlapping(int level, const std::string_view* begin,
                                          const std::string_view* end) const {
  return level == 0 ? OverlappingInLevel0(begin, end) : OverlappingInRuns(level, begin, end);
}

std::vector<FileRef> Version::OverlappingInRuns(int level, const std::string_view* begin,
                                                const std::string_view* end) const {
  const KeyOrder& order = order_.user();
  std::vector<FileRef> result;
  std::string_view from;
  std::string_view to;
  if (begin != nullptr) from = *begin;
  if (end != nullptr) to = *end;
  for (const Run& run : runs(level)) {
    const auto [first, last] = OverlappingRange(level, run, begin == nullptr ? nullptr : &from,
                                                end == nullptr ? nullptr : &to);
    if (first == last) continue;
    const absl::Span<const FileRef> found = files(level).subspan(first, last - first);
    result.insert(result.end(), found.begin(), found.end());
    if (begin != nullptr && order.Compare(SmallestUserKey(found.front()), from) < 0) {
      from = SmallestUserKey(found.front());
    }
    if (end != nullptr && order.Compare(LargestUserKey(found.back()), to) > 0) {
      to = LargestUserKey(found.back());
    }
  }
  return result;
}

std::vector<FileRef> Version::OverlappingInLevel0(const std::string_view* begin,
                                                  const std::string_view* end) const {
  const std::vector<FileRef>& files = levels_[0].files;
  const KeyOrder& order = order_.user();
  std::string_view from;
  std::string_view to;
  if (begin != nullptr) from = *begin;
  if (end != nullptr) to = *end;
  std::vector<bool> taken(files.size(), false);
  // The range only grows, so it ends after at most one round a file.
  for (bool grown = true; grown;) {
    grown = false;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string_view smallest = SmallestUserKey(files[i]);
      const std::string_view largest = LargestUserKey(files[i]);
      if (taken[i] || (begin != nullptr && order.Compare(largest, from) < 0) ||
          (end != nullptr && order.Compare(smallest, to) > 0)) {
        continue;
      }
      taken[i] = grown = true;
      if (begin != nullptr && order.Compare(smallest, from) < 0) from = smallest;
      if (end != nullptr && order.Compare(largest, to) > 0) to = largest;
    }
  }
  std::vector<FileRef> result;
  for (size_t i = 0; i < files.size(); ++i) {
    if (taken[i]) result.push_back(files[i]);
  }
  return result;
}

bool Version::KeyMayExistBelow(int level, std::string_view user_key) const {
  for (int below = std::max(level + 1, 1); below < kNumLevels; ++below) {
    if (Overlaps(below, user_key, user_key)) return true;
  }
  return false;
}

uint64_t Version::ApproximateBytes(std::string_view begin, std::string_view end) const {
  if (order_.user().Compare(begin, end) >= 0) return 0;
  // Where in a file of which only a part is in the range a key lies. A table that
  // can't be opened is taken for half in it: an estimate is no place to fail.
  const auto offset_of = [&](const FileMeta& file, std::string_view user_key) -> uint64_t {
    const absl::StatusOr<const TableReader*> table = opener_->Get(file);
    if (!table.ok()) return file.file_bytes / 2;
    std::string seek;
    AppendInternalKey(&seek, user_key, SeekTag(kMaxSequence));
    return std::min(file.file_bytes, (*table)->ApproximateOffsetOf(seek));
  };
  const KeyOrder& order = order_.user();
  uint64_t total = 0;
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : Overlapping(level, &begin, &end)) {
      uint64_t from = 0;
      uint64_t to = file->file_bytes;
      if (order.Compare(LargestUserKey(file), begin) < 0) continue;
      if (order.Compare(SmallestUserKey(file), end) >= 0) continue;
      if (order.Compare(SmallestUserKey(file), begin) < 0) from = offset_of(*file, begin);
      if (order.Compare(LargestUserKey(file), end) >= 0) to = offset_of(*file, end);
      if (to > from) total += to - from;
    }
  }
  return total;
}

uint64_t Version::EntriesEstimate() const {
  uint64_t entries = 0;
  uint64_t gone = 0;  // each tombstone and what it hides
  for (const Level& level : levels_) {
    for (const FileRef& file : level.files) {
      entries += file->entries;
      gone += 2 * file->tombstones;
    }
  }
  return entries > gone ? entries - gone : 0;
}

std::string Version::DebugString() const {
  std::string to;
  for (int level = 0; level < kNumLevels; ++level) {
    const Level& l = levels_[level];
    for (size_t i = 0; i < l.runs.size(); ++i) {
      const Run& run = l.runs[i];
      // One line a run, of level 0 one in all.
      if (level > 0 || i == 0) to += absl::StrFormat("L%d:", level);
      if (run.number != 0) to += absl::StrFormat(" run %d:", run.number);
      for (const FileRef& file : files(level, run)) {
        to += absl::StrFormat(" %d[%s .. %s]%d", file->number, Escape(SmallestUserKey(file)),
                              Escape(LargestUserKey(file)), file->file_bytes);
      }
      if (level > 0 || i + 1 == l.runs.size()) to += '\n';
    }
  }
  return to;
}

}  // namespace sievedb
