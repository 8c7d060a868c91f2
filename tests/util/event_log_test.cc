#include "util/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "util/file_util.h"

namespace sievedb {
namespace {

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() { EXPECT_TRUE(files_->CreateDirectory("/db").ok()); }

  std::string Contents(const std::string& path) {
    const absl::StatusOr<std::string> contents = ReadWholeFile(files_.get(), path);
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.value_or("");
  }

  const std::shared_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

constexpr char kStamp[] =
    "20[0-9][0-9]/[0-9][0-9]/[0-9][0-9]-[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9]{6} ";

TEST_F(EventLogTest, ALineAnEvent) {
  {
    EventLog log(files_.get(), "/db/LOG");
    log.Write("opened");
    log.Write("two\nlines\r");  // stay one
    log.Write("");
  }
  const std::vector<std::string> lines = absl::StrSplit(Contents("/db/LOG"), '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], testing::MatchesRegex(std::string(kStamp) + "opened"));
  EXPECT_THAT(lines[1], testing::MatchesRegex(std::string(kStamp) + "two lines "));
  EXPECT_THAT(lines[2], testing::MatchesRegex(kStamp));
  EXPECT_EQ(lines[3], "");
}

TEST_F(EventLogTest, TheOldLogIsKeptOnce) {
  for (const char* line : {"first", "second", "third"}) {
    EventLog log(files_.get(), "/db/LOG");
    log.Write(line);
  }
  EXPECT_THAT(Contents("/db/LOG"), testing::HasSubstr("third"));
  EXPECT_THAT(Contents("/db/LOG.old"), testing::HasSubstr("second"));
  EXPECT_THAT(Contents("/db/LOG"), testing::Not(testing::HasSubstr("second")));
}

TEST_F(EventLogTest, SwallowsLinesItCannotWrite) {
  EventLog none;
  none.Write("nowhere");
  EventLog missing(files_.get(), "/no/such/directory/LOG");
  missing.Write("nowhere");
  EXPECT_FALSE(*files_->FileExists("/no/such/directory/LOG"));
}

TEST_F(EventLogTest, LinesOfThreadsStayWhole) {
  {
    EventLog log(files_.get(), "/db/LOG");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log] {
        for (int i = 0; i < 100; ++i) log.Write("a line of some length, and it stays whole");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const std::vector<std::string> lines =
      absl::StrSplit(Contents("/db/LOG"), '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 400u);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, testing::EndsWith(" a line of some length, and it stays whole"));
    EXPECT_EQ(line.size(), lines[0].size());
  }
}

}  // namespace
}  // namespace sievedb
