#include "db/version_set.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "db/log_reader.h"
#include "db/manifest_file.h"
#include "db/version_builder.h"
#include "util/escape.h"
#include "util/file_util.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr uint64_t kMinRollBytes = 1 << 20;
constexpr uint64_t kRollFactor = 10;

// The name without its directory.
std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The same error, of path.
absl::Status Annotate(const absl::Status& status, const std::string& path, uint64_t offset) {
  return absl::Status(status.code(), absl::StrFormat("%s, record before offset %d: %s", path,
                                                     offset, status.message()));
}

}  // namespace

VersionSet::VersionSet(const Options& options, std::string db_path, TableOpener* opener,
                       EventLog* event_log)
    : options_(options),
      db_path_(std::move(db_path)),
      opener_(opener),
      event_log_(event_log),
      obsolete_tables_(std::make_shared<ObsoleteTables>()),
      current_(std::make_shared<Version>(InternalKeyOrder(options.comparator), opener)) {}

VersionSet::~VersionSet() = default;

// --- reading

struct VersionSet::Recovered {
  std::shared_ptr<const Version> version;
  uint64_t db_id = 0;
  uint64_t hash_seed = 0;  // that of databases from before there was one
  uint64_t log_number = 0;
  uint64_t next_file_number = 0;
  uint64_t last_sequence = 0;
};

absl::Status VersionSet::CheckComparator(const VersionEdit& edit, const std::string& path) const {
  if (*edit.comparator_name == options_.comparator->Name()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: the database is ordered by comparator \"%s\", the options have \"%s\"",
                      path, Escape(*edit.comparator_name), options_.comparator->Name()));
}

absl::Status VersionSet::ReadManifest(uint64_t number, Recovered* to) {
  const std::string path = ManifestFileName(db_path_, number);
  FileSystem* const file_system = options_.file_system.get();
  absl::StatusOr<uint64_t> bytes = file_system->FileSize(path);
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = file_system->NewRandomAccessFile(path);
  if (absl::IsNotFound(bytes.status()) || absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrFormat("%s names %s, which is missing",
                                               CurrentFileName(db_path_), BaseName(path)));
  }
  SIEVEDB_RETURN_IF_ERROR(bytes.status());
  SIEVEDB_RETURN_IF_ERROR(file.status());
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<LogReader> reader,
                           LogReader::Open(*std::move(file), *bytes, path, LogKind::kManifest,
                                           number, file_system->BootId()));

  const Version empty(InternalKeyOrder(options_.comparator), opener_);
  VersionBuilder builder(empty);
  bool first = true;
  std::string_view record;
  while (true) {
    SIEVEDB_ASSIGN_OR_RETURN(const bool more, reader->ReadRecord(&record));
    if (!more) break;
    absl::StatusOr<VersionEdit> edit = VersionEdit::Decode(record);
    if (!edit.ok()) return Annotate(edit.status(), path, reader->offset());
    if (first && (!edit->comparator_name.has_value() || !edit->db_id.has_value())) {
      return Annotate(
          absl::DataLossError("expected the snapshot of a version, found " + edit->DebugString()),
          path, reader->offset());
    }
    first = false;
    if (edit->comparator_name.has_value()) {
      SIEVEDB_RETURN_IF_ERROR(CheckComparator(*edit, path));
    }
    to->db_id = edit->db_id.value_or(to->db_id);
    to->hash_seed = edit->hash_seed.value_or(to->hash_seed);
    to->log_number = edit->log_number.value_or(to->log_number);
    to->next_file_number = std::max(to->next_file_number, edit->next_file_number.value_or(0));
    to->last_sequence = std::max(to->last_sequence, edit->last_sequence.value_or(0));
    for (const AddedFile& added : edit->added_files) {
      added.file->obsolete_tables = obsolete_tables_;
    }
    if (const absl::Status status = builder.Add(*edit); !status.ok()) {
      return Annotate(status, path, reader->offset());
    }
  }
  if (first) {
    return absl::DataLossError(
        absl::StrFormat("%s, offset %d: expected the snapshot of a version, found no record", path,
                        kLogHeaderBytes));
  }
  if (reader->torn_bytes() > 0) {
    event_log_->Write(
        absl::StrFormat("%s: %d bytes of an edit that was not acknowledged are left "
                        "out at offset %d",
                        path, reader->torn_bytes(), reader->offset()));
  }
  absl::StatusOr<std::shared_ptr<const Version>> version = builder.Build();
  if (!version.ok()) return Annotate(version.status(), path, reader->offset());
  to->version = *std::move(version);
  return absl::OkStatus();
}

absl::Status VersionSet::CheckTableFiles(const Version& version,
                                         const std::vector<std::string>& names) const {
  const absl::flat_hash_set<std::string> present(names.begin(), names.end());
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version.files(level)) {
      const std::string path = TableFileName(db_path_, file->number);
      if (!present.contains(BaseName(path))) {
        return absl::DataLossError(
            absl::StrFormat("%s: a table of level %d is missing", path, level));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status VersionSet::Recover(const std::vector<std::string>* names) {
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t number,
                           ReadCurrent(options_.file_system.get(), db_path_));
  SIEVEDB_RETURN_IF_ERROR(RecoverFrom(number));
  if (!options_.paranoid_checks) return absl::OkStatus();
  std::vector<std::string> listed;
  if (names == nullptr) {
    SIEVEDB_ASSIGN_OR_RETURN(listed, options_.file_system->GetChildren(db_path_));
    names = &listed;
  }
  return CheckTableFiles(*current(), *names);
}

absl::Status VersionSet::RecoverFrom(uint64_t number) {
  Recovered recovered;
  SIEVEDB_RETURN_IF_ERROR(ReadManifest(number, &recovered));

  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : recovered.version->files(level)) {
      ReserveFileNumber(file->number);
      recovered.last_sequence = std::max(recovered.last_sequence, file->largest_sequence);
    }
  }
  ReserveFileNumber(number);
  ReserveFileNumber(recovered.log_number);
  if (recovered.next_file_number > 0) ReserveFileNumber(recovered.next_file_number - 1);
  SetLastSequence(recovered.last_sequence);
  db_id_ = recovered.db_id;
  hash_seed_ = recovered.hash_seed;
  MutexLock lock(&mu_);
  current_ = std::move(recovered.version);
  log_number_ = recovered.log_number;
  manifest_file_number_ = number;
  return absl::OkStatus();
}

// --- writing

absl::Status VersionSet::Create() {
  db_id_ = NewDatabaseId();
  hash_seed_ = options_.file_system->RandomSeed();
  MutexLock apply_lock(&apply_mu_);
  const absl::Status status = RollManifest(*current(), nullptr);
  return NoteError(status.ok() ? SyncCurrent() : status);
}

VersionEdit VersionSet::Snapshot(const Version& version) const {
  VersionEdit edit;
  edit.comparator_name = options_.comparator->Name();
  edit.db_id = db_id_;
  if (hash_seed_ != 0) edit.hash_seed = hash_seed_;
  edit.log_number = log_number();
  edit.next_file_number = next_file_number_.load();
  edit.last_sequence = last_sequence();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const Version::Run& run : version.runs(level)) {
      for (const FileRef& file : version.files(level, run)) {
        edit.added_files.emplace_back(level, std::const_pointer_cast<FileMeta>(file), run.number);
      }
    }
  }
  return edit;
}

absl::Status VersionSet::RollManifest(const Version& version, const VersionEdit* edit) {
  const uint64_t number = NewFileNumber();
  // Given up first: where this fails, the next Apply must begin another one.
  manifest_.reset();
  // One record: of two, the second would look like a torn tail where it is damaged,
  // and recovery would go on without it.
  VersionEdit snapshot = Snapshot(version);
  if (edit != nullptr && edit->log_number.has_value()) {
    snapshot.log_number = std::max(*snapshot.log_number, *edit->log_number);
  }
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<LogWriter> log,
                           BeginManifest(options_.file_system.get(), db_path_, number, snapshot));
  const uint64_t snapshot_bytes = log->size();
  current_synced_ = false;
  manifest_ = std::move(log);
  manifest_snapshot_bytes_ = snapshot_bytes;
  MutexLock lock(&mu_);
  manifest_file_number_ = number;
  return absl::OkStatus();
}

absl::Status VersionSet::WriteEdit(const VersionEdit& edit, const Version& next) {
  if (manifest_ == nullptr ||
      manifest_->size() > std::max(kMinRollBytes, kRollFactor * manifest_snapshot_bytes_)) {
    return RollManifest(next, &edit);
  }
  // The MANIFEST must be the one that is read after a crash.
  SIEVEDB_RETURN_IF_ERROR(SyncCurrent());
  SIEVEDB_RETURN_IF_ERROR(manifest_->AddRecord(edit.Encode()));
  return manifest_->Sync();
}

void VersionSet::Close() {
  MutexLock apply_lock(&apply_mu_);
  if (manifest_ != nullptr) manifest_->Close().IgnoreError();
  manifest_.reset();
}

absl::Status VersionSet::NoteError(absl::Status status) {
  if (status.ok()) return status;
  // What it holds is unknown, so nothing is appended to it any more.
  manifest_.reset();
  if (!absl::IsResourceExhausted(status)) manifest_error_ = status;
  event_log_->Write("writing the MANIFEST failed: " + status.ToString());
  return status;
}

absl::Status VersionSet::CheckUsable() const {
  if (manifest_error_.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: the MANIFEST takes no edits after an earlier error: %s", db_path_,
                      manifest_error_.ToString()));
}

absl::Status VersionSet::SyncCurrent() {
  if (current_synced_) return absl::OkStatus();
  SIEVEDB_RETURN_IF_ERROR(options_.file_system->SyncDirectory(db_path_));
  current_synced_ = true;
  return absl::OkStatus();
}

absl::Status VersionSet::EnsureSynced() {
  MutexLock apply_lock(&apply_mu_);
  SIEVEDB_RETURN_IF_ERROR(CheckUsable());
  return NoteError(SyncCurrent());
}

absl::Status VersionSet::Apply(VersionEdit* edit) {
  MutexLock apply_lock(&apply_mu_);
  return ApplyLocked(edit, /*sync_current=*/true);
}

absl::Status VersionSet::ApplyRecovered(VersionEdit* edit) {
  MutexLock apply_lock(&apply_mu_);
  return ApplyLocked(edit, /*sync_current=*/false);
}

absl::Status VersionSet::ApplyLocked(VersionEdit* edit, bool sync_current) {
  SIEVEDB_RETURN_IF_ERROR(CheckUsable());
  const std::shared_ptr<const Version> base = current();
  for (const AddedFile& added : edit->added_files) {
    // One that only changes its level has it, and is shared with other threads.
    if (added.file->obsolete_tables == nullptr) added.file->obsolete_tables = obsolete_tables_;
  }
  VersionBuilder builder(*base);
  SIEVEDB_RETURN_IF_ERROR(builder.Add(*edit));
  SIEVEDB_ASSIGN_OR_RETURN(std::shared_ptr<const Version> next, builder.Build());
  edit->next_file_number = next_file_number_.load();
  edit->last_sequence = last_sequence();
  absl::Status written = WriteEdit(*edit, *next);
  if (written.ok() && sync_current) written = SyncCurrent();
  SIEVEDB_RETURN_IF_ERROR(NoteError(std::move(written)));

  // Only now: before, a failure would have left them in the current version.
  for (const FileRef& file : builder.TakeDropped()) {
    file->removed.store(true, std::memory_order_release);
  }
  MutexLock lock(&mu_);
  current_ = std::move(next);
  if (edit->log_number.has_value()) log_number_ = std::max(log_number_, *edit->log_number);
  return absl::OkStatus();
}

// --- asking

std::shared_ptr<const Version> VersionSet::current() const {
  MutexLock lock(&mu_);
  return current_;
}

void VersionSet::ReserveFileNumber(uint64_t number) {
  uint64_t next = next_file_number_.load();
  while (next <= number && !next_file_number_.compare_exchange_weak(next, number + 1)) {
  }
}

uint64_t VersionSet::manifest_file_number() const {
  MutexLock lock(&mu_);
  return manifest_file_number_;
}

uint64_t VersionSet::log_number() const {
  MutexLock lock(&mu_);
  return log_number_;
}

}  // namespace sievedb
