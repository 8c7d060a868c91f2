#ifndef SIEVEDB_TESTS_DB_OPEN_TEST_UTIL_H_
#define SIEVEDB_TESTS_DB_OPEN_TEST_UTIL_H_

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "db/log_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "util/coding.h"
#include "util/hash.h"

namespace sievedb {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush().good()) << path;
}

// The header of a log with one 32-bit field replaced, and its checksum put right.
inline void SetLogHeaderField(const std::string& path, size_t at, uint32_t value) {
  std::string bytes = ReadFile(path);
  ASSERT_GE(bytes.size(), kLogHeaderBytes);
  EncodeFixed32(bytes.data() + at, value);
  EncodeFixed64(bytes.data() + 48, Hash64({bytes.data(), 48}));
  WriteFile(path, bytes);
}

// A small database on the file system of the machine, to be damaged.
class OpenTest : public testing::Test {
 protected:
  static constexpr int kTableKeys = 100;  // keys in each of two tables
  static constexpr int kWalKeys = 10;

  OpenTest() {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = absl::StrFormat("%s/open_%d_%s", testing::TempDir(), getpid(), info->name());
    std::filesystem::remove_all(path_);
    options_.compression = Compression::kNone;
    options_.disable_auto_compaction = true;
  }
  ~OpenTest() override {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }

  static std::string Key(int i) { return absl::StrFormat("key%05d", i); }
  static std::string Value(int i) { return absl::StrFormat("value%05d", i); }

  // Two tables, and a WAL with records.
  void Create() {
    const auto db = DB::Open(options_, path_);
    ASSERT_TRUE(db.ok()) << db.status();
    int i = 0;
    for (const int end : {kTableKeys, 2 * kTableKeys, 2 * kTableKeys + kWalKeys}) {
      for (; i < end; ++i) ASSERT_TRUE((*db)->Put(WriteOptions(), Key(i), Value(i)).ok());
      if (end > 2 * kTableKeys) continue;
      ASSERT_TRUE((*db)->Flush(FlushOptions()).ok());
    }
    ASSERT_TRUE((*db)->Close().ok());
    keys_ = i;
    current_ = path_ + "/CURRENT";
    std::string manifest = ReadFile(current_);
    ASSERT_FALSE(manifest.empty());
    manifest.pop_back();
    manifest_ = path_ + "/" + manifest;
    for (const auto& [number, name] : Numbered(FileKind::kTable)) tables_.push_back(name);
    ASSERT_EQ(tables_.size(), 2u);
    wal_ = Numbered(FileKind::kWal).rbegin()->second;
    ASSERT_GT(std::filesystem::file_size(wal_), kLogHeaderBytes);
    saved_ = Files();
  }

  std::map<uint64_t, std::string> Numbered(FileKind kind) {
    std::map<uint64_t, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const auto parsed = ParseFileName(entry.path().filename().string());
      if (parsed.has_value() && parsed->kind == kind) {
        found[parsed->number] = entry.path().string();
      }
    }
    return found;
  }

  // The regular files that hold the database: path -> bytes.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name == "LOCK" || name.starts_with("LOG") || name.starts_with("OPTIONS")) continue;
      if (entry.is_symlink() || !entry.is_regular_file()) continue;
      if (entry.file_size() > (1 << 20)) continue;  // made large by a test
      files[entry.path().string()] = ReadFile(entry.path().string());
    }
    return files;
  }

  void Restore() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
    for (const auto& [path, bytes] : saved_) WriteFile(path, bytes);
  }

  // Every key from first to last - 1 is there.
  void ExpectKeys(DB* db, int first, int last) {
    for (int i = first; i < last; ++i) {
      std::string value;
      const absl::Status status = db->Get(ReadOptions(), Key(i), &value);
      ASSERT_TRUE(status.ok()) << Key(i) << ": " << status;
      ASSERT_EQ(value, Value(i));
    }
  }
  void ExpectWhole() {
    const auto db = DB::Open(options_, path_);
    ASSERT_TRUE(db.ok()) << db.status();
    ExpectKeys(db->get(), 0, keys_);
    EXPECT_TRUE((*db)->VerifyChecksums().ok());
  }

  // Neither way of opening succeeds, both name what is wrong, neither touches a
  // file of the database; and with the damage undone everything is there.
  void ExpectRefused(absl::StatusCode code, const std::vector<std::string>& parts) {
    const auto before = Files();
    for (const bool read_only : {false, true}) {
      const auto db = read_only ? DB::OpenReadOnly(options_, path_) : DB::Open(options_, path_);
      ASSERT_FALSE(db.ok()) << (read_only ? "read-only" : "for writing");
      EXPECT_EQ(db.status().code(), code) << db.status();
      for (const std::string& part : parts) {
        EXPECT_THAT(std::string(db.status().message()), testing::HasSubstr(part));
      }
    }
    const auto after = Files();
    for (const auto& [path, bytes] : before) {
      ASSERT_TRUE(after.contains(path)) << path << " is gone";
      EXPECT_TRUE(after.at(path) == bytes) << path << " is changed";
    }
    Restore();
    ExpectWhole();
    Restore();
  }

  struct Case {
    const char* what;
    std::function<void()> damage;
    absl::StatusCode code;
    std::vector<std::string> parts;
  };
  void Run(const std::vector<Case>& cases) {
    for (const Case& one : cases) {
      SCOPED_TRACE(one.what);
      one.damage();
      ExpectRefused(one.code, one.parts);
      if (HasFatalFailure()) return;
    }
  }

  void FlipBit(const std::string& path, size_t at) {
    std::string bytes = ReadFile(path);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    WriteFile(path, bytes);
  }
  static void Dangle(const std::string& path) {
    std::filesystem::remove(path);
    std::filesystem::create_symlink("nowhere", path);
  }
  static void MakeDirectory(const std::string& path) {
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
  }

  std::string path_;
  Options options_;
  int keys_ = 0;
  std::string current_;
  std::string manifest_;
  std::string wal_;
  std::vector<std::string> tables_;
  std::map<std::string, std::string> saved_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_DB_OPEN_TEST_UTIL_H_
