#include "sievedb/backup.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/backup_description.h"
#include "db/checkpoint_directory.h"
#include "db/db_impl.h"
#include "db/file_names.h"
#include "db/manifest_file.h"
#include "table/format.h"
#include "util/clock.h"
#include "util/file_util.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// What a file's pieces add up to, as backup_description.h says.
struct FileSum {
  uint64_t bytes = 0;
  uint64_t checksum = 0;

  void Add(std::string_view piece) {
    bytes += piece.size();
    checksum = Hash64(piece, checksum);
  }
};

absl::StatusOr<uint64_t> Fingerprint(FileSystem* file_system, const std::string& path,
                                     uint64_t file_bytes) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto file, file_system->NewRandomAccessFile(path));
  char scratch[kFooterBytes];
  std::string_view footer;
  SIEVEDB_RETURN_IF_ERROR(file->Read(file_bytes - kFooterBytes, kFooterBytes, scratch, &footer));
  if (footer.size() != kFooterBytes) {
    return absl::DataLossError(
        absl::StrFormat("%s, offset %d: expected a footer of %d bytes, found %d", path,
                        file_bytes - kFooterBytes, kFooterBytes, footer.size()));
  }
  return Hash64(footer);
}

}  // namespace

struct BackupEngine::Rep {
  // Of a damaged one nothing but the status.
  struct Backup {
    absl::Status status;
    BackupDescription description;
  };

  absl::Status Load();
  absl::StatusOr<const Backup*> Find(uint64_t id) const;
  BackupInfo Info(uint64_t id, const Backup& backup) const;
  std::string PathOf(const BackupDescription& description, size_t i) const {
    return dir + "/" +
           BackupTableName(description.snapshot.added_files[i].file->number,
                           description.tables[i].fingerprint);
  }
  absl::Status Remove(uint64_t id);
  absl::Status DeleteUnknown();
  absl::Status CopyTables(DBImpl* db, const DBImpl::Frozen& frozen, BackupDescription* to);
  absl::Status CopyTable(DBImpl* db, const FileMeta& file, BackupDescription* to);
  CopyOptions copy_options() const { return {options.rate_limiter.get(), true}; }
  absl::Status CheckSum(const FileSum& sum, const BackupDescription& description, size_t i) const;

  BackupOptions options;
  std::string dir;
  FileSystem* file_system = nullptr;
  std::unique_ptr<FileLock> lock;
  std::map<uint64_t, Backup> backups;  // by id
};

// --- what is there

absl::Status BackupEngine::Rep::Load() {
  SIEVEDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system->GetChildren(dir));
  for (const std::string& name : names) {
    const std::optional<uint64_t> id = ParseBackupFileName(name);
    if (!id.has_value()) continue;
    const std::string path = dir + "/" + name;
    SIEVEDB_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(file_system, path));
    absl::StatusOr<BackupDescription> description = BackupDescription::Decode(bytes);
    Backup& backup = backups[*id];
    if (description.ok()) {
      backup.description = *std::move(description);
    } else {
      const absl::Status status = description.status();
      backup.status =
          absl::Status(status.code(), absl::StrFormat("%s: %s", path, status.message()));
    }
  }
  return DeleteUnknown();
}

// What a crash left, and tables whose last backup was deleted.
absl::Status BackupEngine::Rep::DeleteUnknown() {
  std::set<std::string> known;
  for (const auto& [id, backup] : backups) {
    if (!backup.status.ok()) return absl::OkStatus();  // nobody knows what it needs
    for (size_t i = 0; i < backup.description.tables.size(); ++i) {
      known.insert(PathOf(backup.description, i));
    }
  }
  SIEVEDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system->GetChildren(dir));
  for (const std::string& name : names) {
    const std::string path = dir + "/" + name;
    const bool is_table = IsBackupTableName(name) && !known.contains(path);
    const bool is_begun =
        name.ends_with(".tmp") && ParseBackupFileName(name.substr(0, name.size() - 4)).has_value();
    if (is_table || is_begun) SIEVEDB_RETURN_IF_ERROR(file_system->DeleteFile(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<const BackupEngine::Rep::Backup*> BackupEngine::Rep::Find(uint64_t id) const {
  const auto backup = backups.find(id);
  if (backup == backups.end()) {
    return absl::NotFoundError(absl::StrFormat("%s: there is no backup %d", dir, id));
  }
  SIEVEDB_RETURN_IF_ERROR(backup->second.status);
  return &backup->second;
}

BackupInfo BackupEngine::Rep::Info(uint64_t id, const Backup& backup) const {
  BackupInfo info;
  info.status = backup.status;
  info.id = id;
  info.created_seconds = backup.description.created_seconds;
  info.sequence = backup.description.snapshot.last_sequence.value_or(0);
  info.tables = backup.description.tables.size();
  info.new_bytes = backup.description.new_bytes;
  for (const AddedFile& added : backup.description.snapshot.added_files) {
    info.bytes += added.file->file_bytes;
  }
  return info;
}

absl::Status BackupEngine::Rep::CheckSum(const FileSum& sum, const BackupDescription& description,
                                         size_t i) const {
  const FileMeta& file = *description.snapshot.added_files[i].file;
  if (sum.bytes == file.file_bytes && sum.checksum == description.tables[i].checksum) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "%s: expected %d bytes of checksum %016x, found %d of %016x", PathOf(description, i),
      file.file_bytes, description.tables[i].checksum, sum.bytes, sum.checksum));
}

// --- making one

absl::Status BackupEngine::Rep::CopyTables(DBImpl* db, const DBImpl::Frozen& frozen,
                                           BackupDescription* to) {
  // By name: a table of the same footer and size is the same one.
  std::map<std::string, std::pair<uint64_t, uint64_t>> known;  // bytes, checksum
  for (const auto& [id, backup] : backups) {
    for (size_t i = 0; i < backup.description.tables.size(); ++i) {
      known[PathOf(backup.description, i)] = {
          backup.description.snapshot.added_files[i].file->file_bytes,
          backup.description.tables[i].checksum};
    }
  }
  to->snapshot = frozen.snapshot;
  for (const AddedFile& added : frozen.snapshot.added_files) {
    const FileMeta& file = *added.file;
    SIEVEDB_ASSIGN_OR_RETURN(
        const uint64_t fingerprint,
        Fingerprint(file_system, TableFileName(db->path(), file.number), file.file_bytes));
    to->tables.push_back({fingerprint, 0});
    const auto old = known.find(PathOf(*to, to->tables.size() - 1));
    if (old != known.end() && old->second.first == file.file_bytes) {
      to->tables.back().checksum = old->second.second;
    } else {
      SIEVEDB_RETURN_IF_ERROR(CopyTable(db, file, to));
    }
  }
  return file_system->SyncDirectory(dir);
}

absl::Status BackupEngine::Rep::CopyTable(DBImpl* db, const FileMeta& file, BackupDescription* to) {
  // A copy of a damaged one would be found to be so when it is too late.
  SIEVEDB_RETURN_IF_ERROR(db->VerifyTable(file));
  FileSum sum;
  SIEVEDB_RETURN_IF_ERROR(CopyFile(file_system, TableFileName(db->path(), file.number),
                                   PathOf(*to, to->tables.size() - 1), copy_options(),
                                   [&](std::string_view piece) { sum.Add(piece); }));
  to->tables.back().checksum = sum.checksum;
  to->new_bytes += file.file_bytes;
  return CheckSum(sum, *to, to->tables.size() - 1);
}

BackupEngine::BackupEngine(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
BackupEngine::~BackupEngine() = default;

absl::StatusOr<std::unique_ptr<BackupEngine>> BackupEngine::Open(const BackupOptions& options,
                                                                 const std::string& dir) {
  if (dir.empty()) return absl::InvalidArgumentError("the path of the backups is empty");
  auto rep = std::make_unique<Rep>();
  rep->options = options;
  if (rep->options.file_system == nullptr) rep->options.file_system = PosixFileSystem();
  rep->file_system = rep->options.file_system.get();
  rep->dir = dir;
  while (rep->dir.size() > 1 && rep->dir.back() == '/') rep->dir.pop_back();
  SIEVEDB_ASSIGN_OR_RETURN(const bool exists, rep->file_system->FileExists(rep->dir));
  if (!exists) {
    SIEVEDB_RETURN_IF_ERROR(rep->file_system->CreateDirectory(rep->dir));
    SIEVEDB_RETURN_IF_ERROR(rep->file_system->SyncDirectory(ParentDirectory(rep->dir)));
  }
  SIEVEDB_ASSIGN_OR_RETURN(rep->lock, rep->file_system->LockFile(LockFileName(rep->dir)));
  SIEVEDB_RETURN_IF_ERROR(rep->Load());
  return std::unique_ptr<BackupEngine>(new BackupEngine(std::move(rep)));
}

absl::StatusOr<BackupInfo> BackupEngine::Create(DB* db) {
  Rep& rep = *rep_;
  // The implementation behind the interface is the only one there is.
  auto* const impl = static_cast<DBImpl*>(db);
  SIEVEDB_ASSIGN_OR_RETURN(DBImpl::Frozen frozen, impl->Freeze());
  Rep::Backup backup;
  backup.description.created_seconds = WallSeconds();
  const uint64_t id = rep.backups.empty() ? 1 : rep.backups.rbegin()->first + 1;
  absl::Status status = rep.CopyTables(impl, frozen, &backup.description);
  if (status.ok()) {
    const std::string bytes = backup.description.Encode();
    status = WriteFileAtomically(rep.file_system, rep.dir, BackupFileName(id), bytes);
    if (status.ok()) {
      // Without references to tables of the database.
      SIEVEDB_ASSIGN_OR_RETURN(backup.description, BackupDescription::Decode(bytes));
    }
  }
  impl->Release(std::move(frozen));
  if (!status.ok()) {
    // It may be there, though its name is not safe; after that its tables go.
    const absl::Status gone = rep.file_system->DeleteFile(rep.dir + "/" + BackupFileName(id));
    if ((gone.ok() || absl::IsNotFound(gone)) && rep.file_system->SyncDirectory(rep.dir).ok()) {
      rep.DeleteUnknown().IgnoreError();  // or else at the next Open
    }
    return status;
  }
  const auto added = rep.backups.emplace(id, std::move(backup)).first;
  return rep.Info(id, added->second);
}

std::vector<BackupInfo> BackupEngine::List() const {
  std::vector<BackupInfo> infos;
  for (const auto& [id, backup] : rep_->backups) infos.push_back(rep_->Info(id, backup));
  return infos;
}

absl::Status BackupEngine::Verify(uint64_t id) const {
  SIEVEDB_ASSIGN_OR_RETURN(const Rep::Backup* backup, rep_->Find(id));
  const BackupDescription& description = backup->description;
  for (size_t i = 0; i < description.tables.size(); ++i) {
    FileSum sum;
    const absl::Status read = ReadFileInPieces(rep_->file_system, rep_->PathOf(description, i),
                                               [&](std::string_view piece) { sum.Add(piece); });
    if (absl::IsNotFound(read)) {
      return absl::DataLossError(rep_->PathOf(description, i) +
                                 ": a table of the backup is missing");
    }
    SIEVEDB_RETURN_IF_ERROR(read);
    SIEVEDB_RETURN_IF_ERROR(rep_->CheckSum(sum, description, i));
  }
  return absl::OkStatus();
}

absl::Status BackupEngine::Rep::Remove(uint64_t id) {
  SIEVEDB_RETURN_IF_ERROR(file_system->DeleteFile(dir + "/" + BackupFileName(id)));
  backups.erase(id);
  // Before its tables: what a crash leaves of a backup is all of it.
  SIEVEDB_RETURN_IF_ERROR(file_system->SyncDirectory(dir));
  return DeleteUnknown();
}

absl::Status BackupEngine::Delete(uint64_t id) {
  const auto backup = rep_->backups.find(id);
  if (backup == rep_->backups.end()) return rep_->Find(id).status();
  return rep_->Remove(id);
}

absl::Status BackupEngine::DeleteAllBut(uint64_t keep) {
  std::vector<uint64_t> ids;
  for (const auto& [id, backup] : rep_->backups) {
    if (backup.status.ok()) ids.push_back(id);
  }
  for (size_t i = 0; i + keep < ids.size(); ++i) SIEVEDB_RETURN_IF_ERROR(rep_->Remove(ids[i]));
  return absl::OkStatus();
}

absl::Status BackupEngine::Restore(uint64_t id, const std::string& dir) const {
  SIEVEDB_ASSIGN_OR_RETURN(const Rep::Backup* backup, rep_->Find(id));
  const BackupDescription& description = backup->description;
  SIEVEDB_ASSIGN_OR_RETURN(CheckpointDirectory to,
                           CheckpointDirectory::Begin(rep_->file_system, dir));
  for (size_t i = 0; i < description.tables.size(); ++i) {
    FileSum sum;
    const uint64_t number = description.snapshot.added_files[i].file->number;
    const absl::Status copied =
        CopyFile(rep_->file_system, rep_->PathOf(description, i), TableFileName(to.path(), number),
                 rep_->copy_options(), [&](std::string_view piece) { sum.Add(piece); });
    if (absl::IsNotFound(copied)) {
      return absl::DataLossError(rep_->PathOf(description, i) +
                                 ": a table of the backup is missing");
    }
    SIEVEDB_RETURN_IF_ERROR(copied);
    SIEVEDB_RETURN_IF_ERROR(rep_->CheckSum(sum, description, i));
  }
  VersionEdit snapshot = description.snapshot;
  snapshot.db_id = NewDatabaseId();
  return to.Commit(std::move(snapshot));
}

}  // namespace sievedb
