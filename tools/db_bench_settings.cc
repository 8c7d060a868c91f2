#include "tools/db_bench_settings.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/key_value_generator.h"
#include "util/compaction_style.h"

namespace sievedb {
namespace {

constexpr char kUsualWorkloads[] =
    "fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,readhot,seekrandom,"
    "multireadrandom,readseq,readreverse,compact,readrandom,readmissing,readseq,readreverse,"
    "filterstats";

std::string UsualDirectory() {
  std::error_code error;
  std::filesystem::path directory = std::filesystem::temp_directory_path(error);
  if (error) directory = "/tmp";
  return directory / absl::StrFormat("sievedb_bench-%d", getuid());
}

}  // namespace

BenchSettings::BenchSettings() : benchmarks(kUsualWorkloads), db(UsualDirectory()) {
  const Options defaults;
  write_buffer_bytes = defaults.write_buffer_bytes;
  cache_bytes = defaults.block_cache_bytes;
  block_bytes = defaults.block_bytes;
  compaction_style = CompactionStyleName(defaults.compaction_style);
  max_space_amplification = defaults.max_space_amplification;
  level_base_bytes = defaults.level_base_bytes;
  target_file_bytes = defaults.target_file_bytes;
  max_background_jobs = defaults.max_background_jobs;
}

void BenchSettings::Register(Flags* flags) {
  flags->Add("benchmarks", &benchmarks, "workloads, separated by commas, run in this order");
  // Keys are made of numbers up to twice num, absent ones lying between.
  flags->Add("num", &num, "entries of the database; fills, overwrites and deletes share them", 1,
             std::numeric_limits<uint64_t>::max() / 4);
  flags->Add("reads", &reads, "reads of each thread; negative: as many as --num");
  flags->Add("threads", &threads, "threads that work at a time", 1, 1024);
  flags->Add("duration", &duration_seconds,
             "seconds that a workload of random keys runs for, 0: as long as it takes", 0);
  flags->Add("key_size", &key_bytes, "bytes of a key", 1, uint64_t{64} << 20);
  flags->Add("value_size", &value_bytes, "bytes of a value", 0, uint64_t{1} << 30);
  flags->Add("batch_size", &batch_size,
             "entries of one write or one MultiGet; 0: 1000 in fillbatch, 32 in multireadrandom, "
             "else 1",
             0, 1'000'000);
  flags->Add("seek_nexts", &seek_nexts, "entries that seekrandom reads after each seek", 0);
  flags->AddChoice("compression_type", &compression, {"none", "snappy"}, "of data blocks");
  flags->Add("compression_ratio", &compression_ratio,
             "what compression leaves of a value, as a part of it", 0.0, 1.0);
  flags->AddBytes("write_buffer_size", &write_buffer_bytes, "bytes of a memtable");
  flags->AddBytes("cache_size", &cache_bytes, "bytes of the block cache");
  flags->AddBytes("block_size", &block_bytes, "bytes of a data block before compression");
  flags->Add("bloom_bits", &bloom_bits, "filter bits for each key, 0 or less: no filters");
  flags->AddChoice("filter", &filter, {"blocked", "dense", "bloom", "ribbon", "fuse", "none"},
                   "kind of new tables' filters; fuse has 9 bits for each key, whatever "
                   "--bloom_bits is");
  flags->Add("plan_filter_memory", &plan_filter_memory,
             "give smaller levels more filter bits for each key, at the same total");
  flags->Add("prefix_size", &prefix_bytes,
             "first bytes of a key that are its prefix: filters know them, and seekrandom and "
             "seekmissing stay in the prefix of the key that they seek; 0: none",
             0, uint64_t{64} << 20);
  flags->Add("access_aware_filters", &access_aware_filters,
             "and tables that absent keys are often asked for in more than others");
  flags->Add("mmap_reads", &mmap_reads, "read tables through mappings");
  flags->Add("async_io", &async_io, "multireadrandom: let the disk read a batch's blocks together");
  flags->AddChoice("compaction_style", &compaction_style, CompactionStyleNames(),
                   "how many sorted runs a level holds");
  flags->Add("max_space_amplification", &max_space_amplification,
             "bytes of all levels for each of the last, in styles of several runs a level");
  flags->AddBytes("level_base_size", &level_base_bytes, "least bytes of the first sorted level");
  flags->AddBytes("target_file_size", &target_file_bytes,
                  "bytes of a table that compaction writes");
  flags->Add("max_background_jobs", &max_background_jobs, "flushes and compactions at a time", 1,
             1024);
  flags->Add("rate_limiter_bytes_per_sec", &rate_limit_bytes_per_second,
             "bytes a second that flushes and compactions write, 0: no limit", int64_t{0});
  flags->Add("rate_limiter_min_bytes_per_sec", &rate_limit_min_bytes_per_second,
             "not 0: what the limit falls to when they are not behind", int64_t{0});
  flags->Add("db", &db, "directory of the database");
  flags->Add("use_existing_db", &use_existing_db,
             "work on what is in --db; workloads that need an empty database are skipped");
  flags->Add("sync", &sync, "wait for the disk at each write");
  flags->Add("disable_wal", &disable_wal, "write no log");
  flags->Add("statistics", &statistics, "count what the database does, and print it at the end");
  flags->Add("histogram", &histogram, "measure each operation, and print percentiles");
  flags->Add("stats_interval_ms", &stats_interval_ms,
             "print operations and their latencies for each interval of so many milliseconds, to "
             "see stalls; 0: don't",
             0, 86'400'000);
  flags->Add("seed", &seed, "where random keys begin");
  flags->Add("json", &json, "print one JSON document instead of lines");
}

absl::Status BenchSettings::Validate() const {
  if (sync && disable_wal) {
    return absl::InvalidArgumentError("--sync and --disable_wal exclude each other");
  }
  const std::vector<std::string> workloads = Workloads();
  if (disable_wal && std::count(workloads.begin(), workloads.end(), "fillsync") > 0) {
    return absl::InvalidArgumentError("fillsync and --disable_wal exclude each other");
  }
  if (db.empty()) return absl::InvalidArgumentError("--db is empty");
  absl::Status status = KeyGenerator::Create(key_bytes, 2 * num).status();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--key_size: %s", std::string(status.message())));
  }
  return DbOptions().Validate();
}

namespace {

std::shared_ptr<const FilterPolicy> FilterPolicyOf(std::string_view kind, double bits_per_key) {
  if (!(bits_per_key > 0)) return nullptr;
  if (kind == "blocked") return NewBlockedBloomPolicy(bits_per_key);
  if (kind == "dense") return NewDenseBlockedBloomPolicy(bits_per_key);
  if (kind == "bloom") return NewBloomPolicy(bits_per_key);
  if (kind == "ribbon") return NewRibbonPolicy(bits_per_key);
  if (kind == "fuse") return NewBinaryFusePolicy();
  return nullptr;
}

}  // namespace

Options BenchSettings::DbOptions() const {
  Options options;
  options.create_if_missing = !use_existing_db;
  options.write_buffer_bytes = write_buffer_bytes;
  options.block_cache_bytes = cache_bytes;
  options.block_bytes = block_bytes;
  options.compression = compression == "none" ? Compression::kNone : Compression::kSnappy;
  options.filter_policy = FilterPolicyOf(filter, bloom_bits);
  options.plan_filter_memory = plan_filter_memory;
  if (prefix_bytes > 0) options.prefix_extractor = NewFixedPrefixExtractor(prefix_bytes);
  options.access_aware_filters = access_aware_filters;
  options.mmap_reads = mmap_reads;
  options.compaction_style = CompactionStyleOf(compaction_style).value();
  options.max_space_amplification = max_space_amplification;
  options.level_base_bytes = level_base_bytes;
  options.target_file_bytes = target_file_bytes;
  options.max_background_jobs = max_background_jobs;
  if (rate_limit_bytes_per_second > 0 && rate_limit_min_bytes_per_second > 0) {
    options.rate_limiter = NewAdaptiveRateLimiter(
        std::min(rate_limit_min_bytes_per_second, rate_limit_bytes_per_second),
        rate_limit_bytes_per_second);
  } else if (rate_limit_bytes_per_second > 0) {
    options.rate_limiter = NewRateLimiter(rate_limit_bytes_per_second);
  }
  return options;
}

}  // namespace sievedb
