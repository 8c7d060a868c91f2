#include "tools/flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sievedb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() : flags_("prog", "[flags] FILE…", "Does things.") {
    flags_.Add("sync", &sync_, "wait for the disk");
    flags_.Add("db", &db_, "directory of the database");
    flags_.Add("threads", &threads_, "threads at a time", 1, 64);
    flags_.Add("offset", &offset_, "may be negative");
    flags_.Add("num", &num_, "keys", 1);
    flags_.Add("ratio", &ratio_, "part that stays", 0.0, 1.0);
    flags_.AddBytes("cache_size", &cache_bytes_, "bytes of the cache", 0, uint64_t{1} << 40);
    flags_.AddChoice("codec", &codec_, {"none", "snappy"}, "how blocks are compressed");
  }

  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const absl::Status status = flags_.Parse(arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  bool sync_ = false;
  std::string db_ = "/tmp/x";
  int threads_ = 1;
  int64_t offset_ = 0;
  uint64_t num_ = 1000;
  double ratio_ = 0.5;
  uint64_t cache_bytes_ = uint64_t{64} << 20;
  std::string codec_ = "snappy";
  Flags flags_;
};

TEST_F(FlagsTest, EverySpelling) {
  ASSERT_TRUE(flags_
                  .Parse({"--sync", "-db=/a=b", "--threads", "7", "-offset", "-5", "--num=12",
                          "--ratio=.25", "--cache_size=3M", "--codec", "none"})
                  .ok());
  EXPECT_TRUE(sync_);
  EXPECT_EQ(db_, "/a=b");
  EXPECT_EQ(threads_, 7);
  EXPECT_EQ(offset_, -5);
  EXPECT_EQ(num_, 12u);
  EXPECT_EQ(ratio_, 0.25);
  EXPECT_EQ(cache_bytes_, 3u << 20);
  EXPECT_EQ(codec_, "none");
  EXPECT_THAT(flags_.positional(), IsEmpty());
}

TEST_F(FlagsTest, NothingGivenLeavesDefaults) {
  ASSERT_TRUE(flags_.Parse({}).ok());
  EXPECT_FALSE(sync_);
  EXPECT_EQ(db_, "/tmp/x");
  EXPECT_EQ(num_, 1000u);
  EXPECT_FALSE(flags_.WasGiven("num"));
}

TEST_F(FlagsTest, BooleansTakeNoFollowingValue) {
  ASSERT_TRUE(flags_.Parse({"--sync", "false"}).ok());
  EXPECT_TRUE(sync_);
  EXPECT_THAT(flags_.positional(), ElementsAre("false"));
  for (const char* off : {"--sync=false", "--sync=0", "--sync=no", "--nosync", "-nosync"}) {
    sync_ = true;
    ASSERT_TRUE(flags_.Parse({off}).ok()) << off;
    EXPECT_FALSE(sync_) << off;
  }
  for (const char* on : {"--sync=true", "--sync=1", "--sync=yes"}) {
    sync_ = false;
    ASSERT_TRUE(flags_.Parse({on}).ok()) << on;
    EXPECT_TRUE(sync_) << on;
  }
}

TEST_F(FlagsTest, LastValueWins) {
  ASSERT_TRUE(flags_.Parse({"--num=1", "--num=2"}).ok());
  EXPECT_EQ(num_, 2u);
  EXPECT_TRUE(flags_.WasGiven("num"));
}

TEST_F(FlagsTest, PositionalArgumentsStayInOrder) {
  ASSERT_TRUE(flags_.Parse({"a", "--sync", "-", "b", "--", "--num", "-x"}).ok());
  EXPECT_THAT(flags_.positional(), ElementsAre("a", "-", "b", "--num", "-x"));
  EXPECT_EQ(num_, 1000u);
}

TEST_F(FlagsTest, EmptyStringIsAValue) {
  ASSERT_TRUE(flags_.Parse({"--db="}).ok());
  EXPECT_EQ(db_, "");
}

TEST_F(FlagsTest, ErrorsNameTheFlagAndTheValue) {
  EXPECT_EQ(ErrorOf({"--nums=3"}), "unknown flag --nums");
  EXPECT_EQ(ErrorOf({"--nodb"}), "unknown flag --nodb");
  EXPECT_EQ(ErrorOf({"--num"}), "--num: a value is missing");
  EXPECT_EQ(ErrorOf({"--num=3x"}), "--num: \"3x\" is not a whole number");
  EXPECT_EQ(ErrorOf({"--num="}), "--num: \"\" is not a whole number");
  EXPECT_EQ(ErrorOf({"--num=-1"}), "--num: \"-1\" is not a whole number");
  EXPECT_EQ(ErrorOf({"--num=18446744073709551616"}),
            "--num: \"18446744073709551616\" is not a whole number");
  EXPECT_EQ(ErrorOf({"--num=0"}), "--num: 0 is less than 1");
  EXPECT_EQ(ErrorOf({"--threads=65"}), "--threads: 65 is more than 64");
  EXPECT_EQ(ErrorOf({"--ratio=half"}), "--ratio: \"half\" is not a number");
  EXPECT_EQ(ErrorOf({"--ratio=1.5"}), "--ratio: 1.5 is more than 1");
  EXPECT_THAT(ErrorOf({"--ratio=nan"}), HasSubstr("--ratio"));
  EXPECT_EQ(ErrorOf({"--sync=maybe"}), "--sync: \"maybe\" is not true or false");
  EXPECT_THAT(ErrorOf({"--cache_size=3T"}), HasSubstr("not a number of bytes"));
  EXPECT_EQ(ErrorOf({"--codec=zstd"}), "--codec: \"zstd\" is not one of none, snappy");
}

TEST_F(FlagsTest, HelpShowsEveryFlagWithItsDefault) {
  // The default is the value at registration, whatever was parsed before.
  ASSERT_TRUE(flags_.Parse({"--num=5", "--help", "--no-such-flag"}).ok());
  EXPECT_TRUE(flags_.help_asked());
  const std::string help = flags_.Help();
  EXPECT_THAT(help, HasSubstr("Usage: prog [flags] FILE…\n\nDoes things.\n"));
  EXPECT_THAT(help, HasSubstr("  --sync              wait for the disk (default: false)\n"));
  EXPECT_THAT(help, HasSubstr("  --num=N             keys (default: 1000)\n"));
  EXPECT_THAT(help, HasSubstr("  --cache_size=BYTES  bytes of the cache (default: 64M)\n"));
  EXPECT_THAT(help, HasSubstr("how blocks are compressed: none, snappy (default: snappy)\n"));
  EXPECT_THAT(help, HasSubstr("part that stays (default: 0.5)\n"));
}

TEST_F(FlagsTest, ParseOrExitSaysHowMainEnds) {
  std::string program = "prog";
  std::string help = "--help";
  std::string bad = "--bad\nflag";
  char* help_arguments[] = {program.data(), help.data(), nullptr};
  char* bad_arguments[] = {program.data(), bad.data(), nullptr};
  EXPECT_EQ(flags_.ParseOrExit(1, help_arguments), std::nullopt);
  EXPECT_EQ(flags_.ParseOrExit(0, help_arguments), std::nullopt);

  ::testing::internal::CaptureStderr();
  EXPECT_EQ(flags_.ParseOrExit(2, bad_arguments), kExitUsage);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "prog: unknown flag --bad flag (--help shows all flags)\n");

  ::testing::internal::CaptureStdout();
  EXPECT_EQ(flags_.ParseOrExit(2, help_arguments), kExitSuccess);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), flags_.Help());
}

TEST(FlagsExitTest, FailureIsOneLine) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ExitFailure("prog", absl::NotFoundError("no such\nthing")), kExitFailure);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "prog: NOT_FOUND: no such thing\n");
}

TEST(FlagsBytesTest, Parse) {
  EXPECT_EQ(ParseBytes("0"), 0u);
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("4k"), 4096u);
  EXPECT_EQ(ParseBytes("4KB"), 4096u);
  EXPECT_EQ(ParseBytes("4KiB"), 4096u);
  EXPECT_EQ(ParseBytes("64M"), uint64_t{64} << 20);
  EXPECT_EQ(ParseBytes("3g"), uint64_t{3} << 30);
  EXPECT_EQ(ParseBytes("17179869183G"), uint64_t{17179869183} << 30);
  for (const char* bad : {"", "M", "-1", "4 K", "4Kx", "4KBB", "1.5G", "4B", "17179869184G",
                          "18446744073709551616"}) {
    EXPECT_EQ(ParseBytes(bad), std::nullopt) << bad;
  }
}

TEST(FlagsBytesTest, FormatIsReadBack) {
  EXPECT_EQ(FormatBytes(0), "0");
  EXPECT_EQ(FormatBytes(1000), "1000");
  EXPECT_EQ(FormatBytes(4096), "4K");
  EXPECT_EQ(FormatBytes(uint64_t{1} << 40), "1024G");
  for (uint64_t bytes : {uint64_t{1}, uint64_t{1025}, uint64_t{3} << 20, ~uint64_t{0}}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)), bytes);
  }
}

TEST(FlagsListTest, Split) {
  EXPECT_THAT(SplitList("a,b,,c,"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(SplitList("fillseq"), ElementsAre("fillseq"));
  EXPECT_THAT(SplitList(""), IsEmpty());
  EXPECT_THAT(SplitList(",,"), IsEmpty());
}

}  // namespace
}  // namespace sievedb
