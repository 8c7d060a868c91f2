#include "db/manifest_file.h"

#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "util/clock.h"
#include "util/escape.h"
#include "util/file_util.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// More than any name that it holds; what is larger is not even read.
constexpr uint64_t kMaxCurrentBytes = 4096;

// The name without its directory.
std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The file that CURRENT names.
absl::StatusOr<uint64_t> ParseCurrent(const std::string& path, std::string_view contents) {
  if (!contents.empty() && contents.back() == '\n') {
    const std::string_view name = contents.substr(0, contents.size() - 1);
    const std::optional<ParsedFileName> parsed = ParseFileName(name);
    if (parsed.has_value() && parsed->kind == FileKind::kManifest) return parsed->number;
  }
  return absl::DataLossError(
      absl::StrFormat("%s, offset 0: expected the name of a MANIFEST and a newline, found \"%s\"",
                      path, Escape(contents.substr(0, 64))));
}

}  // namespace

uint64_t NewDatabaseId() {
  std::random_device device;
  const uint64_t random = uint64_t{device()} << 32 | device();
  const uint64_t now = NowNanos();
  const uint64_t id =
      Hash64(std::string_view(reinterpret_cast<const char*>(&now), sizeof(now)), random);
  return id != 0 ? id : 1;
}

absl::StatusOr<uint64_t> ReadCurrent(FileSystem* file_system, const std::string& db_path) {
  const std::string path = CurrentFileName(db_path);
  SIEVEDB_ASSIGN_OR_RETURN(const uint64_t bytes, file_system->FileSize(path));
  if (bytes > kMaxCurrentBytes) {
    return absl::DataLossError(absl::StrFormat(
        "%s, offset 0: expected the name of a MANIFEST and a newline, found %d bytes", path,
        bytes));
  }
  SIEVEDB_ASSIGN_OR_RETURN(const std::string contents, ReadWholeFile(file_system, path));
  return ParseCurrent(path, contents);
}

absl::StatusOr<std::unique_ptr<LogWriter>> BeginManifest(FileSystem* file_system,
                                                         const std::string& db_path,
                                                         uint64_t number,
                                                         const VersionEdit& snapshot) {
  const std::string path = ManifestFileName(db_path, number);
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, file_system->NewWritableFile(path));
  SIEVEDB_ASSIGN_OR_RETURN(std::unique_ptr<LogWriter> log,
                           LogWriter::Create(std::move(file), LogKind::kManifest, number,
                                             /*predecessor=*/{}, file_system->BootId()));
  SIEVEDB_RETURN_IF_ERROR(log->AddRecord(snapshot.Encode()));
  // On its way to the disk while CURRENT's next content is synced: a journal then
  // commits both at once.
  log->file()->StartWriteback();
  SIEVEDB_RETURN_IF_ERROR(ReplaceFile(file_system, db_path, BaseName(CurrentFileName(db_path)),
                                      BaseName(path) + "\n", [&]() -> absl::Status {
                                        // Its name must be on the disk before CURRENT tells of it.
                                        const absl::Status synced = log->Sync();
                                        return synced.ok() ? file_system->SyncDirectory(db_path)
                                                           : synced;
                                      }));
  return log;
}

}  // namespace sievedb
