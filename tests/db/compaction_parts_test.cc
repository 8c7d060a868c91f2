#include "db/compaction_parts.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data_driven.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

using version_test::Entry;
using version_test::TableStore;

// cut parts=N least=BYTES: anchors, "key bytes" one a line; the output is where they are
// cut, one a line.
std::string RunCase(const DataDrivenCase& test) {
  std::vector<InputAnchor> anchors;
  for (const std::string& line : SplitLines(test.input)) {
    const std::vector<std::string> words = SplitWords(line);
    anchors.push_back({words[0] == "\"\"" ? "" : words[0], std::stoull(words[1])});
  }
  std::string output;
  for (const std::string& cut :
       CutInput(KeyOrder(BytewiseComparator()), std::move(anchors),
                std::stoull(test.Argument("parts")), std::stoull(test.Argument("least")))) {
    output += (cut.empty() ? "\"\"" : cut) + "\n";
  }
  return output.empty() ? "one piece\n" : output;
}

TEST(CompactionPartsTest, DataDriven) {
  RunDataDriven(
      "compaction_parts", [] {}, RunCase);
}

class RunPlanTest : public testing::Test {
 protected:
  static constexpr int kKeys = 2000;

  RunPlanTest() : faults_(std::make_shared<FaultFileSystem>()), store_(faults_) {
    store_.options.compression = Compression::kNone;
    store_.options.target_file_bytes = 4000;
    // Every key twice in level 0 and once, older, in level 6; each third is deleted.
    VersionEdit edit;
    for (const uint64_t sequence : {30, 20}) {
      std::vector<Entry> entries;
      for (int i = 0; i < kKeys; ++i) {
        const bool deleted = sequence == 30 && i % 3 == 0;
        entries.push_back({Key(i), sequence, deleted ? "" : Value(sequence),
                           deleted ? EntryType::kDelete : EntryType::kPut});
      }
      edit.added_files.emplace_back(0, store_.Write(entries));
    }
    std::vector<Entry> oldest;
    for (int i = 0; i < kKeys; ++i) oldest.push_back({Key(i), 10, Value(10)});
    edit.added_files.emplace_back(6, store_.Write(oldest));
    const Version empty(store_.context.order, store_.opener.get());
    version_ = *Version::Apply(empty, edit);
    plan_.input_level = 0;
    plan_.output_level = 6;
    plan_.inputs = {version_->files(0).begin(), version_->files(0).end()};
    plan_.output_inputs = {version_->files(6).begin(), version_->files(6).end()};
    plan_.bottommost = true;
    begun_with_ = FileCount();
  }

  static std::string Key(int i) { return absl::StrFormat("key%06d", i); }
  static std::string Value(uint64_t sequence) {
    return absl::StrFormat("%d%s", sequence, std::string(20, 'v'));
  }
  size_t FileCount() { return faults_->GetChildren("db")->size(); }
  absl::StatusOr<JobOutput> Run(ThreadPool* pool, const std::vector<uint64_t>& snapshots = {}) {
    store_.context.pool = pool;
    return RunPlan(store_.context, plan_, *version_, snapshots, FilterContext());
  }
  // "key@sequence" of all entries, in the order of the tables.
  std::vector<std::string> Contents(const JobOutput& output) {
    std::vector<std::string> contents;
    for (const auto& file : output.files) {
      const auto it = (*store_.opener->Get(*file))->NewIterator(ReadOptions());
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        contents.push_back(
            absl::StrFormat("%s@%d", UserKey(it->key()), TagSequence(Tag(it->key()))));
      }
      EXPECT_TRUE(it->status().ok()) << it->status();
    }
    return contents;
  }

  std::shared_ptr<FaultFileSystem> faults_;
  TableStore store_;
  std::shared_ptr<const Version> version_;
  CompactionPlan plan_;
  size_t begun_with_ = 0;
};

TEST_F(RunPlanTest, PartsMakeWhatOnePieceMakes) {
  const auto pool = NewThreadPool(2);
  for (const std::vector<uint64_t>& snapshots : {std::vector<uint64_t>{}, {15, 25}}) {
    auto whole = Run(nullptr, snapshots);
    auto parts = Run(pool.get(), snapshots);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(parts.ok()) << parts.status();
    const std::vector<std::string> contents = Contents(*parts);
    EXPECT_EQ(contents, Contents(*whole));
    EXPECT_GE(contents.size(), static_cast<size_t>(kKeys * 2 / 3));
    EXPECT_EQ(parts->entries_in, 3u * kKeys);
    EXPECT_EQ(parts->entries_out, contents.size());
    EXPECT_EQ(parts->dropped_hidden, whole->dropped_hidden);
    EXPECT_EQ(parts->dropped_tombstones, whole->dropped_tombstones);
    uint64_t bytes = 0;
    for (size_t i = 0; i < parts->files.size(); ++i) {
      bytes += parts->files[i]->file_bytes;
      if (i == 0) continue;
      EXPECT_LT(UserKey(parts->files[i - 1]->largest), UserKey(parts->files[i]->smallest));
    }
    EXPECT_EQ(parts->bytes_written, bytes);
    // Four parts: the first of each is a table's first.
    EXPECT_GT(parts->files.size(), 4u);
    DropOutput(store_.context, &*whole);
    DropOutput(store_.context, &*parts);
    EXPECT_EQ(FileCount(), begun_with_);
  }
}

// No thread of the pool is free: the caller does everything itself, a flush that waits
// included.
TEST_F(RunPlanTest, NeedsNoHelpAndLetsFlushesPass) {
  const auto pool = NewThreadPool(1);
  std::atomic<bool> begun = false;
  std::atomic<bool> go = false;
  pool->Schedule(ThreadPool::Priority::kLow, [&] {
    begun = true;
    begun.notify_all();
    go.wait(false);
  });
  begun.wait(false);
  std::thread::id ran_on;
  pool->Schedule(ThreadPool::Priority::kHigh, [&] { ran_on = std::this_thread::get_id(); });
  auto output = Run(pool.get());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->entries_in, 3u * kKeys);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  go = true;
  go.notify_all();
}

TEST_F(RunPlanTest, EveryFaultLeavesNothing) {
  const auto pool = NewThreadPool(2);
  for (uint64_t n = 1; n < 10000; n += 7) {
    const uint64_t before = faults_->faults();
    faults_->FailNth(n, absl::ResourceExhaustedError("no space"));
    auto output = Run(pool.get());
    const bool failed = faults_->faults() > before;
    faults_->ClearFaults();
    if (!failed) {
      ASSERT_TRUE(output.ok()) << output.status();
      EXPECT_GT(n, 50u);
      return;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(output.status())) << n << ": " << output.status();
    EXPECT_EQ(FileCount(), begun_with_) << n;
  }
  FAIL() << "there is no end of operations to fail";
}

TEST_F(RunPlanTest, CancelEndsAllParts) {
  const auto pool = NewThreadPool(2);
  std::atomic<bool> cancel{true};
  store_.context.cancel = &cancel;
  EXPECT_TRUE(absl::IsAborted(Run(pool.get()).status()));
  EXPECT_EQ(FileCount(), begun_with_);
}

}  // namespace
}  // namespace sievedb
