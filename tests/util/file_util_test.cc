#include "util/file_util.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/fault_file_system.h"
#include "util/epoch.h"

namespace sievedb {
namespace {

// Counts open files and the calls of a memory file system, and fails one call by
// number.
class CountingFileSystem final : public FileSystem {
 public:
  struct Counts {
    std::atomic<int> open = 0;    // files for reading that are open now
    std::atomic<int> opened = 0;  // ever
    std::atomic<int> readaheads = 0;
  };

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) override {
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = base_->NewRandomAccessFile(path);
    if (!file.ok()) return file.status();
    return std::make_unique<CountedFile>(*std::move(file), counts_, own_memory_);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    if (absl::Status status = Step("create"); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<WritableFile>> file = base_->NewWritableFile(path);
    if (!file.ok()) return file.status();
    return std::make_unique<SteppedFile>(this, *std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(
      const std::string& path, const std::string& old_path) override {
    return base_->ReuseWritableFile(path, old_path);
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
  absl::Status CreateDirectory(const std::string& path) override {
    return base_->CreateDirectory(path);
  }
  absl::Status DeleteDirectory(const std::string& path) override {
    return base_->DeleteDirectory(path);
  }
  absl::Status DeleteFile(const std::string& path) override { return base_->DeleteFile(path); }
  absl::Status RenameFile(const std::string& from, const std::string& to) override {
    if (absl::Status status = Step("rename"); !status.ok()) return status;
    return base_->RenameFile(from, to);
  }
  absl::Status SyncDirectory(const std::string& directory) override {
    if (absl::Status status = Step("sync directory"); !status.ok()) return status;
    return base_->SyncDirectory(directory);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) override {
    return base_->LockFile(path);
  }
  absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) override {
    return base_->FreeSpaceBytes(directory);
  }

  const Counts& counts() const { return *counts_; }
  void set_own_memory(bool own_memory) { own_memory_ = own_memory; }
  // Fails the step that comes after n others.
  void FailAfter(size_t n) {
    steps_.clear();
    fail_at_ = n;
  }
  const std::vector<std::string>& steps() const { return steps_; }

 private:
  class CountedFile final : public RandomAccessFile {
   public:
    CountedFile(std::unique_ptr<RandomAccessFile> base, std::shared_ptr<Counts> counts,
                bool own_memory)
        : base_(std::move(base)), counts_(std::move(counts)), own_memory_(own_memory) {
      counts_->open.fetch_add(1);
      counts_->opened.fetch_add(1);
    }
    ~CountedFile() override { counts_->open.fetch_sub(1); }
    absl::Status Read(uint64_t offset, size_t n, char* scratch,
                      std::string_view* result) const override {
      if (!own_memory_) return base_->Read(offset, n, scratch, result);
      // Like a mapped file: the bytes live in the file object.
      thread_local std::string buffer;
      buffer.resize(n);
      const absl::Status status = base_->Read(offset, n, buffer.data(), result);
      return status;
    }
    void Readahead(uint64_t /*offset*/, size_t /*n*/) const override {
      counts_->readaheads.fetch_add(1);
    }

   private:
    const std::unique_ptr<RandomAccessFile> base_;
    const std::shared_ptr<Counts> counts_;
    const bool own_memory_;
  };

  class SteppedFile final : public WritableFile {
   public:
    SteppedFile(CountingFileSystem* owner, std::unique_ptr<WritableFile> base)
        : owner_(owner), base_(std::move(base)) {}
    absl::Status Append(std::string_view data) override {
      if (absl::Status status = owner_->Step("append"); !status.ok()) return status;
      return base_->Append(data);
    }
    absl::Status Sync() override {
      if (absl::Status status = owner_->Step("sync"); !status.ok()) return status;
      return base_->Sync();
    }
    absl::Status Close() override {
      if (absl::Status status = owner_->Step("close"); !status.ok()) return status;
      return base_->Close();
    }

   private:
    CountingFileSystem* const owner_;
    const std::unique_ptr<WritableFile> base_;
  };

  absl::Status Step(const std::string& name) {
    const bool fails = steps_.size() == fail_at_;
    steps_.push_back(name);
    return fails ? absl::UnavailableError("made to fail") : absl::OkStatus();
  }

  const std::shared_ptr<FileSystem> base_ = NewMemoryFileSystem();
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  bool own_memory_ = false;
  std::vector<std::string> steps_;
  size_t fail_at_ = ~size_t{0};
};

class FileUtilTest : public testing::Test {
 protected:
  FileUtilTest() { EXPECT_TRUE(files_->CreateDirectory("/d").ok()); }

  void WriteFile(const std::string& path, std::string_view contents) {
    const auto file = files_->NewWritableFile(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(contents).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  // Files /d/0 … of 64 bytes, each full of its number.
  void WriteFiles(int n) {
    for (int i = 0; i < n; ++i) WriteFile(Path(i), std::string(64, static_cast<char>('a' + i)));
  }
  static std::string Path(int i) { return absl::StrFormat("/d/%d", i); }
  static std::string ReadAt(const RandomAccessFile& file, uint64_t offset, size_t n) {
    std::string scratch(n, '\0');
    std::string_view got;
    const absl::Status status = file.Read(offset, n, scratch.data(), &got);
    EXPECT_TRUE(status.ok()) << status;
    return std::string(got);
  }
  std::vector<std::unique_ptr<RandomAccessFile>> OpenAll(OpenFileLimiter* limiter, int n) {
    std::vector<std::unique_ptr<RandomAccessFile>> files;
    for (int i = 0; i < n; ++i) {
      auto file = limiter->Open(Path(i));
      EXPECT_TRUE(file.ok()) << file.status();
      files.push_back(*std::move(file));
    }
    return files;
  }

  const std::shared_ptr<CountingFileSystem> files_ = std::make_shared<CountingFileSystem>();
};

TEST_F(FileUtilTest, ReadsWholeFiles) {
  for (const size_t bytes : {0, 1, 5000, 1 << 20}) {
    const std::string contents(bytes, 'c');
    WriteFile("/d/f", contents);
    const auto got = ReadWholeFile(files_.get(), "/d/f");
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, contents);
    files_->set_own_memory(true);
    EXPECT_EQ(*ReadWholeFile(files_.get(), "/d/f"), contents);
    files_->set_own_memory(false);
  }
  EXPECT_EQ(ReadWholeFile(files_.get(), "/d/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FileUtilTest, WritesAtomicallyInTheRightOrder) {
  files_->FailAfter(~size_t{0});
  ASSERT_TRUE(WriteFileAtomically(files_.get(), "/d", "CURRENT", "one").ok());
  EXPECT_EQ(files_->steps(), (std::vector<std::string>{"create", "append", "sync", "close",
                                                       "rename", "sync directory"}));
  EXPECT_EQ(*ReadWholeFile(files_.get(), "/d/CURRENT"), "one");
  ASSERT_TRUE(WriteFileAtomically(files_.get(), "/d", "CURRENT", "two").ok());
  EXPECT_EQ(*ReadWholeFile(files_.get(), "/d/CURRENT"), "two");
  EXPECT_EQ(files_->GetChildren("/d")->size(), 1u);
}

TEST_F(FileUtilTest, AFailureLeavesTheOldContents) {
  ASSERT_TRUE(WriteFileAtomically(files_.get(), "/d", "CURRENT", "old").ok());
  for (size_t step = 0; step < 6; ++step) {
    files_->FailAfter(step);
    EXPECT_EQ(WriteFileAtomically(files_.get(), "/d", "CURRENT", "new").code(),
              absl::StatusCode::kUnavailable)
        << step;
    // Once renamed, only the directory's sync is missing.
    EXPECT_EQ(*ReadWholeFile(files_.get(), "/d/CURRENT"), step < 5 ? "old" : "new") << step;
    EXPECT_EQ(files_->GetChildren("/d")->size(), 1u) << step;
  }
}

TEST_F(FileUtilTest, LimiterKeepsToItsLimit) {
  WriteFiles(10);
  OpenFileLimiter limiter(files_, 3);
  auto files = OpenAll(&limiter, 10);
  EXPECT_EQ(files_->counts().open, 3);
  std::mt19937_64 random(2);
  for (int round = 0; round < 1000; ++round) {
    const size_t i = random() % files.size();
    ASSERT_EQ(ReadAt(*files[i], 60, 10), std::string(4, static_cast<char>('a' + i)));
    EpochSynchronize();
    ASSERT_LE(files_->counts().open, 3);
  }
  EXPECT_GT(files_->counts().opened, 100);
  files.clear();
  EpochSynchronize();
  EXPECT_EQ(files_->counts().open, 0);
}

TEST_F(FileUtilTest, LimiterKeepsWhatIsRead) {
  WriteFiles(20);
  OpenFileLimiter limiter(files_, 4);
  auto files = OpenAll(&limiter, 20);
  EXPECT_EQ(ReadAt(*files[0], 0, 1), "a");
  const int before = files_->counts().opened;
  // One is read all the time, the others once each.
  for (size_t i = 1; i < files.size(); ++i) {
    EXPECT_EQ(ReadAt(*files[0], 0, 1), "a");
    EXPECT_EQ(ReadAt(*files[i], 0, 1).size(), 1u);
  }
  // It was opened again once at most; of the others, each at most once.
  EXPECT_LE(files_->counts().opened - before, 20);
}

TEST_F(FileUtilTest, LimitOfOneAndNone) {
  WriteFiles(5);
  {
    OpenFileLimiter one(files_, 1);
    const auto files = OpenAll(&one, 5);
    EXPECT_EQ(ReadAt(*files[3], 0, 2), "dd");
    EXPECT_EQ(ReadAt(*files[1], 0, 2), "bb");
    EpochSynchronize();
    EXPECT_EQ(files_->counts().open, 1);
  }
  EXPECT_EQ(files_->counts().open, 0);
  for (const int no_limit : {0, -1}) {
    OpenFileLimiter none(files_, no_limit);
    const auto files = OpenAll(&none, 5);
    EXPECT_EQ(files_->counts().open, 5);
    EXPECT_EQ(ReadAt(*files[4], 62, 9), "ee");
  }
}

TEST_F(FileUtilTest, MissingFilesAreFoundAtOpen) {
  OpenFileLimiter limiter(files_, 2);
  EXPECT_EQ(limiter.Open("/d/none").status().code(), absl::StatusCode::kNotFound);
  // One that vanishes while it is closed is an error of the read, and of no other.
  WriteFiles(3);
  const auto files = OpenAll(&limiter, 3);
  EXPECT_EQ(ReadAt(*files[1], 0, 1), "b");
  EXPECT_EQ(ReadAt(*files[2], 0, 1), "c");
  ASSERT_TRUE(files_->DeleteFile(Path(0)).ok());
  char scratch[4];
  std::string_view got = "before";
  EXPECT_EQ(files[0]->Read(0, 4, scratch, &got).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(got, "");
  EXPECT_EQ(ReadAt(*files[1], 0, 1), "b");
}

// Bytes in memory of the file's own must not outlive its being closed.
TEST_F(FileUtilTest, ResultsAreInTheCallersMemory) {
  WriteFiles(2);
  files_->set_own_memory(true);
  OpenFileLimiter limiter(files_, 1);
  const auto files = OpenAll(&limiter, 2);
  char scratch[8];
  std::string_view got;
  ASSERT_TRUE(files[0]->Read(0, 8, scratch, &got).ok());
  EXPECT_EQ(got.data(), scratch);
  EXPECT_EQ(ReadAt(*files[1], 0, 8), "bbbbbbbb");
  EXPECT_EQ(got, "aaaaaaaa");
}

TEST_F(FileUtilTest, ReadaheadDoesNotOpen) {
  WriteFiles(2);
  OpenFileLimiter limiter(files_, 1);
  const auto files = OpenAll(&limiter, 2);
  const int before = files_->counts().opened;
  files[0]->Readahead(0, 10);
  EXPECT_EQ(files_->counts().readaheads, 0);
  files[1]->Readahead(0, 10);
  EXPECT_EQ(files_->counts().readaheads, 1);
  EXPECT_EQ(files_->counts().opened, before);
}

TEST_F(FileUtilTest, StressReadersAndClosers) {
  constexpr int kFiles = 8;
  WriteFiles(kFiles);
  OpenFileLimiter limiter(files_, 2);
  {
    const auto files = OpenAll(&limiter, kFiles);
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int round = 0; round < 3000; ++round) {
          if (random() % 50 == 0) {
            // Files come and go beside those that stay.
            auto own = limiter.Open(Path(static_cast<int>(random() % kFiles)));
            if (!own.ok()) wrong.fetch_add(1);
          }
          const size_t i = random() % kFiles;
          char scratch[16];
          std::string_view got;
          const absl::Status status = files[i]->Read(random() % 40, 16, scratch, &got);
          if (!status.ok() || got != std::string(16, static_cast<char>('a' + i)))
            wrong.fetch_add(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EpochSynchronize();
    EXPECT_LE(files_->counts().open, 2);
  }
  EpochSynchronize();
  EXPECT_EQ(files_->counts().open, 0);
}

TEST(ParentDirectoryTest, OfAnyPath) {
  EXPECT_EQ(ParentDirectory("/a/b"), "/a");
  EXPECT_EQ(ParentDirectory("/a/b//"), "/a");
  EXPECT_EQ(ParentDirectory("/a"), "/");
  EXPECT_EQ(ParentDirectory("/"), "/");
  EXPECT_EQ(ParentDirectory("a"), ".");
  EXPECT_EQ(ParentDirectory("a/b"), "a");
}

TEST(CopyFileTest, EveryByteInOrderAndSynced) {
  FaultFileSystem files;
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += std::to_string(i);  // more than one piece
  ASSERT_TRUE(WriteFileAtomically(&files, "/", "from", bytes).ok());
  for (const std::string& expected : {bytes, std::string()}) {
    ASSERT_TRUE(WriteFileAtomically(&files, "/", "from", expected).ok());
    std::string seen;
    ASSERT_TRUE(CopyFile(&files, "/from", "/to", CopyOptions(), [&](std::string_view piece) {
                  seen += piece;
                }).ok());
    EXPECT_EQ(seen, expected);
    ASSERT_TRUE(files.SyncDirectory("/").ok());
    const auto left = files.CrashClone(CrashMode::kLoseUnsynced, 1);
    EXPECT_EQ(*ReadWholeFile(left.get(), "/to"), expected);
  }
}

TEST(CopyFileTest, LinksWhereItCan) {
  FaultFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(&files, "/", "from", "bytes").ok());
  ASSERT_TRUE(LinkOrCopyFile(&files, "/from", "/link", CopyOptions()).ok());
  EXPECT_EQ(files.operations(FileOp::kRead), 0u);
  files.Fail(FileOp::kLink, "", absl::UnimplementedError("no links"));
  ASSERT_TRUE(LinkOrCopyFile(&files, "/from", "/copy", CopyOptions()).ok());
  EXPECT_EQ(*ReadWholeFile(&files, "/copy"), "bytes");
  // Any other error is one.
  files.Fail(FileOp::kLink, "", absl::UnavailableError("broken"));
  EXPECT_TRUE(absl::IsUnavailable(LinkOrCopyFile(&files, "/from", "/other", CopyOptions())));
  EXPECT_FALSE(*files.FileExists("/other"));
}

}  // namespace
}  // namespace sievedb
