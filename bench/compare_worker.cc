#include "bench/compare_worker.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "bench/compare_process.h"
#include "bench/compare_syncs.h"
#include "util/clock.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// One operation in so many is timed: two looks at the clock would otherwise be a
// good part of what a read of a cached key takes.
constexpr uint64_t kOperationsPerSample = 16;
constexpr uint64_t kLoadBatch = 100;
constexpr int kNextsPerSeek = 10;
// "open" builds its tables by filling memtables of this size in key order.
constexpr uint64_t kSmallTableBytes = uint64_t{256} << 10;
constexpr uint64_t kTablesPerLook = 8;
// Where an engine merges its tables after all, there is an end to it.
constexpr uint64_t kBuffersPerTableAtMost = 8;
constexpr int kOpensPerRound = 10;
// readwhilewriting's writer puts its share of a second in so many pieces.
constexpr uint64_t kBurstsPerSecond = 200;
// A Put that waits for the disk takes about a thousand times as long.
constexpr uint64_t kEntriesPerSync = 1000;
// What an entry may take of a memtable beyond its bytes, in any engine.
constexpr uint64_t kMemtableOverheadBytes = 256;
constexpr uint64_t kMemtableSlackBytes = uint64_t{64} << 20;

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }

// Calls operation(), which says whether it went well, count times.
template <typename Operation>
void Repeat(uint64_t count, Histogram* latency, Operation operation) {
  for (uint64_t i = 0; i < count; ++i) {
    if (i % kOperationsPerSample != 0) {
      if (!operation()) return;
      continue;
    }
    const uint64_t start = NowNanos();
    const bool ok = operation();
    latency->Add(NowNanos() - start);
    if (!ok) return;
  }
}

// Times every operation: of stalls, a sample would miss most.
template <typename Operation>
void RepeatInSeries(uint64_t count, LatencySeries::Recorder* recorder, Histogram* latency,
                    Operation operation) {
  uint64_t start = NowNanos();
  for (uint64_t i = 0; i < count; ++i) {
    const bool ok = operation();
    const uint64_t now = NowNanos();
    latency->Add(now - start);
    recorder->Add(now, now - start, 1);
    if (!ok) return;
    start = now;
  }
}

absl::Status WrongAnswer(std::string_view what, std::string_view key) {
  return absl::InternalError(absl::StrFormat("wrong answer: %s, key %s", what, key));
}

}  // namespace

CompareWorker::CompareWorker(const EngineKind& kind, const CompareSettings& settings)
    : kind_(kind),
      settings_(settings),
      keys_(KeyGenerator::Create(settings.key_bytes, 2 * settings.num).value()),
      values_(settings.value_bytes, settings.compression_ratio, settings.seed) {}

CompareWorker::~CompareWorker() = default;

absl::StatusOr<nlohmann::json> CompareWorker::Do(const nlohmann::json& command) {
  const std::string what = command.value("do", "");
  if (what == "open") {
    SIEVEDB_RETURN_IF_ERROR(Open(command));
  } else if (what == "close") {
    engine_.reset();
  } else if (what == "warm") {
    SIEVEDB_RETURN_IF_ERROR(Warm());
  } else if (what == "load") {
    return Load();
  } else if (what == "load_tables") {
    return LoadTables();
  } else if (what == "run") {
    return Run(command.value("workload", ""), command.value("round", uint64_t{0}));
  } else {
    return absl::InternalError(absl::StrFormat("unknown command %s", command.dump()));
  }
  return nlohmann::json::object();
}

absl::Status CompareWorker::Open(const nlohmann::json& command) {
  directory_ = command.value("directory", "");
  engine_settings_ = settings_.ForEngine(command.value("cache_bytes", uint64_t{0}));
  if (command.value("small_tables", false)) {
    engine_settings_.write_buffer_bytes = kSmallTableBytes;
    engine_settings_.target_file_bytes = kSmallTableBytes;
  }
  if (command.value("one_memtable", false)) {
    engine_settings_.disable_wal = true;
    engine_settings_.write_buffer_bytes =
        settings_.num * (settings_.EntryBytes() + kMemtableOverheadBytes) + kMemtableSlackBytes;
  }
  return Reopen();
}

absl::Status CompareWorker::Reopen() {
  engine_.reset();
  SIEVEDB_RETURN_IF_ERROR(kind_.open(engine_settings_, directory_, &engine_));
  // What was in the log may be flushed and compacted now.
  return engine_->WaitUntilIdle();
}

absl::StatusOr<nlohmann::json> CompareWorker::Load() {
  const std::optional<uint64_t> written_before = WrittenBytes();
  const Permutation order(settings_.num, settings_.seed);
  std::vector<std::string> keys(kLoadBatch);
  std::vector<Engine::Entry> entries;
  for (uint64_t next = 0; next < settings_.num;) {
    entries.clear();
    for (uint64_t i = 0; i < kLoadBatch && next < settings_.num; ++i, ++next) {
      const uint64_t entry = order(next);
      keys_.Format(2 * entry, &keys[i]);
      entries.emplace_back(keys[i], values_.ValueOf(entry));
    }
    SIEVEDB_RETURN_IF_ERROR(engine_->PutBatch(entries));
  }
  SIEVEDB_RETURN_IF_ERROR(engine_->Flush());
  SIEVEDB_RETURN_IF_ERROR(engine_->WaitUntilIdle());
  const double live_bytes = static_cast<double>(settings_.num * settings_.EntryBytes());
  const DirectoryFigures directory = MeasureDirectory(directory_);
  nlohmann::json figures = {
      {"space_amp", static_cast<double>(directory.allocated_bytes) / live_bytes},
      {"tables", directory.tables}};
  if (const std::optional<uint64_t> written = WrittenBytes(); written && written_before) {
    figures["write_amp"] = static_cast<double>(*written - *written_before) / live_bytes;
  }
  return figures;
}

// The entries that "open" makes its tables of: --num doesn't bound them.
uint64_t CompareWorker::TableEntriesAtMost() const {
  return kBuffersPerTableAtMost * settings_.open_tables *
         (kSmallTableBytes / settings_.EntryBytes() + 1);
}

absl::StatusOr<nlohmann::json> CompareWorker::LoadTables() {
  SIEVEDB_ASSIGN_OR_RETURN(const KeyGenerator keys,
                           KeyGenerator::Create(settings_.key_bytes, 2 * TableEntriesAtMost()));
  // Each memtable becomes a table, and tables whose ranges don't overlap are
  // moved down as they are. How many entries fill a memtable is each engine's
  // own, so tables are counted as they come.
  const uint64_t entries_per_look =
      std::max<uint64_t>(1, kSmallTableBytes * kTablesPerLook / settings_.EntryBytes());
  std::string key;
  for (uint64_t next = 0; next < TableEntriesAtMost();) {
    for (uint64_t i = 0; i < entries_per_look; ++i, ++next) {
      keys.Format(2 * next, &key);
      SIEVEDB_RETURN_IF_ERROR(engine_->Put(key, values_.ValueOf(next), false));
    }
    SIEVEDB_RETURN_IF_ERROR(engine_->WaitUntilIdle());
    if (MeasureDirectory(directory_).tables >= settings_.open_tables) break;
  }
  SIEVEDB_RETURN_IF_ERROR(engine_->Flush());
  SIEVEDB_RETURN_IF_ERROR(engine_->WaitUntilIdle());
  // What is still in the log becomes a table at the next opening: now, rather
  // than within a measurement.
  SIEVEDB_RETURN_IF_ERROR(Reopen());
  return nlohmann::json{{"tables", MeasureDirectory(directory_).tables}};
}

absl::Status CompareWorker::Warm() {
  const std::unique_ptr<EngineCursor> cursor = engine_->NewCursor();
  uint64_t entries = 0;
  for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next()) ++entries;
  SIEVEDB_RETURN_IF_ERROR(cursor->status());
  if (entries != settings_.num) {
    return absl::InternalError(
        absl::StrFormat("wrong answer: a scan of %d entries sees %d", settings_.num, entries));
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> CompareWorker::Run(std::string_view workload, uint64_t round) {
  const bool writes = workload == "fillseq" || workload == "bulkload" || workload == "memfill" ||
                      workload == "fillrandom" || workload == "overwrite";
  ResetPeakMemory();
  const std::optional<uint64_t> written_before = WrittenBytes();
  absl::StatusOr<Figures> result;
  if (workload == "bulkload") {
    result = BulkLoad(round);
  } else if (workload == "fillsync") {
    result = WriteSynced(round);
  } else if (writes) {
    result = Write(workload, round);
  } else if (workload == "readwhilewriting") {
    result = ReadWhileWriting(round);
  } else if (workload == "open") {
    result = OpenRepeatedly(round);
  } else {
    result = Read(workload, round);
  }
  if (!result.ok()) return result.status();

  const double operations = static_cast<double>(result->operations);
  nlohmann::json figures = {
      {"ops_per_s", operations / result->seconds}, {"p50_ns", result->latency.Percentile(50)},
      {"p99_ns", result->latency.Percentile(99)},  {"p999_ns", result->latency.Percentile(99.9)},
      {"max_ns", result->latency.Max()},           {"peak_rss_bytes", PeakMemoryBytes()}};
  if (result->syncs_per_put.has_value()) figures["syncs_per_put"] = *result->syncs_per_put;
  if (!result->series.empty()) figures["series"] = LatencySeries::ToJson(result->series);
  if (writes) {
    const double put_bytes = operations * static_cast<double>(settings_.EntryBytes());
    const double live_bytes = static_cast<double>(settings_.num * settings_.EntryBytes());
    figures["quiesced_ops_per_s"] = operations / result->quiesced_seconds;
    figures["space_amp"] =
        static_cast<double>(MeasureDirectory(directory_).allocated_bytes) / live_bytes;
    if (const std::optional<uint64_t> written = WrittenBytes(); written && written_before) {
      figures["write_amp"] = static_cast<double>(*written - *written_before) / put_bytes;
    }
  }
  return figures;
}

// Runs body in --compare_threads threads that begin together.
absl::StatusOr<CompareWorker::Figures> CompareWorker::RunThreads(uint64_t operations,
                                                                 uint64_t stream,
                                                                 const Body& body) {
  const uint64_t count = static_cast<uint64_t>(settings_.threads);
  std::vector<Part> parts(count);
  for (uint64_t i = 0; i < count; ++i) {
    parts[i].begin = operations * i / count;
    parts[i].end = operations * (i + 1) / count;
    parts[i].index = static_cast<int>(i);
    parts[i].random = BenchRandom(settings_.seed + BenchRandom::Mix(stream << 16 | i));
  }
  std::latch together(settings_.threads + 1);
  std::vector<std::thread> threads;
  for (Part& part : parts) {
    threads.emplace_back([&together, &body, &part] {
      together.arrive_and_wait();
      body(&part);
    });
  }
  together.arrive_and_wait();
  const uint64_t start = NowNanos();
  for (std::thread& thread : threads) thread.join();

  Figures figures;
  figures.operations = operations;
  figures.seconds = Seconds(NowNanos() - start);
  for (const Part& part : parts) {
    SIEVEDB_RETURN_IF_ERROR(part.status);
    figures.latency.Merge(part.latency);
  }
  return figures;
}

absl::StatusOr<CompareWorker::Figures> CompareWorker::Write(std::string_view workload,
                                                            uint64_t round) {
  const bool sequential = workload == "fillseq";
  const Permutation order(settings_.num, settings_.seed + 1 + round);
  // An overwrite changes values.
  const uint64_t value_base = workload == "overwrite" ? (round + 1) << 48 : 0;
  const uint64_t start = NowNanos();
  std::optional<LatencySeries> series;
  if (settings_.series_ms > 0 && (workload == "fillrandom" || workload == "overwrite")) {
    series.emplace(start, settings_.series_ms * 1'000'000, settings_.threads);
  }
  absl::StatusOr<Figures> figures = RunThreads(settings_.num, round, [&](Part* part) {
    std::string key;
    uint64_t next = part->begin;
    const uint64_t count = part->end - part->begin;
    const auto put = [&] {
      const uint64_t entry = sequential ? next : order(next);
      ++next;
      keys_.Format(2 * entry, &key);
      part->status = engine_->Put(key, values_.ValueOf(value_base + entry), /*sync=*/false);
      return part->status.ok();
    };
    if (!series.has_value()) {
      Repeat(count, &part->latency, put);
    } else {
      LatencySeries::Recorder recorder(&*series, part->index);
      RepeatInSeries(count, &recorder, &part->latency, put);
    }
  });
  if (!figures.ok()) return figures.status();
  SIEVEDB_RETURN_IF_ERROR(engine_->WaitUntilIdle());
  figures->quiesced_seconds = Seconds(NowNanos() - start);
  if (series.has_value()) figures->series = series->Points();
  return figures;
}

absl::StatusOr<CompareWorker::Figures> CompareWorker::WriteSynced(uint64_t round) {
  const uint64_t puts = std::max<uint64_t>(settings_.num / kEntriesPerSync, 1);
  const uint64_t syncs_before = SyncCalls();
  absl::StatusOr<Figures> figures = RunThreads(puts, round, [&](Part* part) {
    std::string key;
    Repeat(part->end - part->begin, &part->latency, [&] {
      const uint64_t entry = part->random.Uniform(settings_.num);
      keys_.Format(2 * entry, &key);
      part->status = engine_->Put(key, values_.ValueOf(entry), /*sync=*/true);
      return part->status.ok();
    });
  });
  if (!figures.ok()) return figures.status();
  figures->syncs_per_put =
      static_cast<double>(SyncCalls() - syncs_before) / static_cast<double>(puts);
  return figures;
}

// Each thread makes the tables of its stretch of keys, and adds them.
absl::StatusOr<CompareWorker::Figures> CompareWorker::BulkLoad(uint64_t round) {
  const uint64_t start = NowNanos();
  absl::StatusOr<Figures> figures = RunThreads(settings_.num, round, [&](Part* part) {
    // Beside the database's directory, which is measured, and on its disk.
    const std::unique_ptr<EngineLoader> loader =
        engine_->NewLoader(absl::StrFormat("%s-load%d-", directory_, part->begin));
    if (loader == nullptr) {
      part->status = absl::InternalError("this engine loads no tables");
      return;
    }
    std::string key;
    uint64_t next = part->begin;
    Repeat(part->end - part->begin, &part->latency, [&] {
      keys_.Format(2 * next, &key);
      part->status = loader->Add(key, values_.ValueOf(next));
      ++next;
      return part->status.ok();
    });
    if (part->status.ok()) part->status = loader->Finish();
  });
  if (!figures.ok()) return figures.status();
  SIEVEDB_RETURN_IF_ERROR(engine_->WaitUntilIdle());
  figures->quiesced_seconds = Seconds(NowNanos() - start);
  SIEVEDB_RETURN_IF_ERROR(Warm());  // which counts the entries
  return figures;
}

absl::StatusOr<CompareWorker::Figures> CompareWorker::Read(std::string_view workload,
                                                           uint64_t round) {
  Body body;
  if (workload == "readrandom" || workload == "memread") {
    body = [this](Part* part) { GetRandom(part, true); };
  } else if (workload == "readmissing" || workload == "memmissing") {
    body = [this](Part* part) { GetRandom(part, false); };
  } else if (workload == "multiget") {
    body = [this](Part* part) { MultiGetRandom(part, true); };
  } else if (workload == "multigetmissing") {
    body = [this](Part* part) { MultiGetRandom(part, false); };
  } else if (workload == "seekrandom") {
    body = [this](Part* part) { SeekRandom(part); };
  } else if (workload == "readseq") {
    body = [this](Part* part) { Scan(part, true); };
  } else if (workload == "readreverse") {
    body = [this](Part* part) { Scan(part, false); };
  } else {
    return absl::InternalError(absl::StrFormat("unknown workload %s", workload));
  }
  return RunThreads(settings_.Reads(), 1000 + round, body);
}

void CompareWorker::GetRandom(Part* part, bool present) {
  const std::unique_ptr<EngineReader> reader = engine_->NewReader();
  // An absent key lies between two present ones: none behind the last.
  const uint64_t limit = present ? settings_.num : settings_.num - 1;
  const Found right = present ? Found::kYes : Found::kNo;
  std::string key;
  Repeat(part->end - part->begin, &part->latency, [&] {
    keys_.Format(2 * part->random.Uniform(limit) + (present ? 0 : 1), &key);
    const Found found = reader->Get(key);
    if (found == right && (!present || reader->value_bytes() == settings_.value_bytes)) return true;
    part->status = found == Found::kError
                       ? reader->status()
                       : WrongAnswer(present ? "not found" : "found, though absent", key);
    return false;
  });
}

void CompareWorker::MultiGetRandom(Part* part, bool present) {
  const std::unique_ptr<EngineReader> reader = engine_->NewReader();
  std::vector<std::string> keys(settings_.batch_size);
  std::vector<std::string_view> views(settings_.batch_size);
  const uint64_t limit = present ? settings_.num : settings_.num - 1;
  uint64_t left = part->end - part->begin;
  const uint64_t calls = (left + settings_.batch_size - 1) / settings_.batch_size;
  Repeat(calls, &part->latency, [&] {
    const uint64_t count = std::min(left, settings_.batch_size);
    left -= count;
    for (uint64_t i = 0; i < count; ++i) {
      keys_.Format(2 * part->random.Uniform(limit) + (present ? 0 : 1), &keys[i]);
      views[i] = keys[i];
    }
    const uint64_t right = present ? count : 0;
    if (reader->MultiGet(absl::MakeConstSpan(views).first(count)) == right &&
        reader->status().ok()) {
      return true;
    }
    part->status =
        reader->status().ok()
            ? WrongAnswer(present ? "not all found" : "some found, though absent", keys[0])
            : reader->status();
    return false;
  });
}

void CompareWorker::SeekRandom(Part* part) {
  std::string key;
  Repeat(part->end - part->begin, &part->latency, [&] {
    const uint64_t entry = part->random.Uniform(settings_.num);
    keys_.Format(2 * entry, &key);
    const std::unique_ptr<EngineCursor> cursor = engine_->NewCursor();
    cursor->Seek(key);
    uint64_t bytes = 0;
    for (int i = 0; i < kNextsPerSeek && cursor->Valid(); ++i) {
      bytes += cursor->EntryBytes();
      cursor->Next();
    }
    const uint64_t entries = std::min<uint64_t>(kNextsPerSeek, settings_.num - entry);
    if (bytes == entries * settings_.EntryBytes() && cursor->status().ok()) return true;
    part->status =
        cursor->status().ok() ? WrongAnswer("entries are missing", key) : cursor->status();
    return false;
  });
}

void CompareWorker::Scan(Part* part, bool forward) {
  const std::unique_ptr<EngineCursor> cursor = engine_->NewCursor();
  uint64_t bytes = 0;
  const auto rewind = [&] {
    if (forward) {
      cursor->SeekToFirst();
    } else {
      cursor->SeekToLast();
    }
  };
  rewind();
  Repeat(part->end - part->begin, &part->latency, [&] {
    if (!cursor->Valid()) {
      rewind();
      if (!cursor->Valid()) return false;
    }
    bytes += cursor->EntryBytes();
    if (forward) {
      cursor->Next();
    } else {
      cursor->Prev();
    }
    return true;
  });
  part->status = cursor->status();
  if (part->status.ok() && bytes != (part->end - part->begin) * settings_.EntryBytes()) {
    part->status = absl::InternalError("wrong answer: a scan ended too soon");
  }
}

// One more thread writes at --write_rate, the same for every engine: one that
// writes faster must not be punished by reading beside more writes.
absl::StatusOr<CompareWorker::Figures> CompareWorker::ReadWhileWriting(uint64_t round) {
  std::atomic<bool> stop = false;  // relaxed: the writer may see it a little late
  absl::Status write_status;
  std::thread writer([&] {
    BenchRandom random(settings_.seed + BenchRandom::Mix(~round));
    const uint64_t burst = settings_.write_rate == 0
                               ? kBurstsPerSecond
                               : std::max<uint64_t>(1, settings_.write_rate / kBurstsPerSecond);
    const uint64_t start = NowNanos();
    std::string key;
    for (uint64_t written = 0; write_status.ok() && !stop.load(std::memory_order_relaxed);) {
      for (uint64_t i = 0; i < burst && write_status.ok(); ++i, ++written) {
        keys_.Format(2 * random.Uniform(settings_.num), &key);
        write_status = engine_->Put(key, values_.ValueOf(written), false);
      }
      if (settings_.write_rate == 0) continue;
      const uint64_t due = start + written * 1'000'000'000 / settings_.write_rate;
      const uint64_t now = NowNanos();
      if (now < due) std::this_thread::sleep_for(std::chrono::nanoseconds(due - now));
    }
  });
  absl::StatusOr<Figures> figures =
      RunThreads(settings_.Reads(), 2000 + round, [this](Part* part) { GetRandom(part, true); });
  stop.store(true, std::memory_order_relaxed);
  writer.join();
  SIEVEDB_RETURN_IF_ERROR(write_status);
  SIEVEDB_RETURN_IF_ERROR(engine_->WaitUntilIdle());  // the next round begins at rest
  return figures;
}

// An operation is opening the database and one Get; closing it doesn't count.
absl::StatusOr<CompareWorker::Figures> CompareWorker::OpenRepeatedly(uint64_t round) {
  SIEVEDB_ASSIGN_OR_RETURN(const KeyGenerator keys,
                           KeyGenerator::Create(settings_.key_bytes, 2 * TableEntriesAtMost()));
  Figures figures;
  BenchRandom random(settings_.seed + round);
  std::string key;
  for (int i = 0; i < kOpensPerRound; ++i) {
    // The first entries are there, however many it took to make the tables.
    keys.Format(2 * random.Uniform(kSmallTableBytes / settings_.EntryBytes() + 1), &key);
    engine_.reset();
    const uint64_t start = NowNanos();
    SIEVEDB_RETURN_IF_ERROR(kind_.open(engine_settings_, directory_, &engine_));
    const std::unique_ptr<EngineReader> reader = engine_->NewReader();
    const Found found = reader->Get(key);
    const uint64_t nanos = NowNanos() - start;
    if (found == Found::kError) return reader->status();
    if (found == Found::kNo) return WrongAnswer("not found", key);
    figures.latency.Add(nanos);
    figures.seconds += Seconds(nanos);
    ++figures.operations;
  }
  return figures;
}

}  // namespace sievedb
