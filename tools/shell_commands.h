#ifndef SIEVEDB_TOOLS_SHELL_COMMANDS_H_
#define SIEVEDB_TOOLS_SHELL_COMMANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/db.h"

namespace sievedb {

// What the flags of the `sievedb` program say.
struct ShellSettings {
  // The options that the database is opened with.
  Options DbOptions() const;

  std::string db;
  std::string from;
  std::string to;
  std::string format = "auto";
  uint64_t limit = 0;
  uint64_t batch_size = 1000;
  double bloom_bits = 10;
  bool hex = false;
  bool json = false;
  bool reverse = false;
  bool sorted = false;
  bool reverse_comparator = false;
  bool has_from = false;
  bool has_to = false;
};

// A command of the `sievedb` program: what it takes, and what it does.
struct ShellCommand {
  using Run = absl::Status (*)(DB* db, const ShellSettings& settings,
                               const std::vector<std::string>& arguments);
  // Of one for which no database is opened.
  using RunClosed = absl::Status (*)(const ShellSettings& settings,
                                     const std::vector<std::string>& arguments);

  const char* name;
  const char* arguments;
  const char* help;
  size_t min_arguments;
  size_t max_arguments;
  bool writes;       // opens the database for writing; the others read it beside a writer
  bool creates;      // makes it where there is none
  bool takes_bytes;  // its arguments are keys and values
  Run run;           // null: run_closed is meant
  RunClosed run_closed = nullptr;
  bool needs_db = true;  // false: --db is of no use
};

const std::vector<ShellCommand>& ShellCommands();

// How keys and values are given and shown: hex, or escaped.
absl::StatusOr<std::string> ParseBytesArgument(const ShellSettings& settings,
                                               const std::string& text);
std::string ShowBytes(const ShellSettings& settings, std::string_view bytes);

// load, dump and probe: files of records. In shell_records.cc.
absl::Status LoadRecords(DB* db, const ShellSettings& settings,
                         const std::vector<std::string>& arguments);
absl::Status DumpRecords(DB* db, const ShellSettings& settings,
                         const std::vector<std::string>& arguments);
absl::Status ProbeRecords(DB* db, const ShellSettings& settings,
                          const std::vector<std::string>& arguments);

// repair, and others that work on the files of a database. In shell_maintenance.cc.
absl::Status Repair(const ShellSettings& settings, const std::vector<std::string>& arguments);
absl::Status Backup(DB* db, const ShellSettings& settings,
                    const std::vector<std::string>& arguments);
absl::Status ListBackups(const ShellSettings& settings, const std::vector<std::string>& arguments);
absl::Status VerifyBackups(const ShellSettings& settings,
                           const std::vector<std::string>& arguments);
absl::Status DeleteBackup(const ShellSettings& settings, const std::vector<std::string>& arguments);
absl::Status RestoreBackup(const ShellSettings& settings,
                           const std::vector<std::string>& arguments);

// manifest and wal. In shell_logs.cc.
absl::Status PrintManifest(const ShellSettings& settings,
                           const std::vector<std::string>& arguments);
absl::Status PrintWals(const ShellSettings& settings, const std::vector<std::string>& arguments);

// [from, to) of the settings as bounds of options.
absl::Status SetBounds(const ShellSettings& settings, ReadOptions* options);

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_SHELL_COMMANDS_H_
