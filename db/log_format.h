#ifndef SIEVEDB_DB_LOG_FORMAT_H_
#define SIEVEDB_DB_LOG_FORMAT_H_

#include <cstdint>

namespace sievedb {

// The format of WAL and MANIFEST files: a header, then records. Little-endian.
//
// File header (kLogHeaderBytes):
//   offset  size  field
//   0       8     magic "SIEVELOG"
//   8       4     format version, 1; a higher one is refused
//   12      4     kind: 1 WAL, 2 MANIFEST
//   16      8     file number: also seeds every checksum, so that records left in
//                 a recycled file by its earlier life are never taken for new
//   24      8     predecessor: the number of the log that this one continues; 0 none
//   32      8     end of the predecessor: its size when this log was begun. Recovery
//                 that finds less there has lost a tail, and must not go on here.
//   40      8     boot: FileSystem::BootId when this log was begun
//   48      8     XXH3-64 of bytes 0..47
//
// Record:
//   offset  size  field
//   0       8     checksum: XXH3-64 of the payload, seeded by file number mixed with
//                 the record's offset
//   8       4     payload length
//   12      1     type: 1 record; 0 in the preallocated rest of a file
//   13      1     flags: 1 all before this record was synced when it was written;
//                 other bits are 0
//   14      4     header check: low half of XXH3-64 of bytes 8..13 under the same
//                 seed; a reader that looks for records after damage rejects other
//                 offsets by it without reading a payload
//   18      …     payload; empty in the record that a clean close ends with, which
//                 says nothing but that all before it is there
//
// The reader's owner (log_reader.h) says how a tail is told from damage.
inline constexpr char kLogMagic[] = "SIEVELOG";
inline constexpr uint32_t kLogFormatVersion = 1;
inline constexpr uint64_t kLogHeaderBytes = 56;
inline constexpr uint64_t kLogRecordHeaderBytes = 18;
inline constexpr uint8_t kLogRecordType = 1;
inline constexpr uint8_t kLogSyncedBefore = 1;  // flag
// A record fits a 32-bit length with room to spare.
inline constexpr uint64_t kMaxLogPayloadBytes = (uint64_t{1} << 32) - 64;

static_assert(sizeof(kLogMagic) - 1 == 8);
static_assert(kLogHeaderBytes == 8 + 4 + 4 + 8 + 8 + 8 + 8 + 8);
static_assert(kLogRecordHeaderBytes == 8 + 4 + 1 + 1 + 4);

// The seed of a record's checks. The odd factor spreads file numbers so far apart
// that no two files of a database share a seed at any offset they could have.
constexpr uint64_t LogRecordSeed(uint64_t file_number, uint64_t record_offset) {
  return file_number * 0x9E3779B97F4A7C15u + record_offset;
}

struct LogPredecessor {
  uint64_t file_number = 0;
  uint64_t end = 0;
};
enum class LogKind : uint32_t { kWal = 1, kManifest = 2 };

}  // namespace sievedb

#endif  // SIEVEDB_DB_LOG_FORMAT_H_
