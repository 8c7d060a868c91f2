#ifndef SIEVEDB_THREAD_POOL_H_
#define SIEVEDB_THREAD_POOL_H_

#include <functional>
#include <memory>

#include "sievedb/export.h"

namespace sievedb {

// Runs a database's background work. One may serve several databases
// (Options::background_pool).
//
// Threads: safe.
class SIEVEDB_EXPORT ThreadPool {
 public:
  enum class Priority { kHigh, kLow };  // flushes are kHigh, the rest is kLow

  virtual ~ThreadPool();

  // Runs work some time later on another thread; kHigh work first, otherwise
  // first come, first served. Work that was scheduled is always run.
  virtual void Schedule(Priority priority, std::function<void()> work) = 0;

  // Runs one piece of kHigh work that waits, now and on the calling thread, and returns
  // true; false where there is none. Long kLow work calls it every few hundred
  // microseconds, so that flushes need no thread kept free for them. The default runs
  // none: flushes may then wait until a piece of a compaction is done.
  virtual bool RunHigh();

  virtual int ThreadCount() const = 0;
};

// Requires: threads >= 1. The destructor runs what is scheduled, then joins.
SIEVEDB_EXPORT std::shared_ptr<ThreadPool> NewThreadPool(int threads);

}  // namespace sievedb

#endif  // SIEVEDB_THREAD_POOL_H_
