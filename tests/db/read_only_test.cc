// A reader beside a writer that deletes and reuses the files that it reads.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/db.h"
#include "tests/db/db_test_util.h"

namespace sievedb {
namespace {

// Reads of a file system above which somebody else writes: before each, hook is called.
class ReadHook final : public RandomAccessFile {
 public:
  ReadHook(std::unique_ptr<RandomAccessFile> base, std::function<void(uint64_t offset)> hook)
      : base_(std::move(base)), hook_(std::move(hook)) {}
  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    hook_(offset);
    return base_->Read(offset, n, scratch, result);
  }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
  const std::function<void(uint64_t offset)> hook_;
};

class HookedFileSystem final : public FileSystem {
 public:
  using Hook = std::function<void(const std::string& path, uint64_t offset)>;
  HookedFileSystem(std::shared_ptr<FileSystem> base, Hook hook)
      : base_(std::move(base)), hook_(std::move(hook)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) override {
    auto file = base_->NewRandomAccessFile(path);
    if (!file.ok()) return file;
    return std::make_unique<ReadHook>(*std::move(file),
                                      [this, path](uint64_t offset) { hook_(path, offset); });
  }
  absl::StatusOr<std::vector<std::string>> GetChildren(const std::string& directory) override {
    return base_->GetChildren(directory);
  }
  absl::StatusOr<bool> FileExists(const std::string& path) override {
    return base_->FileExists(path);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    return base_->FileSize(path);
  }
  // A reader does nothing of this.
  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string&) override {
    return Refused();
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(const std::string&,
                                                                  const std::string&) override {
    return Refused();
  }
  absl::Status CreateDirectory(const std::string&) override { return Refused(); }
  absl::Status DeleteDirectory(const std::string&) override { return Refused(); }
  absl::Status DeleteFile(const std::string&) override { return Refused(); }
  absl::Status RenameFile(const std::string&, const std::string&) override { return Refused(); }
  absl::Status SyncDirectory(const std::string&) override { return Refused(); }
  absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string&) override {
    return Refused();
  }
  absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) override {
    return base_->FreeSpaceBytes(directory);
  }

 private:
  static absl::Status Refused() {
    ADD_FAILURE() << "a reader writes";
    return absl::UnavailableError("a reader writes");
  }
  const std::shared_ptr<FileSystem> base_;
  const Hook hook_;
};

class ReadOnlyTest : public DBTest {
 protected:
  // The hook is called while it is opened only.
  std::unique_ptr<DB> OpenReader(const HookedFileSystem::Hook& hook) {
    const auto opening = std::make_shared<bool>(true);
    Options reading = options_;
    reading.file_system = std::make_shared<HookedFileSystem>(
        options_.file_system, [opening, hook](const std::string& path, uint64_t offset) {
          if (*opening) hook(path, offset);
        });
    auto reader = DB::OpenReadOnly(reading, "/db");
    *opening = false;
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  void ExpectAll(DB* reader, int keys) {
    std::string value;
    for (int i = 0; i < keys; ++i) {
      const absl::Status status = reader->Get(ReadOptions(), Key(i), &value);
      ASSERT_TRUE(status.ok()) << Key(i) << ": " << status;
    }
    EXPECT_TRUE(reader->VerifyChecksums().ok());
  }
};

// The writer flushes what a WAL has, and writes others' records over it, while the reader
// is in the middle: that does not look like its end.
TEST_F(ReadOnlyTest, AWalIsReusedWhileItIsRead) {
  options_.write_buffer_bytes = 16 << 20;
  Open();
  constexpr int kKeys = 4000;
  const std::string large(500, 'v');
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(Put(Key(i), large).ok());
  int times = 0;
  const auto reader = OpenReader([&](const std::string& path, uint64_t offset) {
    if (!path.ends_with(".wal") || offset == 0 || times == 3) return;
    ++times;
    for (int flush = 0; flush < 2; ++flush) {
      ASSERT_TRUE(Put("during", "x").ok());
      ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
    }
    for (int i = 0; i < 2 * kKeys; ++i) ASSERT_TRUE(Put("during", large).ok());
  });
  EXPECT_GE(times, 1);
  ASSERT_NE(reader, nullptr);
  ExpectAll(reader.get(), kKeys);
}

// At any one read the writer replaces all that there is.
TEST_F(ReadOnlyTest, EverythingIsReplacedAtAnyRead) {
  options_.write_buffer_bytes = 64 << 10;
  Open();
  Fill(0, 1500);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  Fill(1500, 2000);
  std::vector<std::string> acknowledged;
  int last = 1;
  for (int n = 1; n <= last && !HasFailure(); ++n) {
    SCOPED_TRACE(n);
    int reads = 0;
    const auto reader = OpenReader([&](const std::string&, uint64_t) {
      if (++reads != n) return;
      CompactRangeOptions rewrite;
      rewrite.rewrite_bottommost = true;
      ASSERT_TRUE(Put(Key(n), "changed").ok());
      ASSERT_TRUE(db_->CompactRange(rewrite, nullptr, nullptr).ok());
      ASSERT_TRUE(Put("after " + Key(n), "x").ok());
    });
    last = std::min(60, std::max(last, reads));
    ASSERT_NE(reader, nullptr);
    ExpectAll(reader.get(), 2000);
    std::string value;
    for (const std::string& key : acknowledged) {
      EXPECT_TRUE(reader->Get(ReadOptions(), key, &value).ok()) << key;
    }
    if (reads >= n) acknowledged.push_back("after " + Key(n));
  }
  EXPECT_GT(acknowledged.size(), 3u);
}

// Damage is damage: it is told at once.
TEST_F(ReadOnlyTest, DamageIsNotTakenForAWriterThatMovesOn) {
  Open();
  Fill(0, 100);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  db_ = nullptr;
  ASSERT_TRUE(options_.file_system->DeleteFile(FilesEndingWith(".sst").front()).ok());
  int reads_of_manifest = 0;
  Options reading = options_;
  reading.file_system = std::make_shared<HookedFileSystem>(
      options_.file_system, [&](const std::string& path, uint64_t offset) {
        if (path.find("MANIFEST") != path.npos && offset == 0) ++reads_of_manifest;
      });
  EXPECT_EQ(DB::OpenReadOnly(reading, "/db").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(reads_of_manifest, 1);
}

// A writer in another process that compacts all the time: each reader sees what was
// acknowledged before it was opened, and goes on to see that and no more.
TEST(ReadOnlyProcessTest, BesideAWriterThatCompacts) {
  namespace fs = std::filesystem;
  const fs::path base = fs::path(testing::TempDir()) / ("read_only" + std::to_string(getpid()));
  fs::remove_all(base);
  fs::create_directories(base);
  const std::string path = (base / "db").string();
  constexpr int kKeys = 300;
  Options options;
  options.write_buffer_bytes = 64 << 10;
  options.level_base_bytes = 128 << 10;
  options.target_file_bytes = 32 << 10;
  options.level0_file_trigger = 2;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    // Rounds of writing one number under all keys, each told of when it is done.
    auto db = DB::Open(options, path);
    if (!db.ok()) _exit(3);
    for (uint64_t round = 1;; ++round) {
      for (int i = 0; i < kKeys; ++i) {
        std::string value = std::to_string(round) + ".";
        value.resize(300, static_cast<char>('a' + i % 26));
        if (!(*db)->Put(WriteOptions(), Key(i), value).ok()) _exit(4);
      }
      if (write(pipe_ends[1], &round, sizeof(round)) != sizeof(round)) _exit(0);
    }
  }
  close(pipe_ends[1]);
  uint64_t done = 0;
  const auto wait_for = [&](uint64_t round) {
    while (done < round) {
      if (read(pipe_ends[0], &done, sizeof(done)) != sizeof(done)) return false;
    }
    return true;
  };
  const auto state = [](DB* reader) {
    std::string text;
    std::string value;
    for (int i = 0; i < kKeys; ++i) {
      const absl::Status status = reader->Get(ReadOptions(), Key(i), &value);
      text += status.ok() ? value.substr(0, value.find('.')) + " " : status.ToString();
    }
    return text;
  };
  std::vector<std::pair<std::unique_ptr<DB>, std::string>> readers;
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(wait_for(done + 4)) << "the writer died";
    auto reader = DB::OpenReadOnly(options, path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::string text = state(reader->get());
    // Each key has the last round or the one that was being written, in a prefix of keys.
    uint64_t before = UINT64_MAX;
    int turns = 0;
    for (size_t at = 0; at < text.size(); at = text.find(' ', at) + 1) {
      const uint64_t round = std::strtoull(text.c_str() + at, nullptr, 10);
      ASSERT_GE(round, done) << "an acknowledged write is not seen";
      ASSERT_LE(round, before) << "not a prefix";
      if (round != before && before != UINT64_MAX) {
        ++turns;
        ASSERT_EQ(round + 1, before);
      }
      before = round;
    }
    EXPECT_LE(turns, 1);
    readers.emplace_back(*std::move(reader), std::move(text));
  }
  ASSERT_TRUE(wait_for(done + 20));
  for (const auto& [reader, text] : readers) {
    EXPECT_EQ(state(reader.get()), text);
    EXPECT_TRUE(reader->VerifyChecksums().ok());
  }
  kill(writer, SIGKILL);
  close(pipe_ends[0]);
  waitpid(writer, nullptr, 0);
  readers.clear();
  fs::remove_all(base);
}

}  // namespace
}  // namespace sievedb
