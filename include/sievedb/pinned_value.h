#ifndef SIEVEDB_PINNED_VALUE_H_
#define SIEVEDB_PINNED_VALUE_H_

#include <string>
#include <string_view>
#include <utility>

#include "sievedb/export.h"

namespace sievedb {

// A value that was read without copying it: it holds the cached block that the
// bytes are in, until Reset or destruction. It may outlive its DB, not the
// BlockCache's accounting of it: a pinned block counts as cache usage.
//
// Threads: not safe for concurrent use; it may be moved to another thread.
class SIEVEDB_EXPORT PinnedValue {
 public:
  PinnedValue() = default;
  ~PinnedValue() { Reset(); }
  PinnedValue(PinnedValue&& other) noexcept { *this = std::move(other); }
  PinnedValue& operator=(PinnedValue&& other) noexcept;
  PinnedValue(const PinnedValue&) = delete;
  PinnedValue& operator=(const PinnedValue&) = delete;

  std::string_view view() const { return view_; }
  operator std::string_view() const { return view_; }  // NOLINT: a value reads as its bytes
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  std::string ToString() const { return std::string(view_); }

  // Lets go of the bytes; the value is then empty.
  void Reset();

  // For the engine and for wrappers: takes a copy of bytes, or bytes that stay
  // until release(owner) is called.
  void AssignCopy(std::string_view bytes);
  void AssignPinned(std::string_view bytes, void (*release)(void*), void* owner);

 private:
  std::string_view view_;
  std::string copy_;
  void (*release_)(void*) = nullptr;
  void* owner_ = nullptr;
};

}  // namespace sievedb

#endif  // SIEVEDB_PINNED_VALUE_H_
