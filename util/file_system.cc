#include "sievedb/file_system.h"

namespace sievedb {

// The destructors are here, not inline, so that each class has one vtable in the
// library. The methods below are hints: doing nothing is right, only slower.

RandomAccessFile::~RandomAccessFile() = default;

void RandomAccessFile::Readahead(uint64_t /*offset*/, size_t /*n*/) const {}

WritableFile::~WritableFile() = default;

void WritableFile::StartWriteback() {}

absl::Status WritableFile::Preallocate(uint64_t /*bytes*/) { return absl::OkStatus(); }

FileLock::~FileLock() = default;

FileSystem::~FileSystem() = default;

uint64_t FileSystem::BootId() { return 0; }

}  // namespace sievedb
