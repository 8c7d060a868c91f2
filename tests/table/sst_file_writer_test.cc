#include "sievedb/sst_file_writer.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "table/format.h"
#include "table/table_reader.h"
#include "tests/fault_file_system.h"

namespace sievedb {
namespace {

class SstFileWriterTest : public testing::Test {
 protected:
  SstFileWriterTest() { options_.file_system = fs_; }

  std::unique_ptr<TableReader> Read(const std::string& path) {
    TableReaderOptions options;
    options.path = path;
    options.file_number = kAnyFileNumber;
    options.file_bytes = *fs_->FileSize(path);
    auto reader = TableReader::Open(options, *fs_->NewRandomAccessFile(path));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }

  const std::shared_ptr<FaultFileSystem> fs_ = std::make_shared<FaultFileSystem>();
  Options options_;
};

TEST_F(SstFileWriterTest, WritesATable) {
  SstFileWriter writer(options_);
  EXPECT_EQ(writer.FileSize(), 0u);
  ASSERT_TRUE(writer.Open("/a").ok());
  ASSERT_TRUE(writer.Put("", "the empty key").ok());
  ASSERT_TRUE(writer.Delete("b").ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(writer.Put("c" + std::to_string(10000 + i), std::string(100, 'x')).ok());
  }
  EXPECT_EQ(writer.entries(), 1002u);
  EXPECT_GT(writer.FileSize(), 1000u);
  const absl::StatusOr<ExternalTableInfo> info = writer.Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->path, "/a");
  EXPECT_EQ(info->smallest_key, "");
  EXPECT_EQ(info->largest_key, "c10999");
  EXPECT_EQ(info->entries, 1002u);
  EXPECT_EQ(info->tombstones, 1u);
  EXPECT_EQ(info->file_bytes, *fs_->FileSize("/a"));
  EXPECT_EQ(writer.FileSize(), info->file_bytes);
  const auto table = Read("/a");
  ASSERT_NE(table, nullptr);
  EXPECT_TRUE(table->Verify().ok());
  EXPECT_NE(table->file_number() & kExternalNumberBit, 0u);
  EXPECT_EQ(table->properties().largest_sequence, 0u);
  EXPECT_EQ(table->properties().entries, 1002u);
  EXPECT_NE(table->filter(), nullptr);
}

TEST_F(SstFileWriterTest, OneWriterMakesSeveral) {
  SstFileWriter writer(options_);
  for (const char* path : {"/a", "/b", "/a"}) {
    ASSERT_TRUE(writer.Open(path).ok());
    EXPECT_EQ(writer.entries(), 0u);
    ASSERT_TRUE(writer.Put("k", path).ok());
    ASSERT_TRUE(writer.Finish().ok());
  }
  EXPECT_TRUE(Read("/a")->Verify().ok());
  EXPECT_TRUE(Read("/b")->Verify().ok());
}

TEST_F(SstFileWriterTest, EntriesOutOfOrderAreLeftOut) {
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    options_.comparator = comparator;
    const bool up = comparator == BytewiseComparator();
    SstFileWriter writer(options_);
    ASSERT_TRUE(writer.Open("/a").ok());
    ASSERT_TRUE(writer.Put("m", "1").ok());
    for (const char* key : {"m", up ? "l" : "n"}) {
      const absl::Status status = writer.Put(key, "2");
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_NE(status.message().find("is not after \"m\""), absl::string_view::npos) << status;
      EXPECT_TRUE(absl::IsInvalidArgument(writer.Delete(key)));
    }
    ASSERT_TRUE(writer.Put(up ? "n" : "l", "3").ok());
    const absl::StatusOr<ExternalTableInfo> info = writer.Finish();
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->entries, 2u);
  }
}

TEST_F(SstFileWriterTest, NeedsATableAndEntries) {
  SstFileWriter writer(options_);
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Put("k", "v")));
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Delete("k")));
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Finish().status()));
  ASSERT_TRUE(writer.Open("/a").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(writer.Open("/b")));
  EXPECT_TRUE(absl::IsInvalidArgument(writer.Finish().status()));
  EXPECT_FALSE(*fs_->FileExists("/a"));
  ASSERT_TRUE(writer.Open("/a").ok());
  const std::string long_key((size_t{64} << 20) + 1, 'k');
  EXPECT_TRUE(absl::IsInvalidArgument(writer.Put(long_key, "v")));
  ASSERT_TRUE(writer.Put("k", "v").ok());
  ASSERT_TRUE(writer.Finish().ok());
  options_.block_bytes = 0;
  SstFileWriter wrong(options_);
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.Open("/c")));
}

TEST_F(SstFileWriterTest, AnUnfinishedTableIsDeleted) {
  {
    SstFileWriter writer(options_);
    ASSERT_TRUE(writer.Open("/a").ok());
    ASSERT_TRUE(writer.Put("k", "v").ok());
  }
  EXPECT_FALSE(*fs_->FileExists("/a"));
}

// What a database has linked must not change where a writer comes to its path again.
TEST_F(SstFileWriterTest, AFileAtThePathIsReplacedAndNotWrittenOver) {
  SstFileWriter writer(options_);
  ASSERT_TRUE(writer.Open("/a").ok());
  ASSERT_TRUE(writer.Put("k", "v").ok());
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(fs_->LinkFile("/a", "/b").ok());
  ASSERT_TRUE(writer.Open("/a").ok());
  EXPECT_TRUE(Read("/b")->Verify().ok());
}

TEST_F(SstFileWriterTest, EachOperationMayFail) {
  const auto run = [&]() -> absl::Status {
    SstFileWriter writer(options_);
    absl::Status status = writer.Open("/a");
    if (!status.ok()) return status;
    for (int i = 0; i < 40 && status.ok(); ++i) {
      status = writer.Put(std::to_string(100 + i), std::string(20000, static_cast<char>(i)));
    }
    // The first error stays.
    const absl::Status finished = writer.Finish().status();
    EXPECT_TRUE(status.ok() || finished == status) << finished;
    return finished;
  };
  options_.compression = Compression::kNone;
  const uint64_t before = fs_->operations();
  ASSERT_TRUE(run().ok());
  const uint64_t operations = fs_->operations() - before;
  ASSERT_GT(operations, 8u);
  ASSERT_TRUE(fs_->DeleteFile("/a").ok());
  for (uint64_t n = 1; n < operations; ++n) {
    SCOPED_TRACE(n);
    fs_->FailNth(n, absl::UnavailableError("broken"));
    const absl::Status status = run();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_FALSE(*fs_->FileExists("/a"));
    fs_->ClearFaults();
  }
}

}  // namespace
}  // namespace sievedb
