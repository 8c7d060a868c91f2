#include "table/format.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

constexpr size_t kFilterHandleAt = 0;
constexpr size_t kIndexHandleAt = 16;
constexpr size_t kPropertiesHandleAt = 32;
constexpr size_t kRangeTombstonesHandleAt = 48;
constexpr size_t kTailBytesAt = 64;
constexpr size_t kFileNumberAt = 72;
constexpr size_t kFilterKeysAt = 80;
constexpr size_t kFilterBitsAt = 88;
constexpr size_t kFilterKindAt = 96;
constexpr size_t kFilterProbesAt = 97;
constexpr size_t kZeroAt = 98;
constexpr size_t kChecksumAt = 104;
constexpr size_t kVersionAt = 112;
constexpr size_t kVersionComplementAt = 116;
constexpr size_t kMagicAt = 120;

static_assert(kIndexHandleAt == kFilterHandleAt + 16);
static_assert(kPropertiesHandleAt == kIndexHandleAt + 16);
static_assert(kRangeTombstonesHandleAt == kPropertiesHandleAt + 16);
static_assert(kTailBytesAt == kRangeTombstonesHandleAt + 16);
static_assert(kFilterBitsAt + sizeof(double) == kFilterKindAt);
static_assert(kZeroAt + 6 == kChecksumAt);
static_assert(kChecksumAt + 8 == kVersionAt);
static_assert(kMagicAt + 8 == kFooterBytes);
static_assert(kBlockTrailerBytes == 1 + 8);

uint64_t FooterChecksum(const char* footer) {
  return Hash64Pair({footer, kChecksumAt}, {footer + kVersionAt, kFooterBytes - kVersionAt}, 0);
}

void EncodeHandle(char* to, const BlockHandle& handle) {
  EncodeFixed64(to, handle.offset);
  EncodeFixed64(to + 8, handle.size);
}

BlockHandle DecodeHandle(const char* from) {
  return {DecodeFixed64(from), DecodeFixed64(from + 8)};
}

// The tail's blocks lie one behind the other, from its start to the footer. That
// also bounds every size by the file's.
absl::Status CheckTailLayout(const Footer& footer, uint32_t version, uint64_t file_bytes,
                             const std::string& path) {
  if (footer.tail_bytes < kFooterBytes || footer.tail_bytes > file_bytes) {
    return absl::DataLossError(absl::StrFormat("%s: footer: a tail of %d bytes in a file of %d",
                                               path, footer.tail_bytes, file_bytes));
  }
  if (version < 2 && (footer.range_tombstones.size != 0 || footer.range_tombstones.offset != 0)) {
    return absl::DataLossError(absl::StrFormat(
        "%s: footer: range tombstones, which version %d does not have", path, version));
  }
  const uint64_t footer_at = file_bytes - kFooterBytes;
  uint64_t at = file_bytes - footer.tail_bytes;
  const struct {
    const char* name;
    const BlockHandle& handle;
    bool optional;
  } blocks[] = {{"range-tombstone", footer.range_tombstones, version < 2},
                {"filter", footer.filter, true},
                {"index", footer.index, false},
                {"properties", footer.properties, false}};
  for (const auto& block : blocks) {
    if (block.optional && block.handle.size == 0 && block.handle.offset == 0) continue;
    if (block.handle.offset != at || block.handle.size == 0 ||
        footer_at - at < kBlockTrailerBytes ||
        block.handle.size > footer_at - at - kBlockTrailerBytes) {
      return absl::DataLossError(
          absl::StrFormat("%s: footer: the %s block of %d bytes at offset %d: expected it at %d, "
                          "before offset %d",
                          path, block.name, block.handle.size, block.handle.offset, at, footer_at));
    }
    at += block.handle.size + kBlockTrailerBytes;
  }
  if (at != footer_at) {
    return absl::DataLossError(absl::StrFormat(
        "%s: footer: the tail's blocks end at offset %d: expected %d", path, at, footer_at));
  }
  return absl::OkStatus();
}

}  // namespace

void AppendFooter(std::string* to, const Footer& footer) {
  char bytes[kFooterBytes] = {};
  EncodeHandle(bytes + kFilterHandleAt, footer.filter);
  EncodeHandle(bytes + kIndexHandleAt, footer.index);
  EncodeHandle(bytes + kPropertiesHandleAt, footer.properties);
  EncodeHandle(bytes + kRangeTombstonesHandleAt, footer.range_tombstones);
  EncodeFixed64(bytes + kTailBytesAt, footer.tail_bytes);
  EncodeFixed64(bytes + kFileNumberAt, footer.file_number);
  EncodeFixed64(bytes + kFilterKeysAt, footer.filter_keys);
  EncodeFixed64(bytes + kFilterBitsAt, std::bit_cast<uint64_t>(footer.filter_bits_per_key));
  bytes[kFilterKindAt] = static_cast<char>(footer.filter_kind);
  bytes[kFilterProbesAt] = static_cast<char>(footer.filter_probes);
  // Older readers know version 1 alone.
  const uint32_t version = footer.range_tombstones.size != 0 ? 2 : 1;
  EncodeFixed32(bytes + kVersionAt, version);
  EncodeFixed32(bytes + kVersionComplementAt, ~version);
  EncodeFixed64(bytes + kMagicAt, kTableMagic);
  EncodeFixed64(bytes + kChecksumAt, FooterChecksum(bytes));
  to->append(bytes, kFooterBytes);
}

absl::StatusOr<Footer> DecodeFooter(std::string_view bytes, uint64_t file_bytes,
                                    const std::string& path) {
  assert(bytes.size() == kFooterBytes);
  const char* const at = bytes.data();
  const uint64_t footer_at = file_bytes - kFooterBytes;
  if (const uint64_t magic = DecodeFixed64(at + kMagicAt); magic != kTableMagic) {
    return absl::DataLossError(
        absl::StrFormat("%s: footer at offset %d: not a table: magic: expected %016x, found %016x",
                        path, footer_at, kTableMagic, magic));
  }
  const uint32_t version = DecodeFixed32(at + kVersionAt);
  const uint32_t complement = DecodeFixed32(at + kVersionComplementAt);
  if (version != ~complement || version == 0) {
    return absl::DataLossError(
        absl::StrFormat("%s: footer at offset %d: version: expected %08x, found %08x", path,
                        footer_at, ~complement, version));
  }
  if (version > kTableFormatVersion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: table format %d was written by a newer version: this one reads up "
                        "to %d",
                        path, version, kTableFormatVersion));
  }
  const uint64_t expected = DecodeFixed64(at + kChecksumAt);
  if (const uint64_t found = FooterChecksum(at); found != expected) {
    return absl::DataLossError(
        absl::StrFormat("%s: footer at offset %d: checksum: expected %016x, found %016x", path,
                        footer_at, expected, found));
  }
  Footer footer;
  footer.filter = DecodeHandle(at + kFilterHandleAt);
  footer.index = DecodeHandle(at + kIndexHandleAt);
  footer.properties = DecodeHandle(at + kPropertiesHandleAt);
  footer.range_tombstones = DecodeHandle(at + kRangeTombstonesHandleAt);
  footer.tail_bytes = DecodeFixed64(at + kTailBytesAt);
  footer.file_number = DecodeFixed64(at + kFileNumberAt);
  footer.filter_keys = DecodeFixed64(at + kFilterKeysAt);
  footer.filter_bits_per_key = std::bit_cast<double>(DecodeFixed64(at + kFilterBitsAt));
  footer.filter_kind = static_cast<uint8_t>(at[kFilterKindAt]);
  footer.filter_probes = static_cast<uint8_t>(at[kFilterProbesAt]);
  SIEVEDB_RETURN_IF_ERROR(CheckTailLayout(footer, version, file_bytes, path));
  return footer;
}

void AddBlockTrailer(char* block, size_t payload_bytes, Compression codec, uint64_t file_number,
                     uint64_t offset) {
  char* const trailer = block + payload_bytes;
  trailer[0] = static_cast<char>(codec);
  EncodeFixed64(trailer + 1,
                Hash64({block, payload_bytes + 1}, BlockChecksumSeed(file_number, offset)));
}

size_t SharedPrefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t n = 0;
  for (; n + 8 <= limit; n += 8) {
    const uint64_t difference = DecodeFixed64(a.data() + n) ^ DecodeFixed64(b.data() + n);
    if (difference != 0) return n + static_cast<size_t>(std::countr_zero(difference)) / 8;
  }
  while (n < limit && a[n] == b[n]) ++n;
  return n;
}

}  // namespace sievedb
