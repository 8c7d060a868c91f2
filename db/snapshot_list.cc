#include "db/snapshot_list.h"

#include <cassert>
#include <utility>

namespace sievedb {

// A snapshot that takes itself off the list with its last reference.
class SnapshotList::Entry final : public Snapshot {
 public:
  Entry(std::shared_ptr<SnapshotList> list, uint64_t sequence)
      : Snapshot(sequence), list_(std::move(list)) {}
  ~Entry() { list_->Release(sequence()); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  const std::shared_ptr<SnapshotList> list_;
};

std::shared_ptr<const Snapshot> SnapshotList::Insert(uint64_t sequence) {
  auto entry = std::make_shared<const Entry>(shared_from_this(), sequence);
  sequences_.insert(sequence);
  return entry;
}

void SnapshotList::Release(uint64_t sequence) {
  MutexLock lock(&mu_);
  const auto it = sequences_.find(sequence);
  assert(it != sequences_.end());
  sequences_.erase(it);
}

std::vector<uint64_t> SnapshotList::Sequences() const {
  MutexLock lock(&mu_);
  std::vector<uint64_t> distinct;
  for (const uint64_t sequence : sequences_) {
    if (distinct.empty() || distinct.back() != sequence) distinct.push_back(sequence);
  }
  return distinct;
}

size_t SnapshotList::size() const {
  MutexLock lock(&mu_);
  return sequences_.size();
}

}  // namespace sievedb
