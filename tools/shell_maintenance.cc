// Commands of the `sievedb` program that work on the files of a database as a whole.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
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

}  // namespace

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
