#ifndef SIEVEDB_DB_H_
#define SIEVEDB_DB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sievedb/export.h"
#include "sievedb/iterator.h"
#include "sievedb/options.h"
#include "sievedb/pinned_value.h"
#include "sievedb/snapshot.h"
#include "sievedb/write_batch.h"

namespace sievedb {

struct RepairReport;  // repair.h

inline constexpr size_t kMaxKeyBytes = size_t{64} << 20;
inline constexpr size_t kMaxValueBytes = size_t{3} << 30;

// A database: an ordered map of keys to values in one directory.
//
// Errors that any call may return: kDataLoss where bytes on the disk are damaged
// (file, offset, expected and found are named); kUnavailable, kInternal or
// kUnknown for I/O (operation, path and errno's text); kResourceExhausted for a
// full disk. Writes also return kFailedPrecondition after an error in the
// background (which one is said), while reads go on.
//
// Threads: safe, but for Close and the destructor, which must come last.
class SIEVEDB_EXPORT DB {
 public:
  // Opens the database in directory path, creating it where
  // options.create_if_missing.
  //
  // Errors: kInvalidArgument for options that contradict themselves or the
  //         database, kNotFound, kAlreadyExists, kFailedPrecondition where
  //         another process (or this one) has it open.
  // Cost:   reads the MANIFEST and the WALs; tables are opened in the background
  //         or by the first read that needs them.
  static absl::StatusOr<std::unique_ptr<DB>> Open(const Options& options, const std::string& path);

  // Opens it as it is at some moment of this call, beside a live writer even, in this
  // process or another: all that was written before is there, and a prefix of what was
  // written meanwhile. It stays so: what the writer does later is not seen, and tables
  // that it deletes can be read until this one is closed, for they are all open (as many
  // file handles as tables, whatever max_open_files says; the disk space of deleted ones
  // is free when the last reader is closed). Takes no lock and writes nothing: what is in
  // WALs only is read into memory. Every write returns kFailedPrecondition.
  //
  // Errors: as Open. kDataLoss, naming the file, also where a writer went on faster than
  //         it could be read, again and again.
  static absl::StatusOr<std::unique_ptr<DB>> OpenReadOnly(const Options& options,
                                                          const std::string& path);

  virtual ~DB();

  // --- writing. kInvalidArgument for a key above 64 MiB or a value above 3 GiB.
  virtual absl::Status Put(const WriteOptions& options, std::string_view key,
                           std::string_view value) = 0;
  virtual absl::Status Delete(const WriteOptions& options, std::string_view key) = 0;

  // Deletes every key k with begin <= k < end, by one tombstone; nothing where begin and
  // end are equal. Snapshots and iterators that exist go on to see the keys, and what is
  // put later is seen.
  //
  // Errors: kInvalidArgument where begin is after end; nothing is written.
  // Cost:   O(range tombstones in the memtable), whatever is in the range. A read pays one
  //         binary search for each run with range tombstones that it comes to, an iterator
  //         jumps over what newer runs have covered. Compactions drop covered tables
  //         unread.
  virtual absl::Status DeleteRange(const WriteOptions& options, std::string_view begin,
                                   std::string_view end) = 0;

  // Applies all changes of the batch or none. The batch itself is left as it is.
  virtual absl::Status Write(const WriteOptions& options, WriteBatch* batch) = 0;

  // Adds the tables in files, which SstFileWriter wrote, to the database, all of them
  // or none, as if their entries were written now, in one batch: they are newer than
  // what was written before, and snapshots and iterators that exist do not see them.
  // Each goes to the lowest level where it is above all that it overlaps, and is not
  // rewritten. The files themselves stay as they are and are the caller's
  // (IngestOptions::link_files). On return the tables, and all that was written before
  // with a WAL, survive the death of the machine.
  //
  // Errors: kInvalidArgument for no files, files whose keys overlap (or one named twice),
  //         another comparator's, or a table that SstFileWriter did not write;
  //         kDataLoss for a file that is damaged or no table; kNotFound where there is
  //         none; kFailedPrecondition where writes are refused. Nothing is added then.
  // Cost:   opens each file, and reads all of it where options.verify_checksums; copies
  //         it where it can't be linked. Writers wait while the MANIFEST is written, and
  //         where a memtable has keys in a file's range, while it is flushed.
  virtual absl::Status IngestExternalFiles(const std::vector<std::string>& files,
                                           const IngestOptions& options) = 0;

  // --- reading. kNotFound where there is no such key.
  // Cost: an absent key costs one hash and one filter line per run, no I/O but
  //       for the filters' false positives; a present one at most one block read.
  virtual absl::Status Get(const ReadOptions& options, std::string_view key,
                           std::string* value) = 0;
  virtual absl::Status Get(const ReadOptions& options, std::string_view key,
                           PinnedValue* value) = 0;

  // All keys as of one moment. Requires: three spans of one size.
  virtual void MultiGet(const ReadOptions& options, absl::Span<const std::string_view> keys,
                        absl::Span<PinnedValue> values, absl::Span<absl::Status> statuses) = 0;

  // False is certain: no such key. Asks memtables and filters only, never the
  // disk.
  virtual bool MayContain(const ReadOptions& options, std::string_view key) = 0;

  // Never null; an error shows in status().
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;

  virtual std::shared_ptr<const Snapshot> GetSnapshot() = 0;

  // --- maintenance
  // Writes the memtable out as a table.
  virtual absl::Status Flush(const FlushOptions& options) = 0;

  // Merges all tables that overlap [*begin, *end] (null: open) down to the last
  // level that has any. Waits for it.
  virtual absl::Status CompactRange(const CompactRangeOptions& options,
                                    const std::string_view* begin, const std::string_view* end) = 0;

  // Waits until no flush or compaction is pending or running. Returns the
  // background error where there is one.
  virtual absl::Status WaitForBackgroundWork() = 0;

  // "sievedb.stats", "sievedb.levels", "sievedb.filters", "sievedb.memory",
  // "sievedb.num-files-at-level<N>", "sievedb.estimate-num-keys", … (README).
  // nullopt for a name that is not known.
  virtual std::optional<std::string> GetProperty(std::string_view name) = 0;

  // Bytes on disk of each range, to within a block; memtables don't count.
  virtual std::vector<uint64_t> GetApproximateSizes(absl::Span<const KeyRange> ranges) = 0;

  // Makes a database in dir, which must not be there, that has all that was written until
  // some moment of this call, as of that moment. Its tables are links to this one's where
  // the file system can (both on one), and copies where not; from then on the two go
  // their own ways. A crash leaves dir as a whole or not at all, and with it perhaps
  // dir.tmp, which the next call for dir takes over. On return it survives the death of
  // the machine.
  //
  // Errors: kAlreadyExists where dir is there; kNotFound where the directory that it lies
  //         in is not; kFailedPrecondition where writes are refused, the database is open
  //         read-only, or another call makes dir just now. Nothing is left then.
  // Cost:   a flush, whose last bit writers wait for; a link a table.
  virtual absl::Status CreateCheckpoint(const std::string& dir) = 0;

  // Reads every block of every table and checks it. The first fault is returned.
  virtual absl::Status VerifyChecksums() = 0;

  // The sequence number of the last change that reads see.
  virtual uint64_t LatestSequence() const = 0;

  // Ends background work, syncs the WAL, and closes all files. Idempotent.
  virtual absl::Status Close() = 0;
};

// Deletes a database and everything it wrote in its directory; other files there
// are left, and so is the directory then. kFailedPrecondition where it is open.
SIEVEDB_EXPORT absl::Status DestroyDB(const Options& options, const std::string& path);

// Puts a database right of which files are lost or damaged, so that it opens, with as much
// of its data as is left: damaged tables are left out, of WALs the records before the
// damage are kept (of each WAL: unlike with WalRecovery::kSalvage what is kept need not be
// all that was written until one moment), and where no MANIFEST can be used the tables
// are put in order by what they say themselves. What is damaged is set aside in path/lost,
// never deleted. A database that is whole is not touched. After a crash or an error in the
// middle it can be called again. report (null: not wanted) says what was done.
//
// Where a table is lost, keys that it had deleted may be back. Without a MANIFEST tables
// that were ingested are set aside: their place among the others is known no more, and to
// ingest them again makes their keys the newest.
//
// Errors: kNotFound where no file of a database is there; kFailedPrecondition where it is
//         open; kInvalidArgument for another comparator's, or a newer version's; I/O.
//         What reads see then is what it was.
// Cost:   reads all of it; without a MANIFEST, tables whose sequences interleave are
//         written again.
SIEVEDB_EXPORT absl::Status RepairDB(const Options& options, const std::string& path,
                                     RepairReport* report = nullptr);

}  // namespace sievedb

#endif  // SIEVEDB_DB_H_
