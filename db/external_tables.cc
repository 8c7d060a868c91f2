#include "db/external_tables.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "table/block_file.h"
#include "table/format.h"
#include "util/escape.h"
#include "util/file_util.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Far above any, and what the MANIFEST takes.
constexpr uint64_t kMaxRawBytes = uint64_t{1} << 49;
constexpr size_t kMaxKeyBytesInMessage = 64;

std::string Shown(std::string_view key) { return Escape(key.substr(0, kMaxKeyBytesInMessage)); }

// What the properties, whose checksum is right, must say of a table of SstFileWriter's;
// the MANIFEST relies on it. Empty: all is well.
std::string FindFault(const TableReader& table) {
  const TableProperties& properties = table.properties();
  if ((table.file_number() & kExternalNumberBit) == 0) {
    return absl::StrFormat("a table that SstFileWriter did not write: number %d",
                           table.file_number());
  }
  if (properties.smallest_sequence != 0 || properties.largest_sequence != 0) {
    return absl::StrFormat("a table of SstFileWriter's with sequences %d .. %d, expected 0",
                           properties.smallest_sequence, properties.largest_sequence);
  }
  if (properties.range_tombstones != 0) {
    return absl::StrFormat("a table with %d range tombstones, which only a database's have",
                           properties.range_tombstones);
  }
  if (properties.entries == 0 || properties.distinct_user_keys != properties.entries ||
      properties.tombstones > properties.entries) {
    return absl::StrFormat("a table of %d entries, %d keys and %d tombstones", properties.entries,
                           properties.distinct_user_keys, properties.tombstones);
  }
  if (properties.raw_key_bytes > kMaxRawBytes || properties.raw_value_bytes > kMaxRawBytes) {
    return absl::StrFormat("a table of %d bytes of keys and %d of values", properties.raw_key_bytes,
                           properties.raw_value_bytes);
  }
  for (const std::string& key : {properties.smallest_key, properties.largest_key}) {
    if (key.size() < kTagBytes || TagType(Tag(key)) > kMaxEntryType) {
      return "a table with a malformed key: " + Shown(key);
    }
  }
  return "";
}

}  // namespace

ExternalTables::~ExternalTables() {
  tables_.clear();  // closes them
  for (const uint64_t number : numbers_) {
    // One that stays is deleted when the database is opened next.
    options_.file_system->DeleteFile(TableFileName(db_path_, number)).IgnoreError();
  }
}

absl::Status ExternalTables::BringIn(const std::vector<std::string>& paths,
                                     const IngestOptions& ingest,
                                     absl::FunctionRef<uint64_t()> new_file_number) {
  if (paths.empty()) return absl::InvalidArgumentError("IngestExternalFiles: no files are given");
  for (const std::string& path : paths) {
    const absl::Status status = BringInOne(path, ingest, new_file_number());
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrFormat("ingesting %s: %s", path, status.message()));
    }
  }
  SIEVEDB_RETURN_IF_ERROR(CheckDisjoint());
  return options_.file_system->SyncDirectory(db_path_);
}

absl::Status ExternalTables::BringInOne(const std::string& path, const IngestOptions& ingest,
                                        uint64_t number) {
  const std::string to = TableFileName(db_path_, number);
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t file_bytes, options_.file_system->FileSize(path));
  numbers_.push_back(number);
  SIEVEDB_RETURN_IF_ERROR(Link(path, to, ingest));
  Table table;
  table.external_path = path;
  table.file = std::make_shared<FileMeta>();
  table.file->number = number;
  table.file->file_bytes = file_bytes;
  SIEVEDB_RETURN_IF_ERROR(Open(ingest, &table));
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

absl::Status ExternalTables::Link(const std::string& path, const std::string& to,
                                  const IngestOptions& ingest) {
  CopyOptions copy;
  copy.rate_limiter = options_.rate_limiter.get();
  copy.start_writeback = options_.bytes_per_writeback != 0;
  return ingest.link_files ? LinkOrCopyFile(options_.file_system.get(), path, to, copy)
                           : CopyFile(options_.file_system.get(), path, to, copy);
}

absl::Status ExternalTables::Open(const IngestOptions& ingest, Table* table) {
  FileMeta& file = *table->file;
  file.external_number = kAnyFileNumber;
  SIEVEDB_ASSIGN_OR_RETURN(const TableReader* reader, opener_->Get(file));
  if (const std::string fault = FindFault(*reader); !fault.empty()) {
    return absl::InvalidArgumentError(fault);
  }
  if (ingest.verify_checksums) SIEVEDB_RETURN_IF_ERROR(reader->Verify());
  file.external_number = reader->file_number();
  DescribeTable(*reader, &file);
  return absl::OkStatus();
}

absl::Status ExternalTables::CheckDisjoint() {
  const KeyOrder order(options_.comparator);
  for (const Table& table : tables_) {
    if (order.Compare(UserKey(table.file->smallest), UserKey(table.file->largest)) > 0) {
      return absl::DataLossError(absl::StrFormat(
          "ingesting %s: its smallest key %s is after its largest %s", table.external_path,
          Shown(UserKey(table.file->smallest)), Shown(UserKey(table.file->largest))));
    }
  }
  std::sort(tables_.begin(), tables_.end(), [&](const Table& a, const Table& b) {
    return order.Compare(UserKey(a.file->smallest), UserKey(b.file->smallest)) < 0;
  });
  for (size_t i = 1; i < tables_.size(); ++i) {
    const std::string_view last = UserKey(tables_[i - 1].file->largest);
    const std::string_view first = UserKey(tables_[i].file->smallest);
    if (order.Compare(last, first) < 0) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "the keys of %s and %s overlap: \"%s\" is not before \"%s\"", tables_[i - 1].external_path,
        tables_[i].external_path, Shown(last), Shown(first)));
  }
  return absl::OkStatus();
}

void ExternalTables::SetSequence(uint64_t sequence) {
  for (const Table& table : tables_) SetExternalSequence(table.file.get(), sequence);
}

void SetExternalSequence(FileMeta* file, uint64_t sequence) {
  for (std::string* key : {&file->smallest, &file->largest}) {
    EncodeFixed64(key->data() + key->size() - kTagBytes, sequence << 8 | TagType(Tag(*key)));
  }
  file->smallest_sequence = file->largest_sequence = sequence;
  // Relaxed: this thread opened it.
  file->table.load(std::memory_order_relaxed)->SetGlobalSequence(sequence);
}

void DescribeTable(const TableReader& table, FileMeta* file) {
  const TableProperties& properties = table.properties();
  file->tail_bytes = table.tail_bytes();
  file->smallest = properties.smallest_key;
  file->largest = properties.largest_key;
  file->smallest_sequence = properties.smallest_sequence;
  file->largest_sequence = properties.largest_sequence;
  file->entries = properties.entries;
  file->tombstones = properties.tombstones;
  file->range_tombstones = properties.range_tombstones;
  file->raw_bytes = properties.raw_key_bytes + properties.raw_value_bytes;
}

}  // namespace sievedb
