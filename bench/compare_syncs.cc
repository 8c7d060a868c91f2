#include "bench/compare_syncs.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {

// Relaxed: a figure by itself, read while nobody writes.
std::atomic<uint64_t> sync_calls{0};

int CountedSync(int64_t call, int fd) {
  sync_calls.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(call, fd));
}

}  // namespace

extern "C" {
// The names and types are the C library's. Visible, or the peers' shared libraries
// would find the C library's own.
[[gnu::visibility("default")]] int fdatasync(int fd);
[[gnu::visibility("default")]] int fsync(int fd);
int fdatasync(int fd) { return CountedSync(SYS_fdatasync, fd); }
int fsync(int fd) { return CountedSync(SYS_fsync, fd); }
}

uint64_t sievedb::SyncCalls() { return sync_calls.load(std::memory_order_relaxed); }
