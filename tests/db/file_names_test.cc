#include "db/file_names.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

TEST(FileNamesTest, NamesAreAsDocumented) {
  EXPECT_EQ(TableFileName("db", 7), "db/000007.sst");
  EXPECT_EQ(WalFileName("db", 7), "db/000007.wal");
  EXPECT_EQ(ManifestFileName("db", 7), "db/MANIFEST-000007");
  EXPECT_EQ(OptionsFileName("db", 7), "db/OPTIONS-000007");
  EXPECT_EQ(CurrentFileName("db"), "db/CURRENT");
  EXPECT_EQ(LockFileName("db"), "db/LOCK");
  EXPECT_EQ(EventLogFileName("db"), "db/LOG");
  EXPECT_EQ(TableFileName("/a/b", 123456789), "/a/b/123456789.sst");
}

TEST(FileNamesTest, EveryNameIsParsedBack) {
  for (const uint64_t number :
       {uint64_t{0}, uint64_t{1}, uint64_t{999999}, uint64_t{1000000}, UINT64_MAX}) {
    const std::vector<std::pair<std::string, FileKind>> names = {
        {TableFileName("", number), FileKind::kTable},
        {WalFileName("", number), FileKind::kWal},
        {ManifestFileName("", number), FileKind::kManifest},
        {OptionsFileName("", number), FileKind::kOptions},
        {OptionsFileName("", number) + ".tmp", FileKind::kTemporary},
    };
    for (const auto& [path, kind] : names) {
      const auto parsed = ParseFileName(path.substr(1));
      ASSERT_TRUE(parsed.has_value()) << path;
      EXPECT_EQ(parsed->kind, kind) << path;
      EXPECT_EQ(parsed->number, number) << path;
    }
  }
  EXPECT_EQ(ParseFileName("CURRENT")->kind, FileKind::kCurrent);
  EXPECT_EQ(ParseFileName("LOCK")->kind, FileKind::kLock);
  EXPECT_EQ(ParseFileName("LOG")->kind, FileKind::kEventLog);
  EXPECT_EQ(ParseFileName("LOG.old")->kind, FileKind::kEventLog);
  EXPECT_EQ(ParseFileName("CURRENT.tmp")->kind, FileKind::kTemporary);
}

TEST(FileNamesTest, OtherNamesAreNotOurs) {
  for (const char* name : {"",
                           ".",
                           "..",
                           "foo",
                           "foo.sst",
                           "7.sst",
                           "00007.sst",
                           "0000007.sst",
                           "000007.SST",
                           "000007",
                           "000007.",
                           ".sst",
                           "000007.sst.",
                           " 000007.sst",
                           "-00007.sst",
                           "+00007.wal",
                           "000007.wal ",
                           "00000x.wal",
                           "18446744073709551616.sst",
                           "99999999999999999999.sst",
                           "184467440737095516150.sst",
                           "MANIFEST",
                           "MANIFEST-",
                           "MANIFEST-7",
                           "MANIFEST-00000a",
                           "manifest-000007",
                           "OPTIONS-",
                           "CURRENT2",
                           "current",
                           "LOCK.",
                           "LOG.older",
                           ".tmp",
                           "foo.tmp",
                           "000007.sst.tmp.tmp",
                           "db/000007.sst",
                           "000007.log",
                           "000007.ldb"}) {
    EXPECT_FALSE(ParseFileName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace sievedb
