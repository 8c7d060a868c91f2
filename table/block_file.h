#ifndef SIEVEDB_TABLE_BLOCK_FILE_H_
#define SIEVEDB_TABLE_BLOCK_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sievedb/file_system.h"
#include "sievedb/options.h"
#include "table/format.h"
#include "util/block_cache_impl.h"

namespace sievedb {

// A block as stored: payload, codec byte, checksum. No copy is made of it.
struct StoredBlock {
  std::string_view payload;
  Compression codec = Compression::kNone;
};

// Reads exactly n bytes at offset. *result points into scratch or into the file.
// Errors: kDataLoss, with path, where the file ends before.
absl::Status ReadExactly(const RandomAccessFile& file, const std::string& path, uint64_t offset,
                         size_t n, char* scratch, std::string_view* result);

// A table's file, read block by block.
//
// Threads: safe.
class BlockFile {
 public:
  // file_number seeds the checksums.
  BlockFile(std::unique_ptr<RandomAccessFile> file, std::string path, uint64_t file_number)
      : file_(std::move(file)), path_(std::move(path)), file_number_(file_number) {}

  const std::string& path() const { return path_; }
  const RandomAccessFile& file() const { return *file_; }

  // Takes apart what was read at handle, trailer included.
  // Requires: stored.size() == handle.size + kBlockTrailerBytes.
  // Errors: kDataLoss.
  absl::StatusOr<StoredBlock> Check(const BlockHandle& handle, std::string_view stored,
                                    bool verify_checksum) const;

  // Bytes of the block once decompressed. Bounded by what the payload could give.
  absl::StatusOr<size_t> RawSize(const BlockHandle& handle, const StoredBlock& block) const;
  // Requires: to has room for RawSize, raw_bytes.
  absl::Status Unpack(const BlockHandle& handle, const StoredBlock& block, char* to,
                      size_t raw_bytes) const;

  // Check, RawSize and Unpack into a buffer of which the caller owns the only
  // reference.
  absl::StatusOr<BlockBuffer*> Decode(const BlockHandle& handle, std::string_view stored,
                                      bool verify_checksum) const;

  // Reads and decodes one block.
  absl::StatusOr<BlockBuffer*> Read(const BlockHandle& handle, bool verify_checksum) const;

  // kDataLoss, of the block at handle.
  absl::Status Damaged(const BlockHandle& handle, std::string_view what) const;

 private:
  absl::StatusOr<BlockBuffer*> ReadLarge(const BlockHandle& handle, bool verify_checksum) const;
  absl::Status CheckSum(const BlockHandle& handle, uint64_t found, const char* trailer) const;

  const std::unique_ptr<RandomAccessFile> file_;
  const std::string path_;
  const uint64_t file_number_;
};

}  // namespace sievedb

#endif  // SIEVEDB_TABLE_BLOCK_FILE_H_
