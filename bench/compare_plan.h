#ifndef SIEVEDB_BENCH_COMPARE_PLAN_H_
#define SIEVEDB_BENCH_COMPARE_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/compare_process.h"
#include "bench/compare_report.h"
#include "bench/compare_settings.h"

namespace sievedb {

// The order of a comparison: which engine does what when.
//
// Every workload's rounds alternate engine by engine, and each round begins with
// another engine, so that what changes with time (a warm CPU, a busy neighbour)
// hits all alike. Writes start from an empty directory and a new process each
// time; reads share one database for each engine, loaded once, and one process
// for each engine and cache setting.
//
// Threads: not safe; the process must have one thread, since sessions fork.
class ComparePlan {
 public:
  // Databases are made in directory, which exists and is the caller's.
  ComparePlan(const CompareSettings& settings, std::string directory, CompareReport* report);

  absl::Status Run();

 private:
  using Sessions = std::vector<std::unique_ptr<Session>>;  // in the order of the engines

  absl::Status RunWrites();
  // workloads: in this order, on one database.
  absl::Status RunWriteRound(const EngineKind& kind, const std::vector<std::string>& workloads,
                             int round);
  absl::Status LoadAll();
  absl::Status RunReads(const std::vector<std::string>& workloads);
  absl::Status RunOpen();
  absl::Status RunRounds(const Sessions& sessions, const std::string& workload,
                         const std::string& cache);
  absl::Status RunOne(Session* session, const std::string& workload, const std::string& cache,
                      int round);

  // The engines, or indexes of them, in the order of a round.
  size_t EngineAt(size_t position, int round) const {
    return (position + static_cast<size_t>(round)) % engines_.size();
  }
  std::string DirectoryOf(const std::string& engine, const std::string& purpose) const;
  void Remove(const std::string& directory) const;

  const CompareSettings& settings_;
  const std::string directory_;
  CompareReport* const report_;
  const std::vector<EngineKind> engines_;
  const std::vector<CacheSetting> caches_;
  std::map<std::string, nlohmann::json> load_figures_;  // by engine
};

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_PLAN_H_
