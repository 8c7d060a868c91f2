#ifndef SIEVEDB_UTIL_FILE_UTIL_H_
#define SIEVEDB_UTIL_FILE_UTIL_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/file_system.h"
#include "sievedb/rate_limiter.h"

namespace sievedb {

absl::StatusOr<std::string> ReadWholeFile(FileSystem* file_system, const std::string& path);

// Replaces path by contents so that after a crash it holds either the old or the
// new ones: writes path.tmp, syncs it, calls before_rename, renames it, syncs the
// directory.
absl::Status WriteFileAtomically(FileSystem* file_system, const std::string& directory,
                                 const std::string& name, std::string_view contents);

// WriteFileAtomically without its last step: until the directory is synced, either may
// be there after a crash. Calls before_rename when the new contents are synced; its
// error leaves the old ones and is returned.
absl::Status ReplaceFile(FileSystem* file_system, const std::string& directory,
                         const std::string& name, std::string_view contents,
                         absl::FunctionRef<absl::Status()> before_rename);

// The directory that path lies in: "." where path is a name alone.
std::string ParentDirectory(std::string_view path);

// How CopyFile treats the disk.
struct CopyOptions {
  RateLimiter* rate_limiter = nullptr;  // null: no limit
  bool start_writeback = false;         // as it goes, so that the sync at its end is short
};

// Calls observe with the bytes of a file in order, in pieces of kFilePieceBytes.
inline constexpr size_t kFilePieceBytes = size_t{1} << 20;
absl::Status ReadFileInPieces(FileSystem* file_system, const std::string& path,
                              absl::FunctionRef<void(std::string_view piece)> observe);

// Copies from to to, which is created or replaced, and syncs it; not its directory.
// observe is called with each piece of kFilePieceBytes, in order.
absl::Status CopyFile(FileSystem* file_system, const std::string& from, const std::string& to,
                      const CopyOptions& options);
absl::Status CopyFile(FileSystem* file_system, const std::string& from, const std::string& to,
                      const CopyOptions& options,
                      absl::FunctionRef<void(std::string_view piece)> observe);

// Gives the file from a second name, to, which must not exist; where the file system
// can't, copies it. Either way its bytes are synced, and the directory is not.
absl::Status LinkOrCopyFile(FileSystem* file_system, const std::string& from, const std::string& to,
                            const CopyOptions& options);

// Cost: reads both where they are of one size.
absl::StatusOr<bool> HaveSameContents(FileSystem* file_system, const std::string& a,
                                      const std::string& b);

// Keeps at most `limit` of the files that it opens open at a time and opens them
// again when they are read. 0: no limit. mapped: they are read by NewMappedFile. Shared by
// the tables of a database.
class OpenFileLimiter {
 public:
  OpenFileLimiter(std::shared_ptr<FileSystem> file_system, int limit, bool mapped = false);
  ~OpenFileLimiter();

  // The limiter must outlive the file. Opens it at once, so a missing file is
  // found here.
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path);

 private:
  class LimitedFile;
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_FILE_UTIL_H_
