#ifndef SIEVEDB_BLOCK_CACHE_H_
#define SIEVEDB_BLOCK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sievedb/export.h"

namespace sievedb {

// Holds decoded data blocks, for one DB or for several that share it
// (Options::block_cache). Scans pass through it without driving out what point
// reads use (S3-FIFO: Yang et al. 2023). A hit takes no lock.
//
// Threads: safe.
class SIEVEDB_EXPORT BlockCache {
 public:
  virtual ~BlockCache();

  virtual size_t CapacityBytes() const = 0;
  // Bytes held by cached blocks, bookkeeping included; never above the capacity,
  // pinned blocks apart.
  virtual size_t UsageBytes() const = 0;
  // Hits and misses since creation.
  virtual uint64_t Hits() const = 0;
  virtual uint64_t Misses() const = 0;
  // Drops every block that nobody is using.
  virtual void Clear() = 0;

 private:
  friend class BlockCacheImpl;  // the only implementation: hot paths call it directly
  BlockCache() = default;
};

// A cache that holds up to capacity_bytes. 0 is legal: nothing is cached.
SIEVEDB_EXPORT std::shared_ptr<BlockCache> NewBlockCache(size_t capacity_bytes);

}  // namespace sievedb

#endif  // SIEVEDB_BLOCK_CACHE_H_
