#include "db/backup_description.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/escape.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr std::string_view kMagic = "SVbackup";
constexpr uint32_t kVersion = 1;
constexpr size_t kVersionAt = 8;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kChecksumBytes = 8;
static_assert(kMagic.size() == kVersionAt);

constexpr std::string_view kPrefix = "BACKUP-";
constexpr std::string_view kTableSuffix = ".sst";
constexpr size_t kMinDigits = 6;
constexpr size_t kMaxDigits = 18;  // what fits 64 bits
constexpr size_t kFingerprintDigits = 16;

bool IsNumber(std::string_view digits) {
  return digits.size() >= kMinDigits && digits.size() <= kMaxDigits &&
         (digits.size() == kMinDigits || digits[0] != '0') &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string BackupDescription::Encode() const {
  assert(tables.size() == snapshot.added_files.size());
  std::string to(kMagic);
  AppendFixed32(&to, kVersion);
  AppendVarint64(&to, created_seconds);
  AppendVarint64(&to, new_bytes);
  AppendLengthPrefixed(&to, snapshot.Encode());
  for (const BackupTable& table : tables) {
    AppendFixed64(&to, table.fingerprint);
    AppendFixed64(&to, table.checksum);
  }
  AppendFixed64(&to, Hash64(to));
  return to;
}

absl::StatusOr<BackupDescription> BackupDescription::Decode(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes || !bytes.starts_with(kMagic)) {
    return absl::DataLossError(
        absl::StrFormat("offset 0: expected the magic \"%s\", found \"%s\" in %d bytes", kMagic,
                        Escape(bytes.substr(0, kMagic.size())), bytes.size()));
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  const uint64_t found = DecodeFixed64(bytes.data() + body.size());
  if (const uint64_t expected = Hash64(body); found != expected) {
    return absl::DataLossError(absl::StrFormat("offset %d: expected checksum %016x, found %016x",
                                               body.size(), expected, found));
  }
  if (const uint32_t version = DecodeFixed32(bytes.data() + kVersionAt); version != kVersion) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "offset %d: a backup of format version %d, this version knows %d: it was written by a "
        "newer SieveDB",
        kVersionAt, version, kVersion));
  }
  BackupDescription description;
  ByteReader reader(body.substr(kHeaderBytes));
  description.created_seconds = reader.Varint64();
  description.new_bytes = reader.Varint64();
  const std::string_view edit = reader.LengthPrefixed();
  if (!reader.ok()) return absl::DataLossError("offset 12: its head is cut short");
  SIEVEDB_ASSIGN_OR_RETURN(description.snapshot, VersionEdit::Decode(edit));
  for (size_t i = 0; i < description.snapshot.added_files.size(); ++i) {
    const uint64_t fingerprint = reader.Fixed64();
    description.tables.push_back({fingerprint, reader.Fixed64()});
  }
  if (!reader.ok() || !reader.done()) {
    return absl::DataLossError(absl::StrFormat("offset %d: expected the checksums of %d tables",
                                               body.size() - reader.rest().size(),
                                               description.tables.size()));
  }
  return description;
}

std::string BackupFileName(uint64_t id) { return absl::StrFormat("%s%06d", kPrefix, id); }

std::string BackupTableName(uint64_t number, uint64_t fingerprint) {
  return absl::StrFormat("%06d-%016x%s", number, fingerprint, kTableSuffix);
}

std::optional<uint64_t> ParseBackupFileName(std::string_view name) {
  if (!name.starts_with(kPrefix) || !IsNumber(name.substr(kPrefix.size()))) return std::nullopt;
  uint64_t id = 0;
  for (const char c : name.substr(kPrefix.size())) id = id * 10 + static_cast<uint64_t>(c - '0');
  return id;
}

bool IsBackupTableName(std::string_view name) {
  constexpr size_t kTailBytes = 1 + kFingerprintDigits + kTableSuffix.size();
  if (name.size() <= kTailBytes || !name.ends_with(kTableSuffix)) return false;
  const std::string_view number = name.substr(0, name.size() - kTailBytes);
  const std::string_view fingerprint = name.substr(number.size() + 1, kFingerprintDigits);
  return IsNumber(number) && name[number.size()] == '-' &&
         std::all_of(fingerprint.begin(), fingerprint.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace sievedb
