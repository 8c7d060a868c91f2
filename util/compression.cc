#include "util/compression.h"

#include <snappy.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/str_format.h"

namespace sievedb {
namespace {

absl::Status UnknownCompression(Compression compression) {
  return absl::DataLossError(absl::StrFormat("compression %u is not known; expected 0 or 1",
                                             static_cast<unsigned>(compression)));
}

}  // namespace

bool Compress(Compression compression, std::string_view raw, std::string* compressed) {
  // Snappy counts in 32 bits. Such a block is stored as it is.
  if (compression != Compression::kSnappy || raw.empty() ||
      raw.size() > std::numeric_limits<uint32_t>::max()) {
    return false;
  }
  compressed->resize(snappy::MaxCompressedLength(raw.size()));
  size_t compressed_bytes = 0;
  snappy::RawCompress(raw.data(), raw.size(), compressed->data(), &compressed_bytes);
  compressed->resize(compressed_bytes);
  return compressed_bytes <= raw.size() - raw.size() / 8;
}

absl::StatusOr<size_t> DecompressedSize(Compression compression, std::string_view compressed,
                                        size_t limit) {
  size_t bytes = 0;
  switch (compression) {
    case Compression::kNone:
      bytes = compressed.size();
      break;
    case Compression::kSnappy:
      if (!snappy::GetUncompressedLength(compressed.data(), compressed.size(), &bytes)) {
        return absl::DataLossError(absl::StrFormat(
            "the length in front of %u Snappy bytes is malformed", compressed.size()));
      }
      break;
    default:
      return UnknownCompression(compression);
  }
  if (bytes > limit) {
    return absl::DataLossError(
        absl::StrFormat("would decompress to %u bytes; expected at most %u", bytes, limit));
  }
  return bytes;
}

absl::Status Decompress(Compression compression, std::string_view compressed, char* to) {
  switch (compression) {
    case Compression::kNone:
      if (!compressed.empty()) std::memcpy(to, compressed.data(), compressed.size());
      return absl::OkStatus();
    case Compression::kSnappy:
      // Writes at most the length that the bytes begin with, whatever follows.
      if (!snappy::RawUncompress(compressed.data(), compressed.size(), to)) {
        return absl::DataLossError(
            absl::StrFormat("%u Snappy bytes are malformed", compressed.size()));
      }
      return absl::OkStatus();
  }
  return UnknownCompression(compression);
}

const char* CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kSnappy:
      return "snappy";
  }
  return "unknown";
}

}  // namespace sievedb
