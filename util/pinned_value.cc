#include "sievedb/pinned_value.h"

#include <cstddef>

namespace sievedb {
namespace {

// A value that is reused keeps this much room for the next one; more is given back.
constexpr size_t kKeptBytes = 64 << 10;

}  // namespace

PinnedValue& PinnedValue::operator=(PinnedValue&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  if (other.release_ != nullptr) {
    view_ = other.view_;
    release_ = std::exchange(other.release_, nullptr);
    owner_ = std::exchange(other.owner_, nullptr);
  } else {
    // A short string's bytes move with it.
    copy_ = std::move(other.copy_);
    view_ = copy_;
  }
  other.copy_.clear();
  other.view_ = {};
  return *this;
}

void PinnedValue::Reset() {
  view_ = {};
  if (release_ != nullptr) {
    // Noted first: release may come back to this value.
    void (*const release)(void*) = std::exchange(release_, nullptr);
    release(std::exchange(owner_, nullptr));
  }
  if (copy_.capacity() > kKeptBytes) {
    std::string().swap(copy_);
  } else {
    copy_.clear();
  }
}

void PinnedValue::AssignCopy(std::string_view bytes) {
  // Copied before anything is let go of: bytes may be a part of what is held.
  copy_.assign(bytes);
  view_ = copy_;
  if (release_ != nullptr) {
    void (*const release)(void*) = std::exchange(release_, nullptr);
    release(std::exchange(owner_, nullptr));
  }
}

void PinnedValue::AssignPinned(std::string_view bytes, void (*release)(void*), void* owner) {
  Reset();
  view_ = bytes;
  release_ = release;
  owner_ = owner;
}

}  // namespace sievedb
