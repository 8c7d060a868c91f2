#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "sievedb/file_system.h"
#include "util/mutex.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// A file or a directory. Those who have it open share it with the name, so a
// deleted file lives until the last of them goes.
class Node {
 public:
  explicit Node(bool is_directory) : is_directory_(is_directory) {}
  bool is_directory() const { return is_directory_; }

  uint64_t Size() const {
    MutexLock lock(&mu_);
    return bytes_.size();
  }

  size_t Read(uint64_t offset, size_t n, char* to) const {
    MutexLock lock(&mu_);
    if (offset >= bytes_.size()) return 0;
    n = std::min<uint64_t>(n, bytes_.size() - offset);
    if (n > 0) std::memcpy(to, bytes_.data() + offset, n);
    return n;
  }

  // Overwrites what is at offset and extends the file where it ends.
  // Requires: offset <= Size(), which holds while one writer appends.
  void Write(uint64_t offset, std::string_view data) {
    MutexLock lock(&mu_);
    // Another handle may have truncated the file; the gap then reads as zeros.
    if (offset > bytes_.size()) bytes_.resize(offset);
    bytes_.replace(offset, std::min<uint64_t>(data.size(), bytes_.size() - offset), data);
  }

  void Truncate(uint64_t size) {
    MutexLock lock(&mu_);
    if (size >= bytes_.size()) return;
    bytes_.resize(size);
    if (bytes_.capacity() / 2 > size) bytes_.shrink_to_fit();
  }

  // False where it is locked already.
  bool Lock() {
    MutexLock lock(&mu_);
    return !std::exchange(locked_, true);
  }
  void Unlock() {
    MutexLock lock(&mu_);
    locked_ = false;
  }

 private:
  const bool is_directory_;
  mutable Mutex mu_;
  std::string bytes_ ABSL_GUARDED_BY(mu_);
  bool locked_ ABSL_GUARDED_BY(mu_) = false;
};

using NodePtr = std::shared_ptr<Node>;

class MemoryRandomAccessFile final : public RandomAccessFile {
 public:
  explicit MemoryRandomAccessFile(NodePtr node) : node_(std::move(node)) {}

  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    *result = std::string_view(scratch, node_->Read(offset, n, scratch));
    return absl::OkStatus();
  }

 private:
  const NodePtr node_;
};

class MemoryWritableFile final : public WritableFile {
 public:
  explicit MemoryWritableFile(NodePtr node) : node_(std::move(node)) {}
  ~MemoryWritableFile() override { Close().IgnoreError(); }  // cannot fail

  absl::Status Append(std::string_view data) override {
    assert(!closed_);
    node_->Write(size_, data);
    size_ += data.size();
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    assert(!closed_);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    // A recycled file loses what is left of its earlier life.
    if (!std::exchange(closed_, true)) node_->Truncate(size_);
    return absl::OkStatus();
  }

 private:
  const NodePtr node_;
  uint64_t size_ = 0;  // bytes appended
  bool closed_ = false;
};

class MemoryFileLock final : public FileLock {
 public:
  explicit MemoryFileLock(NodePtr node) : node_(std::move(node)) {}
  ~MemoryFileLock() override { node_->Unlock(); }

 private:
  const NodePtr node_;
};

// One name for one place: no empty or "." components, none of them absolute. The
// root is "".
std::string Normalize(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

std::string Parent(const std::string& normal) {
  const size_t slash = normal.rfind('/');
  return slash == std::string::npos ? std::string() : normal.substr(0, slash);
}

absl::Status NotFound(std::string_view operation, std::string_view path) {
  return absl::NotFoundError(absl::StrFormat("%s %s: No such file or directory", operation, path));
}

absl::Status Refused(std::string_view operation, std::string_view path, std::string_view why) {
  return absl::UnknownError(absl::StrFormat("%s %s: %s", operation, path, why));
}

class MemoryFileSystemImpl final : public FileSystem {
 public:
  MemoryFileSystemImpl() { nodes_.emplace("", std::make_shared<Node>(/*is_directory=*/true)); }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(
      const std::string& path) override {
    MutexLock lock(&mu_);
    SIEVEDB_ASSIGN_OR_RETURN(NodePtr node, FindFile("open", path));
    return std::make_unique<MemoryRandomAccessFile>(std::move(node));
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    MutexLock lock(&mu_);
    SIEVEDB_ASSIGN_OR_RETURN(NodePtr node, FindOrCreateFile(path));
    node->Truncate(0);
    return std::make_unique<MemoryWritableFile>(std::move(node));
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> ReuseWritableFile(
      const std::string& path, const std::string& old_path) override {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(Rename(old_path, path));
    SIEVEDB_ASSIGN_OR_RETURN(NodePtr node, FindFile("open", path));
    return std::make_unique<MemoryWritableFile>(std::move(node));
  }

  absl::StatusOr<std::vector<std::string>> GetChildren(const std::string& directory) override {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(FindDirectory("opendir", directory).status());
    const std::string prefix = ChildPrefix(Normalize(directory));
    std::vector<std::string> names;
    for (auto it = nodes_.lower_bound(prefix); it != nodes_.end(); ++it) {
      if (!it->first.starts_with(prefix)) break;
      const std::string_view name = std::string_view(it->first).substr(prefix.size());
      if (!name.empty() && name.find('/') == name.npos) names.emplace_back(name);
    }
    return names;
  }

  absl::StatusOr<bool> FileExists(const std::string& path) override {
    MutexLock lock(&mu_);
    return nodes_.contains(Normalize(path));
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    MutexLock lock(&mu_);
    const auto it = nodes_.find(Normalize(path));
    if (it == nodes_.end()) return NotFound("stat", path);
    return it->second->Size();
  }

  absl::Status CreateDirectory(const std::string& path) override {
    MutexLock lock(&mu_);
    const std::string normal = Normalize(path);
    if (const auto it = nodes_.find(normal); it != nodes_.end()) {
      if (it->second->is_directory()) return absl::OkStatus();
      return Refused("mkdir", path, "File exists");
    }
    SIEVEDB_RETURN_IF_ERROR(CheckParent("mkdir", path));
    nodes_.emplace(normal, std::make_shared<Node>(/*is_directory=*/true));
    return absl::OkStatus();
  }

  absl::Status DeleteDirectory(const std::string& path) override {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(FindDirectory("rmdir", path).status());
    const std::string normal = Normalize(path);
    if (normal.empty()) return Refused("rmdir", path, "Device or resource busy");
    if (HasChildren(normal)) return Refused("rmdir", path, "Directory not empty");
    nodes_.erase(normal);
    return absl::OkStatus();
  }

  absl::Status DeleteFile(const std::string& path) override {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(FindFile("unlink", path).status());
    nodes_.erase(Normalize(path));
    return absl::OkStatus();
  }

  absl::Status RenameFile(const std::string& from, const std::string& to) override {
    MutexLock lock(&mu_);
    return Rename(from, to);
  }

  absl::Status LinkFile(const std::string& from, const std::string& to) override {
    MutexLock lock(&mu_);
    SIEVEDB_ASSIGN_OR_RETURN(NodePtr node, FindFile("link", from));
    SIEVEDB_RETURN_IF_ERROR(CheckParent("link", to));
    if (!nodes_.emplace(Normalize(to), std::move(node)).second) {
      return Refused("link", absl::StrFormat("%s to %s", from, to), "File exists");
    }
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& directory) override {
    MutexLock lock(&mu_);
    return FindDirectory("fsync", directory).status();
  }

  absl::StatusOr<std::unique_ptr<FileLock>> LockFile(const std::string& path) override {
    MutexLock lock(&mu_);
    SIEVEDB_ASSIGN_OR_RETURN(NodePtr node, FindOrCreateFile(path));
    if (!node->Lock()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("lock %s: held by another open of this process %d", path, ::getpid()));
    }
    return std::make_unique<MemoryFileLock>(std::move(node));
  }

  absl::StatusOr<uint64_t> FreeSpaceBytes(const std::string& directory) override {
    MutexLock lock(&mu_);
    SIEVEDB_RETURN_IF_ERROR(FindDirectory("statvfs", directory).status());
    return uint64_t{1} << 50;  // as good as endless, and far from overflow
  }

  // Each is a machine of its own.
  uint64_t BootId() override { return boot_id_; }
  uint64_t RandomSeed() override { return 0x6d656d6f72792121; }

 private:
  static std::string ChildPrefix(const std::string& normal) {
    return normal.empty() ? std::string() : normal + "/";
  }

  bool HasChildren(const std::string& normal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::string prefix = ChildPrefix(normal);
    const auto it = nodes_.lower_bound(prefix);
    return it != nodes_.end() && it->first.starts_with(prefix);
  }

  absl::StatusOr<NodePtr> FindFile(std::string_view operation, const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto it = nodes_.find(Normalize(path));
    if (it == nodes_.end()) return NotFound(operation, path);
    if (it->second->is_directory()) return Refused(operation, path, "Is a directory");
    return it->second;
  }

  absl::StatusOr<NodePtr> FindDirectory(std::string_view operation, const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto it = nodes_.find(Normalize(path));
    if (it == nodes_.end()) return NotFound(operation, path);
    if (!it->second->is_directory()) return Refused(operation, path, "Not a directory");
    return it->second;
  }

  absl::Status CheckParent(std::string_view operation, const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto it = nodes_.find(Parent(Normalize(path)));
    if (it == nodes_.end()) return NotFound(operation, path);
    if (!it->second->is_directory()) return Refused(operation, path, "Not a directory");
    return absl::OkStatus();
  }

  absl::StatusOr<NodePtr> FindOrCreateFile(const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::string normal = Normalize(path);
    if (nodes_.contains(normal)) return FindFile("open", path);
    SIEVEDB_RETURN_IF_ERROR(CheckParent("open", path));
    return nodes_.emplace(normal, std::make_shared<Node>(/*is_directory=*/false)).first->second;
  }

  absl::Status Rename(const std::string& from, const std::string& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::string both = absl::StrFormat("%s to %s", from, to);
    const std::string source = Normalize(from);
    const std::string target = Normalize(to);
    const auto it = nodes_.find(source);
    if (it == nodes_.end()) return NotFound("rename", both);
    SIEVEDB_RETURN_IF_ERROR(CheckParent("rename", to));
    if (source == target) return absl::OkStatus();
    const NodePtr node = it->second;
    if (const auto old = nodes_.find(target); old != nodes_.end()) {
      if (old->second->is_directory() != node->is_directory()) {
        return Refused("rename", both, "One is a directory, the other is not");
      }
      if (HasChildren(target)) return Refused("rename", both, "Directory not empty");
    }
    if (!node->is_directory()) {
      nodes_.erase(it);
      nodes_[target] = node;
      return absl::OkStatus();
    }
    const std::string prefix = ChildPrefix(source);
    if (source.empty() || target.starts_with(prefix)) {
      return Refused("rename", both, "A directory cannot go into itself");
    }
    std::vector<std::pair<std::string, NodePtr>> moved{{target, node}};
    for (auto child = nodes_.lower_bound(prefix);
         child != nodes_.end() && child->first.starts_with(prefix); child = nodes_.erase(child)) {
      moved.emplace_back(ChildPrefix(target) + child->first.substr(prefix.size()), child->second);
    }
    nodes_.erase(source);
    for (auto& [name, moved_node] : moved) nodes_[name] = std::move(moved_node);
    return absl::OkStatus();
  }

  static uint64_t NextBootId() {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const uint64_t boot_id_ = NextBootId();
  mutable Mutex mu_;
  // By normalized path. What lies below a directory lies behind it.
  std::map<std::string, NodePtr> nodes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<FileSystem> NewMemoryFileSystem() {
  return std::make_shared<MemoryFileSystemImpl>();
}

}  // namespace sievedb
