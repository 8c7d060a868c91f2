#include "sievedb/thread_pool.h"

#include <cassert>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "util/mutex.h"

namespace sievedb {
namespace {

// What the workers share. Each holds a reference, so it outlives a pool whose last
// reference is dropped by work that the pool itself runs.
struct State {
  Mutex mu;
  CondVar work_added;
  std::deque<std::function<void()>> high ABSL_GUARDED_BY(mu);
  std::deque<std::function<void()>> low ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;

  // Waits for work. False where there is none and never will be.
  bool Take(std::function<void()>* work) {
    const MutexLock lock(&mu);
    while (high.empty() && low.empty()) {
      if (stopping) return false;
      work_added.Wait(&mu);
    }
    std::deque<std::function<void()>>& queue = high.empty() ? low : high;
    *work = std::move(queue.front());
    queue.pop_front();
    return true;
  }
};

void RunWorker(const std::shared_ptr<State>& state) {
  std::function<void()> work;
  while (state->Take(&work)) {
    work();
    work = nullptr;  // what it holds goes before the wait for the next
  }
}

class ThreadPoolImpl final : public ThreadPool {
 public:
  explicit ThreadPoolImpl(int threads) : state_(std::make_shared<State>()) {
    assert(threads >= 1);
    threads_.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([state = state_] { RunWorker(state); });
    }
  }

  ~ThreadPoolImpl() override {
    {
      const MutexLock lock(&state_->mu);
      state_->stopping = true;
    }
    state_->work_added.SignalAll();
    for (std::thread& thread : threads_) {
      if (thread.get_id() == std::this_thread::get_id()) {
        // It can't wait for itself; it ends once the queues are empty.
        thread.detach();
      } else {
        thread.join();
      }
    }
  }

  void Schedule(Priority priority, std::function<void()> work) override {
    assert(work != nullptr);
    {
      const MutexLock lock(&state_->mu);
      (priority == Priority::kHigh ? state_->high : state_->low).push_back(std::move(work));
    }
    state_->work_added.Signal();
  }

  bool RunHigh() override {
    std::function<void()> work;
    {
      const MutexLock lock(&state_->mu);
      if (state_->high.empty()) return false;
      work = std::move(state_->high.front());
      state_->high.pop_front();
    }
    work();
    return true;
  }

  int ThreadCount() const override { return static_cast<int>(threads_.size()); }

 private:
  const std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::shared_ptr<ThreadPool> NewThreadPool(int threads) {
  return std::make_shared<ThreadPoolImpl>(threads);
}

}  // namespace sievedb
