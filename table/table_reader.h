#ifndef SIEVEDB_TABLE_TABLE_READER_H_
#define SIEVEDB_TABLE_TABLE_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/file_system.h"
#include "sievedb/options.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"
#include "table/lookup.h"
#include "table/prefix_hash.h"
#include "table/range_tombstones.h"
#include "table/table_properties.h"
#include "util/blocked_bloom.h"
#include "util/dense_bloom.h"

namespace sievedb {

struct TableReaderOptions {
  InternalKeyOrder order{BytewiseComparator()};
  const FilterPolicy* filter_policy = nullptr;  // for kinds that are not built in
  // Null, or another than the table was written with: its filter is not asked for prefixes.
  const PrefixExtractor* prefix_extractor = nullptr;
  BlockCacheImpl* block_cache = nullptr;  // null: blocks are read each time
  StatisticsImpl* statistics = nullptr;
  std::string path;          // for messages
  uint64_t file_number = 0;  // seeds the checksums; kAnyFileNumber: take the footer's
  uint64_t file_bytes = 0;
  uint64_t tail_bytes = 0;  // 0: unknown, costs a second read
  // What lookups are hashed with: that of the database. The table may have another.
  uint64_t hash_seed = 0;
  // Not 0: that of all entries, whatever sequence they have in the file. The table must
  // be one of SstFileWriter's.
  uint64_t global_sequence = 0;
};
inline constexpr uint64_t kAnyFileNumber = ~uint64_t{0};

struct TableParts;

// What sst_dump shows of a table's blocks.
struct BlockDescription {
  uint64_t offset = 0;
  uint64_t stored_bytes = 0;  // without trailer
  uint64_t raw_bytes = 0;
  uint32_t entries = 0;
  Compression compression = Compression::kNone;
};

// An open table: owns its file, its filter and its decoded index, which stay in
// memory as long as it does.
//
// Threads: safe.
class TableReader {
 public:
  // Errors: kDataLoss where the footer, index or properties are damaged (a
  // damaged filter is not an error: filter() is null then, filter_status() says
  // why), kInvalidArgument where the comparator's name is another's.
  static absl::StatusOr<std::unique_ptr<TableReader>> Open(const TableReaderOptions& options,
                                                           std::unique_ptr<RandomAccessFile> file);
  ~TableReader();

  // What the options' global_sequence is. Requires: nobody else knows the table yet.
  void SetGlobalSequence(uint64_t sequence) { global_sequence_ = sequence; }

  // What Lookup::hash is with this table's seed.
  uint64_t HashOf(const Lookup& lookup) const {
    return foreign_seed_ ? lookup.HashWith(hash_seed_) : lookup.hash;
  }
  uint64_t HashOf(std::string_view user_key) const { return Hash64(user_key, hash_seed_); }

  // --- the filter, asked before anything else. A table without one says maybe.
  // hash: of HashOf.
  bool MayContain(uint64_t hash) const {
    if (bloom_blocks_ != nullptr) [[likely]] {
      return bloom_dense_
                 ? DenseBlockedBloom::MayContain(bloom_blocks_, bloom_num_blocks_, bloom_probes_,
                                                 hash)
                 : BlockedBloom::MayContain(bloom_blocks_, bloom_num_blocks_, bloom_probes_, hash);
    }
    return filter_ == nullptr || filter_->MayContain(hash);
  }
  void PrefetchFilter(uint64_t hash) const {
    if (bloom_blocks_ != nullptr) [[likely]] {
      BlockedBloom::Prefetch(bloom_blocks_, bloom_num_blocks_, hash);
    } else if (filter_ != nullptr) {
      filter_->Prefetch(hash);
    }
  }
  // The same for all keys with a prefix, whose PrefixHash with the lookups' seed is hash.
  // A table that does not know prefixes says maybe.
  bool knows_prefixes() const { return knows_prefixes_; }
  bool MayContainPrefix(std::string_view prefix, uint64_t hash) const {
    return !knows_prefixes_ || MayContain(foreign_seed_ ? PrefixHash(prefix, hash_seed_) : hash);
  }
  void PrefetchPrefix(std::string_view prefix, uint64_t hash) const {
    if (!knows_prefixes_) return;
    PrefetchFilter(foreign_seed_ ? PrefixHash(prefix, hash_seed_) : hash);
  }
  const FilterReader* filter() const { return filter_; }  // null: there is none, or it is damaged
  absl::Status filter_status() const;
  // The filter block's bytes as loaded; empty where there is none.
  std::string_view filter_bytes() const;
  uint8_t filter_kind() const;
  // Reads the filter again and compares. Requires: there is one.
  // Errors: kDataLoss where the one in memory is not what the file has, or the file's
  // is damaged; I/O.
  absl::Status CompareFilterWithFile() const;

  // Null: it has none. The filter knows nothing of them.
  const RangeTombstones* range_tombstones() const { return range_tombstones_; }

  // How far a lookup that is to come has been prepared.
  struct Preparation {
    int steps = 0;  // taken
    bool done = false;
    bool found = false;
    size_t block = 0;  // where found
  };
  // Starts loading what Get will read next and does not wait for it, so that with
  // other lookups prepared in between their cache misses overlap. False where nothing
  // is left to do. Requires: an EpochGuard until Get.
  bool Prepare(const Lookup& lookup, Preparation* preparation) const;

  // Searches the newest entry that lookup sees and, where there is one, decides
  // lookup: as deleted where a range tombstone that lookup has met, here or before,
  // hides it. Does not ask the filter. Requires: an EpochGuard, which also protects
  // lookup->pin.
  // Errors: kDataLoss, I/O; kUnavailable where options.cache_only forbids it.
  // preparation: of this lookup, where there is one.
  absl::Status Get(Lookup* lookup, const Preparation* preparation = nullptr) const;

  // The table must outlive the iterator. for_compaction: reads large pieces ahead
  // and leaves the block cache alone.
  std::unique_ptr<InternalIterator> NewIterator(const ReadOptions& options,
                                                bool for_compaction = false) const;

  // Bytes of the file before internal_key, to within a block.
  uint64_t ApproximateOffsetOf(std::string_view internal_key) const;

  // User keys, ascending, that part the data into pieces of about step_bytes.
  // Requires: step_bytes > 0. Cost: no I/O.
  std::vector<std::string> Anchors(uint64_t step_bytes) const;

  // Reads every block, checks its checksum, its structure and the order of its
  // keys, and the properties against what was read. The first fault is returned.
  absl::Status Verify() const;

  // Calls fn for each data block in order until it returns false.
  absl::Status ForEachBlock(const std::function<bool(const BlockDescription&)>& fn) const;

  const TableProperties& properties() const;
  uint64_t file_number() const;  // in the footer
  uint64_t tail_bytes() const;
  size_t MemoryBytes() const;  // index, filter and bookkeeping
  size_t FilterMemoryBytes() const;
  // What was added to its filter; without one, what would have been but for prefixes.
  uint64_t FilterKeys() const;
  size_t IndexMemoryBytes() const;

 private:
  bool PrepareStep(const Lookup& lookup, int step, Preparation* preparation) const;

  TableReader(std::unique_ptr<TableParts> parts, const TableReaderOptions& options);

  // The filter, where it is a blocked Bloom filter, without a pointer to follow: a
  // lookup asks many tables, each for the first time in a while.
  const char* bloom_blocks_ = nullptr;  // null: another kind, or none
  uint64_t bloom_num_blocks_ = 0;
  int bloom_probes_ = 0;
  bool bloom_dense_ = false;
  bool foreign_seed_ = false;  // lookups come hashed with another seed than hash_seed_
  bool knows_prefixes_ = false;
  const RangeTombstones* range_tombstones_ = nullptr;
  const FilterReader* filter_ = nullptr;
  const uint64_t hash_seed_;
  uint64_t global_sequence_;  // 0: entries have their own
  const std::unique_ptr<TableParts> parts_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_TABLE_READER_H_
