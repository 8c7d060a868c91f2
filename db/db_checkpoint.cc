// Copies of a database as of one moment: checkpoints, and what backups are made from.

#include <utility>

#include "absl/strings/str_format.h"
#include "db/checkpoint_directory.h"
#include "db/db_impl.h"
#include "db/file_names.h"
#include "db/manifest_file.h"
#include "util/clock.h"
#include "util/epoch.h"
#include "util/status_macros.h"

namespace sievedb {

absl::StatusOr<DBImpl::Frozen> DBImpl::Freeze() {
  // Most of what is in memory is written out while others write; what is left for when
  // they wait is little.
  SIEVEDB_RETURN_IF_ERROR(Flush(FlushOptions()));
  Frozen frozen;
  const auto freeze = [&] { return FreezeFromQueue(&frozen); };
  const absl::FunctionRef<absl::Status()> work = freeze;
  PendingWrite write;
  write.work = &work;
  const absl::Status status = write_queue_.Write(
      &write, [this](absl::Span<PendingWrite* const> group) { return CommitGroup(group); });
  FinishStateChange();
  SIEVEDB_RETURN_IF_ERROR(status);
  return frozen;
}

// Only where nobody writes or ingests, tables alone are all that was written until one
// moment: a table that was ingested is newer than keys which still were in memory.
absl::Status DBImpl::FreezeFromQueue(Frozen* frozen) {
  SIEVEDB_RETURN_IF_ERROR(SwitchMemtableFromQueue());
  MutexLock lock(&mu_);
  while (!immutables_.empty()) {
    SIEVEDB_RETURN_IF_ERROR(Refusal());
    changed_.Wait(&mu_);
  }
  SIEVEDB_RETURN_IF_ERROR(Refusal());
  frozen->version = versions_->current();
  frozen->snapshot = versions_->Snapshot(*frozen->version);
  // All is in tables, and no WAL is needed.
  frozen->snapshot.log_number = 0;
  frozen->snapshot.last_sequence = visible_sequence_.load(std::memory_order_acquire);
  // It goes its own way from here on.
  frozen->snapshot.db_id = NewDatabaseId();
  return absl::OkStatus();
}

void DBImpl::Release(Frozen frozen) {
  frozen = Frozen();
  EpochSynchronize();
  DeleteObsoleteTables();  // it may have been the last to hold them
}

absl::Status DBImpl::CreateCheckpoint(const std::string& dir) {
  if (read_only_) return absl::FailedPreconditionError("the database is open read-only");
  if (dir.empty()) return absl::InvalidArgumentError("the path of a checkpoint is empty");
  const uint64_t start_micros = NowMicros();
  // First, so that nothing is flushed for one that cannot be.
  SIEVEDB_ASSIGN_OR_RETURN(CheckpointDirectory checkpoint,
                           CheckpointDirectory::Begin(file_system_, dir));
  SIEVEDB_ASSIGN_OR_RETURN(Frozen frozen, Freeze());
  CopyOptions copy;
  copy.rate_limiter = options_.rate_limiter.get();
  copy.start_writeback = options_.bytes_per_writeback != 0;
  absl::Status status;
  uint64_t bytes = 0;
  for (const AddedFile& added : frozen.snapshot.added_files) {
    if (status.ok()) {
      status = LinkOrCopyFile(file_system_, TableFileName(path_, added.file->number),
                              TableFileName(checkpoint.path(), added.file->number), copy);
    }
    bytes += added.file->file_bytes;
  }
  if (status.ok()) status = checkpoint.Commit(frozen.snapshot);
  if (status.ok()) {
    event_log_->Write(absl::StrFormat("checkpoint %s at sequence %d: %d tables, %d bytes in %.3f s",
                                      dir, *frozen.snapshot.last_sequence,
                                      frozen.snapshot.added_files.size(), bytes,
                                      static_cast<double>(NowMicros() - start_micros) / 1e6));
  }
  Release(std::move(frozen));
  return status;
}

}  // namespace sievedb
