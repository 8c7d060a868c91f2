#include "table/block_file.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_format.h"
#include "util/coding.h"
#include "util/compression.h"
#include "util/hash.h"
#include "util/status_macros.h"

namespace sievedb {
namespace {

// Snappy's densest element makes 64 bytes of 3. A payload that promises more is
// damaged, and nothing is allocated for it.
constexpr uint64_t kMaxExpansion = 32;

// Blocks up to this size are read through a buffer of the thread's.
constexpr size_t kScratchBytes = 256 << 10;

// Grows to what its thread reads, up to kScratchBytes, and is freed with it.
char* ThreadScratch(size_t bytes) {
  assert(bytes <= kScratchBytes);
  thread_local std::unique_ptr<char[]> scratch;
  thread_local size_t scratch_bytes = 0;
  if (scratch_bytes < bytes) {
    scratch_bytes = std::min(std::max(bytes * 2, size_t{16} << 10), kScratchBytes);
    scratch = std::make_unique_for_overwrite<char[]>(scratch_bytes);
  }
  return scratch.get();
}

}  // namespace

absl::Status BlockFile::Damaged(const BlockHandle& handle, std::string_view what) const {
  return absl::DataLossError(
      absl::StrFormat("%s: block at offset %d: %s", path_, handle.offset, what));
}

absl::Status ReadExactly(const RandomAccessFile& file, const std::string& path, uint64_t offset,
                         size_t n, char* scratch, std::string_view* result) {
  SIEVEDB_RETURN_IF_ERROR(file.Read(offset, n, scratch, result));
  if (result->size() != n) {
    return absl::DataLossError(
        absl::StrFormat("%s: the file is cut short: expected %d bytes at offset %d, found %d", path,
                        n, offset, result->size()));
  }
  return absl::OkStatus();
}

absl::Status BlockFile::CheckSum(const BlockHandle& handle, uint64_t found,
                                 const char* trailer) const {
  const uint64_t expected = DecodeFixed64(trailer + 1);
  if (found == expected) [[likely]]
    return absl::OkStatus();
  return Damaged(handle, absl::StrFormat("checksum: expected %016x, found %016x", expected, found));
}

absl::StatusOr<StoredBlock> BlockFile::Check(const BlockHandle& handle, std::string_view stored,
                                             bool verify_checksum) const {
  assert(stored.size() == handle.size + kBlockTrailerBytes);
  const char* const trailer = stored.data() + handle.size;
  if (verify_checksum) {
    const uint64_t found =
        Hash64(stored.substr(0, handle.size + 1), BlockChecksumSeed(file_number_, handle.offset));
    SIEVEDB_RETURN_IF_ERROR(CheckSum(handle, found, trailer));
  }
  const uint8_t codec = static_cast<uint8_t>(trailer[0]);
  if (codec > static_cast<uint8_t>(Compression::kSnappy)) {
    return Damaged(handle, absl::StrFormat("codec: expected 0 or 1, found %d", codec));
  }
  return StoredBlock{stored.substr(0, handle.size), static_cast<Compression>(codec)};
}

absl::StatusOr<size_t> BlockFile::RawSize(const BlockHandle& handle,
                                          const StoredBlock& block) const {
  if (block.codec == Compression::kNone) return block.payload.size();
  const uint64_t limit =
      std::min<uint64_t>(kMaxCompressedRawBytes, block.payload.size() * kMaxExpansion);
  absl::StatusOr<size_t> size = DecompressedSize(block.codec, block.payload, limit);
  if (!size.ok()) return Damaged(handle, std::string(size.status().message()));
  return size;
}

absl::Status BlockFile::Unpack(const BlockHandle& handle, const StoredBlock& block, char* to,
                               size_t raw_bytes) const {
  if (block.codec == Compression::kNone) {
    if (raw_bytes != 0) std::memcpy(to, block.payload.data(), raw_bytes);
    return absl::OkStatus();
  }
  const absl::Status status = Decompress(block.codec, block.payload, to);
  if (!status.ok()) return Damaged(handle, std::string(status.message()));
  return absl::OkStatus();
}

absl::StatusOr<BlockBuffer*> BlockFile::Decode(const BlockHandle& handle, std::string_view stored,
                                               bool verify_checksum) const {
  SIEVEDB_ASSIGN_OR_RETURN(const StoredBlock block, Check(handle, stored, verify_checksum));
  SIEVEDB_ASSIGN_OR_RETURN(const size_t raw_bytes, RawSize(handle, block));
  BlockBuffer* const buffer = BlockBuffer::New(raw_bytes);
  absl::Status status = Unpack(handle, block, buffer->data(), raw_bytes);
  if (!status.ok()) {
    buffer->Unref();
    return status;
  }
  return buffer;
}

absl::StatusOr<BlockBuffer*> BlockFile::Read(const BlockHandle& handle,
                                             bool verify_checksum) const {
  const uint64_t stored_bytes = handle.size + kBlockTrailerBytes;
  if (stored_bytes > kScratchBytes) return ReadLarge(handle, verify_checksum);
  std::string_view stored;
  SIEVEDB_RETURN_IF_ERROR(ReadExactly(*file_, path_, handle.offset, stored_bytes,
                                      ThreadScratch(stored_bytes), &stored));
  return Decode(handle, stored, verify_checksum);
}

// Looks at the trailer first, so that a huge value that is not compressed is read to
// where it will stay.
absl::StatusOr<BlockBuffer*> BlockFile::ReadLarge(const BlockHandle& handle,
                                                  bool verify_checksum) const {
  char trailer_scratch[kBlockTrailerBytes];
  std::string_view trailer;
  SIEVEDB_RETURN_IF_ERROR(ReadExactly(*file_, path_, handle.offset + handle.size,
                                      kBlockTrailerBytes, trailer_scratch, &trailer));
  if (static_cast<Compression>(trailer[0]) != Compression::kNone) {
    const uint64_t stored_bytes = handle.size + kBlockTrailerBytes;
    const auto scratch = std::make_unique_for_overwrite<char[]>(stored_bytes);
    std::string_view stored;
    SIEVEDB_RETURN_IF_ERROR(
        ReadExactly(*file_, path_, handle.offset, stored_bytes, scratch.get(), &stored));
    return Decode(handle, stored, verify_checksum);
  }
  BlockBuffer* const buffer = BlockBuffer::New(handle.size);
  std::string_view payload;
  absl::Status status =
      ReadExactly(*file_, path_, handle.offset, handle.size, buffer->data(), &payload);
  if (status.ok() && payload.data() != buffer->data()) {
    std::memcpy(buffer->data(), payload.data(), handle.size);
  }
  if (status.ok() && verify_checksum) {
    const uint64_t found = Hash64Pair({buffer->data(), handle.size}, trailer.substr(0, 1),
                                      BlockChecksumSeed(file_number_, handle.offset));
    status = CheckSum(handle, found, trailer.data());
  }
  if (!status.ok()) {
    buffer->Unref();
    return status;
  }
  return buffer;
}

}  // namespace sievedb
