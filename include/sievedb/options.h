#ifndef SIEVEDB_OPTIONS_H_
#define SIEVEDB_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "sievedb/block_cache.h"
#include "sievedb/comparator.h"
#include "sievedb/export.h"
#include "sievedb/file_system.h"
#include "sievedb/filter.h"
#include "sievedb/listener.h"
#include "sievedb/prefix_extractor.h"
#include "sievedb/rate_limiter.h"
#include "sievedb/snapshot.h"
#include "sievedb/statistics.h"
#include "sievedb/thread_pool.h"

namespace sievedb {

// How data blocks are compressed. The numbers are part of the table format.
enum class Compression : uint8_t { kNone = 0, kSnappy = 1 };

// What recovery does with a WAL that is damaged before its tail. A torn tail is
// normal after a crash and is cut in either mode.
enum class WalRecovery {
  kStrict,   // kDataLoss
  kSalvage,  // keep the records before the damage, drop it and all that follows
};

// How many sorted runs a level holds, that is what writing costs against what reading and
// space do. Level 0, of flushed tables, is the same in all.
enum class CompactionStyle : uint8_t {
  // One: what comes down is merged with what is there (O'Neil 1996). Each byte is written
  // up to level_size_multiplier times a level; fewest runs.
  kLeveled,
  // One in the last level, which has most of the data, and up to level_size_multiplier - 1
  // (16 at most) in those above, which are merged when there are more: each byte is written
  // once a level above the last (Dayan & Idreos, Dostoevsky 2018). Lookups of absent keys
  // ask more filters; scans merge more runs.
  kLazyLeveling,
  // As many in the last level too: of use where max_space_amplification is 2 or more, which
  // otherwise has all of them merged with the oldest soon.
  kTiered,
};

// A copy is kept by the DB. Defaults serve a laptop and a server unchanged.
struct SIEVEDB_EXPORT Options {
  // Names the first field whose value makes no sense, kInvalidArgument.
  absl::Status Validate() const;

  // --- opening
  bool create_if_missing = true;
  bool error_if_exists = false;
  // Whether any damage found while opening is an error. Where false, tables that
  // cannot be opened fail only the reads that need them, and a database with a
  // damaged table still opens.
  bool paranoid_checks = true;
  WalRecovery wal_recovery = WalRecovery::kStrict;

  // --- what it is made of
  const Comparator* comparator = BytewiseComparator();  // must outlive the DB
  std::shared_ptr<FileSystem> file_system;              // null: PosixFileSystem()

  // --- memory
  // Bytes of a memtable before it is flushed. Larger writes less and recovers
  // slower.
  size_t write_buffer_bytes = 64 << 20;
  // Memtables, the active one included, before writes stop.
  int max_write_buffers = 3;
  // Null: a cache of block_cache_bytes of its own.
  std::shared_ptr<BlockCache> block_cache;
  size_t block_cache_bytes = 64 << 20;
  // Tables whose file is kept open at a time; 0: no limit. Filters and indexes
  // stay in memory either way.
  int max_open_files = 512;
  // Tables are read through mappings (FileSystem::NewMappedFile): blocks that the block
  // cache has not, but the kernel has, cost no system call. The price: a disk that fails to
  // read, or a table that somebody cuts short while it is open, ends the process by
  // SIGBUS and is no error.
  bool mmap_reads = false;

  // --- tables
  size_t block_bytes = 4096;        // of a data block, before compression
  int block_restart_interval = 16;  // entries between restart points
  Compression compression = Compression::kSnappy;
  // Null: no filters.
  std::shared_ptr<const FilterPolicy> filter_policy = NewBlockedBloomPolicy(10);
  // Whether smaller levels' filters get more bits per key, and the last level's a
  // little fewer, so that lookups of absent keys read less for the same memory (Monkey,
  // 2017). False: each table has the policy's bits per key.
  bool plan_filter_memory = true;
  // Whether that plan also follows the reads: tables that lookups of absent keys often
  // come to get more bits per key, others fewer, when they are written next. A part of
  // plan_filter_memory: without it nothing is planned.
  bool access_aware_filters = true;
  // Bytes that the filters of all tables are to take together, which plan_filter_memory
  // then spreads; 0: the policy's bits per key for each key. Tables get their new share
  // when they are written next. Needs plan_filter_memory and a filter_policy.
  uint64_t filter_memory_bytes = 0;
  // Null: none. What ReadOptions::prefix_same_as_start goes by. Filters then hold each
  // table's distinct prefixes beside its keys, at as many bits each.
  std::shared_ptr<const PrefixExtractor> prefix_extractor;

  // --- compaction (level sizes follow from the last level's)
  // A database may be opened with another style than it was written with: its levels then
  // change as they are compacted.
  CompactionStyle compaction_style = CompactionStyle::kLeveled;
  // kLazyLeveling, kTiered: bytes of all levels but level 0 for each byte of the oldest run
  // of the last, which is what
  // of the keys' older values and of deleted keys the disk may hold beside the newest. It
  // holds once the others reach level_base_bytes, and is exceeded while compactions
  // are behind. Above 1; the larger, the less is written. kLeveled: it follows from
  // level_size_multiplier.
  double max_space_amplification = 1.25;
  int level0_file_trigger = 4;            // tables in level 0 that start a compaction
  int level0_slowdown_trigger = 20;       // and that slow writes down
  int level0_stop_trigger = 36;           // and that stop them
  uint64_t level_base_bytes = 256 << 20;  // the least size of the first sorted level
  double level_size_multiplier = 10;
  uint64_t target_file_bytes = 64 << 20;  // of a table that compaction writes
  // Bytes that wait for compaction before writes are slowed down, and stopped.
  uint64_t soft_pending_compaction_bytes = uint64_t{64} << 30;
  uint64_t hard_pending_compaction_bytes = uint64_t{256} << 30;
  bool disable_auto_compaction = false;

  // --- background
  // Flushes and compactions at a time. With two or more, one is kept for flushes; while
  // there are none it takes parts of a large compaction.
  int max_background_jobs = 2;
  std::shared_ptr<ThreadPool> background_pool;  // null: one of max_background_jobs threads
  std::shared_ptr<RateLimiter> rate_limiter;    // null: no limit
  // Bytes of a table or WAL written before write-back is started; 0: the kernel's
  // own rhythm.
  size_t bytes_per_writeback = 1 << 20;

  // --- watching it
  std::shared_ptr<Statistics> statistics;  // null: nothing is counted
  std::vector<std::shared_ptr<EventListener>> listeners;
};

struct ReadOptions {
  std::shared_ptr<const Snapshot> snapshot;  // null: the state at the call
  bool verify_checksums = true;              // of blocks that are read from the disk
  bool fill_cache = true;                    // whether blocks that are read enter the cache
  // kUnavailable instead of I/O.
  bool cache_only = false;
  // MultiGet: the kernel is told of all blocks of a batch that are not in the cache
  // before the first is read, so that a disk reads them at the same time. Three times
  // as fast where the data is not in memory; where the page cache has it, each block
  // costs a system call more, a sixth of the time.
  bool async_io = false;
  // Iterators: bytes read ahead of a scan; 0: grows with the scan by itself.
  size_t readahead_bytes = 0;
  // Iterators see keys in [lower_bound, upper_bound) only.
  std::optional<std::string> lower_bound;
  std::optional<std::string> upper_bound;
  // Iterators stay among the keys whose prefix (Options::prefix_extractor) is that of the
  // key that was sought, and are not Valid() beyond it, in either direction; tables and
  // memtables whose filters rule the prefix out are not looked into. SeekToFirst and
  // SeekToLast stay in the prefix of the key that they come to. A key without a prefix
  // sets no limit. kInvalidArgument where the database has no prefix_extractor.
  // (Bounds with one prefix have the filters asked in any case.)
  bool prefix_same_as_start = false;
};

struct WriteOptions {
  // Without sync a write survives the death of the process, with it that of the
  // machine.
  bool sync = false;
  // Not logged: lost unless flushed. With sync: kInvalidArgument.
  bool disable_wal = false;
  // kAborted instead of waiting for flushes and compactions.
  bool no_slowdown = false;
};

struct FlushOptions {
  bool wait = true;  // until the tables are in the MANIFEST
};

struct CompactRangeOptions {
  // Whether tables of the last level are rewritten too where nothing above them
  // needs to be merged in.
  bool rewrite_bottommost = false;
};

struct IngestOptions {
  // Whether every block of every file is read and checked first. False: a fault shows
  // when a read or a compaction comes to it.
  bool verify_checksums = true;
  // Whether a file gets a second name in the database's directory, which copies nothing,
  // where the file system can (both on one). The file must then not be changed in place
  // any more: deleting or replacing it is fine. False: it is copied.
  bool link_files = true;
};

// [begin, end) in comparator order.
struct KeyRange {
  std::string_view begin;
  std::string_view end;
};

}  // namespace sievedb

#endif  // SIEVEDB_OPTIONS_H_
