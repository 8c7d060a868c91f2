#ifndef SIEVEDB_BENCH_COMPARE_REPORT_H_
#define SIEVEDB_BENCH_COMPARE_REPORT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/compare_settings.h"
#include "nlohmann/json.hpp"
#include "tools/latency_series.h"

namespace sievedb {

// What one engine did in one round of one workload. nullopt: not measured.
struct RoundFigures {
  double ops_per_s = 0;
  double p50_ns = 0;
  double p99_ns = 0;
  double p999_ns = 0;
  double max_ns = 0;  // of the operations that were timed
  std::optional<double> syncs_per_put;
  std::optional<double> write_amp;  // bytes written to the disk per byte put
  std::optional<double> space_amp;  // bytes on the disk per live byte
  double peak_rss_bytes = 0;
  std::vector<LatencySeries::Point> series;  // empty where it was not asked for
};

// How SieveDB's rate stands to a peer's in the same round, over all rounds.
struct RatioSpread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// Gathers the figures of all rounds, and prints them.
//
// Threads: not safe.
class CompareReport {
 public:
  explicit CompareReport(const CompareSettings& settings) : settings_(settings) {}

  // Rounds of one workload, cache and engine are added in the order of the
  // rounds.
  void Add(const std::string& workload, const std::string& cache, const std::string& engine,
           const RoundFigures& figures);

  // How many tables an engine's database has that "open" opens.
  void NoteOpenTables(const std::string& engine, uint64_t tables) { open_tables_[engine] = tables; }

  // A table for each cache setting; the medians over all rounds.
  std::string ToText() const;

  // {"machine":…, "settings":{…}, "workloads":[{"name", "cache", "engines":{name:
  // {"ops_per_s", "p50_ns", "p99_ns", "p999_ns", "max_ns", "syncs_per_put", "write_amp",
  // "space_amp", "peak_rss_bytes", "series"}}, "ratio":{peer: …}}]}: medians over all
  // rounds, but "series" (where there is one) is the first round's.
  nlohmann::json ToJson() const;

 private:
  struct Measured {
    std::string workload;
    std::string cache;
    std::map<std::string, std::vector<RoundFigures>> rounds;  // by engine
  };

  // SieveDB against the engine. nullopt where it wasn't measured, or is SieveDB.
  static std::optional<RatioSpread> Ratio(const Measured& measured, const std::string& engine);
  std::string ExtraText() const;
  static RoundFigures Median(const std::vector<RoundFigures>& rounds);

  const CompareSettings& settings_;
  std::vector<Measured> measured_;  // in the order of the first round
  std::map<std::string, uint64_t> open_tables_;
};

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_REPORT_H_
