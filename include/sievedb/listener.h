#ifndef SIEVEDB_LISTENER_H_
#define SIEVEDB_LISTENER_H_

#include <cstdint>
#include <string>
#include <vector>

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

// DB::IngestExternalFiles came to its end.
struct IngestEvent {
  struct Table {
    std::string external_path;
    uint64_t file_number = 0;  // in the database
    int level = 0;
    uint64_t file_bytes = 0;
    uint64_t entries = 0;
  };
  std::string db_path;
  std::vector<Table> tables;  // none where it failed
  uint64_t sequence = 0;      // of all their entries
  uint64_t micros = 0;
  absl::Status status;
};

enum class StallState { kNone, kDelayed, kStopped };

struct StallEvent {
  std::string db_path;
  StallState before = StallState::kNone;
  StallState after = StallState::kNone;
  std::string reason;
};

// A table's filter that lets more absent keys pass than can be chance.
struct FilterEvent {
  std::string db_path;
  uint64_t file_number = 0;
  int level = 0;
  std::string filter_name;
  uint64_t keys = 0;
  double bits_per_key = 0;
  double promised_fpr = 0;  // for so many bits per key; 0: not known
  double expected_fpr = 0;  // from the bits really set; 0: not known
  double observed_fpr = 0;
  double observed_fpr_low = 0;  // an interval that holds the true one in 95 of 100 cases
  double observed_fpr_high = 0;
  uint64_t false_positives = 0;
  std::string advice;  // the cause as far as it is known, and what to do
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
  virtual void OnIngestCompleted(const IngestEvent&) {}
  virtual void OnTableFileCreated(const TableFileEvent&) {}
  virtual void OnTableFileDeleted(const TableFileEvent&) {}
  virtual void OnStallChanged(const StallEvent&) {}
  // Once a table. Looked at after each flush and compaction, when sievedb.filters is
  // asked for, and after many false positives.
  virtual void OnFilterAboveExpectation(const FilterEvent&) {}
  virtual void OnBackgroundError(const absl::Status&) {}
  virtual void OnResumed() {}  // writes are taken again after a background error
};

}  // namespace sievedb

#endif  // SIEVEDB_LISTENER_H_
