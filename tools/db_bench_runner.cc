// The run of db_bench: which workloads there are, what each begins with, and how
// its threads are started and reported.

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <latch>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/db_bench_workloads.h"
#include "tools/latency_series.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {

const DbBench::Workload DbBench::kWorkloads[] = {
    // name, start, body, printer, counts_found, one_thread, beside_writer
    {"fillseq", Start::kEmpty, &DbBench::FillSequential, nullptr, false, false, false},
    {"fillrandom", Start::kEmpty, &DbBench::FillRandom, nullptr, false, false, false},
    {"fillbatch", Start::kEmpty, &DbBench::FillBatch, nullptr, false, false, false},
    {"ingest", Start::kEmpty, &DbBench::Ingest, nullptr, false, false, false},
    {"fillsync", Start::kEmpty, &DbBench::FillSync, nullptr, false, false, false},
    {"overwrite", Start::kAsIs, &DbBench::FillRandom, nullptr, false, false, false},
    {"readrandom", Start::kAsIs, &DbBench::ReadRandom, nullptr, true, false, false},
    {"readmissing", Start::kAsIs, &DbBench::ReadMissing, nullptr, true, false, false},
    {"readhot", Start::kAsIs, &DbBench::ReadHot, nullptr, true, false, false},
    {"readseq", Start::kAsIs, &DbBench::ReadSequential, nullptr, false, false, false},
    {"readreverse", Start::kAsIs, &DbBench::ReadReverse, nullptr, false, false, false},
    {"seekrandom", Start::kAsIs, &DbBench::SeekRandom, nullptr, true, false, false},
    {"seekmissing", Start::kAsIs, &DbBench::SeekMissing, nullptr, true, false, false},
    {"multireadrandom", Start::kAsIs, &DbBench::MultiReadRandom, nullptr, true, false, false},
    {"readwhilewriting", Start::kAsIs, &DbBench::ReadRandom, nullptr, true, false, true},
    {"deleteseq", Start::kAsIs, &DbBench::DeleteSequential, nullptr, false, false, false},
    {"deleterandom", Start::kAsIs, &DbBench::DeleteRandom, nullptr, false, false, false},
    {"compact", Start::kAsIs, &DbBench::Compact, nullptr, false, true, false},
    {"flush", Start::kAsIs, &DbBench::FlushMemtable, nullptr, false, true, false},
    {"open", Start::kAsIs, &DbBench::Reopen, nullptr, false, true, false},
    {"stats", Start::kAsIs, nullptr, &DbBench::PrintStats, false, true, false},
    {"levelstats", Start::kAsIs, nullptr, &DbBench::PrintLevelStats, false, true, false},
    {"filterstats", Start::kAsIs, nullptr, &DbBench::PrintFilterStats, false, true, false},
};

const DbBench::Workload* DbBench::Find(std::string_view name) {
  const Workload* const end = std::end(kWorkloads);
  const Workload* const found =
      std::find_if(std::begin(kWorkloads), end,
                   [name](const Workload& workload) { return workload.name == name; });
  return found == end ? nullptr : found;
}

bool DbBench::Knows(std::string_view workload) { return Find(workload) != nullptr; }

DbBench::DbBench(const BenchSettings& settings)
    : settings_(settings),
      keys_(KeyGenerator::Create(settings.key_bytes, 2 * settings.num).value()),
      values_(settings.value_bytes, settings.compression_ratio, settings.seed),
      options_(settings.DbOptions()) {
  if (settings.statistics) options_.statistics = NewStatistics();
}

DbBench::~DbBench() = default;

void DbBench::Print(std::string_view text) {
  if (settings_.json) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

absl::Status DbBench::Open() {
  assert(db_ == nullptr);
  absl::StatusOr<std::unique_ptr<DB>> opened = DB::Open(options_, settings_.db);
  if (!opened.ok()) return opened.status();
  db_ = *std::move(opened);
  return absl::OkStatus();
}

absl::Status DbBench::Close() {
  if (db_ == nullptr) return absl::OkStatus();
  const absl::Status status = db_->Close();
  db_.reset();
  return status;
}

absl::Status DbBench::Empty() {
  SIEVEDB_RETURN_IF_ERROR(Close());
  const absl::Status status = DestroyDB(options_, settings_.db);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return Open();
}

absl::Status DbBench::Run() {
  // The database makes its own directory, but not the way to it.
  const std::filesystem::path parent = std::filesystem::path(settings_.db).parent_path();
  if (!parent.empty()) {
    std::error_code error;
    std::filesystem::create_directories(parent, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrFormat("cannot create %s: %s", parent.string(), error.message()));
    }
  }
  Print(BenchHeader(settings_));
  if (settings_.use_existing_db) {
    SIEVEDB_RETURN_IF_ERROR(Open());
  } else {
    SIEVEDB_RETURN_IF_ERROR(Empty());
  }
  for (const std::string& name : settings_.Workloads()) {
    const Workload* workload = Find(name);
    if (workload == nullptr) {
      return absl::InvalidArgumentError(absl::StrFormat("unknown workload %s", name));
    }
    SIEVEDB_RETURN_IF_ERROR(RunOne(*workload));
  }
  SIEVEDB_RETURN_IF_ERROR(Close());

  if (options_.statistics != nullptr) {
    Print("STATISTICS:\n" + options_.statistics->ToString() + "\n");
  }
  if (settings_.json) {
    nlohmann::json document = {{"settings", SettingsJson(settings_)}, {"workloads", reports_}};
    if (options_.statistics != nullptr) {
      nlohmann::json& counters = document["statistics"];
      for (uint32_t i = 0; i < static_cast<uint32_t>(Counter::kCount); ++i) {
        const Counter counter = static_cast<Counter>(i);
        counters[CounterName(counter)] = options_.statistics->Get(counter);
      }
    }
    const std::string text = document.dump(2) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  // A full disk or a closed pipe shows here.
  if (std::fflush(stdout) != 0) return absl::UnavailableError("cannot write to stdout");
  return absl::OkStatus();
}

absl::Status DbBench::RunOne(const Workload& workload) {
  if (workload.start == Start::kEmpty && settings_.use_existing_db) {
    Print(absl::StrFormat("%-12s : skipped (--use_existing_db is true)\n", workload.name));
    reports_.push_back({{"name", workload.name}, {"skipped", true}});
    return absl::OkStatus();
  }
  ++workloads_begun_;
  if (workload.start == Start::kEmpty) SIEVEDB_RETURN_IF_ERROR(Empty());
  if (workload.printer == nullptr) return Measure(workload);

  absl::StatusOr<std::string> text = (this->*workload.printer)();
  if (!text.ok()) return text.status();
  Print("\n" + *text + "\n");
  reports_.push_back({{"name", workload.name}, {"text", *text}});
  return absl::OkStatus();
}

// Absent keys are asked for between the first and the last that are there, where
// no table can be ruled out by its range.
absl::Status DbBench::FindPresentRange() {
  const std::unique_ptr<Iterator> iterator = db_->NewIterator(ReadOptions());
  uint64_t* const ends[] = {&first_entry_, &last_entry_};
  for (int i = 0; i < 2; ++i) {
    *ends[i] = 0;
    if (i == 0) {
      iterator->SeekToFirst();
    } else {
      iterator->SeekToLast();
    }
    SIEVEDB_RETURN_IF_ERROR(iterator->status());
    if (!iterator->Valid()) continue;
    if (iterator->key().size() != settings_.key_bytes) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s holds a key of %d bytes, not of --key_size=%d", settings_.db,
                          iterator->key().size(), settings_.key_bytes));
    }
    *ends[i] = keys_.Parse(iterator->key()) / 2;
  }
  return absl::OkStatus();
}

// For the progress bar; 0 where only time ends the workload.
uint64_t DbBench::ExpectedOperations(const Workload& workload) const {
  if (settings_.duration_seconds > 0 || workload.one_thread) return 0;
  const bool reads = workload.counts_found || workload.body == &DbBench::ReadSequential ||
                     workload.body == &DbBench::ReadReverse;
  if (reads) return settings_.Reads() * static_cast<uint64_t>(settings_.threads);
  return settings_.num;
}

absl::Status DbBench::Measure(const Workload& workload) {
  if (workload.body == &DbBench::ReadMissing) SIEVEDB_RETURN_IF_ERROR(FindPresentRange());
  const int count = workload.one_thread ? 1 : settings_.threads;
  const int all = count + (workload.beside_writer ? 1 : 0);
  std::vector<BenchThread> threads(static_cast<size_t>(all));
  std::vector<absl::Status> statuses(static_cast<size_t>(all));
  for (int i = 0; i < all; ++i) {
    BenchThread& thread = threads[static_cast<size_t>(i)];
    thread.index = i;
    thread.count = count;
    const uint64_t stream = workloads_begun_ << 32 | static_cast<uint64_t>(i);
    thread.random = BenchRandom(settings_.seed + BenchRandom::Mix(stream));
    if (settings_.histogram && i < count) thread.figures.latency.emplace();
    thread.figures.thread = i;
  }

  std::optional<LatencySeries> series;
  if (settings_.stats_interval_ms > 0) {
    series.emplace(NowNanos(), settings_.stats_interval_ms * 1'000'000, count);
    for (int i = 0; i < count; ++i) threads[static_cast<size_t>(i)].figures.series = &*series;
  }
  ProgressBar progress(workload.name, ExpectedOperations(workload));
  progress_ = &progress;
  std::latch together(all);
  std::atomic<int> running = count;
  std::vector<std::thread> workers;
  for (int i = 0; i < all; ++i) {
    workers.emplace_back([&, i] {
      BenchThread* const thread = &threads[static_cast<size_t>(i)];
      absl::Status* const status = &statuses[static_cast<size_t>(i)];
      together.arrive_and_wait();
      if (i == count) {
        *status = OverwriteUntilReadersEnd(thread, &running);
        return;
      }
      *status = (this->*workload.body)(thread);
      running.fetch_sub(1, std::memory_order_relaxed);
    });
  }
  for (std::thread& worker : workers) worker.join();
  progress.Finish();
  progress_ = nullptr;
  for (const absl::Status& status : statuses) SIEVEDB_RETURN_IF_ERROR(status);

  std::vector<ThreadFigures> figures;
  for (int i = 0; i < count; ++i) figures.push_back(threads[static_cast<size_t>(i)].figures);
  WorkloadReport report = WorkloadReport::Merge(workload.name, figures);
  report.counts_found = workload.counts_found;
  if (series.has_value()) report.series = series->Points();
  Print(report.Line() + "\n");
  if (report.latency.has_value()) {
    Print("Microseconds per op: " + report.latency->ToString() + "\n");
  }
  if (!report.series.empty()) Print(LatencySeries::ToText(report.series));
  reports_.push_back(report.ToJson());
  return absl::OkStatus();
}

}  // namespace sievedb
