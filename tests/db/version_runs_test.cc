// Levels of several sorted runs.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/version_test_util.h"

namespace sievedb {
namespace {

using ::testing::ElementsAre;
using version_test::MakeFile;
using version_test::TableStore;

std::vector<uint64_t> Numbers(absl::Span<const FileRef> files) {
  std::vector<uint64_t> numbers;
  for (const FileRef& file : files) numbers.push_back(file->number);
  return numbers;
}

TEST(VersionRunsTest, ALevelHoldsRunsNewestFirst) {
  TableStore store;
  const Version empty(store.context.order, store.opener.get());
  VersionEdit edit;
  edit.added_files.emplace_back(5, MakeFile(1, "a", "f"));  // run 0
  edit.added_files.emplace_back(5, MakeFile(2, "g", "k"));
  edit.added_files.emplace_back(5, MakeFile(3, "d", "h"), 7);
  edit.added_files.emplace_back(5, MakeFile(4, "m", "p"), 2);
  edit.added_files.emplace_back(5, MakeFile(5, "b", "c", 1, 50), 2);
  const auto made = Version::Apply(empty, edit);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto& version = *made;
  EXPECT_THAT(Numbers(version->files(5)), ElementsAre(3, 5, 4, 1, 2));
  ASSERT_EQ(version->runs(5).size(), 3u);
  const std::vector<uint64_t> numbers = {7, 2, 0};
  const std::vector<uint64_t> bytes = {1000, 1050, 2000};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(version->runs(5)[i].number, numbers[i]);
    EXPECT_EQ(version->runs(5)[i].bytes, bytes[i]);
  }
  EXPECT_THAT(Numbers(version->files(5, version->runs(5)[1])), ElementsAre(5, 4));
  EXPECT_EQ(version->OldestRun(5), 0u);
  EXPECT_EQ(version->LevelBytes(5), 4050u);
  EXPECT_EQ(version->DebugString(),
            "L5: run 7: 3[d .. h]1000\nL5: run 2: 5[b .. c]50 4[m .. p]1000\n"
            "L5: 1[a .. f]1000 2[g .. k]1000\n");

  // What newer runs give brings what older ones have below it, not the other way around.
  const auto overlapping = [&](std::string_view begin, std::string_view end) {
    return Numbers(version->Overlapping(5, &begin, &end));
  };
  EXPECT_THAT(overlapping("h", "h"), ElementsAre(3, 1, 2));
  EXPECT_THAT(overlapping("b", "b"), ElementsAre(5, 1));
  EXPECT_THAT(overlapping("a", "a"), ElementsAre(1));
  EXPECT_THAT(overlapping("i", "l"), ElementsAre(2));
  EXPECT_TRUE(version->Overlaps(5, "h1", "i"));
  EXPECT_TRUE(version->Overlaps(5, "n", "n"));
  EXPECT_FALSE(version->Overlaps(5, "k1", "l"));
  EXPECT_EQ(version->OverlapBytes(5, "b", "e"), 2050u);

  // A table that goes to another run of its level is the same table.
  VersionEdit move;
  move.removed_files.emplace_back(5, 4);
  move.added_files.emplace_back(5, MakeFile(4, "m", "p"), 7);
  const auto moved = Version::Apply(*version, move);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_THAT(Numbers((*moved)->files(5)), ElementsAre(3, 4, 5, 1, 2));
  EXPECT_EQ((*moved)->files(5)[1], version->files(5)[2]);

  // The tables of one run must not overlap.
  VersionEdit overlap;
  overlap.added_files.emplace_back(5, MakeFile(9, "h", "i"), 7);
  EXPECT_TRUE(absl::IsDataLoss(Version::Apply(*version, overlap).status()));
}

}  // namespace
}  // namespace sievedb
