// Opening a database: options, lock, MANIFEST, recovery from WALs; closing and
// destroying it.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "db/db_impl.h"
#include "db/file_names.h"
#include "db/filter_plan.h"
#include "db/log_reader.h"
#include "db/manifest_file.h"
#include "db/write_batch_internal.h"
#include "sievedb/version.h"
#include "util/clock.h"
#include "util/compaction_style.h"
#include "util/compression.h"
#include "util/epoch.h"
#include "util/file_util.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// A reader beside a writer that goes on faster than it can open gives up some time.
constexpr int kReadOnlyAttempts = 100;

// What a writer changes before it takes anything away that its last state needs: the
// MANIFEST that CURRENT names, and how long that is.
struct WriterState {
  std::optional<uint64_t> manifest;
  std::optional<uint64_t> bytes;
  bool operator==(const WriterState&) const = default;
};

WriterState LookAtWriter(FileSystem* file_system, const std::string& path) {
  WriterState state;
  const absl::StatusOr<uint64_t> manifest = ReadCurrent(file_system, path);
  if (!manifest.ok()) return state;
  state.manifest = *manifest;
  const absl::StatusOr<uint64_t> bytes = file_system->FileSize(ManifestFileName(path, *manifest));
  if (bytes.ok()) state.bytes = *bytes;
  return state;
}

}  // namespace

Options SanitizeOptions(const Options& options) {
  Options sanitized = options;
  if (sanitized.file_system == nullptr) sanitized.file_system = PosixFileSystem();
  if (sanitized.block_cache == nullptr) {
    sanitized.block_cache = NewBlockCache(sanitized.block_cache_bytes);
  }
  if (sanitized.background_pool == nullptr) {
    sanitized.background_pool = NewThreadPool(sanitized.max_background_jobs);
  }
  return sanitized;
}

DB::~DB() = default;

absl::StatusOr<std::unique_ptr<DB>> DB::Open(const Options& options, const std::string& path) {
  return DBImpl::OpenImpl(options, path, /*read_only=*/false);
}

absl::StatusOr<std::unique_ptr<DB>> DB::OpenReadOnly(const Options& options,
                                                     const std::string& path) {
  const std::shared_ptr<FileSystem> file_system =
      options.file_system != nullptr ? options.file_system : PosixFileSystem();
  absl::StatusOr<std::unique_ptr<DB>> db;
  for (int attempt = 0; attempt < kReadOnlyAttempts; ++attempt) {
    const WriterState before = LookAtWriter(file_system.get(), path);
    db = DBImpl::OpenImpl(options, path, /*read_only=*/true);
    const bool may_be_gone = db.status().code() == absl::StatusCode::kDataLoss ||
                             db.status().code() == absl::StatusCode::kNotFound;
    // Where the writer has not moved on it took nothing away.
    if (!may_be_gone || LookAtWriter(file_system.get(), path) == before) break;
  }
  return db;
}

absl::StatusOr<std::unique_ptr<DB>> DBImpl::OpenImpl(const Options& options,
                                                     const std::string& path, bool read_only) {
  SIEVEDB_RETURN_IF_ERROR(options.Validate());
  if (path.empty()) return absl::InvalidArgumentError("the path of a database is empty");
  Options sanitized = SanitizeOptions(options);
  if (read_only) {
    // The writer may delete a table at any time; an open file can still be read.
    sanitized.max_open_files = 0;
  }
  std::unique_ptr<DBImpl> db(new DBImpl(sanitized, path, read_only));
  SIEVEDB_RETURN_IF_ERROR(db->Start());
  return db;
}

DBImpl::DBImpl(const Options& sanitized, const std::string& path, bool read_only)
    : options_(sanitized),
      path_(path),
      read_only_(read_only),
      order_(options_.comparator),
      file_system_(options_.file_system.get()),
      statistics_(static_cast<StatisticsImpl*>(options_.statistics.get())),
      opened_micros_(NowMicros()),
      snapshots_(std::make_shared<SnapshotList>()),
      event_log_(std::make_unique<EventLog>()),
      opener_(std::make_unique<TableOpener>(options_, path_)) {
  opener_->set_want_audit([this] { WantAudit(); });
}

DBImpl::~DBImpl() { Close().IgnoreError(); }

absl::Status DBImpl::Start() {
  SIEVEDB_RETURN_IF_ERROR(OpenFiles());
  if (!read_only_) LogOpening();
  MutexLock lock(&mu_);
  manifest_in_use_ = versions_->manifest_file_number();
  InstallView();
  UpdateStall();
  if (!read_only_) {
    Schedule(ThreadPool::Priority::kLow, &DBImpl::FinishOpening);
    MaybeSchedule();
  }
  return absl::OkStatus();
}

// Whether a database is here; an error where the options do not want what is so.
absl::StatusOr<bool> DBImpl::DatabaseExists() const {
  SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system_->FileExists(CurrentFileName(path_)));
  if (exists) {
    if (options_.error_if_exists && !read_only_) {
      return absl::AlreadyExistsError(path_ + ": a database is here already");
    }
    return true;
  }
  // To make a new one here would be to delete what the lost CURRENT led to. (A crash
  // while a database is made may leave a MANIFEST, but no table and no WAL.)
  const absl::StatusOr<std::vector<std::string>> names = file_system_->GetChildren(path_);
  // Whoever cannot look cannot say that there is none.
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  if (names.ok()) {
    for (const std::string& name : *names) {
      const std::optional<ParsedFileName> parsed = ParseFileName(name);
      if (parsed.has_value() &&
          (parsed->kind == FileKind::kTable || parsed->kind == FileKind::kWal)) {
        return absl::DataLossError(absl::StrFormat("%s is missing, but %s of a database is here",
                                                   CurrentFileName(path_), name));
      }
    }
  }
  if (read_only_ || !options_.create_if_missing) {
    return absl::NotFoundError(path_ + ": no database is here (CURRENT is missing)");
  }
  return false;
}

absl::Status DBImpl::OpenFiles() {
  SIEVEDB_ASSIGN_OR_RETURN(bool exists, DatabaseExists());
  if (!read_only_) {
    SIEVEDB_RETURN_IF_ERROR(file_system_->CreateDirectory(path_));
    SIEVEDB_ASSIGN_OR_RETURN(lock_, file_system_->LockFile(LockFileName(path_)));
    // Again: whoever had the lock until now may have made it, or destroyed it.
    SIEVEDB_ASSIGN_OR_RETURN(exists, DatabaseExists());
    // The name of a new directory must survive too.
    if (!exists) SIEVEDB_RETURN_IF_ERROR(file_system_->SyncDirectory(ParentDirectory(path_)));
    event_log_ = std::make_unique<EventLog>(file_system_, EventLogFileName(path_));
    event_log_->Write(absl::StrFormat("opening %s with sievedb %d.%d.%d", path_,
                                      SIEVEDB_VERSION_MAJOR, SIEVEDB_VERSION_MINOR,
                                      SIEVEDB_VERSION_PATCH));
  }
  versions_ = std::make_unique<VersionSet>(options_, path_, opener_.get(), event_log_.get());
  // Behind the lock nobody else changes the directory, so one look serves all.
  std::vector<std::string> names;
  if (!read_only_) {
    SIEVEDB_ASSIGN_OR_RETURN(names, file_system_->GetChildren(path_));
  }
  SIEVEDB_RETURN_IF_ERROR(exists ? versions_->Recover(read_only_ ? nullptr : &names)
                                 : versions_->Create());
  hash_seed_ = versions_->hash_seed();
  opener_->SetHashSeed(hash_seed_);
  {
    MutexLock lock(&mu_);
    memtable_ = NewMemTable();
    active_ = memtable_.get();
  }
  wals_ = std::make_unique<WalSet>(file_system_, path_,
                                   options_.write_buffer_bytes + options_.write_buffer_bytes / 8);
  if (read_only_) {
    // First: a writer may delete them at any time, and an open file can still be read.
    SIEVEDB_RETURN_IF_ERROR(OpenAllTables());
    SIEVEDB_ASSIGN_OR_RETURN(names, file_system_->GetChildren(path_));
  }
  SIEVEDB_RETURN_IF_ERROR(ReplayWals(names));
  if (!read_only_) NoteUnknownFiles(names);
  return absl::OkStatus();
}

// --- recovery

// What replaying the WALs has come to.
struct DBImpl::Replay {
  // The MANIFEST's last sequence counts writes that only the WALs have, so it says
  // nothing about what to replay: every record of a WAL that is needed is.
  uint64_t last_sequence = 0;
  uint64_t last_logged = 0;    // of the records so far
  LogPredecessor end;          // the last WAL with records, and where they end
  std::vector<uint64_t> read;  // the WALs so far, ascending; with records or without
  bool stopped = false;        // the history ends before the next WAL
  VersionEdit edit;            // tables that were written on the way
};

absl::Status DBImpl::ReplayWals(const std::vector<std::string>& names) {
  std::vector<uint64_t> wals;
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (!parsed.has_value() || parsed->number > kMaxOwnFileNumber) continue;
    // No number is ever used twice, not even that of a file which a crash left.
    versions_->ReserveFileNumber(parsed->number);
    if (parsed->kind == FileKind::kWal && parsed->number >= versions_->log_number()) {
      wals.push_back(parsed->number);
    }
  }
  std::sort(wals.begin(), wals.end());

  // A MANIFEST names a WAL only once the WAL's name is durable.
  const uint64_t oldest = versions_->log_number();
  if (oldest != 0 && (wals.empty() || wals.front() != oldest)) {
    const std::string path = WalFileName(path_, oldest);
    if (options_.wal_recovery == WalRecovery::kStrict) {
      return absl::DataLossError(path + ": a WAL that the MANIFEST needs is missing");
    }
    event_log_->Write("recovery goes on without " + path + ", which is missing");
  }

  Replay replay;
  replay.last_sequence = versions_->last_sequence();
  for (const uint64_t number : wals) {
    if (replay.stopped) {
      event_log_->Write(absl::StrFormat("recovery leaves out WAL %06d: it follows a gap", number));
      continue;
    }
    SIEVEDB_RETURN_IF_ERROR(ReplayWal(number, &replay));
  }
  last_sequence_ = replay.last_sequence;
  visible_sequence_.store(replay.last_sequence, std::memory_order_release);
  versions_->SetLastSequence(replay.last_sequence);
  if (read_only_) return CheckWalsStayed(replay);

  // What was read may be in the kernel's memory only: the process before this one
  // need not have synced it, or failed to, and then no later sync tells. So nothing
  // is built on it. It is written again, into tables and a new MANIFEST, before
  // anything else is synced or deleted; with that, a cut is final too.
  SIEVEDB_RETURN_IF_ERROR(FlushReplayed(&replay));
  const uint64_t wal = versions_->NewFileNumber();
  // Should a crash bring the old MANIFEST back, the new WAL is read behind those that
  // were replayed, and only where they are still whole.
  wals_->Continue(replay.end);
  SIEVEDB_RETURN_IF_ERROR(wals_->Switch(wal));
  // The first edit after Recover begins a MANIFEST, and syncs the directory before
  // CURRENT names it. One that goes to the MANIFEST of a new database does not.
  if (oldest == 0) SIEVEDB_RETURN_IF_ERROR(file_system_->SyncDirectory(path_));
  replay.edit.log_number = wal;
  SIEVEDB_RETURN_IF_ERROR(versions_->ApplyRecovered(&replay.edit));
  MutexLock lock(&mu_);
  memtable_first_wal_ = wal;
  return absl::OkStatus();
}

// A writer gives a WAL another name before it writes others' bytes over it: what was read
// until then is its own, and what comes after would look like its end.
absl::Status DBImpl::CheckWalsStayed(const Replay& replay) const {
  for (const uint64_t number : replay.read) {
    const std::string path = WalFileName(path_, number);
    SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system_->FileExists(path));
    if (!exists) return absl::DataLossError(path + ": the WAL was taken away while it was read");
  }
  return absl::OkStatus();
}

absl::Status DBImpl::ReplayWal(uint64_t number, Replay* replay) {
  const std::string path = WalFileName(path_, number);
  const absl::StatusOr<uint64_t> file_size = file_system_->FileSize(path);
  if (absl::IsNotFound(file_size.status())) {
    // Its name is there (of a link that leads nowhere, or until just now).
    return absl::DataLossError(path + ": the WAL is missing");
  }
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t file_bytes, file_size);
  SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system_->NewRandomAccessFile(path));
  SIEVEDB_ASSIGN_OR_RETURN(auto reader,
                           LogReader::Open(std::move(file), file_bytes, path, LogKind::kWal, number,
                                           file_system_->BootId()));

  // A WAL goes on only where its predecessor was read to the end that it had.
  const LogPredecessor before = reader->predecessor();
  const bool needs_predecessor =
      before.file_number >= versions_->log_number() && before.end > kLogHeaderBytes;
  if (needs_predecessor &&
      (before.file_number != replay->end.file_number || before.end > replay->end.end)) {
    // A crash may have left nothing of the predecessor's records, and its name.
    const bool is_there =
        std::binary_search(replay->read.begin(), replay->read.end(), before.file_number);
    const uint64_t found_end =
        before.file_number == replay->end.file_number ? replay->end.end : kLogHeaderBytes;
    if (options_.wal_recovery == WalRecovery::kStrict) {
      // A reader beside a writer may have read a MANIFEST that was replaced since. It
      // tries again.
      if (before.file_number > replay->end.file_number && !is_there) {
        return absl::DataLossError(absl::StrFormat(
            "%s: offset 24: it continues WAL %06d, which is missing", path, before.file_number));
      }
      // WALs are synced in order.
      SIEVEDB_ASSIGN_OR_RETURN(const bool was_synced, reader->SyncedBytesFollow());
      if (was_synced) {
        return absl::DataLossError(absl::StrFormat(
            "%s: offset %d: expected records to offset %d, which were synced, found their end",
            WalFileName(path_, before.file_number), found_end, before.end));
      }
    }
    event_log_->Write(absl::StrFormat(
        "recovery ends at WAL %06d: its predecessor %06d has %d bytes of records, it had %d",
        number, before.file_number, found_end, before.end));
    replay->stopped = true;
    return absl::OkStatus();
  }

  replay->read.push_back(number);
  WriteBatch batch;
  uint64_t records = 0;
  while (true) {
    std::string_view record;
    absl::StatusOr<bool> more = reader->ReadRecord(&record);
    if (more.ok() && *more) {
      const absl::Status parsed = WriteBatchInternal::SetBytes(&batch, record);
      if (!parsed.ok()) {
        more = absl::DataLossError(absl::StrFormat("%s: record that ends at offset %d: %s", path,
                                                   reader->offset(), parsed.message()));
      }
    }
    if (!more.ok()) {
      const bool salvage = options_.wal_recovery == WalRecovery::kSalvage &&
                           more.status().code() == absl::StatusCode::kDataLoss;
      if (!salvage) return more.status();
      event_log_->Write("recovery keeps what comes before: " + more.status().ToString());
      replay->stopped = true;
      break;
    }
    if (!*more) break;
    const uint64_t first = WriteBatchInternal::Sequence(batch);
    const uint64_t last = first + batch.Count() - 1;
    ++records;
    if (batch.Count() == 0) continue;
    if (first <= replay->last_logged) {
      return absl::DataLossError(
          absl::StrFormat("%s: record that ends at offset %d: sequence %d, expected above %d", path,
                          reader->offset(), first, replay->last_logged));
    }
    SIEVEDB_RETURN_IF_ERROR(WriteBatchInternal::InsertInto(batch, first, active_));
    replay->last_logged = last;
    replay->last_sequence = std::max(replay->last_sequence, last);
    if (!read_only_ && active_->DataBytes() >= options_.write_buffer_bytes) {
      SIEVEDB_RETURN_IF_ERROR(FlushReplayed(replay));
    }
  }
  // One without records changes nothing: a full disk may have been all that it met.
  if (records > 0) replay->end = {number, reader->offset()};
  event_log_->Write(absl::StrFormat("recovered WAL %06d: %d records, %d bytes%s", number, records,
                                    reader->offset(),
                                    reader->torn_bytes() > 0 ? ", a torn tail is cut" : ""));
  return absl::OkStatus();
}

RefPtr<MemTable> DBImpl::NewMemTable() {
  return RefPtr<MemTable>::New(order_, next_memtable_id_++, options_.write_buffer_bytes, hash_seed_,
                               options_.prefix_extractor.get());
}

absl::Status DBImpl::FlushReplayed(Replay* replay) {
  if (active_->empty()) return absl::OkStatus();
  versions_->SetLastSequence(replay->last_sequence);
  const auto input = active_->NewIterator();
  const RefPtr<MemTable> memtable = RefPtr<MemTable>::Share(active_);
  const auto tombstones = MergeRangeTombstones(order_, absl::MakeConstSpan(&memtable, 1), {});
  const std::shared_ptr<const Version> version = versions_->current();
  SIEVEDB_ASSIGN_OR_RETURN(
      const JobOutput output,
      RunJob(MakeJobContext(), input.get(), /*snapshots=*/{}, /*plan=*/nullptr, nullptr,
             PlanFilters(*version, /*plan=*/nullptr, active_->entries() + active_->prefixes()),
             /*part=*/{}, tombstones.get()));
  for (const auto& file : output.files) replay->edit.added_files.emplace_back(0, file);
  MutexLock lock(&mu_);
  memtable_ = NewMemTable();
  active_ = memtable_.get();
  return absl::OkStatus();
}

void DBImpl::LogOpening() {
  const std::shared_ptr<const Version> version = versions_->current();
  int tables = 0;
  for (int level = 0; level < kNumLevels; ++level) {
    tables += static_cast<int>(version->files(level).size());
  }
  event_log_->Write(absl::StrFormat("open: %d tables, sequence %d, WAL %06d", tables,
                                    last_sequence_, wals_->current_number()));
}

// For people; nothing reads it back.
void DBImpl::WriteOptionsFile() {
  std::vector<std::string> lines = {
      absl::StrFormat("sievedb = %d.%d.%d", SIEVEDB_VERSION_MAJOR, SIEVEDB_VERSION_MINOR,
                      SIEVEDB_VERSION_PATCH),
      absl::StrFormat("comparator = %s", options_.comparator->Name()),
      absl::StrFormat("paranoid_checks = %d", options_.paranoid_checks),
      absl::StrFormat("write_buffer_bytes = %d", options_.write_buffer_bytes),
      absl::StrFormat("max_write_buffers = %d", options_.max_write_buffers),
      absl::StrFormat("block_cache_bytes = %d", options_.block_cache->CapacityBytes()),
      absl::StrFormat("max_open_files = %d", options_.max_open_files),
      absl::StrFormat("mmap_reads = %d", options_.mmap_reads),
      absl::StrFormat("block_bytes = %d", options_.block_bytes),
      absl::StrFormat("block_restart_interval = %d", options_.block_restart_interval),
      absl::StrFormat("compression = %s", CompressionName(options_.compression)),
      absl::StrFormat("filter_policy = %s",
                      options_.filter_policy == nullptr ? "none" : options_.filter_policy->Name()),
      absl::StrFormat("filter_bits_per_key = %g",
                      options_.filter_policy == nullptr
                          ? 0
                          : options_.filter_policy->BitsPerKey(FilterContext())),
      absl::StrFormat("plan_filter_memory = %d", options_.plan_filter_memory),
      absl::StrFormat("access_aware_filters = %d", options_.access_aware_filters),
      absl::StrFormat("filter_memory_bytes = %d", options_.filter_memory_bytes),
      absl::StrFormat("prefix_extractor = %s", options_.prefix_extractor == nullptr
                                                   ? "none"
                                                   : options_.prefix_extractor->Name()),
      absl::StrFormat("compaction_style = %s", CompactionStyleName(options_.compaction_style)),
      absl::StrFormat("max_space_amplification = %g", options_.max_space_amplification),
      absl::StrFormat("level0_file_trigger = %d", options_.level0_file_trigger),
      absl::StrFormat("level0_slowdown_trigger = %d", options_.level0_slowdown_trigger),
      absl::StrFormat("level0_stop_trigger = %d", options_.level0_stop_trigger),
      absl::StrFormat("level_base_bytes = %d", options_.level_base_bytes),
      absl::StrFormat("level_size_multiplier = %g", options_.level_size_multiplier),
      absl::StrFormat("target_file_bytes = %d", options_.target_file_bytes),
      absl::StrFormat("soft_pending_compaction_bytes = %d", options_.soft_pending_compaction_bytes),
      absl::StrFormat("hard_pending_compaction_bytes = %d", options_.hard_pending_compaction_bytes),
      absl::StrFormat("disable_auto_compaction = %d", options_.disable_auto_compaction),
      absl::StrFormat("max_background_jobs = %d", options_.max_background_jobs),
      absl::StrFormat("bytes_per_writeback = %d", options_.bytes_per_writeback),
  };
  const std::string path = OptionsFileName(path_, versions_->NewFileNumber());
  absl::StatusOr<std::unique_ptr<WritableFile>> file = file_system_->NewWritableFile(path);
  absl::Status status = file.status();
  if (file.ok()) status = (*file)->Append(absl::StrJoin(lines, "\n") + "\n");
  if (file.ok()) status.Update((*file)->Close());
  // Nobody depends on it.
  if (!status.ok()) event_log_->Write("OPTIONS is not written: " + status.ToString());
}

// What a crash, or a deletion that failed, left behind. names is from before anything
// new was made.
void DBImpl::NoteUnknownFiles(const std::vector<std::string>& names) {
  std::set<uint64_t> live;
  const std::shared_ptr<const Version> version = versions_->current();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version->files(level)) live.insert(file->number);
  }
  for (const std::string& name : names) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (!parsed.has_value()) continue;
    bool keep = true;
    switch (parsed->kind) {
      case FileKind::kTable:
        keep = live.contains(parsed->number);
        break;
      case FileKind::kWal:
        keep = parsed->number >= versions_->log_number();
        break;
      case FileKind::kManifest:
        keep = parsed->number >= versions_->manifest_file_number();
        break;
      case FileKind::kOptions:
        keep = false;  // a new one is going to be written
        break;
      case FileKind::kTemporary:
        // Now: the next one may have the same name.
        file_system_->DeleteFile(path_ + "/" + name).IgnoreError();
        break;
      case FileKind::kCurrent:
      case FileKind::kLock:
      case FileKind::kEventLog:
        break;
    }
    if (!keep) unknown_files_.push_back(name);
  }
}

absl::Status DBImpl::OpenAllTables() {
  const std::shared_ptr<const Version> version = versions_->current();
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version->files(level)) {
      if (shutting_down_.load()) return absl::OkStatus();
      const absl::Status status = opener_->Get(*file).status();
      if (!status.ok() && options_.paranoid_checks) return status;
    }
  }
  return absl::OkStatus();
}

// What Open does not wait for. The first reads should not pay for opening tables
// either; an error shows again where a read needs the table.
void DBImpl::FinishOpening() {
  if (const absl::Status status = versions_->EnsureSynced(); !status.ok()) {
    if (!shutting_down_.load())
      SetBackgroundError(status, "syncing CURRENT", absl::IsResourceExhausted(status));
    return;
  }
  for (const std::string& name : unknown_files_) {
    event_log_->Write("deleting " + name + ", which nothing refers to");
    // One that stays is tried again when the database is opened next.
    file_system_->DeleteFile(path_ + "/" + name).IgnoreError();
  }
  WriteOptionsFile();
  const absl::Status status = OpenAllTables();
  if (!status.ok()) event_log_->Write("opening tables: " + status.ToString());
  DeleteObsoleteTables();  // it held them all
}

// --- closing

absl::Status DBImpl::Close() {
  {
    MutexLock lock(&mu_);
    if (closed_) return close_status_;
  }
  absl::Status status;
  // Writes without a WAL have no other way to survive.
  if (unlogged_writes_.load(std::memory_order_relaxed)) status = Flush(FlushOptions());
  shutting_down_.store(true);
  std::thread resume_thread;
  absl::Status lasting_error;
  {
    MutexLock lock(&mu_);
    changed_.SignalAll();
    while (scheduled_ > 0) changed_.Wait(&mu_);
    resume_thread = std::move(resume_thread_);
    if (!error_resumable_) lasting_error = background_error_;
  }
  if (resume_thread.joinable()) resume_thread.join();
  // After an error nothing is synced as if it could still succeed. A full disk did no
  // harm to what is in the WALs.
  status.Update(lasting_error);
  if (wals_ != nullptr) status.Update(wals_->Close(lasting_error.ok() && !read_only_));
  {
    MutexLock lock(&mu_);
    closed_ = true;
    close_status_ = status;
    must_look_.store(true, std::memory_order_release);
    const ReadView* const last = view_.exchange(nullptr, std::memory_order_acq_rel);
    if (last != nullptr) replaced_views_.push_back(last);
    immutables_.clear();
    changed_.SignalAll();
  }
  FinishStateChange();
  EpochSynchronize();
  if (versions_ != nullptr && !read_only_) {
    DeleteObsoleteTables();
    versions_->Close();
  }
  if (options_.rate_limiter != nullptr) options_.rate_limiter->SetDebt(this, 0);
  event_log_->Write("closed");
  lock_ = nullptr;
  return status;
}

absl::Status DestroyDB(const Options& options, const std::string& path) {
  const std::shared_ptr<FileSystem> file_system =
      options.file_system != nullptr ? options.file_system : PosixFileSystem();
  const absl::StatusOr<std::vector<std::string>> names = file_system->GetChildren(path);
  if (names.status().code() == absl::StatusCode::kNotFound) return absl::OkStatus();
  SIEVEDB_RETURN_IF_ERROR(names.status());
  bool has_database = false;
  for (const std::string& name : *names) has_database |= ParseFileName(name).has_value();
  if (!has_database) return absl::OkStatus();
  SIEVEDB_ASSIGN_OR_RETURN(const auto lock, file_system->LockFile(LockFileName(path)));
  absl::Status status;
  bool others = false;
  for (const std::string& name : *names) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (!parsed.has_value()) {
      others = true;
    } else if (parsed->kind != FileKind::kLock) {
      status.Update(file_system->DeleteFile(path + "/" + name));
    }
  }
  status.Update(file_system->DeleteFile(LockFileName(path)));
  if (status.ok() && !others) status = file_system->DeleteDirectory(path);
  return status;
}

}  // namespace sievedb
