#include "tests/fault_file_system.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <map>
#include <random>
#include <utility>

#include "util/mutex.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// The same place always has the same name: no empty or "." components, not
// absolute. The root is "".
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

// The bytes of one file, whatever its name.
struct Content {
  std::string now;
  std::string synced;
  // What was written since the last Sync lies in here.
  uint64_t dirty_begin = UINT64_MAX;
  uint64_t dirty_end = 0;
  bool truncated = false;  // since the last Sync
  bool lost = false;       // a Sync failed

  void Write(uint64_t at, std::string_view data) {
    if (data.empty()) return;
    now.replace(at, std::min<uint64_t>(data.size(), now.size() - at), data);
    dirty_begin = std::min<uint64_t>(dirty_begin, at);
    dirty_end = std::max<uint64_t>(dirty_end, at + data.size());
  }
  void Truncate(uint64_t size) {
    if (size >= now.size()) return;
    now.resize(size);
    truncated = true;
    if (dirty_begin == UINT64_MAX) return;
    dirty_begin = std::min<uint64_t>(dirty_begin, size);
    dirty_end = std::min<uint64_t>(dirty_end, size);
  }
  void Sync() {
    if (lost) return;
    if (truncated) {
      synced = now;
    } else if (dirty_end > dirty_begin) {
      const uint64_t n = dirty_end - dirty_begin;
      synced.replace(dirty_begin, std::min<uint64_t>(n, synced.size() - dirty_begin), now,
                     dirty_begin, n);
    }
    dirty_begin = UINT64_MAX;
    dirty_end = 0;
    truncated = false;
  }
  // What a crash leaves where only the first unsynced bytes came to the disk.
  std::string Torn(uint64_t random) const {
    if (dirty_end <= dirty_begin) return truncated ? now : synced;
    const uint64_t kept = dirty_begin + random % (dirty_end - dirty_begin + 1);
    std::string left = now.substr(0, kept);
    if (!truncated && synced.size() > kept) left.append(synced, kept);
    return left;
  }
  // What a crash leaves where any of the unsynced sectors came to the disk.
  std::string WithHoles(std::mt19937_64* random) const {
    constexpr uint64_t kSectorBytes = 512;
    std::string left = synced;
    left.resize(now.size());
    for (uint64_t begin = dirty_begin; begin < dirty_end;) {
      const uint64_t end = std::min(dirty_end, (begin / kSectorBytes + 1) * kSectorBytes);
      if ((*random)() % 2 == 0) left.replace(begin, end - begin, now, begin, end - begin);
      begin = end;
    }
    return left;
  }
};

// A name of a directory (content is null) or file.
struct Entry {
  std::shared_ptr<Content> content;
};
// What lies below a directory lies behind it.
using Names = std::map<std::string, Entry>;

// A change of names that no SyncDirectory has made safe yet.
struct NameChange {
  std::string removed;  // "": none
  std::string added;    // "": none; both: a rename
  Entry entry;

  bool Touches(const std::string& directory) const {
    return (!removed.empty() && Parent(removed) == directory) ||
           (!added.empty() && Parent(added) == directory);
  }
  void ApplyTo(Names* names) const {
    Names children;
    if (!removed.empty()) {
      const std::string prefix = removed + "/";
      auto it = names->lower_bound(prefix);
      while (it != names->end() && it->first.starts_with(prefix)) {
        if (!added.empty()) {
          children[added + "/" + it->first.substr(prefix.size())] = it->second;
        }
        it = names->erase(it);
      }
      names->erase(removed);
    }
    if (!added.empty()) (*names)[added] = entry;
    for (auto& [name, child] : children) (*names)[name] = child;
  }
};

struct Fault {
  FaultFileSystem::Predicate predicate;
  absl::Status status;
  FaultFileSystem::Repeat repeat;
};

}  // namespace

struct FaultFileSystem::State {
  explicit State(std::shared_ptr<FileSystem> base_in)
      : base(std::move(base_in)), boot_id(base->BootId()), random_seed(base->RandomSeed()) {}

  static absl::Status Off() { return absl::UnavailableError("the machine is off"); }

  // Counts the operation, and gives the error that it shall have.
  absl::Status Check(FileOp op, std::string_view path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (off) return Off();
    ++total;
    ++counts[static_cast<size_t>(op)];
    if (operations_to_crash > 0 && --operations_to_crash == 0) {
      off = true;
      if (at_crash) at_crash();
      return Off();
    }
    for (auto it = faults.begin(); it != faults.end(); ++it) {
      if (!it->predicate(op, path)) continue;
      const absl::Status status = it->status;
      if (it->repeat == Repeat::kOnce) faults.erase(it);
      ++failed;
      return status;
    }
    return absl::OkStatus();
  }

  void Change(NameChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    change.ApplyTo(&names);
    unsynced.push_back(std::move(change));
  }

  // The content behind path, which is created where it is not there yet.
  std::shared_ptr<Content> ContentOf(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const std::string normal = Normalize(path);
    if (const auto it = names.find(normal); it != names.end()) return it->second.content;
    auto content = std::make_shared<Content>();
    Change({"", normal, {content}});
    return content;
  }

  void Load(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const std::string normal = Normalize(path);
    if (auto children = base->GetChildren(path); children.ok()) {
      if (!normal.empty()) names[normal] = {};
      for (const std::string& child : *children) Load(path + "/" + child);
      return;
    }
    auto content = std::make_shared<Content>();
    auto size = base->FileSize(path);
    auto file = base->NewRandomAccessFile(path);
    if (!size.ok() || !file.ok()) return;  // neither a file nor a directory
    content->now.resize(*size);
    std::string_view read;
    if (!(*file)->Read(0, *size, content->now.data(), &read).ok()) return;
    content->now.resize(read.size());
    content->synced = content->now;
    names[normal] = {std::move(content)};
  }

  const std::shared_ptr<FileSystem> base;
  mutable Mutex mu;
  uint64_t total ABSL_GUARDED_BY(mu) = 0;
  uint64_t failed ABSL_GUARDED_BY(mu) = 0;
  std::atomic<uint64_t> readaheads{0};
  uint64_t boot_id ABSL_GUARDED_BY(mu);
  std::atomic<uint64_t> random_seed;
  bool off ABSL_GUARDED_BY(mu) = false;
  uint64_t operations_to_crash ABSL_GUARDED_BY(mu) = 0;  // 0: never
  std::function<void()> at_crash ABSL_GUARDED_BY(mu);
  std::array<uint64_t, kFileOps> counts ABSL_GUARDED_BY(mu) = {};
  std::vector<Fault> faults ABSL_GUARDED_BY(mu);
  Names names ABSL_GUARDED_BY(mu);                       // as they are
  Names durable ABSL_GUARDED_BY(mu);                     // as of the last syncs
  std::vector<NameChange> unsynced ABSL_GUARDED_BY(mu);  // in order
};

class FaultFileSystem::ReadFile final : public RandomAccessFile {
 public:
  ReadFile(std::shared_ptr<State> state, std::unique_ptr<RandomAccessFile> base, std::string path)
      : state_(std::move(state)), base_(std::move(base)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    {
      MutexLock lock(&state_->mu);
      SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kRead, path_));
    }
    return base_->Read(offset, n, scratch, result);
  }
  void Readahead(uint64_t offset, size_t n) const override {
    state_->readaheads.fetch_add(1, std::memory_order_relaxed);
    base_->Readahead(offset, n);
  }

 private:
  const std::shared_ptr<State> state_;
  const std::unique_ptr<RandomAccessFile> base_;
  const std::string path_;
};

class FaultFileSystem::WriteFile final : public WritableFile {
 public:
  WriteFile(std::shared_ptr<State> state, std::unique_ptr<WritableFile> base, std::string path,
            std::shared_ptr<Content> content)
      : state_(std::move(state)),
        base_(std::move(base)),
        path_(std::move(path)),
        content_(std::move(content)) {}

  ~WriteFile() override {
    MutexLock lock(&state_->mu);
    CloseBase().IgnoreError();  // as the header says
  }

  absl::Status Append(std::string_view data) override {
    MutexLock lock(&state_->mu);
    const absl::Status fault = state_->Check(FileOp::kAppend, path_);
    if (state_->off) return fault;
    if (!fault.ok()) data = data.substr(0, data.size() / 2);
    SIEVEDB_RETURN_IF_ERROR(base_->Append(data));
    content_->Write(size_, data);
    size_ += data.size();
    return fault;
  }

  absl::Status Sync() override {
    MutexLock lock(&state_->mu);
    const absl::Status fault = state_->Check(FileOp::kSync, path_);
    if (!fault.ok()) {
      if (!state_->off) content_->lost = true;
      return fault;
    }
    SIEVEDB_RETURN_IF_ERROR(base_->Sync());
    content_->Sync();
    return absl::OkStatus();
  }

  void StartWriteback() override { base_->StartWriteback(); }

  absl::Status Preallocate(uint64_t bytes) override {
    MutexLock lock(&state_->mu);
    SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kPreallocate, path_));
    return base_->Preallocate(bytes);
  }

  absl::Status Close() override {
    MutexLock lock(&state_->mu);
    if (closed_) return absl::OkStatus();
    const absl::Status fault = state_->Check(FileOp::kClose, path_);
    const absl::Status status = CloseBase();
    return fault.ok() ? status : fault;
  }

 private:
  absl::Status CloseBase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (std::exchange(closed_, true)) return absl::OkStatus();
    if (!state_->off) content_->Truncate(size_);  // a recycled file's rest
    return base_->Close();
  }

  const std::shared_ptr<State> state_;
  const std::unique_ptr<WritableFile> base_;
  const std::string path_;
  const std::shared_ptr<Content> content_;  // its bytes are guarded by state_->mu
  uint64_t size_ = 0;
  bool closed_ = false;
};

FaultFileSystem::FaultFileSystem() : state_(std::make_shared<State>(NewMemoryFileSystem())) {}

FaultFileSystem::FaultFileSystem(std::shared_ptr<FileSystem> base, const std::string& root)
    : state_(std::make_shared<State>(std::move(base))) {
  MutexLock lock(&state_->mu);
  for (std::string parent = Parent(Normalize(root)); !parent.empty(); parent = Parent(parent)) {
    state_->names[parent] = {};
  }
  state_->Load(root);
  state_->durable = state_->names;
}

FaultFileSystem::~FaultFileSystem() = default;

void FaultFileSystem::FailNth(uint64_t n, absl::Status status, Repeat repeat) {
  assert(n > 0);
  // Asked once for each operation that no earlier fault took.
  FailWhen(
      [n](FileOp, std::string_view) mutable {
        if (n == 1) return true;
        --n;
        return false;
      },
      std::move(status), repeat);
}

void FaultFileSystem::FailWhen(Predicate predicate, absl::Status status, Repeat repeat) {
  assert(!status.ok());
  MutexLock lock(&state_->mu);
  state_->faults.push_back({std::move(predicate), std::move(status), repeat});
}

void FaultFileSystem::Fail(FileOp op, std::string_view part, absl::Status status, Repeat repeat) {
  FailWhen(
      [op, part = std::string(part)](FileOp found, std::string_view path) {
        return found == op && path.find(part) != path.npos;
      },
      std::move(status), repeat);
}

void FaultFileSystem::ClearFaults() {
  MutexLock lock(&state_->mu);
  state_->faults.clear();
}

void FaultFileSystem::PowerOffAtNth(uint64_t n, std::function<void()> at_crash) {
  assert(n > 0);
  MutexLock lock(&state_->mu);
  state_->operations_to_crash = n;
  state_->at_crash = std::move(at_crash);
}

bool FaultFileSystem::is_off() const {
  MutexLock lock(&state_->mu);
  return state_->off;
}

uint64_t FaultFileSystem::operations() const {
  MutexLock lock(&state_->mu);
  return state_->total;
}

uint64_t FaultFileSystem::operations(FileOp op) const {
  MutexLock lock(&state_->mu);
  return state_->counts[static_cast<size_t>(op)];
}

uint64_t FaultFileSystem::faults() const {
  MutexLock lock(&state_->mu);
  return state_->failed;
}

std::shared_ptr<FileSystem> FaultFileSystem::CrashClone(CrashMode mode, uint64_t seed) const {
  std::mt19937_64 random(seed);
  MutexLock lock(&state_->mu);
  Names names = state_->durable;
  size_t changes = mode == CrashMode::kLoseUnsynced ? 0 : state_->unsynced.size();
  if (mode == CrashMode::kRandom) changes = random() % (changes + 1);
  for (size_t i = 0; i < changes; ++i) state_->unsynced[i].ApplyTo(&names);

  std::shared_ptr<FileSystem> clone = NewMemoryFileSystem();
  for (const auto& [name, entry] : names) {
    // A directory that was lost takes what is in it along.
    if (const auto parent = clone->FileExists(Parent(name)); !parent.ok() || !*parent) continue;
    const Content* content = entry.content.get();
    if (content == nullptr) {
      clone->CreateDirectory(name).IgnoreError();  // a memory file system has room
      continue;
    }
    std::string left;
    const uint64_t choice = mode == CrashMode::kRandom ? random() % 5 : 5;
    if (mode == CrashMode::kLoseUnsynced || choice == 0) {
      left = content->synced;
    } else if (mode == CrashMode::kKeepUnsynced || choice == 1) {
      left = content->now;
    } else if (mode == CrashMode::kHoles || choice == 3) {
      left = content->WithHoles(&random);
    } else {
      left = content->Torn(random());
      // The size was on the disk before the bytes.
      if (choice == 2 && left.size() < content->now.size()) left.resize(content->now.size());
    }
    auto file = clone->NewWritableFile(name);
    assert(file.ok());
    (*file)->Append(left).IgnoreError();  // cannot fail there
  }
  return clone;
}

std::shared_ptr<FaultFileSystem> FaultFileSystem::AfterProcessDeath() const {
  auto next = std::make_shared<FaultFileSystem>();
  MutexLock lock(&state_->mu);
  MutexLock next_lock(&next->state_->mu);
  next->state_->boot_id = state_->boot_id;
  // A file is one file under all of its names, old and new.
  std::map<const Content*, std::shared_ptr<Content>> copies;
  const auto copy = [&copies](const Entry& entry) {
    if (entry.content == nullptr) return Entry();
    std::shared_ptr<Content>& to = copies[entry.content.get()];
    if (to == nullptr) to = std::make_shared<Content>(*entry.content);
    return Entry{to};
  };
  for (const auto& [name, entry] : state_->durable) next->state_->durable[name] = copy(entry);
  for (const NameChange& change : state_->unsynced) {
    next->state_->unsynced.push_back({change.removed, change.added, copy(change.entry)});
  }
  FileSystem* const base = next->state_->base.get();
  for (const auto& [name, entry] : state_->names) {
    next->state_->names[name] = copy(entry);
    if (entry.content == nullptr) {
      base->CreateDirectory(name).IgnoreError();  // a memory file system has room
      continue;
    }
    auto file = base->NewWritableFile(name);
    assert(file.ok());
    (*file)->Append(entry.content->now).IgnoreError();  // cannot fail there
  }
  return next;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> FaultFileSystem::NewRandomAccessFile(
    const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kOpenForReading, path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file, state_->base->NewRandomAccessFile(path));
  return std::make_unique<ReadFile>(state_, std::move(file), path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultFileSystem::NewWritableFile(
    const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kCreate, path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file, state_->base->NewWritableFile(path));
  std::shared_ptr<Content> content = state_->ContentOf(path);
  content->Truncate(0);
  return std::make_unique<WriteFile>(state_, std::move(file), path, std::move(content));
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultFileSystem::ReuseWritableFile(
    const std::string& path, const std::string& old_path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kReuse, path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file, state_->base->ReuseWritableFile(path, old_path));
  std::shared_ptr<Content> content = state_->ContentOf(old_path);
  if (Normalize(old_path) != Normalize(path)) {
    state_->Change({Normalize(old_path), Normalize(path), {content}});
  }
  return std::make_unique<WriteFile>(state_, std::move(file), path, std::move(content));
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::GetChildren(
    const std::string& directory) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kGetChildren, directory));
  return state_->base->GetChildren(directory);
}

absl::StatusOr<bool> FaultFileSystem::FileExists(const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kFileExists, path));
  return state_->base->FileExists(path);
}

absl::StatusOr<uint64_t> FaultFileSystem::FileSize(const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kFileSize, path));
  return state_->base->FileSize(path);
}

absl::Status FaultFileSystem::CreateDirectory(const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kCreateDirectory, path));
  SIEVEDB_RETURN_IF_ERROR(state_->base->CreateDirectory(path));
  const std::string normal = Normalize(path);
  if (!normal.empty() && !state_->names.contains(normal)) state_->Change({"", normal, {}});
  return absl::OkStatus();
}

absl::Status FaultFileSystem::DeleteDirectory(const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kDeleteDirectory, path));
  SIEVEDB_RETURN_IF_ERROR(state_->base->DeleteDirectory(path));
  state_->Change({Normalize(path), "", {}});
  return absl::OkStatus();
}

absl::Status FaultFileSystem::DeleteFile(const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kDeleteFile, path));
  SIEVEDB_RETURN_IF_ERROR(state_->base->DeleteFile(path));
  state_->Change({Normalize(path), "", {}});
  return absl::OkStatus();
}

absl::Status FaultFileSystem::RenameFile(const std::string& from, const std::string& to) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kRename, from));
  SIEVEDB_RETURN_IF_ERROR(state_->base->RenameFile(from, to));
  const std::string source = Normalize(from);
  if (source != Normalize(to)) {
    state_->Change({source, Normalize(to), state_->names[source]});
  }
  return absl::OkStatus();
}

absl::Status FaultFileSystem::LinkFile(const std::string& from, const std::string& to) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kLink, to));
  SIEVEDB_RETURN_IF_ERROR(state_->base->LinkFile(from, to));
  const Entry entry = state_->names[Normalize(from)];
  entry.content->Sync();
  state_->Change({"", Normalize(to), entry});
  return absl::OkStatus();
}

absl::Status FaultFileSystem::SyncDirectory(const std::string& directory) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kSyncDirectory, directory));
  SIEVEDB_RETURN_IF_ERROR(state_->base->SyncDirectory(directory));
  const std::string normal = Normalize(directory);
  std::vector<NameChange> rest;
  for (NameChange& change : state_->unsynced) {
    if (change.Touches(normal)) {
      change.ApplyTo(&state_->durable);
    } else {
      rest.push_back(std::move(change));
    }
  }
  state_->unsynced = std::move(rest);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultFileSystem::LockFile(const std::string& path) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kLock, path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file_lock, state_->base->LockFile(path));
  state_->ContentOf(path);  // it may have been created
  return file_lock;
}

absl::StatusOr<uint64_t> FaultFileSystem::FreeSpaceBytes(const std::string& directory) {
  MutexLock lock(&state_->mu);
  SIEVEDB_RETURN_IF_ERROR(state_->Check(FileOp::kFreeSpace, directory));
  return state_->base->FreeSpaceBytes(directory);
}

uint64_t FaultFileSystem::readaheads() const {
  return state_->readaheads.load(std::memory_order_relaxed);
}

uint64_t FaultFileSystem::BootId() {
  MutexLock lock(&state_->mu);
  return state_->boot_id;
}

uint64_t FaultFileSystem::RandomSeed() {
  return state_->random_seed.load(std::memory_order_relaxed);
}

void FaultFileSystem::SetRandomSeed(uint64_t seed) {
  state_->random_seed.store(seed, std::memory_order_relaxed);
}

}  // namespace sievedb
