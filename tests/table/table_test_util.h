#ifndef SIEVEDB_TESTS_TABLE_TABLE_TEST_UTIL_H_
#define SIEVEDB_TESTS_TABLE_TABLE_TEST_UTIL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/block_cache.h"
#include "sievedb/comparator.h"
#include "sievedb/file_system.h"
#include "table/lookup.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "util/epoch.h"

namespace sievedb {

// A file that is a string. Reads are copies, so that a read past what was asked for
// is found by a sanitizer.
class StringFile final : public RandomAccessFile {
 public:
  explicit StringFile(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    ++reads_;
    const size_t at = std::min<uint64_t>(offset, bytes_.size());
    const size_t bytes = std::min(n, bytes_.size() - at);
    if (bytes != 0) std::memcpy(scratch, bytes_.data() + at, bytes);
    *result = {scratch, bytes};
    return absl::OkStatus();
  }
  void Readahead(uint64_t /*offset*/, size_t /*n*/) const override {}
  int reads() const { return reads_; }

 private:
  const std::string bytes_;
  mutable int reads_ = 0;
};

class StringSink final : public WritableFile {
 public:
  absl::Status Append(std::string_view data) override {
    if (!fail_with.ok()) return fail_with;
    bytes.append(data);
    largest_append = std::max(largest_append, data.size());
    ++appends;
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  void StartWriteback() override { ++writebacks; }
  absl::Status Close() override { return absl::OkStatus(); }

  std::string bytes;
  absl::Status fail_with;
  size_t largest_append = 0;
  int appends = 0;
  int writebacks = 0;
};

// Orders by length, then by bytes: what the built-in orders would get wrong.
class LengthFirstComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    const int r = a.compare(b);
    return r < 0 ? -1 : r > 0 ? 1 : 0;
  }
  const char* Name() const override { return "test.LengthFirst"; }
};

// Upper and lower case are one key.
class CaselessComparator final : public Comparator {
 public:
  int Compare(std::string_view a, std::string_view b) const override {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      const int difference = Fold(a[i]) - Fold(b[i]);
      if (difference != 0) return difference;
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  const char* Name() const override { return "test.Caseless"; }
  bool EqualKeysHaveEqualBytes() const override { return false; }

 private:
  static int Fold(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }
};

struct TestEntry {
  std::string user_key;
  uint64_t sequence = 0;
  EntryType type = EntryType::kPut;
  std::string value;

  uint64_t tag() const { return MakeTag(sequence, type); }
  std::string internal_key() const {
    std::string key;
    AppendInternalKey(&key, user_key, tag());
    return key;
  }
};

inline void SortEntries(const InternalKeyOrder& order, std::vector<TestEntry>* entries) {
  std::sort(entries->begin(), entries->end(), [&](const TestEntry& a, const TestEntry& b) {
    return order.Compare(a.user_key, a.tag(), b.user_key, b.tag()) < 0;
  });
}

struct BuiltTable {
  std::string bytes;
  TableSummary summary;
};

inline BuiltTable BuildTable(const TableBuilderOptions& options,
                             const std::vector<TestEntry>& entries,
                             const RangeTombstones* tombstones = nullptr) {
  StringSink sink;
  TableBuilder builder(options, &sink);
  for (const TestEntry& entry : entries) {
    const absl::Status status = builder.Add(entry.internal_key(), entry.value);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(builder.entries(), entries.size());
  absl::StatusOr<TableSummary> summary = builder.Finish(tombstones);
  EXPECT_TRUE(summary.ok()) << summary.status();
  return {std::move(sink.bytes), summary.ok() ? *summary : TableSummary()};
}

inline TableReaderOptions ReaderOptionsFor(const TableBuilderOptions& options,
                                           const BuiltTable& table) {
  TableReaderOptions reader;
  reader.order = options.order;
  reader.filter_policy = options.filter_policy;
  reader.path = "test.sst";
  reader.file_number = options.file_number;
  reader.file_bytes = table.bytes.size();
  reader.tail_bytes = table.summary.tail_bytes;
  return reader;
}

inline absl::StatusOr<std::unique_ptr<TableReader>> OpenTable(const TableReaderOptions& options,
                                                              std::string bytes) {
  return TableReader::Open(options, std::make_unique<StringFile>(std::move(bytes)));
}

// What a Get gives: an error, "absent", "deleted" or "=value".
inline std::string GetText(const TableReader& table, const InternalKeyOrder& order,
                           std::string_view user_key, uint64_t sequence,
                           const ReadOptions& options = {}) {
  const EpochGuard guard;
  Lookup lookup(user_key, sequence, order.user(), options, nullptr);
  const absl::Status status = table.Get(&lookup);
  if (!status.ok()) return "error: " + status.ToString();
  switch (lookup.state) {
    case Lookup::State::kFound:
      return "=" + std::string(lookup.value);
    case Lookup::State::kDeleted:
      return "deleted";
    case Lookup::State::kSearching:
      break;
  }
  return "absent";
}

// What it should give.
inline std::string ExpectedText(const std::vector<TestEntry>& entries,
                                const InternalKeyOrder& order, std::string_view user_key,
                                uint64_t sequence) {
  const auto at = std::partition_point(entries.begin(), entries.end(), [&](const TestEntry& e) {
    return order.Compare(e.user_key, e.tag(), user_key, SeekTag(sequence)) < 0;
  });
  if (at == entries.end() || !order.user().Equal(at->user_key, user_key)) return "absent";
  return at->type == EntryType::kDelete ? "deleted" : "=" + at->value;
}

struct EntryShape {
  size_t keys = 200;
  size_t max_versions = 3;
  size_t max_key_bytes = 12;
  size_t max_value_bytes = 60;
  int alphabet = 4;  // small: long shared prefixes
};

inline std::string RandomBytes(std::mt19937_64* random, size_t bytes, int alphabet = 256) {
  std::string s(bytes, '\0');
  for (char& c : s) {
    const auto drawn = static_cast<int>((*random)() % static_cast<uint64_t>(alphabet));
    c = static_cast<char>(alphabet == 256 ? drawn : 'a' + drawn);
  }
  return s;
}

inline std::vector<TestEntry> RandomEntries(std::mt19937_64* random, const InternalKeyOrder& order,
                                            const EntryShape& shape) {
  std::vector<TestEntry> entries;
  std::set<std::string> seen;
  while (seen.size() < shape.keys) {
    std::string key = RandomBytes(random, (*random)() % (shape.max_key_bytes + 1), shape.alphabet);
    if (!seen.insert(key).second) {
      key += std::to_string(seen.size());
      if (!seen.insert(key).second) continue;
    }
    const size_t versions = 1 + (*random)() % shape.max_versions;
    uint64_t sequence = 1;
    for (size_t v = 0; v < versions; ++v) {
      sequence += 1 + (*random)() % 3;
      TestEntry entry{key, sequence, EntryType::kPut, ""};
      if ((*random)() % 8 == 0) {
        entry.type = EntryType::kDelete;
      } else {
        entry.value = RandomBytes(random, (*random)() % (shape.max_value_bytes + 1),
                                  (*random)() % 2 == 0 ? 2 : 256);
      }
      entries.push_back(std::move(entry));
    }
  }
  SortEntries(order, &entries);
  return entries;
}

inline std::shared_ptr<BlockCache> TestCache(size_t bytes) { return NewBlockCache(bytes); }
inline BlockCacheImpl* Impl(const std::shared_ptr<BlockCache>& cache) {
  return static_cast<BlockCacheImpl*>(cache.get());
}

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_TABLE_TABLE_TEST_UTIL_H_
