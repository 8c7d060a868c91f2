#ifndef SIEVEDB_DB_COMPACTION_PICKER_H_
#define SIEVEDB_DB_COMPACTION_PICKER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/level_targets.h"
#include "db/version.h"
#include "sievedb/options.h"

namespace sievedb {

// What one compaction does: merges inputs into tables of output_level.
struct CompactionPlan {
  int input_level = 0;
  int output_level = 0;
  std::vector<FileRef> inputs;         // of input_level, run by run, newest first
  std::vector<FileRef> output_inputs;  // of output_level, those that overlap, run by run
  uint64_t output_run = 0;             // that the outputs belong to (Version::Run::number)
  std::vector<FileRef> grandparents;   // of output_level + 1: outputs are cut where
                                       // they would overlap too much of it
  bool trivial_move = false;           // inputs change level as they are
  bool bottommost = false;             // nothing below the outputs' run overlaps
  double score = 0;
  std::string reason;  // for LOG: "level 0 has 4 files", …

  std::string smallest;  // user keys: range of all inputs
  std::string largest;
  uint64_t InputBytes() const;
};

// Cuts tables where one does not begin after the one before it: each piece is a sorted
// run, or a part of one.
std::vector<absl::Span<const FileRef>> SplitRuns(const KeyOrder& order,
                                                 absl::Span<const FileRef> files);

// The most urgent compaction that can start beside those that run, or nullopt.
// Pure: the same arguments give the same plan.
std::optional<CompactionPlan> PickCompaction(const Options& options, const Version& version,
                                             const CompactionsInProgress& running);

// One step of a manual compaction: tables of input_level that overlap user keys
// [begin, end] (null: open) into output_level (the same level: rewritten in
// place). nullopt where there is nothing to do or what it needs is busy: *busy
// tells the two apart. A step takes a bounded number of bytes; *next_begin is
// where the next one goes on (empty optional: this was the last).
std::optional<CompactionPlan> PickManual(const Options& options, const Version& version,
                                         const CompactionsInProgress& running, int input_level,
                                         int output_level, const std::string_view* begin,
                                         const std::string_view* end, bool* busy,
                                         std::optional<std::string>* next_begin);

// The lowest level that a table with user keys [smallest, largest], newer than all that is
// there, can be put into: it overlaps nothing there and above, nor what compactions that
// run write there or above. 0 where there is none below.
int PickLevelForNewest(const Options& options, const Version& version,
                       const CompactionsInProgress& running, std::string_view smallest,
                       std::string_view largest);

}  // namespace sievedb

#endif  // SIEVEDB_DB_COMPACTION_PICKER_H_
