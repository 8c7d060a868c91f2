// Commands of the `sievedb` program that work on the files of a database as a whole.

#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "sievedb/backup.h"
#include "sievedb/repair.h"
#include "tools/shell_commands.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

using Json = nlohmann::ordered_json;

void PrintLine(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

absl::StatusOr<uint64_t> ParseId(const std::string& text) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) {
    return absl::InvalidArgumentError("no number of a backup: " + text);
  }
  return id;
}

// To read them only: a directory is not made where there is none.
absl::StatusOr<std::unique_ptr<BackupEngine>> OpenBackups(const std::string& dir) {
  SIEVEDB_ASSIGN_OR_RETURN(const bool exists, PosixFileSystem()->FileExists(dir));
  if (!exists) return absl::NotFoundError(dir + ": there are no backups");
  return BackupEngine::Open(BackupOptions(), dir);
}

std::string Time(uint64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts;
  char text[32];
  if (gmtime_r(&time, &parts) == nullptr) return std::to_string(seconds);
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void PrintBackup(const ShellSettings& settings, const BackupInfo& info) {
  if (settings.json) {
    Json json = {{"id", info.id}, {"status", info.status.ok() ? "OK" : info.status.ToString()}};
    if (info.status.ok()) {
      json.update({{"created_seconds", info.created_seconds},
                   {"sequence", info.sequence},
                   {"tables", info.tables},
                   {"bytes", info.bytes},
                   {"new_bytes", info.new_bytes}});
    }
    return PrintLine(json.dump());
  }
  if (!info.status.ok()) {
    return PrintLine(absl::StrFormat("%4d  %s", info.id, info.status.ToString()));
  }
  PrintLine(absl::StrFormat("%4d  %s  sequence %d, %d tables, %d bytes, %d of them new", info.id,
                            Time(info.created_seconds), info.sequence, info.tables, info.bytes,
                            info.new_bytes));
}

}  // namespace

absl::Status Backup(DB* db, const ShellSettings& settings,
                    const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto backups, BackupEngine::Open(BackupOptions(), arguments[0]));
  SIEVEDB_ASSIGN_OR_RETURN(const BackupInfo info, backups->Create(db));
  PrintBackup(settings, info);
  return absl::OkStatus();
}

absl::Status ListBackups(const ShellSettings& settings, const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto backups, OpenBackups(arguments[0]));
  for (const BackupInfo& info : backups->List()) PrintBackup(settings, info);
  return absl::OkStatus();
}

absl::Status VerifyBackups(const ShellSettings&, const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto backups, OpenBackups(arguments[0]));
  std::vector<uint64_t> ids;
  if (arguments.size() > 1) {
    SIEVEDB_ASSIGN_OR_RETURN(const uint64_t id, ParseId(arguments[1]));
    ids.push_back(id);
  } else {
    for (const BackupInfo& info : backups->List()) ids.push_back(info.id);
  }
  for (const uint64_t id : ids) SIEVEDB_RETURN_IF_ERROR(backups->Verify(id));
  PrintLine(absl::StrFormat("%d backups are sound", ids.size()));
  return absl::OkStatus();
}

absl::Status DeleteBackup(const ShellSettings&, const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto backups, OpenBackups(arguments[0]));
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t id, ParseId(arguments[1]));
  return backups->Delete(id);
}

absl::Status RestoreBackup(const ShellSettings& settings,
                           const std::vector<std::string>& arguments) {
  SIEVEDB_ASSIGN_OR_RETURN(const auto backups, OpenBackups(arguments[0]));
  uint64_t id = 0;
  if (arguments.size() > 1) {
    SIEVEDB_ASSIGN_OR_RETURN(id, ParseId(arguments[1]));
  } else {
    const std::vector<BackupInfo> infos = backups->List();
    if (infos.empty()) return absl::NotFoundError(arguments[0] + ": there are no backups");
    id = infos.back().id;
  }
  return backups->Restore(id, settings.db);
}

absl::Status Repair(const ShellSettings& settings, const std::vector<std::string>&) {
  RepairReport report;
  SIEVEDB_RETURN_IF_ERROR(RepairDB(settings.DbOptions(), settings.db, &report));
  if (settings.json) {
    PrintLine(Json({{"changed", report.changed},
                    {"findings", report.findings},
                    {"set_aside", report.set_aside},
                    {"manifest", report.manifest},
                    {"tables", report.tables},
                    {"tables_merged", report.tables_merged},
                    {"wal_records", report.wal_records},
                    {"last_sequence", report.last_sequence}})
                  .dump(2));
    return absl::OkStatus();
  }
  if (!report.changed) {
    PrintLine("nothing is wrong, nothing was changed");
    return absl::OkStatus();
  }
  for (const std::string& finding : report.findings) PrintLine("found: " + finding);
  for (const std::string& name : report.set_aside) PrintLine("set aside: lost/" + name);
  PrintLine(absl::StrFormat("the list of tables is %s", report.manifest.empty()
                                                            ? "made from the tables themselves"
                                                            : "that of " + report.manifest));
  PrintLine(absl::StrFormat("%d tables, %d of them merged; %d records of WALs; sequence %d",
                            report.tables, report.tables_merged, report.wal_records,
                            report.last_sequence));
  return absl::OkStatus();
}

}  // namespace sievedb
