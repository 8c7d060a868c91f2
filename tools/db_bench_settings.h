#ifndef SIEVEDB_TOOLS_DB_BENCH_SETTINGS_H_
#define SIEVEDB_TOOLS_DB_BENCH_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sievedb/options.h"
#include "tools/flags.h"

namespace sievedb {

// What db_bench was asked for: one field for each flag. Names, and defaults where
// SieveDB's own allow it, are those of LevelDB's and RocksDB's db_bench.
struct BenchSettings {
  BenchSettings();

  void Register(Flags* flags);

  // kInvalidArgument where flags contradict each other, or the options that they
  // make are refused. Requires: the flags were parsed.
  absl::Status Validate() const;

  // The options that every DB of the run is opened with, statistics apart.
  Options DbOptions() const;

  std::vector<std::string> Workloads() const { return SplitList(benchmarks); }
  uint64_t Reads() const { return reads < 0 ? num : static_cast<uint64_t>(reads); }

  // Entries of one write or one MultiGet: --batch_size, or what is usual for the
  // workload where it wasn't given.
  uint64_t BatchSize(uint64_t usual) const { return batch_size == 0 ? usual : batch_size; }

  std::string benchmarks;
  uint64_t num = 1'000'000;
  int64_t reads = -1;
  int threads = 1;
  int duration_seconds = 0;
  uint64_t key_bytes = 16;
  uint64_t value_bytes = 100;
  uint64_t batch_size = 0;
  int seek_nexts = 0;
  std::string compression = "snappy";
  double compression_ratio = 0.5;
  uint64_t write_buffer_bytes = 0;
  uint64_t cache_bytes = 0;
  uint64_t block_bytes = 0;
  double bloom_bits = 10;
  std::string filter = "blocked";
  std::string compaction_style;
  double max_space_amplification = 0;
  uint64_t level_base_bytes = 0;
  uint64_t target_file_bytes = 0;
  int max_background_jobs = 0;
  std::string db;
  bool use_existing_db = false;
  bool plan_filter_memory = true;
  uint64_t prefix_bytes = 0;
  bool access_aware_filters = true;
  bool async_io = false;
  bool mmap_reads = false;
  bool sync = false;
  bool disable_wal = false;
  bool statistics = false;
  bool histogram = false;
  uint64_t stats_interval_ms = 0;
  int64_t rate_limit_bytes_per_second = 0;
  int64_t rate_limit_min_bytes_per_second = 0;
  uint64_t seed = 301;
  bool json = false;
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_DB_BENCH_SETTINGS_H_
