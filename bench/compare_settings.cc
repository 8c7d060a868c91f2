#include "bench/compare_settings.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/key_value_generator.h"

namespace sievedb {
namespace {

// One round of reads is long enough to measure, and ten million of them are not
// ten times as telling.
constexpr uint64_t kUsualReadsAtMost = 1'000'000;

// "fillrandom_quiesced" is the second figure of "fillrandom".
std::string BaseWorkload(const std::string& name) {
  constexpr std::string_view kSuffix = "_quiesced";
  for (const std::string_view base : {"fillrandom", "overwrite"}) {
    if (name == std::string(base) + std::string(kSuffix)) return std::string(base);
  }
  return name;
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> CompareWorkloads() {
  return {
      "fillseq",    "bulkload",  "fillsync",    "memfill",          "memread",  "memmissing",
      "fillrandom", "overwrite", "readrandom",  "readmissing",      "multiget", "multigetmissing",
      "seekrandom", "readseq",   "readreverse", "readwhilewriting", "open"};
}

void CompareSettings::Register(Flags* flags) {
  std::error_code error;
  db = std::filesystem::temp_directory_path(error).string();
  if (error) db = "/tmp";
  flags->Add("num", &num, "entries of each database", 2, std::numeric_limits<uint64_t>::max() / 4);
  flags->Add("reads", &reads,
             "reads of a round, all threads together; 0: as many as --num, a million at most");
  flags->Add("db", &db, "directory under which databases are made, and deleted at the end");
  flags->Add("engines", &engines, "engines, separated by commas; all where empty");
  flags->Add("workloads", &workloads, "workloads, separated by commas; all where empty");
  flags->Add("caches", &caches, "block caches to read with: all (everything fits), or bytes");
  flags->Add("rounds", &rounds, "times that each workload is measured", 1, 1000);
  flags->Add("compare_threads", &threads, "threads that read or write at a time", 1, 256);
  flags->Add("mmap_reads", &mmap_reads,
             "SieveDB and RocksDB read tables through mappings, as LevelDB does");
  flags->Add("series_ms", &series_ms,
             "fillrandom and overwrite: time each Put, and print the first round's latencies for "
             "each interval of so many milliseconds; 0: don't",
             0, 86'400'000);
  flags->Add("json", &json, "file that the figures are written to as JSON");
  flags->Add("key_size", &key_bytes, "bytes of a key", 1, uint64_t{1} << 20);
  flags->Add("value_size", &value_bytes, "bytes of a value", 1, uint64_t{1} << 26);
  flags->Add("compression_ratio", &compression_ratio,
             "what compression leaves of a value, as a part of it", 0.0, 1.0);
  flags->AddBytes("write_buffer_size", &write_buffer_bytes, "bytes of a memtable",
                  uint64_t{64} << 10);
  flags->AddChoice("compaction_style", &compaction_style, CompactionStyleNames(),
                   "SieveDB: how many sorted runs a level holds");
  flags->Add("batch_size", &batch_size, "keys of one multiget", 1, 100'000);
  flags->Add("write_rate", &write_rate,
             "puts a second that readwhilewriting reads beside; 0: as many as the engine takes");
  flags->Add("open_tables", &open_tables, "tables of the database that open opens", 1, 100'000);
  flags->Add("seed", &seed, "where random keys begin");
}

absl::Status CompareSettings::Validate() const {
  std::vector<std::string> compiled;
  for (const EngineKind& kind : CompiledEngines()) compiled.push_back(kind.name);
  for (const std::string& name : SplitList(engines)) {
    if (!Contains(compiled, name)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "--engines: \"%s\" is not one that was compiled in: %s", name, Names(compiled)));
    }
  }
  const std::vector<std::string> known = CompareWorkloads();
  for (const std::string& name : SplitList(workloads)) {
    if (!Contains(known, BaseWorkload(name))) {
      return absl::InvalidArgumentError(
          absl::StrFormat("--workloads: \"%s\" is not one of %s", name, Names(known)));
    }
  }
  if (SplitList(caches).empty()) return absl::InvalidArgumentError("--caches is empty");
  for (const std::string& text : SplitList(caches)) {
    const absl::StatusOr<CacheSetting> cache = ParseCache(text);
    if (!cache.ok()) return cache.status();
  }
  return KeyGenerator::Create(key_bytes, 2 * num).status();
}

absl::StatusOr<CacheSetting> CompareSettings::ParseCache(const std::string& text) const {
  CacheSetting cache;
  cache.name = text;
  if (text == "all") {
    cache.holds_all = true;
    // Twice what there is: caches are made of parts, which fill unevenly.
    cache.bytes = 2 * num * EntryBytes() + (uint64_t{64} << 20);
    return cache;
  }
  const std::optional<uint64_t> bytes = ParseBytes(text);
  if (!bytes.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--caches: \"%s\" is neither all nor a number of bytes", text));
  }
  cache.bytes = *bytes;
  return cache;
}

std::vector<EngineKind> CompareSettings::Engines() const {
  const std::vector<std::string> wanted = SplitList(engines);
  std::vector<EngineKind> kinds;
  for (EngineKind& kind : CompiledEngines()) {
    if (wanted.empty() || Contains(wanted, kind.name)) kinds.push_back(std::move(kind));
  }
  return kinds;
}

std::vector<CacheSetting> CompareSettings::Caches() const {
  std::vector<CacheSetting> settings;
  for (const std::string& text : SplitList(caches)) settings.push_back(ParseCache(text).value());
  return settings;
}

bool CompareSettings::Runs(std::string_view workload) const {
  const std::vector<std::string> wanted = SplitList(workloads);
  return wanted.empty() ||
         std::any_of(wanted.begin(), wanted.end(), [workload](const std::string& name) {
           return BaseWorkload(name) == workload;
         });
}

uint64_t CompareSettings::Reads() const {
  return reads == 0 ? std::min(num, kUsualReadsAtMost) : reads;
}

EngineSettings CompareSettings::ForEngine(uint64_t cache_bytes) const {
  EngineSettings settings;
  settings.write_buffer_bytes = write_buffer_bytes;
  settings.compaction_style = CompactionStyleOf(compaction_style).value();
  settings.cache_bytes = cache_bytes;
  settings.mmap_reads = mmap_reads;
  return settings;
}

nlohmann::json CompareSettings::ToJson() const {
  const EngineSettings engine = ForEngine(0);
  nlohmann::json versions;
  for (const EngineKind& kind : Engines()) versions[kind.name] = kind.version;
  return {{"num", num},
          {"reads", Reads()},
          {"rounds", rounds},
          {"threads", threads},
          {"key_bytes", key_bytes},
          {"value_bytes", value_bytes},
          {"compression", "snappy"},
          {"compression_ratio", compression_ratio},
          {"write_buffer_bytes", engine.write_buffer_bytes},
          {"max_write_buffers", engine.max_write_buffers},
          {"level_base_bytes", engine.level_base_bytes},
          {"target_file_bytes", engine.target_file_bytes},
          {"compaction_style", compaction_style},
          {"block_bytes", engine.block_bytes},
          {"bloom_bits_per_key", engine.bloom_bits},
          {"mmap_reads", engine.mmap_reads},
          {"max_background_jobs", engine.max_background_jobs},
          {"wal", true},
          {"sync", false},
          {"multiget_keys", batch_size},
          {"readwhilewriting_puts_per_s", write_rate},
          {"seed", seed},
          {"versions", versions}};
}

}  // namespace sievedb
