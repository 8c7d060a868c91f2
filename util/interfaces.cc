// The destructors and default methods of the public interfaces that have no file of
// their own. They are out of line so that each interface's vtable is in the library
// once, and its ABI does not depend on the users' compilers.

#include "sievedb/block_cache.h"
#include "sievedb/filter.h"
#include "sievedb/iterator.h"
#include "sievedb/listener.h"
#include "sievedb/rate_limiter.h"
#include "sievedb/statistics.h"
#include "sievedb/thread_pool.h"
#include "sievedb/write_batch.h"

namespace sievedb {

BlockCache::~BlockCache() = default;
EventListener::~EventListener() = default;
FilterBuilder::~FilterBuilder() = default;
FilterPolicy::~FilterPolicy() = default;
FilterReader::~FilterReader() = default;
Iterator::~Iterator() = default;
RateLimiter::~RateLimiter() = default;
Statistics::~Statistics() = default;
ThreadPool::~ThreadPool() = default;
WriteBatch::Handler::~Handler() = default;

void FilterReader::Prefetch(uint64_t /*hash*/) const {}

}  // namespace sievedb
