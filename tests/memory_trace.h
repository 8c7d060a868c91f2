#ifndef SIEVEDB_TESTS_MEMORY_TRACE_H_
#define SIEVEDB_TESTS_MEMORY_TRACE_H_

#include <cstdint>
#include <functional>
#include <string>

namespace sievedb {

// What the code between its Begin and End does to memory: each instruction that reads or
// writes anything outside of its thread's stack and static thread-local memory. All other
// writable pages of the process are taken away, the fault tells the address, and the
// instruction is stepped over alone, as a debugger would. So it costs some microseconds an
// access, and misses none, whoever makes it: locks and the allocator too.
//
// Of an access that spans two cache lines of one page it sees the first.
class MemoryTrace {
 public:
  virtual ~MemoryTrace() = default;
  // Requires: no system call is made until End that reads or writes memory of the process.
  virtual void Begin() = 0;
  virtual void End() = 0;
  // Where it is false, the trace has failed.
  virtual void Require(bool condition) = 0;
};

struct SharedWrites {
  std::string unsupported;  // why nothing could be traced; else empty
  std::string failed;       // why the trace says nothing; else empty
  uint64_t reads = 0;       // by both threads
  uint64_t writes = 0;
  // Of them, those to a cache line that the other thread reads or writes.
  uint64_t shared = 0;
  std::string where;  // the instructions that made them, for addr2line
};

// Runs body on two threads, one after the other. What one of them writes and the other
// touches, doing the same, is shared: no knowledge of what belongs to whom is needed. In a
// copy of the process (fork) in which no other thread exists, so that body may find what the
// caller made, and can change none of it.
// Requires: body warms up, then begins and ends the trace once.
SharedWrites CountSharedWrites(const std::function<void(MemoryTrace*)>& body);

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_MEMORY_TRACE_H_
