#ifndef SIEVEDB_UTIL_PREFETCH_H_
#define SIEVEDB_UTIL_PREFETCH_H_

namespace sievedb {

// Starts loading the cache line at p, for reading or for writing.
//
// Not the compiler's built-in alone: GCC takes a function that does nothing but
// prefetch for one without effect, and drops the calls that it has not inlined by
// then. The empty statement is an effect, and no instruction.
[[gnu::always_inline]] inline void PrefetchLine(const void* p) {
  __builtin_prefetch(p);
  asm volatile("");
}
[[gnu::always_inline]] inline void PrefetchLineToWrite(const void* p) {
  __builtin_prefetch(p, 1);
  asm volatile("");
}

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_PREFETCH_H_
