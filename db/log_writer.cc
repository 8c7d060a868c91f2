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
                                                             LogPredecessor predecessor,
                                                             uint64_t boot_id) {
  std::string header(kLogMagic, sizeof(kLogMagic) - 1);
  AppendFixed32(&header, kLogFormatVersion);
  AppendFixed32(&header, static_cast<uint32_t>(kind));
  AppendFixed64(&header, file_number);
  AppendFixed64(&header, predecessor.file_number);
  AppendFixed64(&header, predecessor.end);
  AppendFixed64(&header, boot_id);
  AppendFixed64(&header, Hash64(header));
  assert(header.size() == kLogHeaderBytes);
  SIEVEDB_RETURN_IF_ERROR(file->Append(header));
  std::unique_ptr<LogWriter> writer(new LogWriter(std::move(file), file_number));
  writer->offset_ = kLogHeaderBytes;
  return writer;
}

absl::Status LogWriter::AddRecord(std::string_view payload) {
  assert(!payload.empty());
  if (payload.size() > kMaxLogPayloadBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a record of %d bytes is too large for a log: at most %d fit",
                        payload.size(), kMaxLogPayloadBytes));
  }
  return Add(payload);
}

absl::Status LogWriter::Add(std::string_view payload) {
  const uint64_t seed = LogRecordSeed(file_number_, offset_);
  char header[kLogRecordHeaderBytes];
  EncodeFixed64(header, Hash64(payload, seed));
  EncodeFixed32(header + 8, static_cast<uint32_t>(payload.size()));
  header[12] = static_cast<char>(kLogRecordType);
  header[13] = static_cast<char>(synced_ == offset_ ? kLogSyncedBefore : 0);
  EncodeFixed32(header + 14, static_cast<uint32_t>(Hash64({header + 8, 6}, seed)));

  failed_ = true;  // until it is known that it did not
  if (payload.size() > kMaxCopiedPayloadBytes) {
    SIEVEDB_RETURN_IF_ERROR(file_->Append({header, sizeof(header)}));
    SIEVEDB_RETURN_IF_ERROR(file_->Append(payload));
  } else {
    buffer_.assign(header, sizeof(header));
    buffer_.append(payload);
    SIEVEDB_RETURN_IF_ERROR(file_->Append(buffer_));
  }
  failed_ = false;
  offset_ += sizeof(header) + payload.size();
  return absl::OkStatus();
}

absl::Status LogWriter::Sync() {
  const absl::Status status = file_->Sync();
  if (status.ok()) {
    synced_ = offset_;
  } else {
    failed_ = true;
  }
  return status;
}

absl::Status LogWriter::Close() {
  // A log without records says nothing, and needs no end. Where the end cannot be
  // written, on a full disk, it is a tail that a crash could have torn.
  if (!failed_ && offset_ > kLogHeaderBytes) Add({}).IgnoreError();
  failed_ = true;
  return file_->Close();
}

}  // namespace sievedb
