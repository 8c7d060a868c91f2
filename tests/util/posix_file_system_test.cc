// What every FileSystem must do, run against the operating system's and the one
// in memory, and what is the operating system's alone.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/file_system.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A new directory below the system's, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sievedb_XXXXXX").string();
    const char* made = ::mkdtemp(pattern.data());
    path_ = made == nullptr ? "" : made;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

enum class Which { kPosix, kMemory };

class FileSystemContractTest : public ::testing::TestWithParam<Which> {
 protected:
  void SetUp() override {
    ASSERT_FALSE(directory_.path().empty());
    if (GetParam() == Which::kPosix) {
      fs_ = PosixFileSystem();
      root_ = directory_.path();
    } else {
      fs_ = NewMemoryFileSystem();
      root_ = "/root";
      ASSERT_TRUE(fs_->CreateDirectory(root_).ok());
    }
  }

  std::string Path(std::string_view name) const { return root_ + "/" + std::string(name); }

  void Write(const std::string& path, std::string_view content) {
    auto file = fs_->NewWritableFile(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(content).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }

  static std::string ReadAt(const RandomAccessFile& file, uint64_t offset, size_t n) {
    std::string scratch(n, '?');
    std::string_view result;
    const absl::Status status = file.Read(offset, n, scratch.data(), &result);
    return status.ok() ? std::string(result) : status.ToString();
  }

  std::string Content(const std::string& path) {
    auto file = fs_->NewRandomAccessFile(path);
    return file.ok() ? ReadAt(**file, 0, 1 << 20) : file.status().ToString();
  }

  TemporaryDirectory directory_;
  std::shared_ptr<FileSystem> fs_;
  std::string root_;
};

TEST_P(FileSystemContractTest, ReadsAnyRangeOfWhatWasAppended) {
  auto file = fs_->NewWritableFile(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("hello ").ok());
  ASSERT_TRUE((*file)->Append("").ok());
  ASSERT_TRUE((*file)->Append(std::string_view("wor\0ld", 6)).ok());

  // Appended bytes are seen before Sync and Close.
  auto reader = fs_->NewRandomAccessFile(Path("a"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(ReadAt(**reader, 0, 12), std::string("hello wor\0ld", 12));
  EXPECT_EQ(ReadAt(**reader, 6, 3), "wor");
  EXPECT_EQ(ReadAt(**reader, 10, 100), "ld");
  EXPECT_EQ(ReadAt(**reader, 12, 5), "");
  EXPECT_EQ(ReadAt(**reader, 1 << 30, 5), "");
  EXPECT_EQ(ReadAt(**reader, 3, 0), "");
  (*reader)->Readahead(0, 100);

  (*file)->StartWriteback();
  ASSERT_TRUE((*file)->Append("!").ok());
  (*file)->StartWriteback();
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_EQ(fs_->FileSize(Path("a")).value(), 13u);
}

TEST_P(FileSystemContractTest, MappedFilesReadTheSame) {
  EXPECT_EQ(fs_->NewMappedFile(Path("none")).status().code(), absl::StatusCode::kNotFound);
  Write(Path("empty"), "");
  auto empty = fs_->NewMappedFile(Path("empty"));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(ReadAt(**empty, 0, 5), "");

  auto file = fs_->NewWritableFile(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("hello").ok());
  auto reader = fs_->NewMappedFile(Path("a"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(ReadAt(**reader, 0, 5), "hello");
  EXPECT_EQ(ReadAt(**reader, 1, 3), "ell");
  EXPECT_EQ(ReadAt(**reader, 5, 0), "");
  EXPECT_EQ(ReadAt(**reader, 4, 100), "o");
  EXPECT_EQ(ReadAt(**reader, uint64_t{1} << 40, 5), "");
  // What came after the mapping is read as well.
  ASSERT_TRUE((*file)->Append(" world").ok());
  EXPECT_EQ(ReadAt(**reader, 3, 100), "lo world");
  (*reader)->Readahead(0, 100);
  // A file that is deleted stays readable while it is open.
  ASSERT_TRUE(fs_->DeleteFile(Path("a")).ok());
  EXPECT_EQ(ReadAt(**reader, 0, 5), "hello");
}

TEST_P(FileSystemContractTest, NewWritableFileTruncatesWhatWasThere) {
  Write(Path("a"), "long content");
  Write(Path("a"), "new");
  EXPECT_EQ(Content(Path("a")), "new");
}

TEST_P(FileSystemContractTest, PreallocationShowsAtMostAsZerosAndNotAfterClose) {
  auto file = fs_->NewWritableFile(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("ab").ok());
  ASSERT_TRUE((*file)->Preallocate(1 << 20).ok());
  ASSERT_TRUE((*file)->Append("c").ok());
  // What was appended is the operating system's, whatever way it went.
  const std::string content = Content(Path("a"));
  EXPECT_EQ(content.substr(0, 3), "abc");
  EXPECT_EQ(content.find_first_not_of('\0', 3), std::string::npos);
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Content(Path("a")), "abc");
}

TEST_P(FileSystemContractTest, AppendsGoOnBehindWhatWasPreallocated) {
  std::string all;
  for (const bool reuse : {false, true}) {
    auto file =
        reuse ? fs_->ReuseWritableFile(Path("b"), Path("a")) : fs_->NewWritableFile(Path("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Preallocate(600 << 10).ok());
    all.clear();
    for (int i = 0; i < 900; ++i) {
      const std::string piece(static_cast<size_t>(1 + i * 7 % 2000),
                              static_cast<char>('a' + i % 26));
      ASSERT_TRUE((*file)->Append(piece).ok());
      all += piece;
    }
    ASSERT_GT(all.size(), size_t{700} << 10);
    ASSERT_TRUE((*file)->Sync().ok());
    ASSERT_TRUE((*file)->Append("end").ok());
    ASSERT_TRUE((*file)->Close().ok());
    EXPECT_EQ(Content(Path(reuse ? "b" : "a")), all + "end");
  }
}

TEST_P(FileSystemContractTest, BootIdStays) {
  EXPECT_EQ(fs_->BootId(), fs_->BootId());
#ifdef __linux__
  EXPECT_NE(fs_->BootId(), 0u);
#endif
}

TEST_P(FileSystemContractTest, ReuseKeepsOldBytesUntilClose) {
  Write(Path("old"), "0123456789");
  auto file = fs_->ReuseWritableFile(Path("new"), Path("old"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(fs_->FileExists(Path("old")).value());
  ASSERT_TRUE((*file)->Append("abc").ok());
  EXPECT_EQ(Content(Path("new")), "abc3456789");
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Content(Path("new")), "abc");

  EXPECT_TRUE(absl::IsNotFound(fs_->ReuseWritableFile(Path("x"), Path("missing")).status()));
}

TEST_P(FileSystemContractTest, ReuseExtendsPastTheOldEnd) {
  Write(Path("old"), "0123");
  auto file = fs_->ReuseWritableFile(Path("new"), Path("old"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("abcdefgh").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(Content(Path("new")), "abcdefgh");
}

TEST_P(FileSystemContractTest, MissingThingsAreNotFoundAndNamed) {
  const std::string path = Path("missing");
  for (const absl::Status& status :
       {fs_->NewRandomAccessFile(path).status(), fs_->NewWritableFile(path + "/a").status(),
        fs_->GetChildren(path).status(), fs_->FileSize(path).status(), fs_->DeleteFile(path),
        fs_->DeleteDirectory(path), fs_->CreateDirectory(path + "/a"),
        fs_->RenameFile(path, Path("b")), fs_->SyncDirectory(path),
        fs_->LockFile(path + "/LOCK").status(), fs_->FreeSpaceBytes(path).status()}) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), HasSubstr("No such file"));
  }
  EXPECT_FALSE(fs_->FileExists(path).value());
}

TEST_P(FileSystemContractTest, RenameReplacesTheTarget) {
  Write(Path("a"), "A");
  Write(Path("b"), "B");
  auto old_b = fs_->NewRandomAccessFile(Path("b"));
  ASSERT_TRUE(old_b.ok());
  ASSERT_TRUE(fs_->RenameFile(Path("a"), Path("b")).ok());
  EXPECT_EQ(Content(Path("b")), "A");
  EXPECT_FALSE(fs_->FileExists(Path("a")).value());
  EXPECT_EQ(ReadAt(**old_b, 0, 10), "B");
  ASSERT_TRUE(fs_->RenameFile(Path("b"), Path("b")).ok());
  EXPECT_EQ(Content(Path("b")), "A");
}

TEST_P(FileSystemContractTest, ALinkIsASecondNameOfTheFile) {
  Write(Path("a"), "A");
  Write(Path("b"), "B");
  ASSERT_TRUE(fs_->LinkFile(Path("a"), Path("l")).ok());
  EXPECT_EQ(Content(Path("l")), "A");
  const absl::Status taken = fs_->LinkFile(Path("b"), Path("l"));
  EXPECT_FALSE(taken.ok());
  EXPECT_THAT(std::string(taken.message()), HasSubstr("File exists"));
  EXPECT_EQ(Content(Path("l")), "A");
  EXPECT_TRUE(absl::IsNotFound(fs_->LinkFile(Path("none"), Path("m"))));
  EXPECT_TRUE(absl::IsNotFound(fs_->LinkFile(Path("a"), Path("none/m"))));
  ASSERT_TRUE(fs_->CreateDirectory(Path("d")).ok());
  EXPECT_FALSE(fs_->LinkFile(Path("d"), Path("m")).ok());
  EXPECT_FALSE(fs_->FileExists(Path("m")).value());
  // Each name goes its own way.
  ASSERT_TRUE(fs_->DeleteFile(Path("a")).ok());
  Write(Path("a"), "another");
  EXPECT_EQ(Content(Path("l")), "A");
  ASSERT_TRUE(fs_->LinkFile(Path("l"), Path("d/k")).ok());
  ASSERT_TRUE(fs_->DeleteFile(Path("l")).ok());
  EXPECT_EQ(Content(Path("d/k")), "A");
}

TEST_P(FileSystemContractTest, DeletedFileStaysReadableWhereItIsOpen) {
  Write(Path("a"), "content");
  auto reader = fs_->NewRandomAccessFile(Path("a"));
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(fs_->DeleteFile(Path("a")).ok());
  EXPECT_FALSE(fs_->FileExists(Path("a")).value());
  EXPECT_EQ(ReadAt(**reader, 0, 100), "content");
  Write(Path("a"), "another");
  EXPECT_EQ(ReadAt(**reader, 0, 100), "content");
}

TEST_P(FileSystemContractTest, Directories) {
  ASSERT_TRUE(fs_->CreateDirectory(Path("d")).ok());
  EXPECT_TRUE(fs_->CreateDirectory(Path("d")).ok());
  ASSERT_TRUE(fs_->CreateDirectory(Path("d/e")).ok());
  Write(Path("d/f"), "1");
  Write(Path("d/e/g"), "2");
  Write(Path("d2"), "3");
  EXPECT_THAT(fs_->GetChildren(Path("d")).value(), UnorderedElementsAre("e", "f"));
  EXPECT_THAT(fs_->GetChildren(Path("d/")).value(), UnorderedElementsAre("e", "f"));
  EXPECT_THAT(fs_->GetChildren(root_).value(), UnorderedElementsAre("d", "d2"));
  EXPECT_TRUE(fs_->SyncDirectory(Path("d")).ok());
  EXPECT_GT(fs_->FreeSpaceBytes(Path("d")).value(), 0u);

  EXPECT_FALSE(fs_->DeleteDirectory(Path("d")).ok());  // not empty
  EXPECT_FALSE(fs_->DeleteFile(Path("d/e")).ok());
  EXPECT_FALSE(fs_->GetChildren(Path("d/f")).ok());
  EXPECT_FALSE(fs_->CreateDirectory(Path("d/f")).ok());
  EXPECT_FALSE(fs_->NewWritableFile(Path("d/e")).ok());
  EXPECT_FALSE(fs_->RenameFile(Path("d/f"), Path("d/e")).ok());
  EXPECT_FALSE(fs_->RenameFile(Path("d"), Path("d/e/d")).ok());

  ASSERT_TRUE(fs_->RenameFile(Path("d"), Path("moved")).ok());
  EXPECT_EQ(Content(Path("moved/e/g")), "2");
  EXPECT_EQ(Content(Path("d2")), "3");
  EXPECT_FALSE(fs_->FileExists(Path("d/f")).value());
  ASSERT_TRUE(fs_->DeleteFile(Path("moved/e/g")).ok());
  EXPECT_TRUE(fs_->DeleteDirectory(Path("moved/e")).ok());
  EXPECT_FALSE(fs_->FileExists(Path("moved/e")).value());
}

TEST_P(FileSystemContractTest, LockIsHeldOnceUntilItIsDestroyed) {
  auto lock = fs_->LockFile(Path("LOCK"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE(fs_->FileExists(Path("LOCK")).value());
  const auto second = fs_->LockFile(Path("LOCK"));
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(Path("LOCK")));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrFormat("%d", getpid())));
  // Looking at the file, and being refused, must not drop the lock.
  Content(Path("LOCK"));
  EXPECT_FALSE(fs_->LockFile(Path("LOCK")).ok());
  EXPECT_TRUE(fs_->LockFile(Path("LOCK2")).ok());
  lock->reset();
  EXPECT_TRUE(fs_->LockFile(Path("LOCK")).ok());
}

TEST_P(FileSystemContractTest, LockOfDeletedFileDoesNotStopANewOne) {
  auto lock = fs_->LockFile(Path("LOCK"));
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(fs_->DeleteFile(Path("LOCK")).ok());
  auto other = fs_->LockFile(Path("LOCK"));
  ASSERT_TRUE(other.ok()) << other.status();
  lock->reset();
  EXPECT_FALSE(fs_->LockFile(Path("LOCK")).ok());
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemContractTest,
                         ::testing::Values(Which::kPosix, Which::kMemory),
                         [](const ::testing::TestParamInfo<Which>& which) {
                           return which.param == Which::kPosix ? "Posix" : "Memory";
                         });

// A child process, killed and awaited at the end.
class Child {
 public:
  // fn runs in the child and reports by writing to the pipe's end it is given.
  template <typename Fn>
  explicit Child(Fn fn) {
    int ends[2];
    if (::pipe(ends) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      fn(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    from_child_ = ends[0];
  }
  ~Child() {
    Kill();
    ::close(from_child_);
  }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Everything that the child writes, until it closes its end.
  std::string Read() const {
    std::string all;
    char buffer[256];
    for (ssize_t n; (n = ::read(from_child_, buffer, sizeof(buffer))) > 0;) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
};

void WriteText(int fd, std::string_view text) {
  if (::write(fd, text.data(), text.size()) < 0) ::_exit(1);
}

TEST(PosixFileSystemTest, SecondProcessIsToldWhoHoldsTheLock) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/LOCK";
  Child holder([&](int report) {
    auto lock = PosixFileSystem()->LockFile(path);
    WriteText(report, lock.ok() ? "held" : lock.status().ToString());
    ::close(report);
    for (;;) ::pause();
  });
  ASSERT_GT(holder.pid(), 0);
  ASSERT_EQ(holder.Read(), "held");
  const auto refused = PosixFileSystem()->LockFile(path);
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(absl::StrFormat("%s: held by process %d", path, holder.pid())));
  // A process that dies leaves no lock behind.
  holder.Kill();
  EXPECT_TRUE(PosixFileSystem()->LockFile(path).ok());
}

TEST(PosixFileSystemTest, ForkedChildNeitherHoldsNorReleasesItsParentsLock) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/LOCK";
  auto lock = PosixFileSystem()->LockFile(path);
  ASSERT_TRUE(lock.ok()) << lock.status();
  {
    Child child([&](int report) {
      lock->reset();
      const auto again = PosixFileSystem()->LockFile(path);
      WriteText(report, std::string(again.status().message()));
    });
    EXPECT_THAT(child.Read(), HasSubstr(absl::StrFormat("held by process %d", ::getpid())));
  }
  EXPECT_FALSE(PosixFileSystem()->LockFile(path).ok());

  // Nor does a child that was forked meanwhile keep it alive.
  Child sleeper([](int report) {
    ::close(report);
    for (;;) ::pause();
  });
  sleeper.Read();
  lock->reset();
  EXPECT_TRUE(PosixFileSystem()->LockFile(path).ok());
}

TEST(PosixFileSystemTest, LockWorksWhereTheHoldersPidIsUnreadable) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/LOCK";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "garbage\n", 8), 8);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const auto refused = PosixFileSystem()->LockFile(path);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another process"));
  ::close(fd);
  EXPECT_TRUE(PosixFileSystem()->LockFile(path).ok());
}

TEST(PosixFileSystemTest, ErrorsNameOperationPathAndErrno) {
  TemporaryDirectory directory;
  const auto missing = PosixFileSystem()->NewRandomAccessFile(directory.path() + "/none");
  EXPECT_EQ(missing.status().message(),
            absl::StrFormat("open %s/none: No such file or directory (errno 2)", directory.path()));
  auto on_directory = PosixFileSystem()->NewRandomAccessFile(directory.path());
  if (on_directory.ok()) {
    char byte;
    std::string_view result;
    const absl::Status status = (*on_directory)->Read(0, 1, &byte, &result);
    EXPECT_THAT(status.ToString(), HasSubstr("pread " + directory.path() + ": "));
    EXPECT_TRUE(result.empty());
  }
}

TEST(PosixFileSystemTest, FullDiskIsResourceExhausted) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  auto file = PosixFileSystem()->NewWritableFile("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = (*file)->Append("x");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), "write /dev/full: No space left on device (errno 28)");
}

TEST(PosixFileSystemTest, PipeInPlaceOfAFileIsAnErrorNotAHang) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto file = PosixFileSystem()->NewRandomAccessFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  char byte;
  std::string_view result;
  EXPECT_FALSE((*file)->Read(0, 1, &byte, &result).ok());
}

TEST(PosixFileSystemTest, DoesNotWriteThroughSymbolicLinks) {
  TemporaryDirectory directory;
  const std::string target = directory.path() + "/target";
  const std::string link = directory.path() + "/link";
  ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
  EXPECT_FALSE(PosixFileSystem()->NewWritableFile(link).ok());
  EXPECT_FALSE(PosixFileSystem()->LockFile(link).ok());
  EXPECT_FALSE(PosixFileSystem()->FileExists(target).value());
}

TEST(PosixFileSystemTest, CloseGivesPreallocatedSpaceBack) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  auto file = PosixFileSystem()->NewWritableFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("abc").ok());
  ASSERT_TRUE((*file)->Preallocate(8 << 20).ok());
  struct stat before;
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  ASSERT_TRUE((*file)->Close().ok());
  struct stat after;
  ASSERT_EQ(::stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_size, 3);
  constexpr blkcnt_t kReserved = (8 << 20) / 512;
  if (before.st_blocks >= kReserved) {  // where the file system reserves at all
    EXPECT_LT(after.st_blocks, kReserved / 8);
  }
}

TEST(PosixFileSystemTest, WriteBeyondTheFileSizeLimitIsAnError) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  Child child([&](int report) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    auto file = PosixFileSystem()->NewWritableFile(path);
    if (!file.ok()) ::_exit(1);
    // The kernel takes the first 1000 bytes, a short write, and refuses the rest.
    const absl::Status status = (*file)->Append(std::string(1500, 'x'));
    WriteText(report, status.ToString());
  });
  EXPECT_THAT(child.Read(), HasSubstr("write " + path + ": File too large"));
  EXPECT_EQ(PosixFileSystem()->FileSize(path).value(), 1000u);
}

TEST(PosixFileSystemTest, PreallocationBeyondTheFileSizeLimitIsLeftOut) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  // Growing the file would send SIGXFSZ, which ends the process.
  Child child([&](int report) {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    auto file = PosixFileSystem()->NewWritableFile(path);
    if (!file.ok() || !(*file)->Preallocate(8 << 20).ok()) ::_exit(1);
    WriteText(report, (*file)->Append("abc").ToString());
  });
  EXPECT_EQ(child.Read(), "OK");
  EXPECT_EQ(PosixFileSystem()->FileSize(path).value(), 3u);
}

TEST(PosixFileSystemTest, NewFilesFollowTheUmask) {
  TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  const mode_t old_mask = ::umask(027);
  const bool made = PosixFileSystem()->NewWritableFile(path).ok();
  ::umask(old_mask);
  ASSERT_TRUE(made);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, mode_t{0640});
}

}  // namespace
}  // namespace sievedb
