#ifndef SIEVEDB_BENCH_COMPARE_PROCESS_H_
#define SIEVEDB_BENCH_COMPARE_PROCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/compare_settings.h"
#include "nlohmann/json.hpp"

namespace sievedb {

// --- what a process can say about itself

// Bytes of file pages that this process has made the kernel write, by write calls or
// through mappings: the same measure for every engine. nullopt where the kernel
// doesn't count; 0 on a file system in memory.
std::optional<uint64_t> WrittenBytes();

// Lets PeakMemoryBytes begin anew. Where the kernel can't, the peak stays that of
// the process's whole life.
void ResetPeakMemory();
uint64_t PeakMemoryBytes();

// --- what lies in a directory

struct DirectoryFigures {
  uint64_t allocated_bytes = 0;  // on the disk, preallocated space included
  uint64_t tables = 0;           // files *.sst and *.ldb
};
DirectoryFigures MeasureDirectory(const std::string& directory);

// CPU, cores, memory and kernel of this machine.
nlohmann::json MachineJson();

// --- a process for each engine

// An engine in a process of its own, so that its memory and its writes are its
// own. It does what it is told, one command after the other (compare_worker.h),
// and does nothing in between: sessions of several engines may stand side by
// side, their rounds alternating.
//
// Threads: not safe. Requires: the process that starts it has one thread.
class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Start(const EngineKind& kind,
                                                        const CompareSettings& settings);
  // Ends the process, orderly where it still listens.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Has command done and returns its figures. An error of the engine, or the
  // death of its process, is returned with the engine's name.
  absl::StatusOr<nlohmann::json> Do(const nlohmann::json& command);

  const std::string& engine() const { return engine_; }

 private:
  Session(std::string engine, int pid, int to_child, int from_child);

  absl::Status Died();

  const std::string engine_;
  int pid_;  // -1: it was waited for
  int to_child_;
  int from_child_;
  std::string buffered_;  // read, but beyond the last answer
};

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_PROCESS_H_
