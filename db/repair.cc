// RepairDB: puts a database right of which files are lost or damaged.
//
// 1. Where it opens and every block can be read nothing is done.
// 2. The list of tables is that of the MANIFEST that CURRENT names, or of the newest that
//    can be read; but of one that needs files which are gone, while there are tables that
//    it does not know, the end is lost, and it does not count. Where none counts the
//    tables say themselves where they belong (db/table_placement.h).
// 3. What WALs have becomes tables, each WAL as far as it can be read.
// 4. What is damaged gets a second name in lost/. Only then a new MANIFEST begins, and
//    only behind that files are deleted: a crash leaves what was there before, or the
//    result.

#include "db/repair.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/compaction_parts.h"
#include "db/db_impl.h"
#include "db/external_tables.h"
#include "db/file_names.h"
#include "db/log_reader.h"
#include "db/manifest_file.h"
#include "db/table_placement.h"
#include "db/version_builder.h"
#include "db/write_batch_internal.h"
#include "table/format.h"
#include "util/file_util.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr std::string_view kLostDirectory = "lost";

bool IsDamage(const absl::Status& status) { return status.code() == absl::StatusCode::kDataLoss; }

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Options RepairOptions(const Options& options) {
  Options sanitized = SanitizeOptions(options);
  sanitized.paranoid_checks = true;
  sanitized.wal_recovery = WalRecovery::kStrict;
  sanitized.listeners.clear();
  sanitized.statistics = nullptr;
  return sanitized;
}

}  // namespace

Repairer::Repairer(const Options& options, const std::string& path)
    : options_(RepairOptions(options)),
      path_(path),
      order_(options_.comparator),
      file_system_(options_.file_system.get()),
      opener_(options_, path_) {
  context_.options = &options_;
  context_.order = order_;
  context_.db_path = path_;
  context_.opener = &opener_;
  context_.new_file_number = [this] { return next_number_++; };
}

absl::StatusOr<RepairReport> Repairer::Run() {
  SIEVEDB_RETURN_IF_ERROR(LockDirectory());
  const absl::Status health = CheckHealth();
  if (health.ok()) return report_;
  if (!IsDamage(health)) return health;
  event_log_ = std::make_unique<EventLog>(file_system_, EventLogFileName(path_));
  Find(std::string(health.message()));
  SIEVEDB_RETURN_IF_ERROR(FindManifest());
  SIEVEDB_RETURN_IF_ERROR(versions_ != nullptr ? TakeListedTables() : TakeAllTables());
  SIEVEDB_RETURN_IF_ERROR(SalvageWals());
  if (versions_ == nullptr) SIEVEDB_RETURN_IF_ERROR(PlaceAllTables());
  SIEVEDB_RETURN_IF_ERROR(SetAside());
  SIEVEDB_RETURN_IF_ERROR(Commit());
  Clean();
  return report_;
}

void Repairer::Find(std::string finding) {
  // What kept it from opening is met again on the way.
  if (std::find(report_.findings.begin(), report_.findings.end(), finding) !=
      report_.findings.end()) {
    return;
  }
  event_log_->Write("repair: " + finding);
  report_.findings.push_back(std::move(finding));
}

// --- what is there

absl::Status Repairer::LockDirectory() {
  const auto is_of_database = [](const std::string& name) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (!parsed.has_value()) return false;
    const FileKind kind = parsed->kind;
    return kind == FileKind::kTable || kind == FileKind::kWal || kind == FileKind::kManifest ||
           kind == FileKind::kCurrent;
  };
  SIEVEDB_ASSIGN_OR_RETURN(names_, file_system_->GetChildren(path_));
  if (std::none_of(names_.begin(), names_.end(), is_of_database)) {
    return absl::NotFoundError(path_ + ": no database is here");
  }
  SIEVEDB_ASSIGN_OR_RETURN(lock_, file_system_->LockFile(LockFileName(path_)));
  SIEVEDB_ASSIGN_OR_RETURN(names_, file_system_->GetChildren(path_));
  for (const std::string& name : names_) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (!parsed.has_value() || parsed->number > kMaxOwnFileNumber) continue;
    next_number_ = std::max(next_number_, parsed->number + 1);
  }
  return absl::OkStatus();
}

std::vector<uint64_t> Repairer::Numbers(FileKind kind) const {
  std::vector<uint64_t> numbers;
  for (const std::string& name : names_) {
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (parsed.has_value() && parsed->kind == kind && parsed->number <= kMaxOwnFileNumber) {
      numbers.push_back(parsed->number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool Repairer::Exists(const std::string& path) const {
  return std::find(names_.begin(), names_.end(), BaseName(path)) != names_.end();
}

absl::Status Repairer::CheckHealth() {
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<DB> db,
                           DBImpl::OpenImpl(options_, path_, /*read_only=*/true));
  SIEVEDB_RETURN_IF_ERROR(db->VerifyChecksums());
  report_.last_sequence = db->LatestSequence();
  report_.tables = Numbers(FileKind::kTable).size();
  return absl::OkStatus();
}

// --- the MANIFEST

absl::Status Repairer::FindManifest() {
  std::vector<uint64_t> candidates = Numbers(FileKind::kManifest);
  std::reverse(candidates.begin(), candidates.end());
  const absl::StatusOr<uint64_t> current = ReadCurrent(file_system_, path_);
  if (current.ok()) {
    // Where it is missing, what is said of it is that.
    std::erase(candidates, *current);
    candidates.insert(candidates.begin(), *current);
  } else if (!IsDamage(current.status()) && !absl::IsNotFound(current.status())) {
    return current.status();
  }
  for (const uint64_t number : candidates) {
    auto versions = std::make_unique<VersionSet>(options_, path_, &opener_, event_log_.get());
    const absl::Status status = versions->RecoverFrom(number);
    if (!status.ok() && !IsDamage(status)) return status;
    if (!status.ok()) {
      Find(std::string(status.message()));
      if (Exists(ManifestFileName(path_, number))) {
        lost_.push_back(BaseName(ManifestFileName(path_, number)));
        SIEVEDB_RETURN_IF_ERROR(ReadHints(number));
      }
      continue;
    }
    SIEVEDB_ASSIGN_OR_RETURN(const bool has_lost_its_end, HasLostItsEnd(*versions));
    if (has_lost_its_end) {
      Find(absl::StrFormat("%s needs files that are gone, and does not know tables that are here",
                           ManifestFileName(path_, number)));
      SIEVEDB_RETURN_IF_ERROR(ReadHints(number));
      continue;
    }
    versions_ = std::move(versions);
    report_.manifest = BaseName(ManifestFileName(path_, number));
    return absl::OkStatus();
  }
  Find("no MANIFEST can be used: the tables themselves say where they belong");
  return absl::OkStatus();
}

absl::StatusOr<bool> Repairer::HasLostItsEnd(const VersionSet& versions) {
  const std::shared_ptr<const Version> version = versions.current();
  SIEVEDB_ASSIGN_OR_RETURN(bool needs_more, MissesWals(versions.log_number()));
  std::vector<uint64_t> unknown = Numbers(FileKind::kTable);
  for (int level = 0; level < kNumLevels; ++level) {
    for (const FileRef& file : version->files(level)) {
      if (std::erase(unknown, file->number) == 0) needs_more = true;
    }
  }
  if (!needs_more) return false;
  for (const uint64_t number : unknown) {
    const absl::Status status = OpenUnlisted(number).status();
    if (status.ok()) return true;
    if (!IsDamage(status)) return status;
  }
  return false;
}

// Whether WALs from log_number on are gone: the first, or one that another one continues.
absl::StatusOr<bool> Repairer::MissesWals(uint64_t log_number) {
  bool found = false;
  for (const uint64_t number : Numbers(FileKind::kWal)) {
    if (number < log_number) continue;
    if (!found && log_number != 0 && number != log_number) return true;
    found = true;
    const std::string path = WalFileName(path_, number);
    SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system_->FileSize(path));
    SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system_->NewRandomAccessFile(path));
    const auto reader = LogReader::Open(std::move(file), bytes, path, LogKind::kWal, number,
                                        file_system_->BootId());
    if (!reader.ok() && !IsDamage(reader.status())) return reader.status();
    if (!reader.ok()) continue;
    const LogPredecessor before = (*reader)->predecessor();
    if (before.file_number >= log_number && before.end > kLogHeaderBytes &&
        !Exists(WalFileName(path_, before.file_number))) {
      return true;
    }
  }
  return !found;  // a database always has one
}

// What a MANIFEST that does not count still says of tables' origin.
absl::Status Repairer::ReadHints(uint64_t number) {
  const std::string path = ManifestFileName(path_, number);
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system_->FileSize(path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system_->NewRandomAccessFile(path));
  auto reader = LogReader::Open(std::move(file), bytes, path, LogKind::kManifest, number,
                                file_system_->BootId());
  if (!reader.ok()) return IsDamage(reader.status()) ? absl::OkStatus() : reader.status();
  while (true) {
    std::string_view record;
    const absl::StatusOr<bool> more = (*reader)->ReadRecord(&record);
    if (!more.ok() && !IsDamage(more.status())) return more.status();
    if (!more.ok() || !*more) return absl::OkStatus();
    const absl::StatusOr<VersionEdit> edit = VersionEdit::Decode(record);
    if (!edit.ok()) return IsDamage(edit.status()) ? absl::OkStatus() : edit.status();
    context_.db_id = edit->db_id.value_or(context_.db_id);
    context_.hash_seed = edit->hash_seed.value_or(context_.hash_seed);
    last_sequence_ = std::max(last_sequence_, edit->last_sequence.value_or(0));
    next_number_ = std::max(next_number_, edit->next_file_number.value_or(0));
    for (const AddedFile& added : edit->added_files) {
      if (added.file->external_number != 0) external_hints_[added.file->number] = added.file;
    }
  }
}

// --- tables

// Reads all of it. *only_filter: whatever is wrong, its entries can all be read.
absl::Status Repairer::CheckTable(const FileMeta& file, bool* only_filter) {
  *only_filter = false;
  SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, opener_.Get(file));
  if (table->filter_status().ok()) return table->Verify();
  const auto it = table->NewIterator(ReadOptions(), /*for_compaction=*/true);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
  }
  SIEVEDB_RETURN_IF_ERROR(it->status());
  *only_filter = true;
  return table->filter_status();
}

void Repairer::Lose(uint64_t number, const absl::Status& why) {
  Find(std::string(why.message()));
  const std::string path = TableFileName(path_, number);
  if (Exists(path)) lost_.push_back(BaseName(path));
}

absl::Status Repairer::TakeListedTables() {
  const VersionEdit listed = versions_->Snapshot(*versions_->current());
  context_.db_id = *listed.db_id;
  context_.hash_seed = listed.hash_seed.value_or(0);
  log_number_ = *listed.log_number;
  next_number_ = std::max(next_number_, *listed.next_file_number);
  last_sequence_ = std::max(last_sequence_, *listed.last_sequence);
  for (const AddedFile& added : listed.added_files) {
    bool only_filter = false;
    const absl::Status status = CheckTable(*added.file, &only_filter);
    if (!status.ok() && !IsDamage(status)) return status;
    if (status.ok()) {
      tables_.push_back(added);
      continue;
    }
    Lose(added.file->number, status);
    if (!only_filter) continue;
    SIEVEDB_ASSIGN_OR_RETURN(JobOutput output, Merge({added.file}));
    for (auto& file : output.files) tables_.emplace_back(added.level, std::move(file), added.run);
  }
  return absl::OkStatus();
}

// Opens a table that no MANIFEST describes, and describes it as it does itself; one of
// SstFileWriter's as of sequence 0.
absl::StatusOr<std::shared_ptr<FileMeta>> Repairer::OpenUnlisted(uint64_t number) {
  auto file = std::make_shared<FileMeta>();
  file->number = number;
  SIEVEDB_ASSIGN_OR_RETURN(file->file_bytes, file_system_->FileSize(TableFileName(path_, number)));
  file->external_number = kAnyFileNumber;
  SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, opener_.Get(*file));
  file->external_number =
      (table->file_number() & kExternalNumberBit) != 0 ? table->file_number() : 0;
  if (file->checksum_number() != table->file_number()) {
    return absl::DataLossError(absl::StrFormat("%s: a table in the wrong file: found number %d",
                                               TableFileName(path_, number), table->file_number()));
  }
  DescribeTable(*table, file.get());
  return file;
}

absl::Status Repairer::TakeAllTables() {
  for (const uint64_t number : Numbers(FileKind::kTable)) {
    absl::StatusOr<std::shared_ptr<FileMeta>> file = OpenUnlisted(number);
    absl::Status status = file.status();
    bool only_filter = false;
    if (status.ok()) status = CheckTable(**file, &only_filter);
    if (status.ok() || only_filter) {
      const absl::Status placed = FindSequence(file->get());
      if (!placed.ok()) {
        status = placed;
        only_filter = false;
      }
    }
    if (!status.ok() && !IsDamage(status)) return status;
    if (!status.ok()) Lose(number, status);
    if (status.ok()) {
      NoteOrigin(**file);
      unplaced_.push_back(*std::move(file));
    } else if (only_filter) {
      SIEVEDB_ASSIGN_OR_RETURN(JobOutput output, Merge({*std::move(file)}));
      for (auto& rewritten : output.files) unplaced_.push_back(std::move(rewritten));
    }
  }
  return absl::OkStatus();
}

// Of a table that was ingested: only the MANIFEST knew as of when its entries count.
absl::Status Repairer::FindSequence(FileMeta* file) {
  if (file->external_number == 0) return absl::OkStatus();
  const auto hint = external_hints_.find(file->number);
  if (hint != external_hints_.end() && hint->second->external_number == file->external_number) {
    SetExternalSequence(file, hint->second->largest_sequence);
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "%s: a table that was ingested, whose place among the others only the lost MANIFEST knew; "
      "ingest it again to have its keys as the newest",
      TableFileName(path_, file->number)));
}

// What all tables of a database have in common.
void Repairer::NoteOrigin(const FileMeta& file) {
  if (file.external_number != 0) return;
  const TableProperties& properties = file.table.load(std::memory_order_relaxed)->properties();
  if (context_.db_id == 0) context_.db_id = properties.db_id;
  if (context_.hash_seed == 0) context_.hash_seed = properties.hash_seed;
}

// --- WALs

absl::Status Repairer::SalvageWals() {
  if (context_.db_id == 0) context_.db_id = NewDatabaseId();
  if (context_.hash_seed == 0 && versions_ == nullptr) {
    context_.hash_seed = file_system_->RandomSeed();
  }
  for (const uint64_t number : Numbers(FileKind::kWal)) {
    if (number < log_number_) continue;
    const absl::Status status = SalvageWal(number);
    obsolete_.push_back(BaseName(WalFileName(path_, number)));
    if (status.ok()) continue;
    if (!IsDamage(status)) return status;
    Find(std::string(status.message()));
    lost_.push_back(BaseName(WalFileName(path_, number)));
  }
  return FlushMemTable();
}

absl::Status Repairer::SalvageWal(uint64_t number) {
  const std::string path = WalFileName(path_, number);
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system_->FileSize(path));
  SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system_->NewRandomAccessFile(path));
  SIEVEDB_ASSIGN_OR_RETURN(auto reader, LogReader::Open(std::move(file), bytes, path, LogKind::kWal,
                                                        number, file_system_->BootId()));
  WriteBatch batch;
  while (true) {
    std::string_view record;
    SIEVEDB_ASSIGN_OR_RETURN(const bool more, reader->ReadRecord(&record));
    if (!more) return absl::OkStatus();
    const absl::Status parsed = WriteBatchInternal::SetBytes(&batch, record);
    const uint64_t first = parsed.ok() ? WriteBatchInternal::Sequence(batch) : 0;
    if (!parsed.ok() || (batch.Count() > 0 && first <= last_logged_)) {
      return absl::DataLossError(absl::StrFormat(
          "%s: record that ends at offset %d: %s", path, reader->offset(),
          parsed.ok() ? absl::StrFormat("sequence %d, expected above %d", first, last_logged_)
                      : std::string(parsed.message())));
    }
    if (batch.Count() == 0) continue;
    if (!memtable_) {
      memtable_ = RefPtr<MemTable>::New(order_, /*id=*/1, options_.write_buffer_bytes,
                                        context_.hash_seed, options_.prefix_extractor.get());
    }
    SIEVEDB_RETURN_IF_ERROR(WriteBatchInternal::InsertInto(batch, first, memtable_.get()));
    last_logged_ = first + batch.Count() - 1;
    ++report_.wal_records;
    if (memtable_->DataBytes() >= options_.write_buffer_bytes) {
      SIEVEDB_RETURN_IF_ERROR(FlushMemTable());
    }
  }
}

absl::Status Repairer::FlushMemTable() {
  if (!memtable_) return absl::OkStatus();
  const auto input = memtable_->NewIterator();
  const auto tombstones = MergeRangeTombstones(order_, absl::MakeConstSpan(&memtable_, 1), {});
  SIEVEDB_ASSIGN_OR_RETURN(
      JobOutput output,
      RunJob(context_, input.get(), /*snapshots=*/{}, /*plan=*/nullptr,
             /*version=*/nullptr, FilterContext(), /*part=*/{}, tombstones.get()));
  memtable_ = RefPtr<MemTable>();
  for (auto& file : output.files) {
    if (versions_ != nullptr) {
      tables_.emplace_back(0, std::move(file));
    } else {
      unplaced_.push_back(std::move(file));
    }
  }
  return absl::OkStatus();
}

// --- the result

absl::Status Repairer::PlaceAllTables() {
  for (PlacedTables& placed : PlaceTables(order_.user(), std::move(unplaced_))) {
    if (placed.tables.size() == 1) {
      tables_.emplace_back(placed.level, std::move(placed.tables.front()));
      continue;
    }
    report_.tables_merged += placed.tables.size();
    for (const auto& file : placed.tables) {
      obsolete_.push_back(BaseName(TableFileName(path_, file->number)));
    }
    SIEVEDB_ASSIGN_OR_RETURN(JobOutput output, Merge(std::move(placed.tables)));
    for (auto& file : output.files) tables_.emplace_back(placed.level, std::move(file));
  }
  return absl::OkStatus();
}

// Keeps point and range deletions: older tables may lie below.
absl::StatusOr<JobOutput> Repairer::Merge(std::vector<std::shared_ptr<FileMeta>> tables) {
  CompactionPlan plan;
  uint64_t bytes = 0;
  for (auto& file : tables) {
    bytes += file->file_bytes;
    plan.inputs.push_back(std::move(file));
  }
  std::vector<InputAnchor> anchors;
  for (const FileRef& file : plan.inputs) {
    SIEVEDB_ASSIGN_OR_RETURN(const TableReader* table, opener_.Get(*file));
    std::vector<std::string> keys = table->Anchors(std::max<uint64_t>(1, bytes / 256));
    keys.emplace_back(UserKey(file->largest));
    for (std::string& key : keys) {
      anchors.push_back({std::move(key), file->file_bytes / keys.size()});
    }
  }
  const uint64_t parts = 1 + bytes / options_.target_file_bytes;
  const std::vector<std::string> cuts =
      CutInput(order_.user(), std::move(anchors), parts, options_.target_file_bytes / 2);
  SIEVEDB_ASSIGN_OR_RETURN(const auto tombstones, PlanRangeTombstones(context_, plan, {}));
  JobOutput all;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    JobPart part;
    if (i > 0) part.begin = &cuts[i - 1];
    if (i < cuts.size()) part.end = &cuts[i];
    SIEVEDB_ASSIGN_OR_RETURN(const auto input, NewPlanInput(context_, plan, tombstones.get()));
    SIEVEDB_ASSIGN_OR_RETURN(JobOutput output,
                             RunJob(context_, input.get(), /*snapshots=*/{}, /*plan=*/nullptr,
                                    /*version=*/nullptr, FilterContext(), part, tombstones.get()));
    all.files.insert(all.files.end(), output.files.begin(), output.files.end());
  }
  return all;
}

absl::Status Repairer::SetAside() {
  if (lost_.empty()) return absl::OkStatus();
  const std::string directory = path_ + "/" + std::string(kLostDirectory);
  SIEVEDB_RETURN_IF_ERROR(file_system_->CreateDirectory(directory));
  for (const std::string& name : lost_) {
    const std::string from = path_ + "/" + name;
    std::string as = name;
    for (int i = 1;; as = absl::StrFormat("%s.%d", name, i++)) {
      const std::string to = directory + "/" + as;
      SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system_->FileExists(to));
      if (exists) {
        // A repair that was cut off put it there.
        SIEVEDB_ASSIGN_OR_RETURN(const bool same, HaveSameContents(file_system_, from, to));
        if (!same) continue;
      } else {
        SIEVEDB_RETURN_IF_ERROR(LinkOrCopyFile(file_system_, from, to, CopyOptions()));
      }
      break;
    }
    event_log_->Write(absl::StrFormat("repair: %s is now %s/%s", name, kLostDirectory, as));
    report_.set_aside.push_back(as);
    obsolete_.push_back(name);
  }
  return file_system_->SyncDirectory(directory);
}

absl::Status Repairer::Commit() {
  for (const AddedFile& added : tables_) {
    last_sequence_ = std::max(last_sequence_, added.file->largest_sequence);
  }
  last_sequence_ = std::max(last_sequence_, last_logged_);
  VersionEdit snapshot;
  snapshot.comparator_name = options_.comparator->Name();
  snapshot.db_id = context_.db_id;
  if (context_.hash_seed != 0) snapshot.hash_seed = context_.hash_seed;
  snapshot.last_sequence = last_sequence_;
  snapshot.added_files = tables_;
  const Version empty(order_, &opener_);
  SIEVEDB_RETURN_IF_ERROR(Version::Apply(empty, snapshot).status());

  // An empty one: those that were read are not to be read again.
  const uint64_t wal = next_number_++;
  SIEVEDB_ASSIGN_OR_RETURN(auto file, file_system_->NewWritableFile(WalFileName(path_, wal)));
  SIEVEDB_ASSIGN_OR_RETURN(auto log, LogWriter::Create(std::move(file), LogKind::kWal, wal,
                                                       /*predecessor=*/{}, file_system_->BootId()));
  SIEVEDB_RETURN_IF_ERROR(log->Sync());
  SIEVEDB_RETURN_IF_ERROR(log->Close());
  const uint64_t number = next_number_++;
  snapshot.log_number = wal;
  snapshot.next_file_number = next_number_;
  SIEVEDB_ASSIGN_OR_RETURN(const auto manifest,
                           BeginManifest(file_system_, path_, number, snapshot));
  SIEVEDB_RETURN_IF_ERROR(manifest->Close());
  SIEVEDB_RETURN_IF_ERROR(file_system_->SyncDirectory(path_));
  report_.changed = true;
  report_.tables = tables_.size();
  report_.last_sequence = last_sequence_;
  return absl::OkStatus();
}

// What stays is deleted when the database is opened.
void Repairer::Clean() {
  for (const uint64_t number : Numbers(FileKind::kManifest)) {
    obsolete_.push_back(BaseName(ManifestFileName(path_, number)));
  }
  for (const std::string& name : obsolete_) {
    file_system_->DeleteFile(path_ + "/" + name).IgnoreError();
  }
}

absl::Status RepairDB(const Options& options, const std::string& path, RepairReport* report) {
  SIEVEDB_RETURN_IF_ERROR(options.Validate());
  if (path.empty()) return absl::InvalidArgumentError("the path of a database is empty");
  SIEVEDB_ASSIGN_OR_RETURN(RepairReport found, Repairer(options, path).Run());
  if (report != nullptr) *report = std::move(found);
  return absl::OkStatus();
}

}  // namespace sievedb
