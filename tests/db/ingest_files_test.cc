// What DB::IngestExternalFiles does with the files that it is given: which ones it
// refuses, and whose they are.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sievedb/sst_file_writer.h"
#include "table/format.h"
#include "table/range_tombstones.h"
#include "table/table_builder.h"
#include "tests/db/ingest_test_util.h"

namespace sievedb {
namespace {

class IngestFilesTest : public IngestTest {};

TEST_F(IngestFilesTest, FilesThatDoNotFitTogetherAreRefused) {
  Open();
  Fill(0, 10);
  MakeTable("/a.sst", 0, 10, "a");
  MakeTable("/b.sst", 9, 20, "b");
  MakeTable("/c.sst", 20, 30, "c");
  ExpectRefused({}, absl::StatusCode::kInvalidArgument, "no files");
  ExpectRefused({"/c.sst", "/a.sst", "/b.sst"}, absl::StatusCode::kInvalidArgument,
                "/a.sst and /b.sst overlap");
  ExpectRefused({"/a.sst", "/c.sst", "/a.sst"}, absl::StatusCode::kInvalidArgument, "overlap");
  ExpectRefused({"/a.sst", "/none.sst"}, absl::StatusCode::kNotFound, "/none.sst");
  ASSERT_TRUE(Ingest({"/c.sst", "/b.sst"}).ok());
  ASSERT_TRUE(Ingest({"/a.sst"}).ok());
  ASSERT_TRUE(Ingest({"/a.sst"}).ok()) << "again, later, is another table";
  EXPECT_EQ(Get(Key(9)), "a 9");
  EXPECT_EQ(Get(Key(19)), "b 19");
}

TEST_F(IngestFilesTest, WhatIsNoTableOrDamagedIsRefused) {
  Open();
  Fill(0, 10);
  MakeTable("/a.sst", 0, 2000, "a");
  const std::string bytes = ReadFile("/a.sst");
  WriteFile("/text.sst", std::string(5000, 'x'));
  ExpectRefused({"/text.sst"}, absl::StatusCode::kDataLoss, "not a table");
  WriteFile("/empty.sst", "");
  ExpectRefused({"/empty.sst"}, absl::StatusCode::kDataLoss, "not a table");
  for (const size_t kept : {bytes.size() - 1, bytes.size() / 2, size_t{127}}) {
    WriteFile("/cut.sst", bytes.substr(0, kept));
    ExpectRefused({"/cut.sst"}, absl::StatusCode::kDataLoss, "/cut.sst");
  }
  for (size_t at = 0; at < bytes.size(); at += bytes.size() / 97) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    WriteFile("/damaged.sst", damaged);
    ExpectRefused({"/damaged.sst"}, absl::StatusCode::kDataLoss, "/damaged.sst");
    if (HasFailure()) return;
  }
  // Without that check the block's checksum is what a read comes to.
  std::string damaged = bytes;
  damaged[10] = static_cast<char>(damaged[10] ^ 1);
  WriteFile("/damaged.sst", damaged);
  IngestOptions unchecked;
  unchecked.verify_checksums = false;
  ASSERT_TRUE(Ingest({"/damaged.sst"}, unchecked).ok());
  EXPECT_NE(Get(Key(0)).find("DATA_LOSS"), std::string::npos) << Get(Key(0));
  EXPECT_EQ(Get(Key(1999)), "a 1999");
}

TEST_F(IngestFilesTest, OnlyTablesOfAWriterAreTaken) {
  Open();
  Fill(0, 10);
  ASSERT_TRUE(db_->Flush(FlushOptions()).ok());
  const std::vector<std::string> own = FilesEndingWith(".sst");
  ASSERT_EQ(own.size(), 1u);
  ExpectRefused(own, absl::StatusCode::kInvalidArgument, "SstFileWriter did not write");
  Options other = options_;
  other.comparator = ReverseBytewiseComparator();
  SstFileWriter writer(other);
  ASSERT_TRUE(writer.Open("/reverse.sst").ok());
  ASSERT_TRUE(writer.Put("b", "1").ok());
  ASSERT_TRUE(writer.Put("a", "2").ok());
  ASSERT_TRUE(writer.Finish().ok());
  ExpectRefused({"/reverse.sst"}, absl::StatusCode::kInvalidArgument, "comparator");
}

// One that looks like a writer's, but for its range tombstones.
TEST_F(IngestFilesTest, TablesWithRangeTombstonesAreRefused) {
  Open();
  FileSystem* const file_system = options_.file_system.get();
  TableBuilderOptions table;
  table.order = InternalKeyOrder(options_.comparator);
  table.file_number = kExternalNumberBit | 1;
  const auto file = file_system->NewWritableFile("/crafted.sst");
  ASSERT_TRUE(file.ok()) << file.status();
  TableBuilder builder(table, file->get());
  std::string key;
  AppendInternalKey(&key, "b", MakeTag(0, EntryType::kPut));
  ASSERT_TRUE(builder.Add(key, "1").ok());
  Arena arena;
  const RefPtr<const RangeTombstones> tombstones =
      RangeTombstones::With(KeyOrder(options_.comparator), nullptr, "a", "c", 0, &arena);
  ASSERT_TRUE(builder.Finish(tombstones.get()).ok());
  ASSERT_TRUE((*file)->Close().ok());
  ExpectRefused({"/crafted.sst"}, absl::StatusCode::kInvalidArgument, "1 range tombstones");
}

TEST_F(IngestFilesTest, TheFileStaysTheCallersOwn) {
  Open();
  for (const bool link : {true, false}) {
    SCOPED_TRACE(link ? "linked" : "copied");
    const std::string path = link ? "/linked.sst" : "/copied.sst";
    const int first = link ? 0 : 5000;
    MakeTable(path, first, first + 3000, "a");
    const std::string bytes = ReadFile(path);
    IngestOptions options;
    options.link_files = link;
    ASSERT_TRUE(Ingest({path}, options).ok());
    EXPECT_EQ(ReadFile(path), bytes);
    if (!link) WriteFile(path, "changed in place");  // which a copy allows
    // A writer's new table at the old path is another file.
    MakeTable(path, 0, 1, "other");
    EXPECT_EQ(Get(Key(first + 10)), "a " + std::to_string(first + 10));
    ASSERT_TRUE(options_.file_system->DeleteFile(path).ok());
    Open();
    EXPECT_TRUE(db_->VerifyChecksums().ok());
    EXPECT_EQ(Get(Key(first + 2999)), "a " + std::to_string(first + 2999));
  }
  // And the other way round.
  MakeTable("/kept.sst", 10000, 10010, "kept");
  ASSERT_TRUE(Ingest({"/kept.sst"}).ok());
  db_ = nullptr;
  ASSERT_TRUE(DestroyDB(options_, "/db").ok());
  Open();
  ASSERT_TRUE(Ingest({"/kept.sst"}).ok());
  EXPECT_EQ(Get(Key(10001)), "kept 10001");
}

// On the operating system's files: links, what can't be linked, what may not be written.
TEST(IngestPosixTest, LinksCopiesAndReadOnlyFiles) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "sievedb_ingest_test";
  fs::remove_all(root);
  fs::create_directories(root);
  Options options;
  const auto make = [&](const std::string& name, const std::string& key) {
    SstFileWriter writer(options);
    const std::string path = root / name;
    EXPECT_TRUE(writer.Open(path).ok());
    EXPECT_TRUE(writer.Put(key, name).ok());
    EXPECT_TRUE(writer.Finish().ok());
    return path;
  };
  {
    auto db = DB::Open(options, root / "db");
    ASSERT_TRUE(db.ok()) << db.status();
    const std::string linked = make("linked", "a");
    ASSERT_TRUE((*db)->IngestExternalFiles({linked}, IngestOptions()).ok());
    EXPECT_EQ(fs::hard_link_count(linked), 2u);
    IngestOptions copy;
    copy.link_files = false;
    const std::string copied = make("copied", "b");
    ASSERT_TRUE((*db)->IngestExternalFiles({copied}, copy).ok());
    EXPECT_EQ(fs::hard_link_count(copied), 1u);
    const std::string read_only = make("read_only", "c");
    fs::permissions(read_only, fs::perms::owner_read);
    ASSERT_TRUE((*db)->IngestExternalFiles({read_only}, IngestOptions()).ok());
    // By a symbolic link the file is meant, not the link.
    const std::string target = make("target", "d");
    fs::create_symlink(target, root / "symbolic");
    ASSERT_TRUE((*db)->IngestExternalFiles({root / "symbolic"}, IngestOptions()).ok());
    EXPECT_EQ(fs::hard_link_count(target), 2u);
    fs::remove(target);
    EXPECT_FALSE((*db)->IngestExternalFiles({root / "symbolic"}, IngestOptions()).ok());
    EXPECT_FALSE((*db)->IngestExternalFiles({root}, IngestOptions()).ok()) << "a directory";
  }
  for (const char* name : {"linked", "copied", "read_only", "symbolic"}) fs::remove(root / name);
  auto db = DB::Open(options, root / "db");
  ASSERT_TRUE(db.ok()) << db.status();
  std::string value;
  for (const auto& [key, expected] : {std::pair("a", "linked"), std::pair("b", "copied"),
                                      std::pair("c", "read_only"), std::pair("d", "target")}) {
    ASSERT_TRUE((*db)->Get(ReadOptions(), key, &value).ok()) << key;
    EXPECT_EQ(value, expected);
  }
  ASSERT_TRUE((*db)->VerifyChecksums().ok());
  db->reset();
  fs::remove_all(root);
}

}  // namespace
}  // namespace sievedb
