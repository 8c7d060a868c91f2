// A filter in front of a cache or store: what it turns away, what it costs.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/examples/guard.h"
#include "tools/flags.h"
#include "tools/progress.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr char kProgram[] = "cache_guard";
constexpr char kSummary[] =
    "Puts a filter of --ids ids in front of a store and sends days of lookups through it, most of\n"
    "them for ids that the store does not have. Shows the share that is turned away without\n"
    "asking the store, the false positives of each day with their 95 % interval beside the rate\n"
    "that the filter's bits promise, and lookups a second in batches of 64 and one by one. Fails\n"
    "where an id that is there is turned away.\n"
    "\n"
    "  cache_guard                              20 million ids at 1 %\n"
    "  cache_guard --save=ids.filter            keep the filter\n"
    "  cache_guard --load=ids.filter            map it, as several processes may at once";

struct Settings {
  uint64_t ids = 20'000'000;
  double fpr = 0.01;
  std::string filter = "blocked";
  uint64_t days = 7;
  StreamSettings stream{.ids = 0, .lookups = 10'000'000, .absent = 0.62, .seed = 1};
  std::string save;
  std::string load;
  bool json = false;
};

struct Results {
  FilterFigures figures;
  size_t memory_bytes = 0;
  double build_seconds = 0;
  uint64_t denied = 0;  // of all ids
  std::vector<DayReport> days;
  DayReport total;
};

double Quotient(double part, double whole) { return whole > 0 ? part / whole : 0; }
double Share(uint64_t part, uint64_t whole) {
  return Quotient(static_cast<double>(part), static_cast<double>(whole));
}

absl::Status Run(const Settings& settings, Results* results) {
  const IdSpace space(settings.stream.seed);
  const uint64_t start = NowNanos();
  SIEVEDB_ASSIGN_OR_RETURN(const Guard guard,
                           settings.load.empty()
                               ? Guard::Build(settings.filter, space, settings.ids, settings.fpr)
                               : Guard::Map(settings.load));
  results->build_seconds = static_cast<double>(NowNanos() - start) / 1e9;
  results->figures = guard.Figures();
  results->memory_bytes = guard.MemoryBytes();
  if (!settings.save.empty()) SIEVEDB_RETURN_IF_ERROR(guard.Save(settings.save));

  results->denied = CountDenied(guard, space, settings.ids);
  ProgressBar progress("days", settings.days);
  for (uint64_t day = 0; day < settings.days; ++day) {
    results->days.push_back(RunDay(guard, space, settings.stream, day));
    results->total.Add(results->days.back());
    progress.Advance(1);
  }
  return absl::OkStatus();
}

// Where the expected rate lies: outside of the interval on one day in twenty by chance.
const char* Verdict(const ObservedShare& observed, double expected) {
  if (observed.low > expected) return "above";
  return observed.high < expected ? "below" : "as expected";
}

void PrintLine(const std::string& name, const DayReport& day, double expected) {
  const ObservedShare observed = ObservedShare::Of(day.false_positives, day.absent);
  absl::PrintF("%-5s %11d %8.3f %% %9d   %.4f %% (%.4f to %.4f)  %.4f %%  %-11s %9.2f %9.2f\n",
               name, day.lookups, 100 * Share(day.turned_away, day.lookups), day.false_positives,
               100 * observed.share, 100 * observed.low, 100 * observed.high, 100 * expected,
               Verdict(observed, expected),
               Quotient(static_cast<double>(day.batched), day.batched_seconds) / 1e6,
               Quotient(static_cast<double>(day.single), day.single_seconds) / 1e6);
}

void PrintText(const Settings& settings, const Results& results) {
  const double bytes = static_cast<double>(results.memory_bytes);
  absl::PrintF("%d ids in %.1f MB (%.2f bits an id), %s in %.2f s\n", settings.ids, bytes / 1e6,
               bytes * 8 / static_cast<double>(settings.ids),
               settings.load.empty() ? "hashed and built" : "mapped and checked",
               results.build_seconds);
  absl::PrintF("%-5s %11s %10s %9s   %-29s %-9s %-11s %9s %9s\n", "day", "lookups", "away", "false",
               "rate (95 % interval)", "expected", "", "M/s batch", "M/s one");
  for (size_t i = 0; i < results.days.size(); ++i) {
    PrintLine(absl::StrFormat("%d", i + 1), results.days[i], results.figures.expected_fpr);
  }
  PrintLine("all", results.total, results.figures.expected_fpr);
  absl::PrintF(
      "absent: %.3f %% of the lookups, of which %.3f %% were turned away\n",
      100 * Share(results.total.absent, results.total.lookups),
      100 * Share(results.total.absent - results.total.false_positives, results.total.absent));
}

nlohmann::json DayJson(const DayReport& day, double expected) {
  const ObservedShare observed = ObservedShare::Of(day.false_positives, day.absent);
  return {{"lookups", day.lookups},
          {"absent", day.absent},
          {"turned_away", day.turned_away},
          {"turned_away_share", Share(day.turned_away, day.lookups)},
          {"false_positives", day.false_positives},
          {"fpr", observed.share},
          {"fpr_low", observed.low},
          {"fpr_high", observed.high},
          {"verdict", Verdict(observed, expected)},
          {"wrongly_turned_away", day.wrongly_turned_away},
          {"batched_per_s", Quotient(static_cast<double>(day.batched), day.batched_seconds)},
          {"single_per_s", Quotient(static_cast<double>(day.single), day.single_seconds)}};
}

void PrintJson(const Settings& settings, const Results& results) {
  nlohmann::json json;
  json["settings"] = {{"ids", settings.ids},
                      {"days", settings.days},
                      {"lookups", settings.stream.lookups},
                      {"absent", settings.stream.absent},
                      {"seed", settings.stream.seed}};
  if (settings.load.empty()) {
    json["settings"]["filter"] = settings.filter;
    if (settings.filter != "fuse") json["settings"]["fpr"] = settings.fpr;
  } else {
    json["settings"]["load"] = settings.load;
  }
  json["filter"] = {
      {"bits", results.figures.bits},           {"probes", results.figures.probes},
      {"memory_bytes", results.memory_bytes},   {"expected_fpr", results.figures.expected_fpr},
      {"ready_seconds", results.build_seconds}, {"denied_ids", results.denied}};
  json["days"] = nlohmann::json::array();
  for (const DayReport& day : results.days) {
    json["days"].push_back(DayJson(day, results.figures.expected_fpr));
  }
  json["total"] = DayJson(results.total, results.figures.expected_fpr);
  std::puts(json.dump(2).c_str());
}

int Main(int argc, char** argv) {
  Settings settings;
  Flags flags(kProgram, "[flags]", kSummary);
  flags.Add("ids", &settings.ids, "ids in the store", 1, 10'000'000'000);
  flags.Add("fpr", &settings.fpr, "false-positive rate that the filter is made for", 1e-9, 0.5);
  flags.AddChoice("filter", &settings.filter, {"blocked", "dense", "bloom", "ribbon", "fuse"},
                  "its kind; fuse has a rate of its own, 0.39 %");
  flags.Add("days", &settings.days, "days of stream", 1, 10'000);
  flags.Add("lookups", &settings.stream.lookups, "a day", 1, 100'000'000'000);
  flags.Add("absent", &settings.stream.absent, "share of the lookups for ids that are not there", 0,
            1);
  flags.Add("save", &settings.save, "write the filter to this file");
  flags.Add("load", &settings.load, "map the filter in this file instead of building one");
  flags.Add("seed", &settings.stream.seed, "ids and stream follow from it");
  flags.Add("json", &settings.json, "print JSON");
  if (const std::optional<int> exit_code = flags.ParseOrExit(argc, argv)) return *exit_code;
  if (!flags.positional().empty()) {
    return ExitUsage(kProgram,
                     absl::StrFormat("unexpected argument \"%s\"", flags.positional().front()));
  }
  if (!settings.load.empty()) {
    for (const char* building : {"filter", "fpr", "save"}) {
      if (flags.WasGiven(building)) {
        return ExitUsage(kProgram, absl::StrFormat("--load and --%s exclude each other", building));
      }
    }
  }
  if (settings.filter == "fuse" && flags.WasGiven("fpr")) {
    return ExitUsage(kProgram, "--filter=fuse has a rate of its own: no --fpr");
  }
  settings.stream.ids = settings.ids;

  Results results;
  const absl::Status status = Run(settings, &results);
  if (!status.ok()) return ExitFailure(kProgram, status);
  settings.json ? PrintJson(settings, results) : PrintText(settings, results);
  if (results.denied + results.total.wrongly_turned_away > 0) {
    return ExitFailure(
        kProgram,
        absl::DataLossError(absl::StrFormat(
            "the filter denies %d of %d ids that are there, and turned away %d lookups for them",
            results.denied, settings.ids, results.total.wrongly_turned_away)));
  }
  return ExitAfterOutput(kProgram);
}

}  // namespace
}  // namespace sievedb

int main(int argc, char** argv) { return sievedb::Main(argc, argv); }
