// A MANIFEST from anywhere, as a file and as the records of a sound file: recovery
// gives an error, or a version that can be written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "db/log_writer.h"
#include "db/version_set.h"

namespace {

using sievedb::VersionEdit;

void Require(bool ok) {
  if (!ok) std::abort();
}

class Directory {
 public:
  Directory() {
    options_.file_system = sievedb::NewMemoryFileSystem();
    options_.paranoid_checks = false;
    options_.block_cache = sievedb::NewBlockCache(0);
    opener_ = std::make_unique<sievedb::TableOpener>(options_, "db");
    Require(options_.file_system->CreateDirectory("db").ok());
    Write("db/CURRENT", "MANIFEST-000007\n");
  }

  std::unique_ptr<sievedb::WritableFile> Create(const std::string& path) {
    auto file = options_.file_system->NewWritableFile(path);
    Require(file.ok());
    return *std::move(file);
  }
  void Write(const std::string& path, std::string_view bytes) {
    Require(Create(path)->Append(bytes).ok());
  }
  std::unique_ptr<sievedb::VersionSet> Recover() {
    auto set = std::make_unique<sievedb::VersionSet>(options_, "db", opener_.get(), &event_log_);
    if (!set->Recover().ok()) set.reset();
    return set;
  }

  void RecoverWriteAndRecover() {
    auto set = Recover();
    if (set == nullptr) return;
    const std::string version = set->current()->DebugString();
    VersionEdit nothing;
    Require(set->Apply(&nothing).ok());
    set = Recover();
    Require(set != nullptr && set->current()->DebugString() == version);
  }

 private:
  sievedb::Options options_;
  sievedb::EventLog event_log_;
  std::unique_ptr<sievedb::TableOpener> opener_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  {
    Directory directory;
    directory.Write("db/MANIFEST-000007", bytes);
    directory.RecoverWriteAndRecover();
  }
  // The checksums keep nearly every mutation out, so the bytes are also taken as
  // records, each behind a byte that tells its length.
  Directory directory;
  auto log = sievedb::LogWriter::Create(directory.Create("db/MANIFEST-000007"),
                                        sievedb::LogKind::kManifest, 7);
  Require(log.ok());
  VersionEdit snapshot;
  snapshot.comparator_name = sievedb::BytewiseComparator()->Name();
  snapshot.db_id = 1;
  Require((*log)->AddRecord(snapshot.Encode()).ok());
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t n = static_cast<unsigned char>(rest[0]);
    const std::string_view record = rest.substr(1, n);
    if (!record.empty()) Require((*log)->AddRecord(record).ok());  // the writer's own alone are
    rest.remove_prefix(rest.size() <= n ? rest.size() : n + 1);
  }
  directory.RecoverWriteAndRecover();
  return 0;
}
