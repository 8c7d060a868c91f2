#include "db/compaction_job.h"

#include <string>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using version_test::EntriesIterator;
using version_test::Entry;
using version_test::InternalKey;
using version_test::TableStore;

class CompactionJobTest : public testing::Test {
 protected:
  CompactionJobTest() : faults_(std::make_shared<FaultFileSystem>()), store_(faults_) {
    store_.options.compression = Compression::kNone;
  }

  std::vector<std::string> TableNames() {
    auto names = faults_->GetChildren("db");
    EXPECT_TRUE(names.ok());
    std::sort(names->begin(), names->end());
    return *names;
  }
  std::shared_ptr<const Version> Make(const VersionEdit& edit) {
    const Version empty(store_.context.order, store_.opener.get());
    auto version = Version::Apply(empty, edit);
    EXPECT_TRUE(version.ok()) << version.status();
    return *version;
  }
  // "key@sequence=value" or "key@sequence-" of each entry.
  std::vector<std::string> Contents(const FileMeta& file) {
    const auto table = store_.opener->Get(file);
    EXPECT_TRUE(table.ok()) << table.status();
    std::vector<std::string> contents;
    const auto it = (*table)->NewIterator(ReadOptions());
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      const bool is_put = TagType(Tag(it->key())) == static_cast<uint8_t>(EntryType::kPut);
      contents.push_back(absl::StrFormat("%s@%d%s%s", UserKey(it->key()),
                                         TagSequence(Tag(it->key())), is_put ? "=" : "-",
                                         it->value()));
    }
    EXPECT_TRUE(it->status().ok());
    return contents;
  }
  absl::StatusOr<JobOutput> Compact(const Version& version, const CompactionPlan& plan,
                                    std::vector<uint64_t> snapshots = {}) {
    auto input = NewPlanInput(store_.context, plan);
    if (!input.ok()) return input.status();
    return RunJob(store_.context, input->get(), std::move(snapshots), &plan, &version,
                  FilterContext());
  }

  std::shared_ptr<FaultFileSystem> faults_;
  TableStore store_;
};

TEST_F(CompactionJobTest, FlushWritesOneTable) {
  EntriesIterator input(
      {{"a", 9, "new"}, {"a", 5, "old"}, {"b", 7, "", EntryType::kDelete}, {"c", 3, "c"}});
  const uint64_t directory_syncs = faults_->operations(FileOp::kSyncDirectory);
  const uint64_t syncs = faults_->operations(FileOp::kSync);
  const auto output = RunJob(store_.context, &input, {}, nullptr, nullptr, FilterContext());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(faults_->operations(FileOp::kSync), syncs + 1);
  EXPECT_EQ(faults_->operations(FileOp::kSyncDirectory), directory_syncs + 1);
  ASSERT_EQ(output->files.size(), 1u);
  const FileMeta& file = *output->files[0];
  EXPECT_THAT(Contents(file), ElementsAre("a@9=new", "b@7-", "c@3=c"));
  EXPECT_NE(file.table.load(), nullptr);
  EXPECT_EQ(file.number, 1u);
  EXPECT_EQ(file.file_bytes, *faults_->FileSize("db/000001.sst"));
  EXPECT_GT(file.tail_bytes, 0u);
  EXPECT_EQ(file.smallest, InternalKey("a", 9));
  EXPECT_EQ(file.largest, InternalKey("c", 3));
  EXPECT_EQ(file.smallest_sequence, 3u);
  EXPECT_EQ(file.largest_sequence, 9u);
  EXPECT_EQ(file.entries, 3u);
  EXPECT_EQ(file.tombstones, 1u);
  EXPECT_EQ(file.raw_bytes, 3 * 9 + 4u);
  EXPECT_EQ(output->entries_in, 4u);
  EXPECT_EQ(output->entries_out, 3u);
  EXPECT_EQ(output->dropped_hidden, 1u);
  EXPECT_EQ(output->bytes_written, file.file_bytes);
  // What it says survives a crash.
  EXPECT_EQ(*faults_->CrashClone(CrashMode::kLoseUnsynced, 1)->FileSize("db/000001.sst"),
            file.file_bytes);
}

TEST_F(CompactionJobTest, NothingToWriteIsNoTable) {
  EntriesIterator input(std::vector<Entry>{});
  const auto output = RunJob(store_.context, &input, {}, nullptr, nullptr, FilterContext());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(output->files, IsEmpty());
  EXPECT_THAT(TableNames(), IsEmpty());
}

TEST_F(CompactionJobTest, MergesAndDropsWhatNobodySees) {
  VersionEdit edit;
  edit.added_files.emplace_back(
      0, store_.Write({{"a", 10, "a10"}, {"d", 11, "", EntryType::kDelete}}));
  edit.added_files.emplace_back(0,
                                store_.Write({{"b", 8, "", EntryType::kDelete}, {"d", 7, "d7"}}));
  edit.added_files.emplace_back(5, store_.Write({{"a", 3, "a3"}, {"b", 4, "b4"}}));
  edit.added_files.emplace_back(5, store_.Write({{"c", 5, "c5"}, {"d", 6, "d6"}}));
  edit.added_files.emplace_back(6, store_.Write({{"d", 1, "d1"}}));
  const auto version = Make(edit);
  CompactionPlan plan;
  plan.input_level = 0;
  plan.output_level = 5;
  plan.inputs = {version->files(0).begin(), version->files(0).end()};
  plan.output_inputs = {version->files(5).begin(), version->files(5).end()};
  plan.grandparents = {version->files(6).begin(), version->files(6).end()};
  auto output = Compact(*version, plan);
  ASSERT_TRUE(output.ok()) << output.status();
  ASSERT_EQ(output->files.size(), 1u);
  // b's tombstone is needed by nobody; d's still hides level 6.
  EXPECT_THAT(Contents(*output->files[0]), ElementsAre("a@10=a10", "c@5=c5", "d@11-"));
  EXPECT_EQ(output->dropped_hidden, 4u);
  EXPECT_EQ(output->dropped_tombstones, 1u);

  output = Compact(*version, plan, {7});
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(Contents(*output->files[0]),
              ElementsAre("a@10=a10", "a@3=a3", "b@8-", "b@4=b4", "c@5=c5", "d@11-", "d@7=d7"));

  // Within level 0 tombstones stay: older tables of the level may have the key.
  plan.output_level = 0;
  plan.output_inputs.clear();
  output = Compact(*version, plan);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(Contents(*output->files[0]), ElementsAre("a@10=a10", "b@8-", "d@11-"));
}

TEST_F(CompactionJobTest, MergesRunsAndKeepsTombstonesThatOlderRunsOfTheLevelNeed) {
  VersionEdit edit;
  edit.added_files.emplace_back(4, store_.Write({{"a", 20, "a20"}}), 2);
  edit.added_files.emplace_back(4, store_.Write({{"c", 21, "", EntryType::kDelete}}), 2);
  edit.added_files.emplace_back(
      4, store_.Write({{"c", 14, "c14"}, {"d", 15, "", EntryType::kDelete}}), 1);
  edit.added_files.emplace_back(5, store_.Write({{"a", 3, "a3"}, {"c", 4, "c4"}}), 1);
  const auto version = Make(edit);
  CompactionPlan plan;
  plan.input_level = 4;
  plan.output_level = 5;
  plan.inputs = {version->files(4).begin(), version->files(4).end()};
  // As a new run above the one that level 5 has: c's tombstone hides that one's, d's nothing.
  plan.output_run = 2;
  auto output = Compact(*version, plan);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(Contents(*output->files[0]), ElementsAre("a@20=a20", "c@21-"));

  // Merged with that run, nothing is below.
  plan.output_inputs = {version->files(5).begin(), version->files(5).end()};
  plan.output_run = 1;
  output = Compact(*version, plan);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(Contents(*output->files[0]), ElementsAre("a@20=a20"));
}

TEST_F(CompactionJobTest, CutsAtTheTargetButNeverInsideAUserKey) {
  store_.options.target_file_bytes = 2000;
  std::vector<Entry> entries;
  std::vector<uint64_t> snapshots;
  for (int key = 0; key < 20; ++key) {
    for (uint64_t s = 20; s > 0; --s) {
      entries.push_back({absl::StrFormat("%03d", key), s, std::string(50, 'v')});
    }
  }
  for (uint64_t s = 1; s <= 20; ++s) snapshots.push_back(s);
  VersionEdit edit;
  const auto version = Make(edit);
  CompactionPlan plan;
  plan.output_level = 6;
  plan.bottommost = true;
  EntriesIterator input(entries);
  auto output = RunJob(store_.context, &input, snapshots, &plan, version.get(), FilterContext());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->entries_out, 400u);
  EXPECT_GT(output->files.size(), 5u);
  for (size_t i = 0; i < output->files.size(); ++i) {
    const FileMeta& file = *output->files[i];
    EXPECT_EQ(file.entries % 20, 0u);
    if (i > 0) {
      EXPECT_LT(UserKey(output->files[i - 1]->largest), UserKey(file.smallest));
    }
    EXPECT_LT(file.file_bytes, 6000u);
  }
  // They make a level.
  VersionEdit level;
  for (const auto& file : output->files) level.added_files.emplace_back(6, file);
  EXPECT_EQ(Make(level)->files(6).size(), output->files.size());

  // Into level 0: one table.
  plan.output_level = 0;
  EntriesIterator again(entries);
  output = RunJob(store_.context, &again, snapshots, &plan, version.get(), FilterContext());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->files.size(), 1u);
}

TEST_F(CompactionJobTest, CutsWhereItWouldOverlapTooMuchBelow) {
  store_.options.target_file_bytes = 2000;
  VersionEdit edit;
  for (int i = 0; i < 40; ++i) {
    edit.added_files.emplace_back(
        6, version_test::MakeFile(100 + i, absl::StrFormat("%03d", 10 * i),
                                  absl::StrFormat("%03d", 10 * i + 5), 1, 2500));
  }
  const auto version = Make(edit);
  std::vector<Entry> entries;
  for (int i = 0; i < 400; i += 5) entries.push_back({absl::StrFormat("%03d", i), 9, ""});
  CompactionPlan plan;
  plan.output_level = 5;
  plan.grandparents = {version->files(6).begin(), version->files(6).end()};
  EntriesIterator input(entries);
  const auto output = RunJob(store_.context, &input, {}, &plan, version.get(), FilterContext());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->entries_out, 80u);
  EXPECT_GE(output->files.size(), 4u);  // 40 tables of 2,500 below, 20,000 bytes each
  for (const auto& file : output->files) {
    const std::string_view smallest = UserKey(file->smallest);
    const std::string_view largest = UserKey(file->largest);
    EXPECT_LE(version->Overlapping(6, &smallest, &largest).size(), 10u);
  }
}

TEST_F(CompactionJobTest, DisorderedInputIsDamageAndLeavesNothing) {
  EntriesIterator input({{"b", 1, "v"}, {"a", 2, "v"}});
  const auto output = RunJob(store_.context, &input, {}, nullptr, nullptr, FilterContext());
  EXPECT_TRUE(absl::IsDataLoss(output.status())) << output.status();
  EXPECT_THAT(TableNames(), IsEmpty());
}

TEST_F(CompactionJobTest, CancelLeavesNothing) {
  std::atomic<bool> cancel{true};
  store_.context.cancel = &cancel;
  EntriesIterator input({{"a", 1, "v"}});
  const auto output = RunJob(store_.context, &input, {}, nullptr, nullptr, FilterContext());
  EXPECT_TRUE(absl::IsAborted(output.status())) << output.status();
  EXPECT_THAT(TableNames(), IsEmpty());
}

// Whatever operation fails, the job says so, and no file is left behind.
TEST_F(CompactionJobTest, EveryFaultLeavesNothing) {
  store_.options.target_file_bytes = 1000;
  std::vector<Entry> entries;
  for (int i = 0; i < 60; ++i) {
    entries.push_back({absl::StrFormat("%03d", i), 1, std::string(50, 'v')});
  }
  const auto version = Make(VersionEdit());
  CompactionPlan plan;
  plan.output_level = 6;
  plan.bottommost = true;
  for (uint64_t n = 1; n < 10000; ++n) {
    const uint64_t before = faults_->faults();
    faults_->FailNth(n, absl::ResourceExhaustedError("no space"));
    EntriesIterator input(entries);
    const auto output = RunJob(store_.context, &input, {}, &plan, version.get(), FilterContext());
    const bool failed = faults_->faults() > before;
    faults_->ClearFaults();
    if (!failed) {
      ASSERT_TRUE(output.ok()) << output.status();
      EXPECT_GT(output->files.size(), 2u);
      EXPECT_GT(n, 20u);
      return;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(output.status())) << n << ": " << output.status();
    EXPECT_THAT(TableNames(), IsEmpty()) << n;
  }
  FAIL() << "there is no end of operations to fail";
}

TEST_F(CompactionJobTest, PlanInputReadsSortedRunsLazily) {
  VersionEdit edit;
  std::vector<std::shared_ptr<FileMeta>> files;
  for (const char* key : {"a", "b", "c"}) {
    files.push_back(TableStore::Closed(*store_.Write({{key, 1, key}})));
    edit.added_files.emplace_back(5, files.back());
  }
  const auto version = Make(edit);
  CompactionPlan plan;
  plan.input_level = plan.output_level = 5;
  plan.inputs = {version->files(5).begin(), version->files(5).end()};
  auto input = NewPlanInput(store_.context, plan);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(files[0]->table.load(), nullptr);
  std::string keys;
  for ((*input)->SeekToFirst(); (*input)->Valid(); (*input)->Next())
    keys += UserKey((*input)->key());
  EXPECT_TRUE((*input)->status().ok());
  EXPECT_EQ(keys, "abc");
  EXPECT_NE(files[2]->table.load(), nullptr);
}

}  // namespace
}  // namespace sievedb
