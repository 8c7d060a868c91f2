#include "db/file_names.h"

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

constexpr size_t kMinDigits = 6;
constexpr std::string_view kTableSuffix = ".sst";
constexpr std::string_view kWalSuffix = ".wal";
constexpr std::string_view kTemporarySuffix = ".tmp";  // of WriteFileAtomically
constexpr std::string_view kManifestPrefix = "MANIFEST-";
constexpr std::string_view kOptionsPrefix = "OPTIONS-";

// Only what the functions below print: a number in another form is not ours, so
// that two names never mean one file.
std::optional<uint64_t> ParseNumber(std::string_view digits) {
  if (digits.size() < kMinDigits) return std::nullopt;
  if (digits.size() > kMinDigits && digits[0] == '0') return std::nullopt;
  uint64_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    if (number > (UINT64_MAX - digit) / 10) return std::nullopt;
    number = number * 10 + digit;
  }
  return number;
}

std::optional<ParsedFileName> WithNumber(FileKind kind, std::string_view digits) {
  const std::optional<uint64_t> number = ParseNumber(digits);
  if (!number.has_value()) return std::nullopt;
  return ParsedFileName{kind, *number};
}

}  // namespace

std::string TableFileName(const std::string& db, uint64_t number) {
  return absl::StrFormat("%s/%06d%s", db, number, kTableSuffix);
}

std::string WalFileName(const std::string& db, uint64_t number) {
  return absl::StrFormat("%s/%06d%s", db, number, kWalSuffix);
}

std::string ManifestFileName(const std::string& db, uint64_t number) {
  return absl::StrFormat("%s/%s%06d", db, kManifestPrefix, number);
}

std::string OptionsFileName(const std::string& db, uint64_t number) {
  return absl::StrFormat("%s/%s%06d", db, kOptionsPrefix, number);
}

std::string CurrentFileName(const std::string& db) { return db + "/CURRENT"; }

std::string LockFileName(const std::string& db) { return db + "/LOCK"; }

std::string EventLogFileName(const std::string& db) { return db + "/LOG"; }

std::optional<ParsedFileName> ParseFileName(std::string_view name) {
  if (name == "CURRENT") return ParsedFileName{FileKind::kCurrent};
  if (name == "LOCK") return ParsedFileName{FileKind::kLock};
  if (name == "LOG" || name == "LOG.old") return ParsedFileName{FileKind::kEventLog};
  if (name.ends_with(kTemporarySuffix)) {
    const std::optional<ParsedFileName> inner =
        ParseFileName(name.substr(0, name.size() - kTemporarySuffix.size()));
    // A temporary of a temporary is nothing that we write.
    if (!inner.has_value() || inner->kind == FileKind::kTemporary) return std::nullopt;
    return ParsedFileName{FileKind::kTemporary, inner->number};
  }
  if (name.starts_with(kManifestPrefix)) {
    return WithNumber(FileKind::kManifest, name.substr(kManifestPrefix.size()));
  }
  if (name.starts_with(kOptionsPrefix)) {
    return WithNumber(FileKind::kOptions, name.substr(kOptionsPrefix.size()));
  }
  if (name.ends_with(kTableSuffix)) {
    return WithNumber(FileKind::kTable, name.substr(0, name.size() - kTableSuffix.size()));
  }
  if (name.ends_with(kWalSuffix)) {
    return WithNumber(FileKind::kWal, name.substr(0, name.size() - kWalSuffix.size()));
  }
  return std::nullopt;
}

}  // namespace sievedb
