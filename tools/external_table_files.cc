#include "tools/external_table_files.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

Options WithFileSystem(Options options) {
  if (options.file_system == nullptr) options.file_system = PosixFileSystem();
  return options;
}

std::string Prefix(std::string_view db_path, int number) {
  while (db_path.size() > 1 && db_path.back() == '/') db_path.remove_suffix(1);
  return absl::StrFormat("%s.load-%d-", db_path, number);
}

}  // namespace

ExternalTableFiles::ExternalTableFiles(const Options& options, std::string_view db_path, int number)
    : options_(WithFileSystem(options)), prefix_(Prefix(db_path, number)), writer_(options_) {}

ExternalTableFiles::~ExternalTableFiles() {
  // The one that was being written stays until the writer is gone; it deletes it.
  if (open_) paths_.pop_back();
  for (const std::string& path : paths_) options_.file_system->DeleteFile(path).IgnoreError();
}

absl::Status ExternalTableFiles::Put(std::string_view key, std::string_view value) {
  if (!open_) {
    const std::string path = absl::StrFormat("%s%d.sst", prefix_, paths_.size());
    SIEVEDB_RETURN_IF_ERROR(writer_.Open(path));
    paths_.push_back(path);
    open_ = true;
  }
  SIEVEDB_RETURN_IF_ERROR(writer_.Put(key, value));
  return writer_.FileSize() >= options_.target_file_bytes ? EndTable() : absl::OkStatus();
}

absl::Status ExternalTableFiles::EndTable() {
  open_ = false;
  const absl::Status status = writer_.Finish().status();
  if (!status.ok()) paths_.pop_back();  // the writer has deleted it
  return status;
}

absl::Status ExternalTableFiles::Ingest(DB* db) {
  if (open_) SIEVEDB_RETURN_IF_ERROR(EndTable());
  if (paths_.empty()) return absl::OkStatus();
  IngestOptions options;
  options.verify_checksums = false;  // they were written just now
  return db->IngestExternalFiles(paths_, options);
}

}  // namespace sievedb
