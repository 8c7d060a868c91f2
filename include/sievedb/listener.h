#ifndef SIEVEDB_LISTENER_H_
#define SIEVEDB_LISTENER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "sievedb/export.h"

namespace sievedb {

struct FlushEvent {
  std::string db_path;
  uint64_t file_number = 0;  // 0 where everything was dropped
  uint64_t keys_in = 0;
  uint64_t bytes_out = 0;
  uint64_t micros = 0;
  absl::Status status;
};

struct CompactionEvent {
  std::string db_path;
  int input_level = 0;
  int output_level = 0;
  int input_files = 0;
  int output_files = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t keys_in = 0;
  uint64_t keys_out = 0;
  bool trivial_move = false;
  uint64_t micros = 0;
  absl::Status status;
};

struct TableFileEvent {
  std::string db_path;
  uint64_t file_number = 0;
  uint64_t file_bytes = 0;
};

enum class StallState { kNone, kDelayed, kStopped };

struct StallEvent {
  std::string db_path;
  StallState before = StallState::kNone;
  StallState after = StallState::kNone;
  std::string reason;
};

// Hears of what a database does in the background. Calls come from background
// or writing threads with no lock held; they should return soon, and may read
// the database, but not close it.
class SIEVEDB_EXPORT EventListener {
 public:
  virtual ~EventListener();
  virtual void OnFlushBegin(const FlushEvent&) {}
  virtual void OnFlushCompleted(const FlushEvent&) {}
  virtual void OnCompactionBegin(const CompactionEvent&) {}
  virtual void OnCompactionCompleted(const CompactionEvent&) {}
  virtual void OnTableFileCreated(const TableFileEvent&) {}
  virtual void OnTableFileDeleted(const TableFileEvent&) {}
  virtual void OnStallChanged(const StallEvent&) {}
  virtual void OnBackgroundError(const absl::Status&) {}
  virtual void OnResumed() {}  // writes are taken again after a background error
};

}  // namespace sievedb

#endif  // SIEVEDB_LISTENER_H_
