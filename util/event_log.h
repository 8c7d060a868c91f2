#ifndef SIEVEDB_UTIL_EVENT_LOG_H_
#define SIEVEDB_UTIL_EVENT_LOG_H_

#include <memory>
#include <string>
#include <string_view>

#include "sievedb/file_system.h"
#include "util/mutex.h"

namespace sievedb {

// The LOG of a database: one line an event, for people: local time with
// microseconds, then what happened. A failure to write it is ignored: it must not
// stop the database.
//
// Threads: safe.
class EventLog {
 public:
  // Renames an existing path to path.old first. Where the file can't be created,
  // the log swallows its lines.
  EventLog(FileSystem* file_system, const std::string& path);
  // One that swallows its lines.
  EventLog() = default;

  void Write(std::string_view line);  // build it with absl::StrFormat

 private:
  Mutex mu_;
  std::unique_ptr<WritableFile> file_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_EVENT_LOG_H_
