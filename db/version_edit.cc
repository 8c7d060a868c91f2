// The format of a version edit, the payload of one MANIFEST record:
//
//   varint  column family     0; others are reserved
//   fields, in any order:
//     varint  tag
//     …       what the tag says
//
//   tag   name              what follows
//   0x01  comparator name   length-prefixed bytes
//   0x02  database id       fixed64
//   0x03  log number        varint
//   0x04  next file number  varint
//   0x05  last sequence     varint
//   0x06  removed table     varint level, varint number
//   0x07  added table       varint level, varint number, varint file bytes,
//                           varint tail bytes, length-prefixed smallest and largest
//                           internal keys, varint smallest sequence, varint largest
//                           sequence, varint entries, varint tombstones, varint raw
//                           bytes
//   0x08  hash seed         fixed64; where no edit has one, it is 0
//   0x10  run               varint, not 0: the sorted run of its level that the table
//                           added last belongs to. Tables without one, and all of
//                           level 0, have 0
//   0x20  external table    as 0x07, then fixed64 file number of its footer, with
//                           kExternalNumberBit: a table that SstFileWriter made.
//                           Smallest and largest sequence are one, which is that of
//                           all its entries, and of the two keys
//   0x30  table with        as 0x07, then varint range tombstones, not 0
//         range tombstones
//
// A tag with bit 0x40 is one that a reader may skip: a length-prefixed value
// follows. Any other unknown tag means that only a newer version can understand
// the edit. Tags 0x01 to 0x05 and 0x08 stand at most
// once in an edit.

#include "db/version_edit.h"

#include "absl/strings/str_format.h"
#include "table/format.h"
#include "table/internal_key.h"
#include "util/coding.h"
#include "util/escape.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr uint64_t kColumnFamily = 0;
constexpr uint64_t kSkippableBit = 0x40;
// Far above any file, and far below where sums of them would wrap.
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;
// So that counting on from a file number never wraps.
constexpr uint64_t kMaxFileNumber = uint64_t{1} << 62;
constexpr uint64_t kMaxRun = uint64_t{1} << 62;

enum FieldTag : uint64_t {
  kComparatorName = 0x01,
  kDbId = 0x02,
  kLogNumber = 0x03,
  kNextFileNumber = 0x04,
  kLastSequence = 0x05,
  kRemovedTable = 0x06,
  kAddedTable = 0x07,
  kHashSeed = 0x08,
  kRun = 0x10,
  kExternalTable = 0x20,
  kTableWithRanges = 0x30,
};

absl::Status Damaged(std::string_view field, std::string_view what) {
  return absl::DataLossError(absl::StrFormat("version edit, %s: %s", field, what));
}

void AppendAddedTable(std::string* to, const AddedFile& added) {
  const FileMeta& file = *added.file;
  assert(file.external_number == 0 || file.range_tombstones == 0);
  AppendVarint64(to, file.external_number != 0    ? kExternalTable
                     : file.range_tombstones != 0 ? kTableWithRanges
                                                  : kAddedTable);
  AppendVarint64(to, static_cast<uint64_t>(added.level));
  AppendVarint64(to, file.number);
  AppendVarint64(to, file.file_bytes);
  AppendVarint64(to, file.tail_bytes);
  AppendLengthPrefixed(to, file.smallest);
  AppendLengthPrefixed(to, file.largest);
  AppendVarint64(to, file.smallest_sequence);
  AppendVarint64(to, file.largest_sequence);
  AppendVarint64(to, file.entries);
  AppendVarint64(to, file.tombstones);
  AppendVarint64(to, file.raw_bytes);
  if (file.external_number != 0) AppendFixed64(to, file.external_number);
  if (file.range_tombstones != 0) AppendVarint64(to, file.range_tombstones);
  if (added.run == 0) return;
  AppendVarint64(to, kRun);
  AppendVarint64(to, added.run);
}

// What a table's range may begin or end with.
bool IsBorder(std::string_view key, const FileMeta& file) {
  if (key.size() < kTagBytes) return false;
  return TagType(Tag(key)) <= kMaxEntryType || (file.range_tombstones != 0 && Tag(key) == kMaxTag);
}

// What is wrong with a table's description, or empty.
std::string FindFault(const FileMeta& file) {
  if (file.number == 0 || file.number > kMaxFileNumber) {
    return absl::StrFormat("the number is %d", file.number);
  }
  if (file.file_bytes > kMaxFileBytes || file.raw_bytes > kMaxFileBytes) {
    return absl::StrFormat("table %d has %d bytes, %d raw", file.number, file.file_bytes,
                           file.raw_bytes);
  }
  if (file.tail_bytes > file.file_bytes) {
    return absl::StrFormat("table %d has a tail of %d bytes in a file of %d", file.number,
                           file.tail_bytes, file.file_bytes);
  }
  if (!IsBorder(file.smallest, file) || !IsBorder(file.largest, file)) {
    return absl::StrFormat("table %d has a malformed key: %s .. %s", file.number,
                           Escape(file.smallest), Escape(file.largest));
  }
  if (file.smallest_sequence > file.largest_sequence || file.largest_sequence > kMaxSequence) {
    return absl::StrFormat("table %d has sequences %d .. %d", file.number, file.smallest_sequence,
                           file.largest_sequence);
  }
  if (file.range_tombstones > kMaxFileBytes) {
    return absl::StrFormat("table %d has %d range tombstones", file.number, file.range_tombstones);
  }
  if (file.entries > kMaxFileBytes || file.tombstones > file.entries) {
    return absl::StrFormat("table %d has %d tombstones among %d entries", file.number,
                           file.tombstones, file.entries);
  }
  if (file.external_number == 0) return "";
  if ((file.external_number & kExternalNumberBit) == 0) {
    return absl::StrFormat("table %d is external, of number %016x", file.number,
                           file.external_number);
  }
  const uint64_t sequence = file.largest_sequence;
  if (sequence == 0 || file.smallest_sequence != sequence ||
      TagSequence(Tag(file.smallest)) != sequence || TagSequence(Tag(file.largest)) != sequence) {
    return absl::StrFormat("table %d is external, with sequences %d .. %d", file.number,
                           file.smallest_sequence, sequence);
  }
  return "";
}

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : reader_(bytes) {}

  absl::StatusOr<VersionEdit> Run() {
    const uint64_t family = reader_.Varint64();
    if (!reader_.ok()) return Damaged("column family", "cut short");
    if (family != kColumnFamily) {
      return absl::InvalidArgumentError(
          absl::StrFormat("version edit of column family %d: written by a newer version", family));
    }
    while (!reader_.done()) SIEVEDB_RETURN_IF_ERROR(Field());
    return std::move(edit_);
  }

 private:
  absl::Status Field() {
    const uint64_t tag = reader_.Varint64();
    if (!reader_.ok()) return Damaged("tag", "cut short");
    switch (tag) {
      case kComparatorName:
        return Scalar("comparator name", std::string(reader_.LengthPrefixed()),
                      &edit_.comparator_name);
      case kDbId:
        return Scalar("database id", reader_.Fixed64(), &edit_.db_id);
      case kLogNumber:
        return Number("log number", kMaxFileNumber, &edit_.log_number);
      case kNextFileNumber:
        return Number("next file number", kMaxFileNumber, &edit_.next_file_number);
      case kLastSequence:
        return Number("last sequence", kMaxSequence, &edit_.last_sequence);
      case kRemovedTable:
        return RemovedTable();
      case kAddedTable:
        return AddedTable(kAddedTable);
      case kExternalTable:
        return AddedTable(kExternalTable);
      case kTableWithRanges:
        return AddedTable(kTableWithRanges);
      case kRun:
        return RunOfTable();
      case kHashSeed:
        return Scalar("hash seed", reader_.Fixed64(), &edit_.hash_seed);
      default:
        break;
    }
    if ((tag & kSkippableBit) == 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "version edit with a field of tag 0x%02x: written by a newer version", tag));
    }
    reader_.LengthPrefixed();
    return reader_.ok() ? absl::OkStatus() : Damaged("skipped field", "cut short");
  }

  template <typename T>
  absl::Status Scalar(std::string_view field, T value, std::optional<T>* to) {
    if (!reader_.ok()) return Damaged(field, "cut short");
    if (to->has_value()) return Damaged(field, "stands twice");
    *to = std::move(value);
    return absl::OkStatus();
  }

  absl::Status Number(std::string_view field, uint64_t max, std::optional<uint64_t>* to) {
    const uint64_t value = reader_.Varint64();
    if (reader_.ok() && value > max) {
      return Damaged(field, absl::StrFormat("%d is above %d", value, max));
    }
    return Scalar(field, value, to);
  }

  absl::Status Level(std::string_view field, int* level) {
    const uint64_t value = reader_.Varint64();
    if (!reader_.ok()) return Damaged(field, "cut short");
    if (value >= kNumLevels) return Damaged(field, absl::StrFormat("the level is %d", value));
    *level = static_cast<int>(value);
    return absl::OkStatus();
  }

  absl::Status RemovedTable() {
    int level = 0;
    SIEVEDB_RETURN_IF_ERROR(Level("removed table", &level));
    const uint64_t number = reader_.Varint64();
    if (!reader_.ok()) return Damaged("removed table", "cut short");
    edit_.removed_files.emplace_back(level, number);
    return absl::OkStatus();
  }

  absl::Status AddedTable(FieldTag tag) {
    const bool external = tag == kExternalTable;
    int level = 0;
    SIEVEDB_RETURN_IF_ERROR(Level("added table", &level));
    auto file = std::make_shared<FileMeta>();
    file->number = reader_.Varint64();
    file->file_bytes = reader_.Varint64();
    file->tail_bytes = reader_.Varint64();
    file->smallest = std::string(reader_.LengthPrefixed());
    file->largest = std::string(reader_.LengthPrefixed());
    file->smallest_sequence = reader_.Varint64();
    file->largest_sequence = reader_.Varint64();
    file->entries = reader_.Varint64();
    file->tombstones = reader_.Varint64();
    file->raw_bytes = reader_.Varint64();
    if (external) file->external_number = reader_.Fixed64();
    if (tag == kTableWithRanges) file->range_tombstones = reader_.Varint64();
    if (!reader_.ok()) return Damaged("added table", "cut short");
    if (external && file->external_number == 0) {
      return Damaged("added table",
                     absl::StrFormat("table %d is external, of number 0", file->number));
    }
    if (tag == kTableWithRanges && file->range_tombstones == 0) {
      return Damaged("added table",
                     absl::StrFormat("table %d has 0 range tombstones, and says so", file->number));
    }
    if (const std::string fault = FindFault(*file); !fault.empty()) {
      return Damaged("added table", fault);
    }
    edit_.added_files.emplace_back(level, std::move(file));
    return absl::OkStatus();
  }

  absl::Status RunOfTable() {
    const uint64_t run = reader_.Varint64();
    if (!reader_.ok()) return Damaged("run", "cut short");
    if (edit_.added_files.empty()) return Damaged("run", "stands behind no table");
    AddedFile& added = edit_.added_files.back();
    if (added.run != 0) {
      return Damaged("run", absl::StrFormat("stands twice for table %d", added.file->number));
    }
    if (run == 0 || run > kMaxRun || added.level == 0) {
      return Damaged("run", absl::StrFormat("table %d of level %d is in run %d", added.file->number,
                                            added.level, run));
    }
    added.run = run;
    return absl::OkStatus();
  }

  ByteReader reader_;
  VersionEdit edit_;
};

}  // namespace

std::string VersionEdit::Encode() const {
  std::string to;
  AppendVarint64(&to, kColumnFamily);
  if (comparator_name.has_value()) {
    AppendVarint64(&to, kComparatorName);
    AppendLengthPrefixed(&to, *comparator_name);
  }
  if (db_id.has_value()) {
    AppendVarint64(&to, kDbId);
    AppendFixed64(&to, *db_id);
  }
  if (hash_seed.has_value()) {
    AppendVarint64(&to, kHashSeed);
    AppendFixed64(&to, *hash_seed);
  }
  const auto number = [&](FieldTag tag, const std::optional<uint64_t>& value) {
    if (!value.has_value()) return;
    AppendVarint64(&to, tag);
    AppendVarint64(&to, *value);
  };
  number(kLogNumber, log_number);
  number(kNextFileNumber, next_file_number);
  number(kLastSequence, last_sequence);
  for (const auto& [level, file_number] : removed_files) {
    AppendVarint64(&to, kRemovedTable);
    AppendVarint64(&to, static_cast<uint64_t>(level));
    AppendVarint64(&to, file_number);
  }
  for (const AddedFile& added : added_files) {
    assert(FindFault(*added.file).empty());
    assert(added.run == 0 || (added.level > 0 && added.run <= kMaxRun));
    AppendAddedTable(&to, added);
  }
  return to;
}

absl::StatusOr<VersionEdit> VersionEdit::Decode(std::string_view bytes) {
  return Decoder(bytes).Run();
}

std::string VersionEdit::DebugString() const {
  std::string to;
  const auto append = [&to](std::string_view text) {
    if (!to.empty()) to += ", ";
    to += text;
  };
  if (comparator_name.has_value()) append("comparator " + Escape(*comparator_name));
  if (db_id.has_value()) append(absl::StrFormat("id %016x", *db_id));
  if (hash_seed.has_value()) append(absl::StrFormat("hash seed %016x", *hash_seed));
  if (log_number.has_value()) append(absl::StrFormat("log %d", *log_number));
  if (next_file_number.has_value()) append(absl::StrFormat("next file %d", *next_file_number));
  if (last_sequence.has_value()) append(absl::StrFormat("sequence %d", *last_sequence));
  for (const auto& [level, number] : removed_files) {
    append(absl::StrFormat("-L%d:%d", level, number));
  }
  for (const auto& [level, file, run] : added_files) {
    append(absl::StrFormat(
        "+L%d:%d[%s .. %s] %d bytes (tail %d, raw %d), %d entries (%d deletes), "
        "sequences %d .. %d",
        level, file->number, Escape(UserKey(file->smallest)), Escape(UserKey(file->largest)),
        file->file_bytes, file->tail_bytes, file->raw_bytes, file->entries, file->tombstones,
        file->smallest_sequence, file->largest_sequence));
    if (file->external_number != 0) {
      absl::StrAppendFormat(&to, ", external %016x", file->external_number);
    }
    if (file->range_tombstones != 0) {
      absl::StrAppendFormat(&to, ", %d range tombstones", file->range_tombstones);
    }
    if (run != 0) absl::StrAppendFormat(&to, ", run %d", run);
  }
  return to;
}

}  // namespace sievedb
