#ifndef SIEVEDB_BENCH_COMPARE_WORKER_H_
#define SIEVEDB_BENCH_COMPARE_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/compare_settings.h"
#include "nlohmann/json.hpp"
#include "tools/key_value_generator.h"
#include "tools/latency_series.h"
#include "util/histogram.h"

namespace sievedb {

// Does in one engine what a session is told:
//   {"do":"open", "directory":…, "cache_bytes":…, "small_tables":bool, "one_memtable":bool}
//   {"do":"close"}
//   {"do":"load"}                 all entries, in random order, then all at rest
//   {"do":"load_tables"}          entries in order, until there are --open_tables tables
//   {"do":"warm"}                 reads everything once
//   {"do":"run", "workload":…, "round":…}
// "load" and "run" answer with figures (see Figures), the others with {}; a
// workload that gets a wrong answer from its engine is an error.
//
// Numbers make keys: 2n is the key of entry n, odd ones are absent and lie
// between. Reads ask for keys of entries only.
//
// Threads: not safe; workloads start threads of their own.
class CompareWorker {
 public:
  CompareWorker(const EngineKind& kind, const CompareSettings& settings);
  ~CompareWorker();

  absl::StatusOr<nlohmann::json> Do(const nlohmann::json& command);

 private:
  // One thread's part of a workload.
  struct Part {
    uint64_t begin = 0;  // of the operations of all threads
    uint64_t end = 0;
    int index = 0;
    BenchRandom random{0};
    Histogram latency;
    absl::Status status;
  };

  // What a workload took.
  struct Figures {
    uint64_t operations = 0;
    double seconds = 0;
    double quiesced_seconds = 0;  // writes: until background work was done too
    Histogram latency;
    std::optional<double> syncs_per_put;
    std::vector<LatencySeries::Point> series;
  };

  using Body = std::function<void(Part*)>;

  absl::Status Open(const nlohmann::json& command);
  absl::Status Reopen();
  absl::StatusOr<nlohmann::json> Load();
  absl::StatusOr<nlohmann::json> LoadTables();
  uint64_t TableEntriesAtMost() const;
  absl::Status Warm();
  absl::StatusOr<nlohmann::json> Run(std::string_view workload, uint64_t round);

  absl::StatusOr<Figures> RunThreads(uint64_t operations, uint64_t stream, const Body& body);
  absl::StatusOr<Figures> Write(std::string_view workload, uint64_t round);
  absl::StatusOr<Figures> WriteSynced(uint64_t round);
  absl::StatusOr<Figures> BulkLoad(uint64_t round);
  absl::StatusOr<Figures> Read(std::string_view workload, uint64_t round);
  absl::StatusOr<Figures> ReadWhileWriting(uint64_t round);
  absl::StatusOr<Figures> OpenRepeatedly(uint64_t round);

  void GetRandom(Part* part, bool present);
  void MultiGetRandom(Part* part, bool present);
  void SeekRandom(Part* part);
  void Scan(Part* part, bool forward);

  const EngineKind kind_;
  const CompareSettings settings_;
  const KeyGenerator keys_;
  const ValueGenerator values_;
  EngineSettings engine_settings_;
  std::string directory_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_WORKER_H_
