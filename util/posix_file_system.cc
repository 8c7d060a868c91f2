#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "sievedb/file_system.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

absl::StatusCode CodeOfErrno(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
    case EIO:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOMEM:
    case EBUSY:
    case ENODEV:
    case ENXIO:
    case ENOLCK:
    case ESTALE:
    case ETIMEDOUT:
    case ETXTBSY:
      return absl::StatusCode::kUnavailable;
    case EINVAL:
    case EBADF:
    case EFAULT:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::Status ErrnoStatus(std::string_view operation, std::string_view path, int error) {
  // generic_category().message is strerror that threads may call.
  return absl::Status(CodeOfErrno(error),
                      absl::StrFormat("%s %s: %s (errno %d)", operation, path,
                                      std::generic_category().message(error), error));
}

// Calls a function that returns -1 and sets errno until no signal interrupts it.
template <typename Fn>
auto RetryInterrupted(Fn fn) {
  auto result = fn();
  while (result == -1 && errno == EINTR) result = fn();
  return result;
}

// An open descriptor, closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // False with errno set where the file system reports a late error. Linux gives
  // the descriptor back whatever close says, so it is never called twice.
  bool Close() { return ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }

 private:
  int fd_;
};

absl::StatusOr<Descriptor> OpenFile(const std::string& path, int flags) {
  const int fd =
      RetryInterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode_t{0666}); });
  if (fd < 0) return ErrnoStatus("open", path, errno);
  return Descriptor(fd);
}

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(Descriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    size_t done = 0;
    while (done < n) {
      const ssize_t got =
          ::pread(fd_.get(), scratch + done, n - done, static_cast<off_t>(offset + done));
      if (got < 0) {
        if (errno == EINTR) continue;
        *result = {};
        return ErrnoStatus("pread", path_, errno);
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    *result = std::string_view(scratch, done);
    return absl::OkStatus();
  }

  void Readahead(uint64_t offset, size_t n) const override {
    // A hint: where it fails, the read itself will say why.
    static_cast<void>(::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(n),
                                      POSIX_FADV_WILLNEED));
  }

 private:
  const Descriptor fd_;
  const std::string path_;
};

// Reads what was there when it was opened from a mapping, and what came since as its
// base does.
class MappedFile final : public RandomAccessFile {
 public:
  MappedFile(std::unique_ptr<PosixRandomAccessFile> file, const char* data, size_t size)
      : file_(std::move(file)), data_(data), size_(size) {}
  ~MappedFile() override { ::munmap(const_cast<char*>(data_), size_); }

  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    if (offset > size_ || n > size_ - offset) return file_->Read(offset, n, scratch, result);
    *result = std::string_view(data_ + offset, n);
    return absl::OkStatus();
  }
  void Readahead(uint64_t offset, size_t n) const override { file_->Readahead(offset, n); }

 private:
  const std::unique_ptr<PosixRandomAccessFile> file_;
  const char* const data_;
  const size_t size_;
};

// Whether space that fallocate reserved on the file system of fd is really there for
// pages that are written through a mapping. Elsewhere (copy on write, network) a full
// disk would show as a SIGBUS.
bool ReservationHoldsForMapping(int fd) {
#ifdef __linux__
  struct statfs info;
  if (RetryInterrupted([&] { return ::fstatfs(fd, &info); }) != 0) return false;
  switch (static_cast<uint64_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
#else
  static_cast<void>(fd);
  return false;
#endif
}

// Appends are written by system calls, or, within preallocated space, by copying
// them into a shared mapping of the file: the kernel has them as soon as they are
// copied, so they survive the process as those of write do, and fdatasync covers
// both.
class PosixWritableFile final : public WritableFile {
 public:
  // file_bytes: size of what is there already, to be overwritten.
  PosixWritableFile(Descriptor fd, std::string path, uint64_t file_bytes)
      : fd_(std::move(fd)), path_(std::move(path)), reserved_(file_bytes) {}

  ~PosixWritableFile() override { Close().IgnoreError(); }  // as the header says

  absl::Status Append(std::string_view data) override {
    assert(!closed_);
    if (size_ < mapped_) {
      const size_t n = static_cast<size_t>(std::min<uint64_t>(data.size(), mapped_ - size_));
      if (size_ + n > populated_) SIEVEDB_RETURN_IF_ERROR(Populate(size_ + n));
      std::memcpy(mapping_ + size_, data.data(), n);
      size_ += n;
      data.remove_prefix(n);
    }
    while (!data.empty()) {
      const ssize_t wrote = Write(data);
      if (wrote < 0) {
        if (errno == EINTR) continue;
        return ErrnoStatus("write", path_, errno);
      }
      size_ += static_cast<uint64_t>(wrote);
      data.remove_prefix(static_cast<size_t>(wrote));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    assert(!closed_);
    // The kernel reports a lost page once and then calls it clean: a second sync
    // would succeed and mean nothing.
    SIEVEDB_RETURN_IF_ERROR(sync_error_);
    next_populated_ = kMinPopulatedBytes;
    if (RetryInterrupted([&] { return ::fdatasync(fd_.get()); }) != 0) {
      sync_error_ = ErrnoStatus("fdatasync", path_, errno);
    }
    return sync_error_;
  }

  void StartWriteback() override {
#ifdef SYNC_FILE_RANGE_WRITE
    if (size_ <= writeback_begin_) return;
    static_cast<void>(::sync_file_range(fd_.get(), static_cast<off_t>(writeback_begin_),
                                        static_cast<off_t>(size_ - writeback_begin_),
                                        SYNC_FILE_RANGE_WRITE));
    // The last page may be half full: the next call takes it again.
    writeback_begin_ = size_ - size_ % kPageBytes;
#endif
  }

  absl::Status Preallocate(uint64_t bytes) override {
    assert(!closed_ && mapping_ == nullptr);
#ifdef __linux__
    if (bytes == 0 || bytes > FileSizeLimit()) return absl::OkStatus();
    bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (RetryInterrupted([&] { return ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)); }) !=
        0) {
      if (errno == EOPNOTSUPP || errno == ENOSYS) return absl::OkStatus();
      const absl::Status status = ErrnoStatus("fallocate", path_, errno);
      // Some file systems keep what they could reserve before the disk was full: others
      // need it now.
      const uint64_t before = std::max(reserved_, size_);
      if (::ftruncate(fd_.get(), static_cast<off_t>(before)) != 0) reserved_ = before + 1;
      return status;
    }
    reserved_ = std::max(reserved_, bytes);
    Map(bytes);
#else
    static_cast<void>(bytes);
#endif
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (closed_) return absl::OkStatus();
    closed_ = true;
    if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
    absl::Status status;
    // Truncating to the present size frees the blocks behind it; a recycled file
    // also loses what is left of its earlier life.
    if (reserved_ > size_ &&
        RetryInterrupted([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size_)); }) != 0) {
      status = ErrnoStatus("ftruncate", path_, errno);
    }
    if (!fd_.Close()) status.Update(ErrnoStatus("close", path_, errno));
    return status;
  }

 private:
  static constexpr uint64_t kPageBytes = 4096;
  // As much is made writable at once: a page at a time costs a fault each, much more
  // would be a pause that shows. Less at first and after each sync, which writes what
  // was made writable whether it is used or not.
  static constexpr uint64_t kMinPopulatedBytes = uint64_t{16} << 10;
  static constexpr uint64_t kMaxPopulatedBytes = uint64_t{256} << 10;

  ssize_t Write(std::string_view data) {
    // The descriptor's own offset is not moved by what goes through the mapping.
    return mapped_ == 0 ? ::write(fd_.get(), data.data(), data.size())
                        : ::pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(size_));
  }

  // Of the process. Growing a file beyond it is answered by a signal.
  static uint64_t FileSizeLimit() {
    struct rlimit limit;
    const bool known = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return known ? uint64_t{limit.rlim_cur} : std::numeric_limits<uint64_t>::max();
  }

  void Map(uint64_t bytes) {
    if (!ReservationHoldsForMapping(fd_.get())) return;
    void* const mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (mapping == MAP_FAILED) return;  // then it is written by system calls
    // Nothing is read, so reading ahead would only make pages that are not needed yet.
    static_cast<void>(::madvise(mapping, bytes, MADV_RANDOM));
    mapping_ = static_cast<char*>(mapping);
    mapped_ = bytes;
    populated_ = size_ - size_ % kPageBytes;
  }

  // Makes the mapping writable up to end at least. What would be a SIGBUS at the
  // first touch of a page, an error on reading what a recycled file had there, is a
  // Status here.
  absl::Status Populate(uint64_t end) {
    const uint64_t goal =
        std::min(mapped_, (end + next_populated_ - 1) / next_populated_ * next_populated_);
    next_populated_ = std::min(2 * next_populated_, kMaxPopulatedBytes);
#ifdef MADV_POPULATE_WRITE
    if (RetryInterrupted([&] {
          return ::madvise(mapping_ + populated_, goal - populated_, MADV_POPULATE_WRITE);
        }) != 0 &&
        errno != EINVAL) {  // a kernel before 5.14: pages come as they are touched
      return ErrnoStatus("populate the mapping of", path_, errno);
    }
#endif
    populated_ = goal;
    return absl::OkStatus();
  }

  Descriptor fd_;
  const std::string path_;
  uint64_t size_ = 0;      // bytes appended
  uint64_t reserved_ = 0;  // bytes of disk space that the file was given, or more than size_
  uint64_t writeback_begin_ = 0;
  char* mapping_ = nullptr;
  uint64_t mapped_ = 0;
  uint64_t populated_ = 0;  // of the mapping
  uint64_t next_populated_ = kMinPopulatedBytes;
  bool closed_ = false;
  absl::Status sync_error_;
};

// The holder's pid as it wrote it, or 0.
int64_t ReadPid(int fd) {
  char text[24];
  const ssize_t n = RetryInterrupted([&] { return ::pread(fd, text, sizeof(text), 0); });
  int64_t pid = 0;
  if (n <= 0 || !absl::SimpleAtoi(absl::string_view(text, static_cast<size_t>(n)), &pid)) return 0;
  return pid;
}

// flock, not fcntl: a lock of fcntl is lost when any descriptor of the file is
// closed anywhere in the process, so that merely looking at LOCK would drop it.
class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(Descriptor fd) : fd_(std::move(fd)), pid_(::getpid()) {}

  ~PosixFileLock() override {
    // A child that was forked has this lock too, as a copy; only the one who took
    // it gives it up, at once, though a child may keep the descriptor open.
    if (::getpid() != pid_) return;
    if (::ftruncate(fd_.get(), 0) != 0) {
      // The pid stays; whoever locks next replaces it.
    }
    static_cast<void>(::flock(fd_.get(), LOCK_UN));
  }

  // Writes who holds the lock, for the one that is refused. The lock is good
  // without it (on a full disk, say).
  void WritePid() {
    const std::string text = absl::StrFormat("%d\n", pid_);
    if (::ftruncate(fd_.get(), 0) != 0) return;
    if (::pwrite(fd_.get(), text.data(), text.size(), 0) < 0) return;
  }

 private:
  const Descriptor fd_;
  const pid_t pid_;
};

class PosixFileSystemImpl final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) override {
    // O_NONBLOCK says nothing to a regular file; a pipe in its place is an error
    // then, not a wait for ever.
    SIEVEDB_ASSIGN_OR_RETURN(Descriptor fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
    return std::make_unique<PosixRandomAccessFile>(std::move(fd), path);
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewMappedFile(
      const std::string& path) override {
    SIEVEDB_ASSIGN_OR_RETURN(Descriptor fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
    struct stat info;
    void* data = MAP_FAILED;
    if (::fstat(fd.get(), &info) == 0 && info.st_size > 0) {
      data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd.get(), 0);
    }
    auto file = std::make_unique<PosixRandomAccessFile>(std::move(fd), path);
    // Where there is no room for a mapping, or nothing to map, it is read.
    if (data == MAP_FAILED) return file;
    const size_t size = static_cast<size_t>(info.st_size);
    // Blocks are read here and there; who reads on says so by Readahead.
    static_cast<void>(::madvise(data, size, MADV_RANDOM));
    return std::make_unique<MappedFile>(std::move(file), static_cast<const char*>(data), size);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    SIEVEDB_ASSIGN_OR_RETURN(Descriptor fd,
                             OpenFile(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW));
    return std::make_unique<PosixWritableFile>(std::move(fd), path, 0);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(
      const std::string& path, const std::string& old_path) override {
    SIEVEDB_RETURN_IF_ERROR(RenameFile(old_path, path));
    SIEVEDB_ASSIGN_OR_RETURN(Descriptor fd, OpenFile(path, O_RDWR | O_NOFOLLOW));
    struct stat info;
    if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("fstat", path, errno);
    return std::make_unique<PosixWritableFile>(std::move(fd), path,
                                               static_cast<uint64_t>(info.st_size));
  }

  absl::StatusOr<std::vector<std::string>> GetChildren(const std::string& directory) override {
    struct Closer {
      void operator()(DIR* dir) const { ::closedir(dir); }
    };
    const std::unique_ptr<DIR, Closer> dir(::opendir(directory.c_str()));
    if (dir == nullptr) return ErrnoStatus("opendir", directory, errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());
      if (entry == nullptr) break;
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return ErrnoStatus("readdir", directory, errno);
    return names;
  }

  absl::StatusOr<bool> FileExists(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return ErrnoStatus("stat", path, errno);
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus("stat", path, errno);
    return static_cast<uint64_t>(info.st_size);
  }

  absl::Status CreateDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), mode_t{0777}) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat info;
    if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return absl::OkStatus();
    }
    return ErrnoStatus("mkdir", path, error);
  }

  absl::Status DeleteDirectory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) return ErrnoStatus("rmdir", path, errno);
    return absl::OkStatus();
  }

  absl::Status DeleteFile(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return ErrnoStatus("unlink", path, errno);
    return absl::OkStatus();
  }

  absl::Status RenameFile(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    const int error = errno;
    return ErrnoStatus("rename", absl::StrFormat("%s to %s", from, to), error);
  }

  absl::Status LinkFile(const std::string& from, const std::string& to) override {
    const std::string both = absl::StrFormat("%s to %s", from, to);
    // A symbolic link would be linked itself, and would go on following who made it.
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      const int error = errno;
      const absl::Status status = ErrnoStatus("link", both, error);
      const bool cannot =
          error == EXDEV || error == EPERM || error == EMLINK || error == EOPNOTSUPP;
      return cannot ? absl::UnimplementedError(status.message()) : status;
    }
    absl::Status synced;
    absl::StatusOr<Descriptor> fd = OpenFile(to, O_RDONLY);
    if (!fd.ok()) {
      synced = fd.status();
    } else if (RetryInterrupted([&] { return ::fdatasync(fd->get()); }) != 0) {
      // Of the file's own description only the number of its names is new: who has many
      // files to link, all synced already, waits for the disk once, with the directory.
      synced = ErrnoStatus("fdatasync", to, errno);
    }
    if (!synced.ok()) ::unlink(to.c_str());
    return synced;
  }

  absl::Status SyncDirectory(const std::string& directory) override {
    SIEVEDB_ASSIGN_OR_RETURN(Descriptor fd, OpenFile(directory, O_RDONLY | O_DIRECTORY));
    // EINVAL: a file system whose directories need no sync, and have none.
    if (RetryInterrupted([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) {
      return ErrnoStatus("fsync", directory, errno);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) override {
    // Whoever destroys a database deletes its LOCK. We may have opened it before
    // and locked it after: then the name leads elsewhere, and our lock is worth
    // nothing.
    constexpr int kAttempts = 16;
    for (int i = 0; i < kAttempts; ++i) {
      SIEVEDB_ASSIGN_OR_RETURN(Descriptor fd, OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW));
      if (RetryInterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
        if (errno != EWOULDBLOCK) return ErrnoStatus("flock", path, errno);
        return HeldBy(path, ReadPid(fd.get()));
      }
      struct stat ours;
      struct stat named;
      if (::fstat(fd.get(), &ours) != 0) return ErrnoStatus("fstat", path, errno);
      if (::stat(path.c_str(), &named) == 0 && ours.st_dev == named.st_dev &&
          ours.st_ino == named.st_ino) {
        auto lock = std::make_unique<PosixFileLock>(std::move(fd));
        lock->WritePid();
        return lock;
      }
    }
    return absl::UnavailableError(
        absl::StrFormat("lock %s: the file was replaced again and again", path));
  }

  absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) override {
    struct statvfs info;
    if (RetryInterrupted([&] { return ::statvfs(directory.c_str(), &info); }) != 0) {
      return ErrnoStatus("statvfs", directory, errno);
    }
    return uint64_t{info.f_bavail} * info.f_frsize;
  }

  uint64_t BootId() override {
    static const uint64_t boot_id = [this]() -> uint64_t {
      char text[64];
      std::string_view id;
      const auto file = NewRandomAccessFile("/proc/sys/kernel/random/boot_id");
      if (!file.ok() || !(*file)->Read(0, sizeof(text), text, &id).ok() || id.empty()) return 0;
      return Hash64(id);
    }();
    return boot_id;
  }

 private:
  static absl::Status HeldBy(const std::string& path, int64_t pid) {
    if (pid == 0) {
      return absl::FailedPreconditionError(
          absl::StrFormat("lock %s: held by another process", path));
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("lock %s: held by %sprocess %d", path,
                        pid == ::getpid() ? "another open of this " : "", pid));
  }
};

}  // namespace

std::shared_ptr<FileSystem> PosixFileSystem() {
  static const std::shared_ptr<FileSystem> file_system = std::make_shared<PosixFileSystemImpl>();
  return file_system;
}

}  // namespace sievedb
