#include "sievedb/sst_file_writer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "sievedb/db.h"
#include "table/format.h"
#include "table/internal_key.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "util/clock.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr size_t kMaxKeyBytesInMessage = 64;

std::string Shown(std::string_view key) { return Escape(key.substr(0, kMaxKeyBytesInMessage)); }

// Seeds the checksums, so that blocks of two tables are told apart.
uint64_t DrawFileNumber(FileSystem* file_system) {
  const uint64_t number = file_system->RandomSeed() | kExternalNumberBit;
  return number == kAnyFileNumber ? kExternalNumberBit : number;
}

}  // namespace

struct SstFileWriter::Rep {
  explicit Rep(const Options& writer_options)
      : options(writer_options), order(writer_options.comparator) {
    if (options.file_system == nullptr) options.file_system = PosixFileSystem();
  }

  absl::Status Begin();
  absl::Status Add(EntryType type, std::string_view key, std::string_view value);
  absl::StatusOr<TableSummary> End();
  void Abandon();

  Options options;
  const KeyOrder order;
  std::string path;
  std::unique_ptr<WritableFile> file;
  std::optional<TableBuilder> builder;  // of the table that is being written
  absl::Status status;                  // of writing it: the first error
  std::string last_key;
  std::string internal_key;
  uint64_t entries = 0;
  uint64_t file_bytes = 0;  // where builder is empty: of the finished table
};

absl::Status SstFileWriter::Rep::Begin() {
  FileSystem* const file_system = options.file_system.get();
  SIEVEDB_ASSIGN_OR_RETURN(const bool exists, file_system->FileExists(path));
  if (exists) SIEVEDB_RETURN_IF_ERROR(file_system->DeleteFile(path));
  SIEVEDB_ASSIGN_OR_RETURN(file, file_system->NewWritableFile(path));
  TableBuilderOptions table;
  table.order = InternalKeyOrder(options.comparator);
  table.filter_policy = options.filter_policy.get();
  table.prefix_extractor = options.prefix_extractor.get();
  table.compression = options.compression;
  table.block_bytes = options.block_bytes;
  table.block_restart_interval = options.block_restart_interval;
  table.bytes_per_writeback = options.bytes_per_writeback;
  table.rate_limiter = options.rate_limiter.get();
  table.file_number = DrawFileNumber(file_system);
  table.hash_seed = file_system->RandomSeed();
  table.creation_seconds = WallSeconds();
  builder.emplace(table, file.get());
  return absl::OkStatus();
}

absl::Status SstFileWriter::Rep::Add(EntryType type, std::string_view key, std::string_view value) {
  if (!builder.has_value()) {
    return absl::FailedPreconditionError("SstFileWriter: no table is open");
  }
  if (!status.ok()) return status;
  if (key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: a key of %d bytes with a value of %d: at most %d and %d are allowed",
                        path, key.size(), value.size(), kMaxKeyBytes, kMaxValueBytes));
  }
  if (entries > 0 && order.Compare(last_key, key) >= 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: key \"%s\" is not after \"%s\", the one before it", path, Shown(key),
                        Shown(last_key)));
  }
  internal_key.clear();
  AppendInternalKey(&internal_key, key, MakeTag(/*sequence=*/0, type));
  status = builder->Add(internal_key, value);
  if (!status.ok()) return status;
  last_key.assign(key);
  ++entries;
  return absl::OkStatus();
}

absl::StatusOr<TableSummary> SstFileWriter::Rep::End() {
  SIEVEDB_RETURN_IF_ERROR(status);
  if (entries == 0) {
    return absl::InvalidArgumentError(path + ": a table without entries");
  }
  SIEVEDB_ASSIGN_OR_RETURN(TableSummary summary, builder->Finish());
  SIEVEDB_RETURN_IF_ERROR(file->Sync());
  SIEVEDB_RETURN_IF_ERROR(file->Close());
  return summary;
}

// What is there of it is no table, and nobody's.
void SstFileWriter::Rep::Abandon() {
  builder.reset();
  file.reset();
  entries = 0;
  file_bytes = 0;
  options.file_system->DeleteFile(path).IgnoreError();
}

SstFileWriter::SstFileWriter(const Options& options) : rep_(std::make_unique<Rep>(options)) {}

SstFileWriter::~SstFileWriter() {
  if (rep_->builder.has_value()) rep_->Abandon();
}

absl::Status SstFileWriter::Open(const std::string& path) {
  Rep& rep = *rep_;
  if (rep.builder.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("SstFileWriter: %s is not finished yet", rep.path));
  }
  SIEVEDB_RETURN_IF_ERROR(rep.options.Validate());
  rep.path = path;
  rep.status = absl::OkStatus();
  rep.entries = 0;
  rep.file_bytes = 0;
  return rep.Begin();
}

absl::Status SstFileWriter::Put(std::string_view key, std::string_view value) {
  return rep_->Add(EntryType::kPut, key, value);
}

absl::Status SstFileWriter::Delete(std::string_view key) {
  return rep_->Add(EntryType::kDelete, key, {});
}

absl::StatusOr<ExternalTableInfo> SstFileWriter::Finish() {
  Rep& rep = *rep_;
  if (!rep.builder.has_value()) {
    return absl::FailedPreconditionError("SstFileWriter: no table is open");
  }
  absl::StatusOr<TableSummary> summary = rep.End();
  if (!summary.ok()) {
    rep.Abandon();
    return std::move(summary).status();
  }
  rep.builder.reset();
  rep.file.reset();
  rep.file_bytes = summary->file_bytes;
  ExternalTableInfo info;
  info.path = rep.path;
  info.smallest_key = std::string(UserKey(summary->properties.smallest_key));
  info.largest_key = std::string(UserKey(summary->properties.largest_key));
  info.entries = rep.entries;
  info.tombstones = summary->properties.tombstones;
  info.file_bytes = rep.file_bytes;
  return info;
}

uint64_t SstFileWriter::FileSize() const {
  return rep_->builder.has_value() ? rep_->builder->EstimatedFileBytes() : rep_->file_bytes;
}

uint64_t SstFileWriter::entries() const { return rep_->entries; }

}  // namespace sievedb
