#ifndef SIEVEDB_BENCH_COMPARE_SYNCS_H_
#define SIEVEDB_BENCH_COMPARE_SYNCS_H_

#include <cstdint>

namespace sievedb {

// How often this process has called fsync or fdatasync: of whatever library it is,
// since compare puts its own definitions before the C library's.
uint64_t SyncCalls();

}  // namespace sievedb

#endif  // SIEVEDB_BENCH_COMPARE_SYNCS_H_
