#ifndef SIEVEDB_TESTS_DB_DB_TEST_UTIL_H_
#define SIEVEDB_TESTS_DB_DB_TEST_UTIL_H_

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "sievedb/statistics.h"

namespace sievedb {

inline std::string Key(int i) {
  char text[32];
  std::snprintf(text, sizeof(text), "key%08d", i);
  return text;
}

// A small database on the in-memory file system.
class DBTest : public testing::Test {
 protected:
  DBTest() {
    options_.file_system = NewMemoryFileSystem();
    options_.write_buffer_bytes = 256 << 10;
    options_.level_base_bytes = 512 << 10;
    options_.target_file_bytes = 256 << 10;
    options_.statistics = NewStatistics();
  }

  void Open() {
    db_ = nullptr;
    absl::StatusOr<std::unique_ptr<DB>> db = DB::Open(options_, "/db");
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }

  absl::Status Put(std::string_view key, std::string_view value) {
    return db_->Put(WriteOptions(), key, value);
  }
  absl::Status Delete(std::string_view key) { return db_->Delete(WriteOptions(), key); }

  std::string Get(std::string_view key, const ReadOptions& options = ReadOptions()) {
    std::string value;
    const absl::Status status = db_->Get(options, key, &value);
    if (status.code() == absl::StatusCode::kNotFound) return "(absent)";
    return status.ok() ? value : status.ToString();
  }

  // Keys first to last - 1, each with a value of 100 bytes that names it.
  void Fill(int first, int last) {
    for (int i = first; i < last; ++i) ASSERT_TRUE(Put(Key(i), Value(i)).ok());
  }
  static std::string Value(int i) {
    std::string value = "value of " + Key(i);
    value.resize(100, '.');
    return value;
  }

  std::string Scan(const ReadOptions& options = ReadOptions()) {
    std::string text;
    const auto it = db_->NewIterator(options);
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      text += std::string(it->key()) + "=" + std::string(it->value()) + " ";
    }
    return it->status().ok() ? text : it->status().ToString();
  }

  int Files(int level) {
    return std::stoi(*db_->GetProperty("sievedb.num-files-at-level" + std::to_string(level)));
  }
  int TotalFiles() {
    int files = 0;
    for (int level = 0; level < 7; ++level) files += Files(level);
    return files;
  }
  // Of all levels.
  FilterLevelCounts FilterCounts() {
    FilterLevelCounts sum;
    for (int level = 0; level < Statistics::kLevels; ++level) {
      const FilterLevelCounts counts = options_.statistics->GetFilterCounts(level);
      sum.checked += counts.checked;
      sum.said_no += counts.said_no;
      sum.maybe_present += counts.maybe_present;
      sum.maybe_absent += counts.maybe_absent;
    }
    return sum;
  }
  std::vector<std::string> FilesEndingWith(const std::string& ending) {
    std::vector<std::string> found;
    const std::vector<std::string> names = *options_.file_system->GetChildren("/db");
    for (const std::string& name : names) {
      if (name.size() >= ending.size() &&
          name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
        found.push_back("/db/" + name);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string ReadFile(const std::string& path) {
    const uint64_t size = *options_.file_system->FileSize(path);
    std::string bytes(size, '\0');
    const auto file = *options_.file_system->NewRandomAccessFile(path);
    std::string_view result;
    EXPECT_TRUE(file->Read(0, size, bytes.data(), &result).ok());
    return std::string(result);
  }
  void WriteFile(const std::string& path, std::string_view bytes) {
    const auto file = *options_.file_system->NewWritableFile(path);
    ASSERT_TRUE(file->Append(bytes).ok());
    ASSERT_TRUE(file->Close().ok());
  }
  void FlipByte(const std::string& path, size_t offset) {
    std::string bytes = ReadFile(path);
    bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ 0x40);
    WriteFile(path, bytes);
  }

  Options options_;
  std::unique_ptr<DB> db_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_DB_DB_TEST_UTIL_H_
