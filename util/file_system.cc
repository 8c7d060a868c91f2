#include "sievedb/file_system.h"

#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include "util/clock.h"
#include "util/hash.h"

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

absl::StatusOr<std::unique_ptr<RandomAccessFile>> FileSystem::NewMappedFile(
    const std::string& path) {
  return NewRandomAccessFile(path);
}

absl::Status FileSystem::LinkFile(const std::string& from, const std::string& to) {
  return absl::UnimplementedError("link " + from + " to " + to + ": this file system has no links");
}

uint64_t FileSystem::BootId() { return 0; }

uint64_t FileSystem::RandomSeed() {
  uint64_t seed = 0;
  if (getentropy(&seed, sizeof(seed)) == 0) return seed;
  // A kernel without randomness: the time and where things lie in memory are the best
  // that is left.
  const uint64_t parts[] = {NowNanos(), reinterpret_cast<uintptr_t>(&seed),
                            reinterpret_cast<uintptr_t>(this)};
  return Hash64({reinterpret_cast<const char*>(parts), sizeof(parts)});
}

}  // namespace sievedb
