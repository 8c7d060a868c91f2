#ifndef SIEVEDB_BENCH_COMPARE_SETTINGS_H_
#define SIEVEDB_BENCH_COMPARE_SETTINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/compare_engine.h"
#include "nlohmann/json.hpp"
#include "tools/flags.h"
#include "util/compaction_style.h"

namespace sievedb {

// A size of the block cache that reads are measured with.
struct CacheSetting {
  std::string name;  // "all", or as it was given: "64MiB"
  uint64_t bytes = 0;
  bool holds_all = false;
};

// What compare was asked for: one field for each flag.
struct CompareSettings {
  void Register(Flags* flags);

  // kInvalidArgument for engines, workloads or caches that are not known.
  absl::Status Validate() const;

  // Requires of all that follow: Validate() is OK.
  std::vector<EngineKind> Engines() const;
  std::vector<CacheSetting> Caches() const;
  // In the order in which they are run, whatever order they were given in.
  bool Runs(std::string_view workload) const;
  uint64_t Reads() const;  // of one round, all threads together
  uint64_t EntryBytes() const { return key_bytes + value_bytes; }
  EngineSettings ForEngine(uint64_t cache_bytes) const;
  nlohmann::json ToJson() const;

  uint64_t num = 10'000'000;
  uint64_t reads = 0;
  std::string db;
  std::string engines;    // empty: all that were compiled in
  std::string workloads;  // empty: all
  std::string caches = "all,64MiB";
  int rounds = 3;
  int threads = 1;
  std::string json;
  uint64_t key_bytes = 16;
  uint64_t value_bytes = 100;
  double compression_ratio = 0.5;
  uint64_t write_buffer_bytes = uint64_t{16} << 20;
  std::string compaction_style = CompactionStyleName(Options().compaction_style);
  uint64_t batch_size = 64;
  bool mmap_reads = false;
  uint64_t write_rate = 20'000;
  uint64_t open_tables = 1000;
  uint64_t series_ms = 0;
  uint64_t seed = 301;

 private:
  absl::StatusOr<CacheSetting> ParseCache(const std::string& text) const;
};

// Every workload of compare, in the order in which they are run.
std::vector<std::string> CompareWorkloads();

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_SETTINGS_H_
