// The destructors and default methods of the public interfaces that have no file of
// their own. They are out of line so that each interface's vtable is in the library
// once, and its ABI does not depend on the users' compilers.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "sievedb/block_cache.h"
#include "sievedb/filter_policy.h"
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
void RateLimiter::SetDebt(const void*, double) {}
Statistics::~Statistics() = default;
ThreadPool::~ThreadPool() = default;
bool ThreadPool::RunHigh() { return false; }
WriteBatch::Handler::~Handler() = default;
absl::Status WriteBatch::Handler::DeleteRange(std::string_view, std::string_view) {
  return absl::UnimplementedError("a range was deleted, which this handler does not know");
}

void FilterReader::Prefetch(uint64_t /*hash*/) const {}

void FilterReader::MayContainMany(absl::Span<const uint64_t> hashes,
                                  absl::Span<bool> results) const {
  assert(hashes.size() == results.size());
  // As many misses as a core has in flight.
  constexpr size_t kGroup = 16;
  for (size_t begin = 0; begin < hashes.size(); begin += kGroup) {
    const size_t end = std::min(begin + kGroup, hashes.size());
    for (size_t i = begin; i < end; ++i) Prefetch(hashes[i]);
    for (size_t i = begin; i < end; ++i) results[i] = MayContain(hashes[i]);
  }
}

uint8_t FilterBuilder::Kind() const { return 0; }

}  // namespace sievedb
