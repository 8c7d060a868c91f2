#include "table/internal_iterator.h"

#include <cassert>
#include <utility>

namespace sievedb {
namespace {

class EmptyInternalIterator final : public InternalIterator {
 public:
  explicit EmptyInternalIterator(absl::Status status) : status_(std::move(status)) {}
  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(std::string_view /*internal_key*/) override {}
  void SeekForPrev(std::string_view /*internal_key*/) override {}
  void Next() override { assert(false); }
  void Prev() override { assert(false); }
  std::string_view key() const override {
    assert(false);
    return {};
  }
  std::string_view value() const override {
    assert(false);
    return {};
  }
  absl::Status status() const override { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace

std::unique_ptr<InternalIterator> NewEmptyInternalIterator(absl::Status status) {
  return std::make_unique<EmptyInternalIterator>(std::move(status));
}

}  // namespace sievedb
