#ifndef SIEVEDB_TESTS_DB_VERSION_TEST_UTIL_H_
#define SIEVEDB_TESTS_DB_VERSION_TEST_UTIL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/compaction_job.h"
#include "db/file_meta.h"
#include "db/table_opener.h"
#include "gtest/gtest.h"
#include "sievedb/options.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace sievedb::version_test {

inline std::string InternalKey(std::string_view user_key, uint64_t sequence,
                               EntryType type = EntryType::kPut) {
  std::string key;
  AppendInternalKey(&key, user_key, MakeTag(sequence, type));
  return key;
}

// A table that exists in the description only.
inline std::shared_ptr<FileMeta> MakeFile(uint64_t number, std::string_view smallest,
                                          std::string_view largest, uint64_t sequence = 1,
                                          uint64_t file_bytes = 1000) {
  auto file = std::make_shared<FileMeta>();
  file->number = number;
  file->file_bytes = file_bytes;
  file->tail_bytes = file_bytes / 10;
  file->smallest = InternalKey(smallest, sequence);
  file->largest = InternalKey(largest, sequence);
  file->smallest_sequence = sequence;
  file->largest_sequence = sequence;
  file->entries = 100;
  file->raw_bytes = 2 * file_bytes;
  return file;
}

struct Entry {
  std::string user_key;
  uint64_t sequence = 0;
  std::string value;  // of a put
  EntryType type = EntryType::kPut;
};

// Entries in the order given, whether it is right or not; then status.
class EntriesIterator final : public InternalIterator {
 public:
  explicit EntriesIterator(const std::vector<Entry>& entries,
                           absl::Status status = absl::OkStatus())
      : status_(std::move(status)) {
    for (const Entry& e : entries) {
      entries_.emplace_back(InternalKey(e.user_key, e.sequence, e.type), e.value);
    }
  }
  // Internal keys as they are.
  explicit EntriesIterator(std::vector<std::pair<std::string, std::string>> entries)
      : entries_(std::move(entries)) {}

  bool Valid() const override { return at_ < entries_.size(); }
  void SeekToFirst() override { MoveTo(0); }
  void SeekToLast() override { MoveTo(entries_.size() - 1); }
  void Seek(std::string_view internal_key) override {
    const InternalKeyOrder order(BytewiseComparator());
    size_t at = 0;
    while (at < entries_.size() && order.Compare(entries_[at].first, internal_key) < 0) ++at;
    MoveTo(at);
  }
  void SeekForPrev(std::string_view) override { ADD_FAILURE() << "not needed"; }
  void Next() override { MoveTo(at_ + 1); }
  void Prev() override { MoveTo(at_ - 1); }
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return entries_[at_].second; }
  absl::Status status() const override { return Valid() ? absl::OkStatus() : status_; }

 private:
  void MoveTo(size_t at) {
    at_ = at;
    // The bytes shown before are spoilt, as any iterator may do.
    key_.assign(key_.size(), '\xee');
    key_ = Valid() ? entries_[at].first : "";
  }
  std::vector<std::pair<std::string, std::string>> entries_;
  const absl::Status status_;
  size_t at_ = 0;
  std::string key_;
};

// A directory for tables, and what writes and opens them.
struct TableStore {
  explicit TableStore(std::shared_ptr<FileSystem> file_system = NewMemoryFileSystem(),
                      const Comparator* comparator = BytewiseComparator()) {
    options.file_system = std::move(file_system);
    options.comparator = comparator;
    options.block_cache = NewBlockCache(1 << 20);
    options.statistics = NewStatistics();
    options.block_bytes = 256;
    EXPECT_TRUE(options.file_system->CreateDirectory("db").ok());
    EXPECT_TRUE(options.file_system->SyncDirectory("").ok());
    opener = std::make_unique<TableOpener>(options, "db");
    context.options = &options;
    context.order = InternalKeyOrder(comparator);
    context.db_path = "db";
    context.db_id = 7;
    context.opener = opener.get();
    context.statistics = statistics();
    context.new_file_number = [this] { return next_file_number++; };
  }

  StatisticsImpl* statistics() const {
    return static_cast<StatisticsImpl*>(options.statistics.get());
  }

  // A table of all of entries, written as by a flush.
  // hash_seed: as of another database.
  std::shared_ptr<FileMeta> Write(const std::vector<Entry>& entries, uint64_t hash_seed = 0) {
    context.hash_seed = hash_seed;
    std::set<uint64_t> snapshots;  // one for each entry, so that none is hidden
    for (const Entry& e : entries) snapshots.insert(e.sequence);
    EntriesIterator input(entries);
    absl::StatusOr<JobOutput> output = RunJob(context, &input, {snapshots.begin(), snapshots.end()},
                                              nullptr, nullptr, FilterContext());
    EXPECT_TRUE(output.ok()) << output.status();
    return output.ok() && output->files.size() == 1 ? output->files[0] : nullptr;
  }

  // The same file, described anew: not open.
  static std::shared_ptr<FileMeta> Closed(const FileMeta& file) {
    auto copy = std::make_shared<FileMeta>();
    copy->number = file.number;
    copy->file_bytes = file.file_bytes;
    copy->tail_bytes = file.tail_bytes;
    copy->smallest = file.smallest;
    copy->largest = file.largest;
    copy->smallest_sequence = file.smallest_sequence;
    copy->largest_sequence = file.largest_sequence;
    copy->entries = file.entries;
    copy->tombstones = file.tombstones;
    copy->raw_bytes = file.raw_bytes;
    return copy;
  }

  Options options;
  std::unique_ptr<TableOpener> opener;
  JobContext context;
  std::atomic<uint64_t> next_file_number{1};
};

}  // namespace sievedb::version_test

#endif  // SIEVEDB_TESTS_DB_VERSION_TEST_UTIL_H_
