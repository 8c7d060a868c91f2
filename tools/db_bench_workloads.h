#ifndef SIEVEDB_TOOLS_DB_BENCH_WORKLOADS_H_
#define SIEVEDB_TOOLS_DB_BENCH_WORKLOADS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "sievedb/db.h"
#include "tools/db_bench_report.h"
#include "tools/db_bench_settings.h"
#include "tools/key_value_generator.h"

namespace sievedb {

// One thread of a workload.
struct BenchThread {
  int index = 0;  // of those that do the same
  int count = 1;
  BenchRandom random{0};
  ThreadFigures figures;
};

// Runs workloads on one database, one after the other.
//
// Numbers make keys: 2n is the key of entry n, so that the odd ones lie between
// keys that are present. An entry's value follows from its number and the
// workload, never from the clock.
//
// Threads: not safe for concurrent use; workloads start threads of their own.
class DbBench {
 public:
  // Requires: settings.Validate() is OK.
  explicit DbBench(const BenchSettings& settings);
  ~DbBench();

  // Whether there is a workload of that name.
  static bool Knows(std::string_view workload);

  // Runs all of settings.Workloads(), printing to stdout. The first error ends
  // the run.
  absl::Status Run();

 private:
  enum class Start { kAsIs, kEmpty };
  enum class Order { kSequential, kRandom };

  using Body = absl::Status (DbBench::*)(BenchThread*);
  using Printer = absl::StatusOr<std::string> (DbBench::*)();

  struct Workload {
    std::string_view name;
    Start start;
    Body body;        // null where the workload only prints
    Printer printer;  // null where it measures
    bool counts_found;
    bool one_thread;
    bool beside_writer;  // one more thread overwrites while the others run
  };
  static const Workload kWorkloads[];
  static const Workload* Find(std::string_view name);

  // --- the run (db_bench_runner.cc)
  absl::Status Open();
  absl::Status Close();
  absl::Status Empty();
  absl::Status RunOne(const Workload& workload);
  absl::Status Measure(const Workload& workload);
  absl::Status FindPresentRange();
  uint64_t ExpectedOperations(const Workload& workload) const;
  void Print(std::string_view text);

  // --- what threads do (db_bench_workloads.cc)
  absl::Status FillSequential(BenchThread* thread);
  absl::Status FillRandom(BenchThread* thread);
  absl::Status FillBatch(BenchThread* thread);
  absl::Status Ingest(BenchThread* thread);
  absl::Status FillSync(BenchThread* thread);
  absl::Status ReadRandom(BenchThread* thread);
  absl::Status ReadMissing(BenchThread* thread);
  absl::Status ReadHot(BenchThread* thread);
  absl::Status ReadSequential(BenchThread* thread);
  absl::Status ReadReverse(BenchThread* thread);
  absl::Status SeekRandom(BenchThread* thread);
  absl::Status SeekMissing(BenchThread* thread);
  absl::Status SeekEach(BenchThread* thread, uint64_t odd);
  absl::Status MultiReadRandom(BenchThread* thread);
  absl::Status DeleteSequential(BenchThread* thread);
  absl::Status DeleteRandom(BenchThread* thread);
  absl::Status Compact(BenchThread* thread);
  absl::Status FlushMemtable(BenchThread* thread);
  absl::Status Reopen(BenchThread* thread);
  absl::StatusOr<std::string> PrintStats();
  absl::StatusOr<std::string> PrintLevelStats();
  absl::StatusOr<std::string> PrintFilterStats();

  absl::Status WriteEntries(BenchThread* thread, Order order, uint64_t entries, uint64_t batch_size,
                            bool sync);
  absl::Status DeleteEntries(BenchThread* thread, Order order);
  template <typename NextNumber>
  absl::Status GetEach(BenchThread* thread, NextNumber next_number);
  absl::Status Scan(BenchThread* thread, bool forward);
  absl::Status OverwriteUntilReadersEnd(BenchThread* thread, const std::atomic<int>* readers);
  absl::StatusOr<std::string> Property(std::string_view name);

  // The entries of all that are this thread's.
  struct Share {
    uint64_t begin;
    uint64_t end;
  };
  static Share ShareOf(const BenchThread& thread, uint64_t entries);

  const BenchSettings settings_;
  const KeyGenerator keys_;
  const ValueGenerator values_;
  Options options_;  // statistics included
  std::unique_ptr<DB> db_;
  ProgressBar* progress_ = nullptr;  // of the workload that runs
  uint64_t workloads_begun_ = 0;     // each draws other random numbers
  // Entries that lie between the first and the last key, for readmissing.
  uint64_t first_entry_ = 0;
  uint64_t last_entry_ = 0;
  nlohmann::json reports_ = nlohmann::json::array();
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_DB_BENCH_WORKLOADS_H_
