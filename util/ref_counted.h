#ifndef SIEVEDB_UTIL_REF_COUNTED_H_
#define SIEVEDB_UTIL_REF_COUNTED_H_

#include <atomic>
#include <cassert>
#include <cstdint>
#include <utility>

#include "util/epoch.h"

namespace sievedb {

// An intrusive reference count that starts at one: the creator's. T derives from
// RefCounted<T>; a T with a private destructor befriends it.
template <typename T>
class RefCounted {
 public:
  void Ref() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() const {
    const uint32_t before = refs_.fetch_sub(1, std::memory_order_acq_rel);
    assert(before > 0);
    if (before == 1) delete static_cast<const T*>(this);
  }
  // Gives up a reference once all present epoch guards have ended, so a reader
  // that found the object under a guard may still Ref() it.
  void RetireRef() const {
    EpochRetire(const_cast<T*>(static_cast<const T*>(this)),
                [](void* object) { static_cast<T*>(object)->Unref(); });
  }

 protected:
  RefCounted() = default;
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> refs_{1};
};

// Owns one reference.
template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  template <typename... Args>
  static RefPtr New(Args&&... args) {
    return RefPtr(new T(std::forward<Args>(args)...));
  }
  static RefPtr Adopt(T* object) { return RefPtr(object); }  // takes the caller's reference
  static RefPtr Share(T* object) {                           // adds one
    if (object != nullptr) object->Ref();
    return RefPtr(object);
  }
  RefPtr(const RefPtr& other) : RefPtr(Share(other.object_)) {}
  RefPtr(RefPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~RefPtr() {
    if (object_ != nullptr) object_->Unref();
  }
  T* get() const { return object_; }
  T* release() { return std::exchange(object_, nullptr); }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit RefPtr(T* object) : object_(object) {}
  T* object_ = nullptr;
};

}  // namespace sievedb

#endif  // SIEVEDB_UTIL_REF_COUNTED_H_
