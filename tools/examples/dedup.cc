// Prints each record the first time that it comes, over any number of runs.

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/examples/deduplicator.h"
#include "tools/flags.h"
#include "tools/key_value_generator.h"
#include "tools/progress.h"
#include "tools/record_file.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr char kProgram[] = "dedup";
constexpr char kSummary[] =
    "Prints each line of FILE (-: the standard input) the first time that it comes, remembering\n"
    "the lines in the database --db, so that a later run goes on where this one ended. A filter\n"
    "in memory says \"new\" for certain, or \"maybe\", and only then the database is asked. A\n"
    "summary goes to stderr.\n"
    "\n"
    "  dedup --db=seen access.log              lines that were never seen before\n"
    "  dedup --db=seen --num=1000000           lines that are made up, --duplicates of them twice\n"
    "  dedup --db=seen --nofilter access.log   the same lines, every one looked up";

struct Settings {
  DedupSettings dedup;
  std::string input;  // empty: generated
  uint64_t num = 0;
  double duplicates = 0.5;
  uint64_t seed = 1;
  std::string out = "-";
  bool json = false;
};

// Where unique lines go.
class Output {
 public:
  ~Output() {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  }

  absl::Status Open(const std::string& path) {
    path_ = path == "-" ? "the standard output" : path;
    file_ = path == "-" ? stdout : std::fopen(path.c_str(), "ae");
    return file_ == nullptr ? absl::ErrnoToStatus(errno, "opening " + path_) : absl::OkStatus();
  }
  absl::Status Print(std::string_view line) {
    const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() &&
                         std::fputc('\n', file_) != EOF;
    return written ? absl::OkStatus() : absl::ErrnoToStatus(errno, "writing " + path_);
  }
  absl::Status Flush() {
    return std::fflush(file_) == 0 ? absl::OkStatus()
                                   : absl::ErrnoToStatus(errno, "writing " + path_);
  }

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

absl::Status AddLines(const std::string& path, Deduplicator* dedup) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  ProgressBar progress("bytes", reader->total_bytes());
  while (true) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, reader->Next());
    if (!line.has_value()) return absl::OkStatus();
    SIEVEDB_RETURN_IF_ERROR(dedup->Add(*line));
    progress.Set(reader->bytes_read());
  }
}

// Each record repeats an earlier one with the chance that --duplicates says.
absl::Status AddGenerated(const Settings& settings, Deduplicator* dedup) {
  BenchRandom random(settings.seed);
  const uint64_t first = BenchRandom::Mix(settings.seed);
  ProgressBar progress("records", settings.num);
  uint64_t distinct = 0;
  for (uint64_t i = 0; i < settings.num; ++i) {
    const double draw = std::ldexp(static_cast<double>(random.Next() >> 11), -53);
    const uint64_t number =
        distinct > 0 && draw < settings.duplicates ? random.Uniform(distinct) : distinct++;
    SIEVEDB_RETURN_IF_ERROR(
        dedup->Add(absl::StrFormat("record-%016x", BenchRandom::Mix(first + number))));
    progress.Advance(1);
  }
  return absl::OkStatus();
}

nlohmann::ordered_json Summary(const Deduplicator& dedup, double seconds) {
  const DedupCounts& counts = dedup.counts();
  return {{"records", counts.records},
          {"unique", counts.unique},
          {"certainly_new", counts.certainly_new},
          {"maybes", counts.maybes},
          {"false_maybes", counts.false_maybes},
          {"disk_lookups_saved", counts.certainly_new},
          {"block_reads", counts.block_reads},
          {"filter_bytes", dedup.FilterBytes()},
          {"filter_from", dedup.filter_origin()},
          {"filter_problem", dedup.filter_problem()},
          {"seconds", seconds}};
}

void PrintSummary(const Deduplicator& dedup, double seconds) {
  const DedupCounts& counts = dedup.counts();
  const uint64_t fresh = counts.certainly_new + counts.false_maybes;
  absl::FPrintF(stderr, "records            %d, of them unique %d, in %.2f s\n", counts.records,
                counts.unique, seconds);
  absl::FPrintF(stderr, "certainly new      %d: so many lookups on the disk were saved\n",
                counts.certainly_new);
  absl::FPrintF(stderr, "maybe              %d, of them new after all %d (%.3f %% of the new)\n",
                counts.maybes, counts.false_maybes,
                fresh == 0
                    ? 0.0
                    : 100 * static_cast<double>(counts.false_maybes) / static_cast<double>(fresh));
  absl::FPrintF(stderr, "blocks read        %d\n", counts.block_reads);
  absl::FPrintF(stderr, "filter             %d bytes, from: %s\n", dedup.FilterBytes(),
                dedup.filter_origin());
  if (!dedup.filter_problem().empty()) {
    absl::FPrintF(stderr, "its file was of no use: %s\n", dedup.filter_problem());
  }
}

absl::Status Run(const Settings& settings) {
  if (!settings.input.empty() && settings.input != "-") {
    // Before there is a database: a file that is not there should leave nothing behind.
    SIEVEDB_RETURN_IF_ERROR(LineReader::Open(settings.input).status());
  }
  const uint64_t start = NowNanos();
  Output output;
  SIEVEDB_RETURN_IF_ERROR(output.Open(settings.out));
  SIEVEDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<Deduplicator> dedup,
      Deduplicator::Open(
          settings.dedup, [&output](std::string_view line) { return output.Print(line); },
          [&output] { return output.Flush(); }));
  SIEVEDB_RETURN_IF_ERROR(settings.input.empty() ? AddGenerated(settings, dedup.get())
                                                 : AddLines(settings.input, dedup.get()));
  SIEVEDB_RETURN_IF_ERROR(dedup->Finish());
  const double seconds = static_cast<double>(NowNanos() - start) / 1e9;
  if (settings.json) {
    absl::FPrintF(stderr, "%s\n", Summary(*dedup, seconds).dump(2));
  } else {
    PrintSummary(*dedup, seconds);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Settings settings;
  Flags flags(kProgram, "[flags] [FILE]", kSummary);
  flags.Add("db", &settings.dedup.db, "directory of the database; it is made where missing");
  flags.Add("out", &settings.out, "file that unique lines are appended to, -: the standard output");
  flags.Add("expected", &settings.dedup.expected,
            "distinct lines that the filter is made for; with more it grows", 1, 100'000'000'000);
  flags.Add("fpr", &settings.dedup.fpr, "share of the new lines that may be looked up in vain",
            1e-6, 0.5);
  flags.Add("batch", &settings.dedup.batch, "unique lines that are printed and stored at once", 1,
            1'000'000);
  flags.Add("filter", &settings.dedup.use_filter, "--nofilter: look every line up");
  flags.Add("num", &settings.num, "without FILE: lines that are made up", 0, 100'000'000'000);
  flags.Add("duplicates", &settings.duplicates, "share of them that came before", 0, 1);
  flags.Add("seed", &settings.seed, "the lines follow from it");
  flags.Add("json", &settings.json, "the summary as JSON");
  if (const std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;
  if (settings.dedup.db.empty()) return ExitUsage(kProgram, "no --db is given");
  if (flags.positional().size() > 1) return ExitUsage(kProgram, "more than one FILE is given");
  if (!flags.positional().empty()) settings.input = flags.positional().front();
  if (settings.input.empty() != flags.WasGiven("num")) {
    return ExitUsage(kProgram, "expected either a FILE or --num");
  }
  const absl::Status status = Run(settings);
  return status.ok() ? ExitAfterOutput(kProgram) : ExitFailure(kProgram, status);
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
