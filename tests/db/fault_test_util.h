#ifndef SIEVEDB_TESTS_DB_FAULT_TEST_UTIL_H_
#define SIEVEDB_TESTS_DB_FAULT_TEST_UTIL_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "sievedb/listener.h"
#include "tests/fault_file_system.h"
#include "util/mutex.h"

namespace sievedb {

inline constexpr char kPath[] = "/db";
inline constexpr char kFullText[] = "write /db/x: No space left on device";
inline constexpr char kBrokenText[] = "write /db/x: Input/output error";
inline const absl::Status kFull = absl::ResourceExhaustedError(kFullText);
inline const absl::Status kBroken = absl::UnavailableError(kBrokenText);

// Waits, much longer than it should ever take, for what another thread brings about.
inline bool Await(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline bool Tells(const absl::Status& status, std::string_view text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// Whether a full disk can make it fail.
inline bool IsWrite(FileOp op) {
  switch (op) {
    case FileOp::kCreate:
    case FileOp::kReuse:
    case FileOp::kAppend:
    case FileOp::kSync:
    case FileOp::kPreallocate:
    case FileOp::kClose:
    case FileOp::kCreateDirectory:
    case FileOp::kRename:
    case FileOp::kLink:
    case FileOp::kSyncDirectory:
      return true;
    default:
      return false;
  }
}

class ErrorListener final : public EventListener {
 public:
  void OnBackgroundError(const absl::Status& error) override {
    const MutexLock lock(&mu_);
    events_ += 'E';
    last_ = error;
  }
  void OnResumed() override {
    const MutexLock lock(&mu_);
    events_ += 'R';
  }
  void OnFlushCompleted(const FlushEvent& event) override {
    if (!event.status.ok() && on_failed_flush) on_failed_flush();
  }

  // One letter each: an error, or resumed.
  std::string events() const {
    const MutexLock lock(&mu_);
    return events_;
  }
  void Forget() {
    const MutexLock lock(&mu_);
    events_.clear();
  }
  absl::Status last() const {
    const MutexLock lock(&mu_);
    return last_;
  }

  std::function<void()> on_failed_flush;  // set before the database is opened

 private:
  mutable Mutex mu_;
  std::string events_ ABSL_GUARDED_BY(mu_);
  absl::Status last_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_DB_FAULT_TEST_UTIL_H_
