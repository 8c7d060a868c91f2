#include "db/table_opener.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "util/block_cache_impl.h"
#include "util/statistics_impl.h"
#include "util/status_macros.h"

namespace sievedb {

TableOpener::TableOpener(const Options& options, std::string db_path)
    : options_(options),
      db_path_(std::move(db_path)),
      limiter_(options.file_system, options.max_open_files, options.mmap_reads) {}

absl::StatusOr<const TableReader*> TableOpener::Open(const FileMeta& file) {
  MutexLock lock(&mutexes_[file.number % mutexes_.size()]);
  // Another thread may have opened it meanwhile. Relaxed: it stored it under the lock.
  if (const TableReader* table = file.table.load(std::memory_order_relaxed); table != nullptr) {
    return table;
  }
  TableReaderOptions options;
  options.order = InternalKeyOrder(options_.comparator);
  options.filter_policy = options_.filter_policy.get();
  options.prefix_extractor = options_.prefix_extractor.get();
  // The implementations behind these interfaces are the only ones there are.
  options.block_cache = static_cast<BlockCacheImpl*>(options_.block_cache.get());
  options.statistics = static_cast<StatisticsImpl*>(options_.statistics.get());
  options.path = TableFileName(db_path_, file.number);
  options.file_number = file.checksum_number();
  options.global_sequence = file.global_sequence();
  options.file_bytes = file.file_bytes;
  options.tail_bytes = file.tail_bytes;
  options.hash_seed = hash_seed_;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> opened = limiter_.Open(options.path);
  if (!opened.ok()) {
    // To a reader kNotFound would mean that there is no such key.
    if (!absl::IsNotFound(opened.status())) return std::move(opened).status();
    return absl::DataLossError(
        absl::StrFormat("%s: a table of the database is missing", options.path));
  }
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t file_bytes, options_.file_system->FileSize(options.path));
  if (file_bytes != file.file_bytes) {
    return absl::DataLossError(absl::StrFormat("%s: expected a table of %d bytes, found %d",
                                               options.path, file.file_bytes, file_bytes));
  }
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table,
                           TableReader::Open(options, *std::move(opened)));
  Count(options.statistics, Counter::kTablesOpened);
  // Release: who acquires the pointer sees what it points to.
  file.table.store(table.get(), std::memory_order_release);
  return table.release();
}

}  // namespace sievedb
