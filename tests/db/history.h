#ifndef SIEVEDB_TESTS_DB_HISTORY_H_
#define SIEVEDB_TESTS_DB_HISTORY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "sievedb/db.h"

namespace sievedb {

// The history that fault tests write: batch 1, 2, 3 …, always the same ones. Each
// ends by putting its number under one key, so that a database tells by itself how
// far it came, and all the rest of it can be checked against that.

// Small everything: a few hundred batches make flushes, compactions and new WALs.
Options SmallOptions(std::shared_ptr<FileSystem> file_system,
                     CompactionStyle style = CompactionStyle::kLeveled);

// The styles, in turn.
CompactionStyle StyleOf(uint64_t seed);

// Batch number `number`.
WriteBatch HistoryBatch(uint64_t number);

// Checks that the database is as after exactly so many batches, by a scan and by a
// lookup of each key, present or not, and that its tables are whole. Returns that
// number, of which the test is to say whether it may be so.
testing::AssertionResult ReadHistory(DB* db, uint64_t* batches);

// How far the writer came. A count is raised after the call that it tells of has
// returned.
struct HistoryProgress {
  std::atomic<uint64_t> issued{0};        // batches handed to Write
  std::atomic<uint64_t> acknowledged{0};  // of these, returned OK
  std::atomic<uint64_t> synced{0};        // of these, up to one that was synced
};

// Called instead of each step of the workload; runs it (perhaps more than once), and
// returns whether the workload goes on.
enum class StepKind { kOpen, kWrite, kMaintenance, kClose };
using HistoryStep = std::function<bool(StepKind, const std::function<absl::Status()>&)>;

inline constexpr uint64_t kHistoryBatches = 150;

// Opens a database and writes the history: some batches synced, with a flush, a
// compaction of everything, and a new opening between them. *db is what is open at
// the end, or when a step said no.
void RunHistory(const Options& options, const std::string& path, HistoryProgress* progress,
                std::unique_ptr<DB>* db, const HistoryStep& step);

// Closes db, which must be idle, and checks that its directory holds nothing that it
// does not refer to.
testing::AssertionResult CloseAndCheckDirectory(std::unique_ptr<DB> db, FileSystem* file_system,
                                                const std::string& path);

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_DB_HISTORY_H_
