#include "bench/compare_report.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "absl/strings/str_format.h"
#include "bench/compare_process.h"

namespace sievedb {
namespace {

constexpr char kSieve[] = "sievedb";

double MedianOf(std::vector<double> numbers) {
  assert(!numbers.empty());
  std::sort(numbers.begin(), numbers.end());
  const size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

// Of those rounds in which it was measured.
template <typename Field>
std::optional<double> MedianField(const std::vector<RoundFigures>& rounds, Field field) {
  std::vector<double> numbers;
  for (const RoundFigures& round : rounds) {
    const std::optional<double> number = round.*field;
    if (number.has_value()) numbers.push_back(*number);
  }
  if (numbers.empty()) return std::nullopt;
  return MedianOf(std::move(numbers));
}

nlohmann::json OrNull(std::optional<double> number) {
  return number.has_value() ? nlohmann::json(*number) : nlohmann::json();
}

std::string OrDash(std::optional<double> number) {
  return number.has_value() ? absl::StrFormat("%.2f", *number) : "-";
}

}  // namespace

void CompareReport::Add(const std::string& workload, const std::string& cache,
                        const std::string& engine, const RoundFigures& figures) {
  auto found = std::find_if(measured_.begin(), measured_.end(), [&](const Measured& measured) {
    return measured.workload == workload && measured.cache == cache;
  });
  if (found == measured_.end()) {
    found = measured_.insert(measured_.end(), Measured{workload, cache, {}});
  }
  found->rounds[engine].push_back(figures);
}

RoundFigures CompareReport::Median(const std::vector<RoundFigures>& rounds) {
  RoundFigures median;
  median.ops_per_s = MedianField(rounds, &RoundFigures::ops_per_s).value_or(0);
  median.p50_ns = MedianField(rounds, &RoundFigures::p50_ns).value_or(0);
  median.p99_ns = MedianField(rounds, &RoundFigures::p99_ns).value_or(0);
  median.p999_ns = MedianField(rounds, &RoundFigures::p999_ns).value_or(0);
  median.max_ns = MedianField(rounds, &RoundFigures::max_ns).value_or(0);
  median.syncs_per_put = MedianField(rounds, &RoundFigures::syncs_per_put);
  median.write_amp = MedianField(rounds, &RoundFigures::write_amp);
  median.space_amp = MedianField(rounds, &RoundFigures::space_amp);
  median.peak_rss_bytes = MedianField(rounds, &RoundFigures::peak_rss_bytes).value_or(0);
  return median;
}

std::optional<RatioSpread> CompareReport::Ratio(const Measured& measured,
                                                const std::string& engine) {
  const auto sieve = measured.rounds.find(kSieve);
  const auto peer = measured.rounds.find(engine);
  if (engine == kSieve || sieve == measured.rounds.end() || peer == measured.rounds.end()) {
    return std::nullopt;
  }
  // Round by round: what disturbs a round disturbs both.
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(sieve->second.size(), peer->second.size()); ++i) {
    ratios.push_back(sieve->second[i].ops_per_s / peer->second[i].ops_per_s);
  }
  RatioSpread spread;
  spread.min = *std::min_element(ratios.begin(), ratios.end());
  spread.max = *std::max_element(ratios.begin(), ratios.end());
  spread.median = MedianOf(std::move(ratios));
  return spread;
}

std::string CompareReport::ToText() const {
  std::string text;
  std::vector<std::string> caches;
  for (const Measured& measured : measured_) {
    if (std::find(caches.begin(), caches.end(), measured.cache) == caches.end()) {
      caches.push_back(measured.cache);
    }
  }
  for (const std::string& cache : caches) {
    absl::StrAppendFormat(&text,
                          "\nBlock cache: %s. Medians of %d rounds; ratio: SieveDB's rate "
                          "over the peer's, least..most.\n",
                          cache, settings_.rounds);
    absl::StrAppendFormat(&text, "%-20s %-8s %11s  %-20s %9s %9s %9s %9s %6s %6s %9s\n", "workload",
                          "engine", "ops/s", "ratio", "p50 us", "p99 us", "p99.9 us", "max us",
                          "write", "space", "peak MiB");
    for (const Measured& measured : measured_) {
      if (measured.cache != cache) continue;
      std::string_view shown_workload = measured.workload;
      for (const EngineKind& kind : settings_.Engines()) {
        const auto rounds = measured.rounds.find(kind.name);
        if (rounds == measured.rounds.end()) continue;
        const RoundFigures median = Median(rounds->second);
        std::string ratio;
        if (const std::optional<RatioSpread> spread = Ratio(measured, kind.name)) {
          ratio = absl::StrFormat("%5.2f (%.2f..%.2f)", spread->median, spread->min, spread->max);
        }
        absl::StrAppendFormat(
            &text, "%-20s %-8s %11d  %-20s %9.2f %9.2f %9.2f %9.0f %6s %6s %9.0f\n", shown_workload,
            kind.name, std::llround(median.ops_per_s), ratio, median.p50_ns / 1e3,
            median.p99_ns / 1e3, median.p999_ns / 1e3, median.max_ns / 1e3,
            OrDash(median.write_amp), OrDash(median.space_amp), median.peak_rss_bytes / (1 << 20));
        shown_workload = "";
      }
    }
  }
  if (!open_tables_.empty()) {
    text += "\nTables of the database that open opens:";
    for (const auto& [engine, tables] : open_tables_) {
      absl::StrAppendFormat(&text, " %s %d", engine, tables);
    }
    text += "\n";
  }
  text += ExtraText();
  text +=
      "write: bytes that the process wrote per byte put (reads: while their database was "
      "loaded).\n"
      "space: bytes on the disk per live byte. Latencies of multiget are those of a whole call.\n";
  return text;
}

// What the table has no column for.
std::string CompareReport::ExtraText() const {
  std::string text;
  for (const Measured& measured : measured_) {
    for (const auto& [engine, rounds] : measured.rounds) {
      if (const std::optional<double> syncs = Median(rounds).syncs_per_put; syncs.has_value()) {
        absl::StrAppendFormat(&text, "%s, %s: %.3f syncs per put\n", measured.workload, engine,
                              *syncs);
      }
      if (rounds.front().series.empty()) continue;
      absl::StrAppendFormat(&text, "\n%s, %s, the first round:\n%s", measured.workload, engine,
                            LatencySeries::ToText(rounds.front().series));
    }
  }
  return text;
}

nlohmann::json CompareReport::ToJson() const {
  nlohmann::json workloads = nlohmann::json::array();
  for (const Measured& measured : measured_) {
    nlohmann::json engines = nlohmann::json::object();
    nlohmann::json ratios = nlohmann::json::object();
    for (const auto& [engine, rounds] : measured.rounds) {
      const RoundFigures median = Median(rounds);
      engines[engine] = {{"ops_per_s", median.ops_per_s},
                         {"p50_ns", median.p50_ns},
                         {"p99_ns", median.p99_ns},
                         {"p999_ns", median.p999_ns},
                         {"max_ns", median.max_ns},
                         {"write_amp", OrNull(median.write_amp)},
                         {"space_amp", OrNull(median.space_amp)},
                         {"peak_rss_bytes", std::llround(median.peak_rss_bytes)}};
      if (median.syncs_per_put.has_value()) {
        engines[engine]["syncs_per_put"] = *median.syncs_per_put;
      }
      if (!rounds.front().series.empty()) {
        engines[engine]["series"] = LatencySeries::ToJson(rounds.front().series);
      }
      if (const std::optional<RatioSpread> spread = Ratio(measured, engine)) {
        ratios[engine] = spread->median;
      }
    }
    workloads.push_back({{"name", measured.workload},
                         {"cache", measured.cache},
                         {"engines", engines},
                         {"ratio", ratios}});
  }
  nlohmann::json settings = settings_.ToJson();
  if (!open_tables_.empty()) settings["open_tables"] = open_tables_;
  return {{"machine", MachineJson()}, {"settings", settings}, {"workloads", workloads}};
}

}  // namespace sievedb
