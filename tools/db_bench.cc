// Measures one database: fills it, reads it, and prints a line for each workload.

#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "tools/db_bench_settings.h"
#include "tools/db_bench_workloads.h"
#include "tools/flags.h"

namespace {

constexpr char kSummary[] =
    "Measures SieveDB, with the workloads of LevelDB's and RocksDB's db_bench.\n"
    "\n"
    "Workloads that begin with an empty database:\n"
    "  fillseq          write --num entries in key order\n"
    "  fillrandom       write --num entries, their keys drawn at random\n"
    "  fillbatch        fillseq in batches\n"
    "  ingest           fillseq through tables that are made outside of the database\n"
    "                   (SstFileWriter, a writer each thread) and then added to it\n"
    "  fillsync         write a thousandth of --num at random, waiting for the disk each time\n"
    "Workloads on what is there:\n"
    "  overwrite        fillrandom over the entries that are there\n"
    "  readrandom       get --reads keys at random\n"
    "  readmissing      get --reads keys that are absent but lie between present ones\n"
    "  readhot          get --reads keys of the first hundredth of the keys\n"
    "  readseq          read --reads entries in order, from the first\n"
    "  readreverse      read --reads entries backwards, from the last\n"
    "  seekrandom       seek --reads times, reading --seek_nexts entries each time\n"
    "  seekmissing      seekrandom for absent keys that lie between present ones\n"
    "  multireadrandom  readrandom with MultiGet\n"
    "  readwhilewriting readrandom while one more thread overwrites\n"
    "  deleteseq        delete --num entries in key order\n"
    "  deleterandom     delete --num entries at random\n"
    "  compact          merge everything down\n"
    "  flush            write the memtable out\n"
    "  open             close the database and open it again\n"
    "  stats            print sievedb.stats\n"
    "  levelstats       print sievedb.levels\n"
    "  filterstats      print sievedb.filters and sievedb.filter-tables: promised and observed "
    "rates\n"
    "\n"
    "A database of an earlier run in --db is deleted, unless --use_existing_db is given.";

}  // namespace

int main(int argc, char** argv) {
  sievedb::BenchSettings settings;
  sievedb::Flags flags("db_bench", "[flags]", kSummary);
  settings.Register(&flags);
  if (std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;

  if (!flags.positional().empty()) {
    return sievedb::ExitUsage(
        flags.program(), absl::StrFormat("unexpected argument \"%s\"", flags.positional().front()));
  }
  if (settings.Workloads().empty()) {
    return sievedb::ExitUsage(flags.program(), "--benchmarks names no workload");
  }
  for (const std::string& workload : settings.Workloads()) {
    if (!sievedb::DbBench::Knows(workload)) {
      return sievedb::ExitUsage(flags.program(),
                                absl::StrFormat("--benchmarks: unknown workload \"%s\"", workload));
    }
  }
  absl::Status status = settings.Validate();
  if (!status.ok()) return sievedb::ExitUsage(flags.program(), std::string(status.message()));

  sievedb::DbBench bench(settings);
  status = bench.Run();
  if (!status.ok()) return sievedb::ExitFailure(flags.program(), status);
  return sievedb::ExitAfterOutput(flags.program());
}
