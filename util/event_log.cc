#include "util/event_log.h"

#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

// "2024/05/31-17:03:59.000123 "
std::string TimeStamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const int64_t micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  std::tm local = {};
  localtime_r(&seconds, &local);
  return absl::StrFormat("%04d/%02d/%02d-%02d:%02d:%02d.%06d ", local.tm_year + 1900,
                         local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                         micros % 1000000);
}

}  // namespace

EventLog::EventLog(FileSystem* file_system, const std::string& path) {
  // Errors are ignored here and below: see the class comment. These fail where there
  // is no log yet. A rename over a file would wait for the renamed one's data (ext4).
  file_system->DeleteFile(path + ".old").IgnoreError();
  file_system->RenameFile(path, path + ".old").IgnoreError();
  absl::StatusOr<std::unique_ptr<WritableFile>> file = file_system->NewWritableFile(path);
  if (file.ok()) {
    const MutexLock lock(&mu_);
    file_ = *std::move(file);
  }
}

void EventLog::Write(std::string_view line) {
  const MutexLock lock(&mu_);
  if (file_ == nullptr) return;
  // Stamped under the lock, so that times in the file ascend.
  std::string stamped = TimeStamp();
  stamped.reserve(stamped.size() + line.size() + 1);
  // One event, one line, whatever it quotes.
  for (const char c : line) stamped.push_back(c == '\n' || c == '\r' ? ' ' : c);
  stamped.push_back('\n');
  file_->Append(stamped).IgnoreError();
}

}  // namespace sievedb
