#ifndef SIEVEDB_TESTS_VECTOR_ITERATOR_H_
#define SIEVEDB_TESTS_VECTOR_ITERATOR_H_

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "table/internal_iterator.h"
#include "table/internal_key.h"

namespace sievedb {

// An entry of a VectorIterator, or the place of a read that fails.
struct VectorEntry {
  std::string key;  // internal
  std::string value;
  absl::Status status;
};

// Iterates over entries that a test wrote down, and is as unkind as an iterator may
// be: key and value lie in memory of their own that is freed with the next move.
class VectorIterator final : public InternalIterator {
 public:
  // Requires: entries are in order.
  VectorIterator(const InternalKeyOrder& order, std::vector<VectorEntry> entries)
      : order_(order), entries_(std::move(entries)) {}

  bool Valid() const override { return current_ != nullptr && current_->status.ok(); }
  void SeekToFirst() override { MoveTo(0); }
  void SeekToLast() override { MoveTo(entries_.size() - 1); }
  void Seek(std::string_view target) override {
    ++seeks_;
    size_t i = 0;
    while (i < entries_.size() && order_.Compare(entries_[i].key, target) < 0) ++i;
    MoveTo(i);
  }
  void SeekForPrev(std::string_view target) override {
    ++seeks_;
    size_t i = entries_.size();
    while (i > 0 && order_.Compare(entries_[i - 1].key, target) > 0) --i;
    MoveTo(i - 1);
  }
  void Next() override {
    ASSERT_TRUE(Valid());
    ++steps_;
    MoveTo(at_ + 1);
  }
  void Prev() override {
    ASSERT_TRUE(Valid());
    ++steps_;
    MoveTo(at_ - 1);
  }
  std::string_view key() const override { return current_->key; }
  std::string_view value() const override { return current_->value; }
  absl::Status status() const override {
    return current_ == nullptr ? absl::OkStatus() : current_->status;
  }

  int seeks() const { return seeks_; }
  int steps() const { return steps_; }

 private:
  // Either end where at is no index.
  void MoveTo(size_t at) {
    at_ = at;
    current_ = at < entries_.size() ? std::make_unique<VectorEntry>(entries_[at]) : nullptr;
  }

  const InternalKeyOrder order_;
  const std::vector<VectorEntry> entries_;
  size_t at_ = 0;
  std::unique_ptr<VectorEntry> current_;
  int seeks_ = 0;
  int steps_ = 0;
};

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_VECTOR_ITERATOR_H_
