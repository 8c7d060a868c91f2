#include "db/log_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/escape.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// A piece is large enough that reading is streaming, and small enough for a stack
// of open logs.
constexpr size_t kPieceBytes = size_t{512} << 10;

// How many bytes a search for a later record may read and hash more than once, as a
// multiple of the file (and never less than the first figure). One offset in 2^32
// passes the header's check by chance, so more is needed only by a file made for it.
constexpr uint64_t kMinSearchedBytes = uint64_t{64} << 20;
constexpr uint64_t kSearchedFactor = 2;

// Offsets inside a record's header.
constexpr size_t kLengthAt = 8;
constexpr size_t kTypeAt = 12;
constexpr size_t kFlagsAt = 13;
constexpr size_t kHeaderCheckAt = 14;
constexpr size_t kHeaderCheckedBytes = kHeaderCheckAt - kLengthAt;

uint32_t HeaderCheck(const char* header, uint64_t seed) {
  return static_cast<uint32_t>(Hash64({header + kLengthAt, kHeaderCheckedBytes}, seed));
}

bool AllZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

// Whether header is what a crash leaves of one whose bytes did not all come to the
// disk, though the file's size did: a part of the magic, perhaps none, and zeros.
bool IsCutOffMagic(std::string_view header) {
  const std::string_view magic(kLogMagic, sizeof(kLogMagic) - 1);
  size_t same = 0;
  while (same < magic.size() && header[same] == magic[same]) ++same;
  return AllZero(header.substr(same));
}

}  // namespace

struct LogReader::Rep {
  Rep(std::unique_ptr<RandomAccessFile> file_in, uint64_t file_bytes_in, const std::string& path_in,
      LogKind kind_in, uint64_t file_number_in, uint64_t boot_id_in)
      : file(std::move(file_in)),
        path(path_in),
        kind(kind_in),
        file_number(file_number_in),
        boot_id(boot_id_in),
        file_bytes(file_bytes_in) {}

  struct RecordHeader {
    uint64_t checksum = 0;
    uint32_t length = 0;
    uint8_t type = 0;
    uint8_t flags = 0;
    uint32_t found_check = 0;
    uint32_t expected_check = 0;
    bool ok() const { return found_check == expected_check; }
  };

  absl::Status Error(absl::StatusCode code, uint64_t at, std::string_view expected,
                     std::string_view found) const {
    return absl::Status(
        code, absl::StrFormat("%s: offset %d: expected %s, found %s", path, at, expected, found));
  }

  uint64_t SeedAt(uint64_t at) const { return LogRecordSeed(file_number, at); }

  // Bytes [at, at + n), fewer at the end of the file; they stay until the next call.
  absl::StatusOr<std::string_view> Bytes(uint64_t at, uint64_t n) {
    if (at >= file_bytes) return std::string_view();
    n = std::min(n, file_bytes - at);
    if (at < piece_begin || at + n > piece_begin + piece.size()) {
      const uint64_t want = std::min<uint64_t>(std::max<uint64_t>(n, kPieceBytes), file_bytes - at);
      // A buffer that one huge record needed is given back after it.
      if (buffer.size() < want || buffer.size() > std::max<uint64_t>(4 * want, kPieceBytes)) {
        buffer = std::vector<char>(want);
      }
      piece_begin = at;
      piece = {};
      SIEVEDB_RETURN_IF_ERROR(file->Read(at, want, buffer.data(), &piece));
      // The file was cut since it was opened: its writer gave unused space back.
      if (piece.size() < want) file_bytes = at + piece.size();
    }
    const size_t skip = at - piece_begin;
    return skip > piece.size() ? std::string_view() : piece.substr(skip, n);
  }

  // Requires: bytes holds a record's header.
  RecordHeader Decode(const char* bytes, uint64_t at) const {
    RecordHeader header;
    header.checksum = DecodeFixed64(bytes);
    header.length = DecodeFixed32(bytes + kLengthAt);
    header.type = static_cast<uint8_t>(bytes[kTypeAt]);
    header.flags = static_cast<uint8_t>(bytes[kFlagsAt]);
    header.found_check = DecodeFixed32(bytes + kHeaderCheckAt);
    header.expected_check = HeaderCheck(bytes, SeedAt(at));
    return header;
  }

  absl::Status ReadFileHeader();
  absl::Status JudgeHeader(std::string_view header, bool as_before, const absl::Status& damage);
  absl::StatusOr<bool> Next(std::string_view* payload);
  absl::StatusOr<bool> EndAt(const std::optional<RecordHeader>& header, std::string_view expected,
                             std::string_view found);
  std::optional<size_t> FindHeader(std::string_view bytes, uint64_t at, size_t start,
                                   RecordHeader* header) const;
  absl::StatusOr<std::optional<uint64_t>> FindRecord(uint64_t from);
  absl::StatusOr<bool> FindSyncedBytes(uint64_t from);
  absl::Status CountTornBytes(const std::optional<RecordHeader>& header);

  const std::unique_ptr<RandomAccessFile> file;
  const std::string path;
  const LogKind kind;
  const uint64_t file_number;
  const uint64_t boot_id;
  uint64_t file_bytes;
  bool started_anew = false;  // the machine, since the log was begun

  LogPredecessor predecessor;
  uint64_t offset = 0;      // of the next record
  uint64_t torn_bytes = 0;  // valid once ended
  bool ended = false;
  absl::Status error;  // sticky: nothing can be read behind damage

  std::vector<char> buffer;
  std::string_view piece;  // what was read last, usually into buffer
  uint64_t piece_begin = 0;
};

absl::Status LogReader::Rep::ReadFileHeader() {
  SIEVEDB_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(0, kLogHeaderBytes));
  // FindRecord below reads on, so the header is kept.
  const std::string header(bytes);
  if (header.size() < kLogHeaderBytes) {
    torn_bytes = AllZero(header) ? 0 : header.size();
    ended = true;
    return absl::OkStatus();
  }
  const std::string_view magic(kLogMagic, sizeof(kLogMagic) - 1);
  const std::string_view found_magic = std::string_view(header).substr(0, magic.size());
  if (found_magic != magic) {
    const absl::Status damage =
        Error(absl::StatusCode::kDataLoss, 0, absl::StrFormat("the magic \"%s\"", magic),
              absl::StrFormat("\"%s\"", Escape(found_magic)));
    return IsCutOffMagic(header) ? JudgeHeader(header, AllZero(header), damage) : damage;
  }
  const uint32_t version = DecodeFixed32(header.data() + 8);
  const uint64_t found_check = DecodeFixed64(header.data() + 48);
  const uint64_t expected_check = Hash64({header.data(), 48});
  if (version > kLogFormatVersion) {
    // A newer header may be checked in another way, so the check decides only
    // where it says that the version itself is what was damaged.
    std::string as_ours = header.substr(0, 48);
    EncodeFixed32(as_ours.data() + 8, kLogFormatVersion);
    if (Hash64(as_ours) != found_check) {
      return Error(absl::StatusCode::kInvalidArgument, 8,
                   absl::StrFormat("log format version %d or older", kLogFormatVersion),
                   absl::StrFormat("version %d: it was written by a newer SieveDB", version));
    }
  }
  if (found_check != expected_check) {
    return JudgeHeader(header, /*as_before=*/false,
                       Error(absl::StatusCode::kDataLoss, 48,
                             absl::StrFormat("file header checksum %016x", expected_check),
                             absl::StrFormat("%016x", found_check)));
  }
  if (version != kLogFormatVersion) {
    return Error(absl::StatusCode::kDataLoss, 8,
                 absl::StrFormat("log format version %d", kLogFormatVersion),
                 absl::StrFormat("version %d", version));
  }
  const uint32_t found_kind = DecodeFixed32(header.data() + 12);
  if (found_kind != static_cast<uint32_t>(kind)) {
    return Error(absl::StatusCode::kDataLoss, 12,
                 absl::StrFormat("log kind %d (%s)", static_cast<uint32_t>(kind),
                                 kind == LogKind::kWal ? "WAL" : "MANIFEST"),
                 absl::StrFormat("kind %d", found_kind));
  }
  const uint64_t found_number = DecodeFixed64(header.data() + 16);
  if (found_number != file_number) {
    const absl::Status damage =
        Error(absl::StatusCode::kDataLoss, 16, absl::StrFormat("file number %d", file_number),
              absl::StrFormat("%d", found_number));
    return found_number < file_number ? JudgeHeader(header, /*as_before=*/true, damage) : damage;
  }
  predecessor.file_number = DecodeFixed64(header.data() + 24);
  predecessor.end = DecodeFixed64(header.data() + 32);
  const uint64_t then = DecodeFixed64(header.data() + 40);
  started_anew = then != 0 && boot_id != 0 && then != boot_id;
  offset = kLogHeaderBytes;
  return absl::OkStatus();
}

// The header is not one of this life. That is what a crash leaves that came before
// the new header was on the disk: zeros, or (only WALs are recycled) an earlier
// life's header, perhaps begun to be overwritten. But where this life has a record,
// its header was whole once; that it is lost is damage. Unless the sector is as it was
// before (as_before): a crash of the machine may have kept just the later ones, of
// which then none says that something was synced.
absl::Status LogReader::Rep::JudgeHeader(std::string_view header, bool as_before,
                                         const absl::Status& damage) {
  if (kind != LogKind::kWal && !AllZero(header)) return damage;
  bool damaged = false;
  if (as_before && kind == LogKind::kWal && boot_id != 0) {
    SIEVEDB_ASSIGN_OR_RETURN(damaged, FindSyncedBytes(kLogHeaderBytes));
  } else {
    SIEVEDB_ASSIGN_OR_RETURN(const std::optional<uint64_t> record, FindRecord(kLogHeaderBytes));
    damaged = record.has_value();
  }
  if (damaged) return damage;
  ended = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> LogReader::Rep::Next(std::string_view* payload) {
  if (ended) return false;
  SIEVEDB_ASSIGN_OR_RETURN(std::string_view bytes, Bytes(offset, kLogRecordHeaderBytes));
  if (bytes.size() < kLogRecordHeaderBytes) return EndAt(std::nullopt, "", "");
  const RecordHeader header = Decode(bytes.data(), offset);
  if (!header.ok()) {
    return EndAt(std::nullopt, absl::StrFormat("record header check %08x", header.expected_check),
                 absl::StrFormat("%08x", header.found_check));
  }
  if (header.type != kLogRecordType || (header.flags & ~kLogSyncedBefore) != 0) {
    // Its check is right, so neither a crash nor damage made it.
    return Error(absl::StatusCode::kDataLoss, offset + kTypeAt,
                 absl::StrFormat("record type %d with known flags", kLogRecordType),
                 absl::StrFormat("type %d with flags %d", header.type, header.flags));
  }
  const uint64_t whole = kLogRecordHeaderBytes + header.length;
  // A length is believed only as far as the file reaches.
  if (whole > file_bytes - offset) {
    return EndAt(header, absl::StrFormat("a record of %d bytes", whole),
                 absl::StrFormat("%d bytes to the end of the file", file_bytes - offset));
  }
  SIEVEDB_ASSIGN_OR_RETURN(bytes, Bytes(offset, whole));
  // Cut under our hands; what is left is looked at again as the end of the file.
  if (bytes.size() < whole) return EndAt(header, "a whole record", "the end of the file");
  const std::string_view content = bytes.substr(kLogRecordHeaderBytes);
  const uint64_t checksum = Hash64(content, SeedAt(offset));
  if (checksum != header.checksum) {
    return EndAt(header, absl::StrFormat("record checksum %016x", header.checksum),
                 absl::StrFormat("%016x", checksum));
  }
  offset += whole;
  *payload = content;
  return true;
}

// There is no good record at offset: the tail, or damage.
absl::StatusOr<bool> LogReader::Rep::EndAt(const std::optional<RecordHeader>& header,
                                           std::string_view expected, std::string_view found) {
  SIEVEDB_ASSIGN_OR_RETURN(const std::optional<uint64_t> later, FindRecord(offset + 1));
  if (later.has_value()) {
    bool damage = !started_anew;
    if (!damage) {
      SIEVEDB_ASSIGN_OR_RETURN(damage, FindSyncedBytes(*later));
    }
    if (damage) {
      return Error(absl::StatusCode::kDataLoss, offset, expected,
                   absl::StrFormat("%s; it is no torn tail, for a record follows at offset %d",
                                   found, *later));
    }
  }
  SIEVEDB_RETURN_IF_ERROR(CountTornBytes(header));
  ended = true;
  return false;
}

// The first place in bytes, which lie at offset at, from start on where a header of
// this life is whose record fits the file.
std::optional<size_t> LogReader::Rep::FindHeader(std::string_view bytes, uint64_t at, size_t start,
                                                 RecordHeader* header) const {
  while (bytes.size() - start >= kLogRecordHeaderBytes) {
    // Every record has a 1 at a fixed place, and memchr goes from one to the next
    // faster than anything that looks at each offset.
    const size_t starts = bytes.size() - start - kLogRecordHeaderBytes + 1;
    const void* type = std::memchr(bytes.data() + start + kTypeAt, kLogRecordType, starts);
    if (type == nullptr) return std::nullopt;
    start = static_cast<size_t>(static_cast<const char*>(type) - bytes.data()) - kTypeAt;
    *header = Decode(bytes.data() + start, at + start);
    if (header->ok() && header->length <= file_bytes - (at + start) - kLogRecordHeaderBytes) {
      return start;
    }
    ++start;
  }
  return std::nullopt;
}

// The offset of the first whole record of this life that begins at from or later.
absl::StatusOr<std::optional<uint64_t>> LogReader::Rep::FindRecord(uint64_t from) {
  uint64_t budget = std::max(kMinSearchedBytes, kSearchedFactor * file_bytes);
  uint64_t at = from;
  for (;;) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(at, kPieceBytes));
    if (bytes.size() < kLogRecordHeaderBytes) return std::optional<uint64_t>();
    uint64_t next = at + bytes.size() - kLogRecordHeaderBytes + 1;
    RecordHeader header;
    std::optional<size_t> start = FindHeader(bytes, at, 0, &header);
    for (; start.has_value(); start = FindHeader(bytes, at, *start + 1, &header)) {
      const uint64_t record = at + *start;
      const uint64_t payload = record + kLogRecordHeaderBytes;
      const bool here = payload + header.length <= at + bytes.size();
      const uint64_t cost = header.length + (here ? 0 : kPieceBytes);
      // So many headers of this life with bad payloads cannot be a torn tail.
      if (cost > budget) return std::optional<uint64_t>(record);
      budget -= cost;
      std::string_view content;
      if (here) {
        content = bytes.substr(payload - at, header.length);
      } else {
        SIEVEDB_ASSIGN_OR_RETURN(content, Bytes(payload, header.length));
      }
      if (content.size() == header.length && Hash64(content, SeedAt(record)) == header.checksum) {
        return std::optional<uint64_t>(record);
      }
      if (!here) {  // bytes are gone
        next = record + 1;
        break;
      }
    }
    at = next;
  }
}

// Whether a whole record that begins at from or later says that what comes before it
// was synced.
absl::StatusOr<bool> LogReader::Rep::FindSyncedBytes(uint64_t from) {
  for (;;) {
    SIEVEDB_ASSIGN_OR_RETURN(const std::optional<uint64_t> record, FindRecord(from));
    if (!record.has_value()) return false;
    SIEVEDB_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(*record, kLogRecordHeaderBytes));
    if (bytes.size() < kLogRecordHeaderBytes) return false;  // cut under our hands
    const RecordHeader header = Decode(bytes.data(), *record);
    if ((header.flags & kLogSyncedBefore) != 0) return true;
    from = *record + kLogRecordHeaderBytes + header.length;
  }
}

absl::Status LogReader::Rep::CountTornBytes(const std::optional<RecordHeader>& header) {
  torn_bytes = 0;
  if (offset >= file_bytes) return absl::OkStatus();
  if (header.has_value()) {
    torn_bytes = std::min(kLogRecordHeaderBytes + header->length, file_bytes - offset);
    return absl::OkStatus();
  }
  // Without a header of ours there is at most a part of one.
  SIEVEDB_ASSIGN_OR_RETURN(std::string_view bytes, Bytes(offset, kLogRecordHeaderBytes));
  const size_t last = bytes.find_last_not_of('\0');
  if (last == bytes.npos) return absl::OkStatus();
  if (bytes.size() < kLogRecordHeaderBytes) {
    torn_bytes = bytes.size();
    return absl::OkStatus();
  }
  for (uint64_t at = offset + kLogRecordHeaderBytes; at < file_bytes; at += bytes.size()) {
    SIEVEDB_ASSIGN_OR_RETURN(bytes, Bytes(at, kPieceBytes));
    if (bytes.empty()) break;
    if (!AllZero(bytes)) return absl::OkStatus();
  }
  torn_bytes = last + 1;
  return absl::OkStatus();
}

LogReader::LogReader(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
LogReader::~LogReader() = default;

absl::StatusOr<std::unique_ptr<LogReader>> LogReader::Open(std::unique_ptr<RandomAccessFile> file,
                                                           uint64_t file_bytes,
                                                           const std::string& path, LogKind kind,
                                                           uint64_t file_number, uint64_t boot_id) {
  auto rep = std::make_unique<Rep>(std::move(file), file_bytes, path, kind, file_number, boot_id);
  SIEVEDB_RETURN_IF_ERROR(rep->ReadFileHeader());
  return std::unique_ptr<LogReader>(new LogReader(std::move(rep)));
}

absl::StatusOr<bool> LogReader::ReadRecord(std::string_view* payload) {
  *payload = {};
  SIEVEDB_RETURN_IF_ERROR(rep_->error);
  absl::StatusOr<bool> more = rep_->Next(payload);
  // The record that ends a log has nothing to say here.
  while (more.ok() && *more && payload->empty()) more = rep_->Next(payload);
  if (!more.ok()) rep_->error = more.status();
  return more;
}

absl::StatusOr<bool> LogReader::SyncedBytesFollow() { return rep_->FindSyncedBytes(rep_->offset); }

LogPredecessor LogReader::predecessor() const { return rep_->predecessor; }
uint64_t LogReader::offset() const { return rep_->offset; }
uint64_t LogReader::torn_bytes() const { return rep_->torn_bytes; }

}  // namespace sievedb
