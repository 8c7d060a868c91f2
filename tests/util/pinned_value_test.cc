#include "sievedb/pinned_value.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace sievedb {
namespace {

// Counts how often it was let go of.
struct Owner {
  static void Release(void* owner) { ++static_cast<Owner*>(owner)->released; }
  std::string bytes = "pinned bytes";
  int released = 0;
};

TEST(PinnedValueTest, BeginsEmpty) {
  PinnedValue value;
  EXPECT_TRUE(value.empty());
  EXPECT_EQ(value.ToString(), "");
  value.Reset();
  EXPECT_EQ(value.size(), 0u);
}

TEST(PinnedValueTest, HoldsAPinUntilReset) {
  Owner owner;
  PinnedValue value;
  value.AssignPinned(owner.bytes, Owner::Release, &owner);
  EXPECT_EQ(value.data(), owner.bytes.data());  // not copied
  EXPECT_EQ(value.view(), owner.bytes);
  EXPECT_EQ(owner.released, 0);
  value.Reset();
  EXPECT_EQ(owner.released, 1);
  EXPECT_TRUE(value.empty());
  value.Reset();
  EXPECT_EQ(owner.released, 1);
}

TEST(PinnedValueTest, DestructorAndAssignmentsRelease) {
  Owner owner;
  {
    PinnedValue value;
    value.AssignPinned(owner.bytes, Owner::Release, &owner);
  }
  EXPECT_EQ(owner.released, 1);
  PinnedValue value;
  value.AssignPinned(owner.bytes, Owner::Release, &owner);
  value.AssignCopy("x");
  EXPECT_EQ(owner.released, 2);
  EXPECT_EQ(value.view(), "x");
  Owner other;
  value.AssignPinned(owner.bytes, Owner::Release, &owner);
  value.AssignPinned(other.bytes, Owner::Release, &other);
  EXPECT_EQ(owner.released, 3);
  EXPECT_EQ(other.released, 0);
  value = PinnedValue();
  EXPECT_EQ(other.released, 1);
}

TEST(PinnedValueTest, MovesAPin) {
  Owner owner;
  PinnedValue first;
  first.AssignPinned(owner.bytes, Owner::Release, &owner);
  PinnedValue second(std::move(first));
  EXPECT_TRUE(first.empty());  // NOLINT: a moved-from value is empty
  EXPECT_EQ(second.view(), owner.bytes);
  first.Reset();
  EXPECT_EQ(owner.released, 0);
  PinnedValue& alias = second;
  second = std::move(alias);
  EXPECT_EQ(second.view(), owner.bytes);
  second.Reset();
  EXPECT_EQ(owner.released, 1);
}

TEST(PinnedValueTest, MovesCopiesShortAndLong) {
  for (const size_t bytes : {0, 1, 15, 16, 1000}) {
    const std::string text(bytes, 'v');
    PinnedValue first;
    first.AssignCopy(text);
    PinnedValue second;
    second.AssignCopy("old");
    second = std::move(first);
    first.AssignCopy("overwritten");
    EXPECT_EQ(second.view(), text);
    first.Reset();
    EXPECT_EQ(second.view(), text);
    EXPECT_TRUE(first.empty());
  }
}

TEST(PinnedValueTest, CopiesAPartOfItself) {
  PinnedValue value;
  value.AssignCopy("0123456789012345678901234567890123456789");
  value.AssignCopy(value.view().substr(5, 20));
  EXPECT_EQ(value.view(), "56789012345678901234");

  // The pinned bytes vanish with the pin; they must have been copied by then.
  auto* const dying =
      std::make_unique<std::string>("bytes that die with their owner, all of them").release();
  value.AssignPinned(
      *dying, [](void* owner) { delete static_cast<std::string*>(owner); }, dying);
  value.AssignCopy(value.view().substr(0, 25));
  EXPECT_EQ(value.view(), "bytes that die with their");
}

TEST(PinnedValueTest, GivesLargeCopiesBack) {
  PinnedValue value;
  value.AssignCopy(std::string(10 << 20, 'x'));
  EXPECT_EQ(value.size(), size_t{10} << 20);
  value.Reset();
  value.AssignCopy("small");
  EXPECT_EQ(value.ToString(), "small");
}

}  // namespace
}  // namespace sievedb
