// Any bytes as a WAL and as a MANIFEST: every record that is returned lies in the
// file, in order, and its checks hold; the reading ends.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "db/log_format.h"
#include "db/log_reader.h"
#include "sievedb/file_system.h"
#include "util/hash.h"

namespace {

constexpr uint64_t kNumber = 7;

class BytesFile : public sievedb::RandomAccessFile {
 public:
  explicit BytesFile(std::string_view bytes) : bytes_(bytes) {}
  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    const std::string_view part = bytes_.substr(std::min<uint64_t>(offset, bytes_.size()), n);
    std::copy(part.begin(), part.end(), scratch);
    *result = std::string_view(scratch, part.size());
    return absl::OkStatus();
  }

 private:
  const std::string_view bytes_;
};

void Require(bool condition) {
  if (!condition) std::abort();
}

void ReadAll(std::string_view bytes, sievedb::LogKind kind) {
  auto reader = sievedb::LogReader::Open(std::make_unique<BytesFile>(bytes), bytes.size(), "fuzz",
                                         kind, kNumber);
  if (!reader.ok()) return;
  for (uint64_t begin = sievedb::kLogHeaderBytes;;) {
    std::string_view payload;
    const absl::StatusOr<bool> more = (*reader)->ReadRecord(&payload);
    if (!more.ok() || !*more) break;
    const uint64_t payload_at = begin + sievedb::kLogRecordHeaderBytes;
    Require((*reader)->offset() == payload_at + payload.size());
    Require((*reader)->offset() <= bytes.size());
    Require(bytes.substr(payload_at, payload.size()) == payload);
    uint64_t checksum = 0;
    std::copy_n(bytes.data() + begin, sizeof(checksum), reinterpret_cast<char*>(&checksum));
    Require(checksum == sievedb::Hash64(payload, sievedb::LogRecordSeed(kNumber, begin)));
    begin = (*reader)->offset();
  }
  Require((*reader)->offset() + (*reader)->torn_bytes() <= bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ReadAll(bytes, sievedb::LogKind::kWal);
  ReadAll(bytes, sievedb::LogKind::kManifest);
  return 0;
}
