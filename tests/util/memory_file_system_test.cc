// What the memory file system must do like any other stands in
// posix_file_system_test.cc; this is its own.

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/file_system.h"

namespace sievedb {
namespace {

using ::testing::UnorderedElementsAre;

TEST(MemoryFileSystemTest, EachIsItsOwn) {
  const auto a = NewMemoryFileSystem();
  const auto b = NewMemoryFileSystem();
  ASSERT_TRUE(a->NewWritableFile("/f").ok());
  EXPECT_TRUE(a->FileExists("/f").value());
  EXPECT_FALSE(b->FileExists("/f").value());
}

TEST(MemoryFileSystemTest, SpellingsOfAPathAreOne) {
  const auto fs = NewMemoryFileSystem();
  ASSERT_TRUE(fs->CreateDirectory("/d").ok());
  ASSERT_TRUE(fs->NewWritableFile("/d//./f").ok());
  EXPECT_TRUE(fs->FileExists("d/f").value());
  EXPECT_THAT(fs->GetChildren("/").value(), UnorderedElementsAre("d"));
  EXPECT_THAT(fs->GetChildren("./d/").value(), UnorderedElementsAre("f"));
  EXPECT_FALSE(fs->DeleteDirectory("/").ok());
}

TEST(MemoryFileSystemTest, FilesAndLocksOutliveIt) {
  auto fs = NewMemoryFileSystem();
  auto writer = fs->NewWritableFile("/f");
  auto reader = fs->NewRandomAccessFile("/f");
  auto lock = fs->LockFile("/LOCK");
  ASSERT_TRUE(writer.ok() && reader.ok() && lock.ok());
  fs = nullptr;
  ASSERT_TRUE((*writer)->Append("abc").ok());
  char scratch[8];
  std::string_view result;
  ASSERT_TRUE((*reader)->Read(1, 8, scratch, &result).ok());
  EXPECT_EQ(result, "bc");
  lock->reset();
}

TEST(MemoryFileSystemTest, ReadersFollowAWriter) {
  const auto fs = NewMemoryFileSystem();
  constexpr int kBytes = 20000;
  auto writer = fs->NewWritableFile("/f");
  auto reader = fs->NewRandomAccessFile("/f");
  ASSERT_TRUE(writer.ok() && reader.ok());
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      std::vector<char> scratch(kBytes);
      for (size_t seen = 0; seen < kBytes;) {
        std::string_view result;
        if (!(*reader)->Read(0, kBytes, scratch.data(), &result).ok() || result.size() < seen ||
            result.find_first_not_of('x') != result.npos) {
          wrong = true;
          return;
        }
        seen = result.size();
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 200; ++i) {
      const std::string name = absl::StrFormat("/g%d", i % 7);
      if (!fs->NewWritableFile(name).ok() || !fs->DeleteFile(name).ok()) wrong = true;
    }
  });
  bool appended = true;
  for (int i = 0; i < kBytes / 100; ++i) {
    appended = (*writer)->Append(std::string(100, 'x')).ok() && appended;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(appended);
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace sievedb
