#ifndef SIEVEDB_BENCH_COMPARE_ENGINE_H_
#define SIEVEDB_BENCH_COMPARE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "sievedb/options.h"

namespace sievedb {

// The few things that all engines let one set. Whatever isn't here stays at each
// engine's default.
struct EngineSettings {
  uint64_t write_buffer_bytes = uint64_t{16} << 20;
  uint64_t level_base_bytes = uint64_t{64} << 20;  // LevelDB: 10 MiB, fixed
  uint64_t target_file_bytes = uint64_t{64} << 20;
  uint64_t block_bytes = 4096;
  uint64_t cache_bytes = uint64_t{64} << 20;
  double bloom_bits = 10;
  bool mmap_reads = false;  // LevelDB: always, up to 1000 tables
  CompactionStyle compaction_style = Options().compaction_style;  // of SieveDB
  int max_background_jobs = 2;                                    // LevelDB: 1, fixed
  int max_write_buffers = 2;                                      // LevelDB: 2, fixed
  bool disable_wal = false;                                       // EngineKind::writes_without_wal
};

enum class Found { kYes, kNo, kError };

// One thread's point reads. Values are handed over in the engine's cheapest way.
//
// Threads: not safe; each thread has its own.
class EngineReader {
 public:
  virtual ~EngineReader() = default;
  virtual Found Get(std::string_view key) = 0;
  // Bytes of the value that Get found last.
  virtual size_t value_bytes() const = 0;
  // How many of keys were found. Errors end in status().
  virtual size_t MultiGet(absl::Span<const std::string_view> keys) = 0;
  virtual absl::Status status() const = 0;  // the last error of Get or MultiGet
};

// Threads: not safe.
class EngineCursor {
 public:
  virtual ~EngineCursor() = default;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(std::string_view key) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual bool Valid() const = 0;
  // Bytes of key and value of the entry; the engine is asked for both.
  virtual size_t EntryBytes() const = 0;
  virtual absl::Status status() const = 0;
};

// Makes tables outside of a database and adds them to it as they are.
//
// Threads: not safe; each thread has its own.
class EngineLoader {
 public:
  virtual ~EngineLoader() = default;
  // Keys come in order.
  virtual absl::Status Add(std::string_view key, std::string_view value) = 0;
  // The database has everything on return.
  virtual absl::Status Finish() = 0;
};

// A database of one engine. The destructor closes it.
//
// Threads: safe, but for the destructor.
class Engine {
 public:
  using Entry = std::pair<std::string_view, std::string_view>;

  virtual ~Engine() = default;

  // Logged, unless EngineSettings::disable_wal.
  virtual absl::Status Put(std::string_view key, std::string_view value, bool sync) = 0;
  // Not synced.
  virtual absl::Status PutBatch(absl::Span<const Entry> entries) = 0;

  virtual std::unique_ptr<EngineReader> NewReader() = 0;
  virtual std::unique_ptr<EngineCursor> NewCursor() = 0;

  // Its tables begin with prefix, a path, and are deleted with it. Null: the engine has
  // no such thing (EngineKind::loads_tables).
  virtual std::unique_ptr<EngineLoader> NewLoader(const std::string& /*prefix*/) { return nullptr; }

  // Writes the memtable out. An engine without such a call does nothing: it
  // writes it when it is opened the next time.
  virtual absl::Status Flush() = 0;
  // Until no flush or compaction is pending or running.
  virtual absl::Status WaitUntilIdle() = 0;
};

// An engine that was compiled in.
struct EngineKind {
  std::string name;
  std::string version;
  // Opens the database in directory, creating it where missing.
  absl::Status (*open)(const EngineSettings& settings, const std::string& directory,
                       std::unique_ptr<Engine>* engine);
  bool loads_tables = false;
  bool writes_without_wal = false;
};

EngineKind SieveDbKind();
#ifdef SIEVEDB_HAVE_ROCKSDB
EngineKind RocksDbKind();
#endif
#ifdef SIEVEDB_HAVE_LEVELDB
EngineKind LevelDbKind();
#endif

// SieveDB first.
inline std::vector<EngineKind> CompiledEngines() {
  std::vector<EngineKind> kinds = {SieveDbKind()};
#ifdef SIEVEDB_HAVE_ROCKSDB
  kinds.push_back(RocksDbKind());
#endif
#ifdef SIEVEDB_HAVE_LEVELDB
  kinds.push_back(LevelDbKind());
#endif
  return kinds;
}

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_ENGINE_H_
