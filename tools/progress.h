#ifndef SIEVEDB_TOOLS_PROGRESS_H_
#define SIEVEDB_TOOLS_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "util/mutex.h"

namespace sievedb {

// One line that shows how far a long piece of work has come, drawn in place a
// few times a second on a terminal. Where the stream is no terminal nothing is
// written at all, so that pipes and logs stay clean.
//
//   ProgressBar bar("load", total_records);
//   for (...) bar.Advance(1);
//
// Threads: safe.
// Cost:    an atomic addition and, on a terminal, a look at the clock for each
//          call; hot loops should report a few hundred steps at a time.
class ProgressBar {
 public:
  enum class Mode { kOnTerminal, kAlways, kNever };

  // total 0: not known; only what is done is shown then.
  ProgressBar(std::string_view label, uint64_t total, std::FILE* stream = stderr,
              Mode mode = Mode::kOnTerminal);
  ~ProgressBar() { Finish(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Advance(uint64_t steps);

  // Replaces what is done so far, for work that knows its position only.
  void Set(uint64_t done);

  // Wipes the line, so that whatever is printed next begins in an empty one.
  // Idempotent.
  void Finish();

  bool visible() const { return visible_; }
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }

  // The line itself, at most width columns: label, bar, percentage, rate and the
  // time that is left.
  static std::string Render(std::string_view label, uint64_t done, uint64_t total, double seconds,
                            int width);

 private:
  void MaybeDraw();

  const std::string label_;
  const uint64_t total_;
  std::FILE* const stream_;
  const bool visible_;
  const uint64_t start_nanos_;

  // Figures for people: no other data is ordered by them, so all accesses are
  // relaxed.
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> next_draw_nanos_;

  Mutex mu_;  // lines are written one at a time
  bool drawn_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sievedb

#endif  // SIEVEDB_TOOLS_PROGRESS_H_
