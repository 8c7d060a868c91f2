#include "db/log_writer.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Above this, an Append of its own costs less than copying the payload.
constexpr size_t kMaxCopiedPayloadBytes = size_t{1} << 20;

}  // namespace

LogWriter::LogWriter(std::unique_ptr<WritableFile> file, uint64_t file_number)
    : file_(std::move(file)), file_number_(file_number) {}

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Create(std::unique_ptr<WritableFile> file,
                                                             LogKind kind, uint64_t file_number,
                                                             LogPredecessor predecessor) {
  std::string header(kLogMagic, sizeof(kLogMagic) - 1);
  AppendFixed32(&header, kLogFormatVersion);
  AppendFixed32(&header, static_cast<uint32_t>(kind));
  AppendFixed64(&header, file_number);
  AppendFixed64(&header, predecessor.file_number);
  AppendFixed64(&header, predecessor.end);
  AppendFixed64(&header, Hash64(header));
  assert(header.size() == kLogHeaderBytes);
  SIEVEDB_RETURN_IF_ERROR(file->Append(header));
  std::unique_ptr<LogWriter> writer(new LogWriter(std::move(file), file_number));
  writer->offset_ = kLogHeaderBytes;
  return writer;
}

absl::Status LogWriter::AddRecord(std::string_view payload) {
  if (payload.size() > kMaxLogPayloadBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a record of %d bytes is too large for a log: at most %d fit",
                        payload.size(), kMaxLogPayloadBytes));
  }
  const uint64_t seed = LogRecordSeed(file_number_, offset_);
  char header[kLogRecordHeaderBytes];
  EncodeFixed64(header, Hash64(payload, seed));
  EncodeFixed32(header + 8, static_cast<uint32_t>(payload.size()));
  header[12] = static_cast<char>(kLogRecordType);
  EncodeFixed32(header + 13, static_cast<uint32_t>(Hash64({header + 8, 5}, seed)));

  if (payload.size() > kMaxCopiedPayloadBytes) {
    SIEVEDB_RETURN_IF_ERROR(file_->Append({header, sizeof(header)}));
    SIEVEDB_RETURN_IF_ERROR(file_->Append(payload));
  } else {
    buffer_.assign(header, sizeof(header));
    buffer_.append(payload);
    SIEVEDB_RETURN_IF_ERROR(file_->Append(buffer_));
  }
  offset_ += sizeof(header) + payload.size();
  return absl::OkStatus();
}

absl::Status LogWriter::Sync() { return file_->Sync(); }

absl::Status LogWriter::Close() { return file_->Close(); }

}  // namespace sievedb
