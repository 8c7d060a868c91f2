#ifndef SIEVEDB_TABLE_FORMAT_H_
#define SIEVEDB_TABLE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/options.h"

namespace sievedb {

// A table file, format version 1 or, with range tombstones, 2. Little-endian; no padding
// between the parts.
//
//   data blocks         in key order; none only where there are range tombstones
//                                                                     table/block_builder.h
//   range tombstones    version 2 only              table/range_tombstones.h  \.
//   filter block        what FilterBuilder::Finish returned; may be missing  |
//   index block         one entry a data block      table/index_builder.h    | the tail:
//   properties block                                table/table_properties.h | one read
//   footer              128 bytes                                           /
//
// Every block is its payload and then a trailer:
//
//   offset  size  field
//   0       1     codec     Compression: 0 none, 1 Snappy; anything else is damage
//   1       8     checksum  XXH3-64 of payload and codec, seeded by file number and
//                           offset, so a block in the wrong place fails too
//
// The footer:
//
//   offset  size  field
//   0       16    filter block       offset, payload bytes; 0 bytes: no filter
//   16      16    index block        offset, payload bytes
//   32      16    properties block   offset, payload bytes
//   48      16    range tombstones   offset, payload bytes; 0, 0 in version 1
//   64      8     tail bytes         from the first of the tail's blocks to the end of
//                                    the file
//   72      8     file number        seeds the checksums. In a table that SstFileWriter
//                                    made, a random one with its highest bit set, which
//                                    stays what it is when a database takes the table
//                                    under a number of its own: the MANIFEST has both
//   80      8     filter: keys       added to it: distinct user keys, and prefixes
//   88      8     filter: bits a key (IEEE 754 double)
//   96      1     filter: kind       FilterPolicy::Kind(); 0 without a filter
//   97      1     filter: probes
//   98      6     zero
//   104     8     checksum           XXH3-64, seed 0, of the footer without this field
//   112     4     format version     1 or 2
//   116     4     its complement     so that a flipped bit is no newer version
//   120     8     magic
//
// The last 16 bytes mean the same in every version, whatever its footer is.

inline constexpr size_t kBlockTrailerBytes = 9;
inline constexpr size_t kFooterBytes = 128;
inline constexpr uint32_t kTableFormatVersion = 2;  // the newest
// In the file numbers of tables that SstFileWriter made, and in no others. The entries
// of such a table have sequence 0 and no two are of one user key.
inline constexpr uint64_t kExternalNumberBit = uint64_t{1} << 63;
inline constexpr uint64_t kTableMagic = 0x31656c6261745653;  // "SVtable1"

// Raw bytes of a block; every offset inside one fits 32 bits.
inline constexpr uint64_t kMaxBlockBytes = 0xffffffffu;
// Larger payloads are stored as they are: codecs count in 32 bits.
inline constexpr uint64_t kMaxCompressedRawBytes = uint64_t{1} << 30;

// The tag that sorts before every entry of a user key.
inline constexpr uint64_t kMaxTag = ~uint64_t{0};

// Where a block is. size is that of the payload as stored, without trailer.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct Footer {
  BlockHandle filter;
  BlockHandle index;
  BlockHandle properties;
  BlockHandle range_tombstones;
  uint64_t tail_bytes = 0;
  uint64_t file_number = 0;
  uint64_t filter_keys = 0;
  double filter_bits_per_key = 0;
  uint8_t filter_kind = 0;
  uint8_t filter_probes = 0;
};

void AppendFooter(std::string* to, const Footer& footer);

// Decodes the last kFooterBytes of a file of file_bytes bytes and checks that the
// handles divide the tail among them.
//
// Errors: kDataLoss; kInvalidArgument where a newer version wrote the file. path is
// for messages.
absl::StatusOr<Footer> DecodeFooter(std::string_view bytes, uint64_t file_bytes,
                                    const std::string& path);

// The seed of the checksum of the block at offset.
inline uint64_t BlockChecksumSeed(uint64_t file_number, uint64_t offset) {
  return file_number * 0x9e3779b97f4a7c15 + offset;
}

// Writes the kBlockTrailerBytes of a block whose payload_bytes at block are going to
// stand at offset; they follow the payload.
void AddBlockTrailer(char* block, size_t payload_bytes, Compression codec, uint64_t file_number,
                     uint64_t offset);

// Length of the longest common prefix.
size_t SharedPrefix(std::string_view a, std::string_view b);

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_FORMAT_H_
