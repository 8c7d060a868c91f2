// SieveDB beside RocksDB and LevelDB: the same keys, values, options and
// durability, engine by engine and round by round.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "bench/compare_plan.h"
#include "bench/compare_report.h"
#include "bench/compare_settings.h"
#include "tools/flags.h"

namespace sievedb {
namespace {

constexpr char kSummary[] =
    "Measures SieveDB beside RocksDB and LevelDB, those that it was built with.\n"
    "\n"
    "Each engine has a process of its own; rounds alternate engine by engine.\n"
    "  fillseq           put --num entries in key order\n"
    "  bulkload          make tables of --num entries in key order outside of the database,\n"
    "                    and add them to it; LevelDB has no such thing\n"
    "  fillsync          put a thousandth of --num entries, each with a sync\n"
    "  memfill           put --num entries in random order into one memtable, without a log;\n"
    "                    LevelDB always has one\n"
    "  memread           get present keys of that memtable at random\n"
    "  memmissing        get keys that it has not\n"
    "  fillrandom        put --num entries in random order; measured twice, until the last\n"
    "                    Put returns and (fillrandom_quiesced) until background work is done\n"
    "  overwrite         put them all again; measured twice, too\n"
    "  readrandom        get present keys at random\n"
    "  readmissing       get keys that are absent but lie between present ones\n"
    "  multiget          readrandom, --batch_size keys at a time\n"
    "  multigetmissing   readmissing, --batch_size keys at a time\n"
    "  seekrandom        seek to a present key, and read ten entries\n"
    "  readseq           read entries in order\n"
    "  readreverse       read entries backwards\n"
    "  readwhilewriting  readrandom while another thread puts --write_rate entries a second\n"
    "  open              open a database of --open_tables tables, and get a key";

// A new directory in parent, which is created where missing.
absl::StatusOr<std::string> MakeDirectory(const std::string& parent) {
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) {
    return absl::UnavailableError(absl::StrFormat("cannot create %s: %s", parent, error.message()));
  }
  std::string path = parent + "/sievedb_compare-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrFormat("cannot create a directory in %s: %s", parent, std::strerror(errno)));
  }
  return path;
}

absl::Status WriteJson(const std::string& path, const nlohmann::json& json) {
  std::ofstream file(path, std::ios::trunc);
  file << json.dump(2) << "\n";
  file.close();
  if (!file) return absl::UnavailableError(absl::StrFormat("cannot write %s", path));
  return absl::OkStatus();
}

absl::Status RunComparison(const CompareSettings& settings) {
  absl::StatusOr<std::string> directory = MakeDirectory(settings.db);
  if (!directory.ok()) return directory.status();
  CompareReport report(settings);
  absl::Status status = ComparePlan(settings, *directory, &report).Run();
  std::error_code error;
  std::filesystem::remove_all(*directory, error);
  if (!status.ok()) return status;
  if (error) {
    return absl::UnavailableError(
        absl::StrFormat("cannot remove %s: %s", *directory, error.message()));
  }

  for (const EngineKind& kind : settings.Engines()) {
    std::printf("%s %s  ", kind.name.c_str(), kind.version.c_str());
  }
  std::printf("\n%s", report.ToText().c_str());
  if (std::fflush(stdout) != 0) return absl::UnavailableError("cannot write to stdout");
  return settings.json.empty() ? absl::OkStatus() : WriteJson(settings.json, report.ToJson());
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) {
  sievedb::CompareSettings settings;
  sievedb::Flags flags("compare", "[flags]", sievedb::kSummary);
  settings.Register(&flags);
  if (std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;
  if (!flags.positional().empty()) {
    return sievedb::ExitUsage(
        flags.program(), absl::StrFormat("unexpected argument \"%s\"", flags.positional().front()));
  }
  absl::Status status = settings.Validate();
  if (!status.ok()) return sievedb::ExitUsage(flags.program(), std::string(status.message()));

  // A session that died is an error to report, not one to die of.
  signal(SIGPIPE, SIG_IGN);
  // Ctrl-C ends the sessions; this process then sees them gone, and cleans up.
  signal(SIGINT, SIG_IGN);
  status = sievedb::RunComparison(settings);
  if (!status.ok()) return sievedb::ExitFailure(flags.program(), status);
  return sievedb::kExitSuccess;
}
