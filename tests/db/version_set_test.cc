#include "db/version_set.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/file_names.h"
#include "db/log_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/version_test_util.h"
#include "tests/fault_file_system.h"
#include "util/file_util.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using version_test::MakeFile;
using version_test::TableStore;

class VersionSetTest : public testing::Test {
 protected:
  VersionSetTest() : faults_(std::make_shared<FaultFileSystem>()), store_(faults_) {
    store_.options.paranoid_checks = false;  // the tables are not there
  }

  FileSystem* fs() { return store_.options.file_system.get(); }
  std::unique_ptr<VersionSet> New() {
    return std::make_unique<VersionSet>(store_.options, "db", store_.opener.get(), &event_log_);
  }
  std::unique_ptr<VersionSet> Created() {
    auto set = New();
    const absl::Status status = set->Create();
    EXPECT_TRUE(status.ok()) << status;
    return set;
  }
  std::unique_ptr<VersionSet> Recovered() {
    auto set = New();
    const absl::Status status = set->Recover();
    EXPECT_TRUE(status.ok()) << status;
    return set;
  }
  absl::Status RecoverStatus() { return New()->Recover(); }

  static absl::Status AddTable(VersionSet* set, int level, std::string_view smallest,
                               std::string_view largest) {
    VersionEdit edit;
    edit.added_files.emplace_back(level, MakeFile(set->NewFileNumber(), smallest, largest));
    return set->Apply(&edit);
  }
  std::string Read(const std::string& path) {
    auto bytes = ReadWholeFile(fs(), path);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.value_or("");
  }
  void Write(const std::string& path, std::string_view bytes) {
    auto file = fs()->NewWritableFile(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(bytes).ok());
    ASSERT_TRUE((*file)->Sync().ok());
  }
  // A MANIFEST of these edits, into tests/data/golden.
  void WriteGolden(const char* name, const std::vector<VersionEdit>& edits) {
    auto log = LogWriter::Create(*fs()->NewWritableFile("db/golden"), LogKind::kManifest, 7);
    for (const VersionEdit& edit : edits) ASSERT_TRUE((*log)->AddRecord(edit.Encode()).ok());
    std::ofstream(GoldenPath(name), std::ios::binary) << Read("db/golden");
  }
  std::unique_ptr<VersionSet> RecoveredGolden(const char* name) {
    std::ifstream file(GoldenPath(name), std::ios::binary);
    EXPECT_TRUE(file) << name;
    Write("db/MANIFEST-000007", std::string(std::istreambuf_iterator<char>(file), {}));
    Write("db/CURRENT", "MANIFEST-000007\n");
    return Recovered();
  }
  static std::string GoldenPath(const char* name) {
    return absl::StrFormat("%s/golden/%s", SIEVEDB_TEST_DATA_DIR, name);
  }
  std::string ManifestPath(const VersionSet& set) {
    return ManifestFileName("db", set.manifest_file_number());
  }

  std::shared_ptr<FaultFileSystem> faults_;
  TableStore store_;
  EventLog event_log_;
};

TEST_F(VersionSetTest, MissingDatabaseIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(RecoverStatus())) << RecoverStatus();
}

TEST_F(VersionSetTest, CreateThenRecover) {
  uint64_t id;
  {
    auto set = Created();
    id = set->db_id();
    EXPECT_NE(id, 0u);
    EXPECT_EQ(set->hash_seed(), fs()->RandomSeed());
    EXPECT_NE(set->hash_seed(), 0u);
    EXPECT_EQ(Read("db/CURRENT"), "MANIFEST-000001\n");
    EXPECT_EQ(set->manifest_file_number(), 1u);
  }
  auto set = Recovered();
  EXPECT_EQ(set->db_id(), id);
  EXPECT_EQ(set->hash_seed(), fs()->RandomSeed());
  EXPECT_EQ(set->current()->DebugString(), "");
  EXPECT_GT(set->NewFileNumber(), 1u);
}

TEST_F(VersionSetTest, EditsComeBack) {
  uint64_t removed_number;
  {
    auto set = Created();
    ASSERT_TRUE(AddTable(set.get(), 6, "m", "z").ok());
    ASSERT_TRUE(AddTable(set.get(), 0, "a", "n").ok());
    removed_number = set->current()->files(0)[0]->number;
    VersionEdit edit;
    edit.log_number = 77;
    edit.removed_files.emplace_back(0, removed_number);
    edit.added_files.emplace_back(6, MakeFile(set->NewFileNumber(), "a", "l", 5));
    set->SetLastSequence(99);
    ASSERT_TRUE(set->Apply(&edit).ok());
    EXPECT_EQ(edit.last_sequence, 99u);
    EXPECT_EQ(set->log_number(), 77u);
  }
  auto set = Recovered();
  EXPECT_EQ(set->current()->DebugString(), "L6: 4[a .. l]1000 2[m .. z]1000\n");
  EXPECT_EQ(set->log_number(), 77u);
  EXPECT_EQ(set->last_sequence(), 99u);
  EXPECT_GE(set->NewFileNumber(), 78u);
}

TEST_F(VersionSetTest, RecoverWritesNothingAndTheFirstApplyBeginsAManifest) {
  { ASSERT_TRUE(AddTable(Created().get(), 6, "a", "b").ok()); }
  const uint64_t appends = faults_->operations(FileOp::kAppend);
  auto set = Recovered();
  EXPECT_EQ(faults_->operations(FileOp::kAppend), appends);
  EXPECT_EQ(set->manifest_file_number(), 1u);
  ASSERT_TRUE(AddTable(set.get(), 6, "c", "d").ok());
  const uint64_t number = set->manifest_file_number();
  EXPECT_GT(number, 1u);
  EXPECT_EQ(Read("db/CURRENT"), absl::StrFormat("MANIFEST-%06d\n", number));
  const std::string text = set->current()->DebugString();
  set.reset();
  EXPECT_EQ(Recovered()->current()->DebugString(), text);
}

TEST_F(VersionSetTest, ManifestThatGrewTooLargeIsReplaced) {
  auto set = Created();
  const std::string key(20000, 'k');
  for (int i = 0; i < 60; ++i) {
    VersionEdit edit;
    edit.added_files.emplace_back(6, MakeFile(set->NewFileNumber(), key, key));
    if (!set->current()->files(6).empty()) {
      edit.removed_files.emplace_back(6, set->current()->files(6)[0]->number);
    }
    ASSERT_TRUE(set->Apply(&edit).ok());
  }
  EXPECT_GT(set->manifest_file_number(), 1u);
  EXPECT_LT(Read(ManifestPath(*set)).size(), 3u << 20);
  const std::string text = set->current()->DebugString();
  set.reset();
  EXPECT_EQ(Recovered()->current()->DebugString(), text);
}

TEST_F(VersionSetTest, EditsThatDoNotFitChangeNothing) {
  auto set = Created();
  ASSERT_TRUE(AddTable(set.get(), 6, "c", "f").ok());
  const uint64_t size = Read(ManifestPath(*set)).size();
  EXPECT_TRUE(absl::IsDataLoss(AddTable(set.get(), 6, "f", "g")));  // shares a user key
  EXPECT_TRUE(absl::IsDataLoss(AddTable(set.get(), 5, "z", "a")));
  VersionEdit edit;
  edit.removed_files.emplace_back(5, 2);
  EXPECT_TRUE(absl::IsDataLoss(set->Apply(&edit)));
  EXPECT_EQ(Read(ManifestPath(*set)).size(), size);
  EXPECT_TRUE(AddTable(set.get(), 6, "g", "h").ok());
}

TEST_F(VersionSetTest, RemovedTablesAreObsoleteOnceNobodyReadsThem) {
  auto set = Created();
  ASSERT_TRUE(AddTable(set.get(), 5, "a", "b").ok());
  std::shared_ptr<const Version> reader = set->current();
  const FileRef file = reader->files(5)[0];
  const uint64_t number = file->number;
  // A move is no removal.
  VersionEdit move;
  move.removed_files.emplace_back(5, number);
  move.added_files.emplace_back(6, std::const_pointer_cast<FileMeta>(file));
  ASSERT_TRUE(set->Apply(&move).ok());
  EXPECT_FALSE(file->removed.load());
  EXPECT_EQ(set->current()->files(6)[0], file);
  VersionEdit remove;
  remove.removed_files.emplace_back(6, number);
  ASSERT_TRUE(set->Apply(&remove).ok());
  EXPECT_TRUE(file->removed.load());
  EXPECT_TRUE(set->obsolete_tables()->Take().empty());
  reader.reset();
  move.added_files.clear();
  const_cast<FileRef&>(file).reset();
  const auto obsolete = set->obsolete_tables()->Take();
  ASSERT_EQ(obsolete.size(), 1u);
  EXPECT_EQ(obsolete[0].number, number);
  EXPECT_EQ(obsolete[0].file_bytes, 1000u);
}

TEST_F(VersionSetTest, TablesThatLiveOnAreNotObsolete) {
  auto set = Created();
  ASSERT_TRUE(AddTable(set.get(), 5, "a", "b").ok());
  const auto obsolete = set->obsolete_tables();
  set.reset();
  EXPECT_TRUE(obsolete->Take().empty());
}

TEST_F(VersionSetTest, AnotherComparatorIsRefused) {
  Created();
  store_.options.comparator = ReverseBytewiseComparator();
  const absl::Status status = RecoverStatus();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("comparator"));
}

TEST_F(VersionSetTest, BadCurrent) {
  Created();
  for (const char* text :
       {"", "MANIFEST-000001", "MANIFEST-1\n", "x\n", "000001.sst\n", "MANIFEST-000001\n\n"}) {
    Write("db/CURRENT", text);
    EXPECT_TRUE(absl::IsDataLoss(RecoverStatus())) << text << ": " << RecoverStatus();
  }
  Write("db/CURRENT", "MANIFEST-000099\n");
  const absl::Status status = RecoverStatus();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;  // not kNotFound: there is a database
  EXPECT_THAT(std::string(status.message()), HasSubstr("MANIFEST-000099"));
}

TEST_F(VersionSetTest, EmptyManifestIsDamage) {
  Created();
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{kLogHeaderBytes}}) {
    Write("db/MANIFEST-000001", Read("db/MANIFEST-000001").substr(0, bytes));
    EXPECT_TRUE(absl::IsDataLoss(RecoverStatus())) << RecoverStatus();
  }
}

TEST_F(VersionSetTest, TornTailLosesOnlyTheLastEdit) {
  std::string before;
  std::string after;
  size_t size_before;
  {
    auto set = Created();
    ASSERT_TRUE(AddTable(set.get(), 6, "a", "b").ok());
    before = set->current()->DebugString();
    size_before = Read("db/MANIFEST-000001").size();
    ASSERT_TRUE(AddTable(set.get(), 6, "c", "d").ok());
    after = set->current()->DebugString();
  }
  const std::string bytes = Read("db/MANIFEST-000001");
  for (size_t n = size_before; n <= bytes.size(); ++n) {
    Write("db/MANIFEST-000001", bytes.substr(0, n));
    EXPECT_EQ(Recovered()->current()->DebugString(), n == bytes.size() ? after : before);
  }
}

TEST_F(VersionSetTest, EveryFlippedByteIsFoundOrIsATornTail) {
  std::vector<std::string> states;
  {
    auto set = Created();
    states.push_back(set->current()->DebugString());
    for (const char* key : {"a", "b", "c"}) {
      ASSERT_TRUE(AddTable(set.get(), 6, key, key).ok());
      states.push_back(set->current()->DebugString());
    }
  }
  const std::string good = Read("db/MANIFEST-000001");
  size_t torn = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
    Write("db/MANIFEST-000001", bytes);
    auto set = New();
    const absl::Status status = set->Recover();
    if (status.ok()) {
      // Only the last record may pass for a torn tail.
      EXPECT_EQ(set->current()->DebugString(), states[states.size() - 2]) << "byte " << i;
      ++torn;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("MANIFEST-000001"));
    }
  }
  EXPECT_GT(torn, 0u);
  EXPECT_LT(torn, good.size() / 3);
}

TEST_F(VersionSetTest, ParanoidChecksFindMissingTables) {
  std::string missing;
  {
    auto set = Created();
    ASSERT_TRUE(AddTable(set.get(), 6, "a", "b").ok());
    ASSERT_TRUE(AddTable(set.get(), 0, "a", "b").ok());
    missing = TableFileName("db", set->current()->files(0)[0]->number);
    Write(TableFileName("db", set->current()->files(6)[0]->number), std::string(1000, 'x'));
    Write(missing, std::string(1000, 'x'));
  }
  EXPECT_TRUE(RecoverStatus().ok());
  store_.options.paranoid_checks = true;
  EXPECT_TRUE(RecoverStatus().ok());
  ASSERT_TRUE(fs()->DeleteFile(missing).ok());
  const absl::Status status = RecoverStatus();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(missing));
  Write(missing, std::string(1000, 'x'));
  EXPECT_TRUE(RecoverStatus().ok());
}

TEST_F(VersionSetTest, NoEditAfterAnError) {
  auto set = Created();
  ASSERT_TRUE(AddTable(set.get(), 6, "a", "b").ok());
  faults_->Fail(FileOp::kSync, "MANIFEST", absl::UnavailableError("I/O error"));
  EXPECT_EQ(AddTable(set.get(), 6, "c", "d").code(), absl::StatusCode::kUnavailable);
  const absl::Status status = AddTable(set.get(), 6, "e", "f");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("I/O error"));
  EXPECT_EQ(set->current()->files(6).size(), 1u);
}

TEST_F(VersionSetTest, AFullDiskIsOvercomeWithANewManifest) {
  auto set = Created();
  ASSERT_TRUE(AddTable(set.get(), 6, "a", "b").ok());
  for (const FileOp op : {FileOp::kAppend, FileOp::kSync}) {
    const uint64_t number = set->manifest_file_number();
    faults_->Fail(op, "MANIFEST", absl::ResourceExhaustedError("no space"));
    EXPECT_TRUE(absl::IsResourceExhausted(AddTable(set.get(), 6, "c", "d")));
    EXPECT_EQ(set->current()->files(6).size(), 1u);
    VersionEdit nothing;
    ASSERT_TRUE(set->Apply(&nothing).ok());
    EXPECT_GT(set->manifest_file_number(), number);
    EXPECT_EQ(Recovered()->current()->DebugString(), set->current()->DebugString());
  }
}

// Whatever operation fails, and then the machine dies: the version recovered is the
// last one acknowledged, or the one that was being written.
TEST_F(VersionSetTest, EveryFaultThenCrashKeepsTheAcknowledgedVersion) {
  for (uint64_t n = 1; n < 1000; ++n) {
    auto faults = std::make_shared<FaultFileSystem>();
    TableStore store(faults);
    store.options.paranoid_checks = false;
    EventLog log;
    auto set = std::make_unique<VersionSet>(store.options, "db", store.opener.get(), &log);
    ASSERT_TRUE(set->Create().ok());
    ASSERT_TRUE(AddTable(set.get(), 6, "a", "b").ok());
    set = std::make_unique<VersionSet>(store.options, "db", store.opener.get(), &log);
    ASSERT_TRUE(set->Recover().ok());
    const uint64_t before = faults->faults();
    faults->FailNth(n, absl::ResourceExhaustedError("no space"));
    size_t acknowledged = 1;
    for (const char* key : {"c", "d", "e"}) {
      if (AddTable(set.get(), 6, key, key).ok()) ++acknowledged;
    }
    const bool failed = faults->faults() > before;
    for (const CrashMode mode : {CrashMode::kLoseUnsynced, CrashMode::kKeepUnsynced,
                                 CrashMode::kTornUnsynced, CrashMode::kRandom}) {
      TableStore after(faults->CrashClone(mode, n));
      after.options.paranoid_checks = false;
      VersionSet recovered(after.options, "db", after.opener.get(), &log);
      const absl::Status status = recovered.Recover();
      ASSERT_TRUE(status.ok()) << "fault " << n << ": " << status;
      const size_t files = recovered.current()->files(6).size();
      EXPECT_GE(files, acknowledged) << "fault " << n;
      EXPECT_LE(files, 4u);
    }
    if (!failed) {
      EXPECT_EQ(acknowledged, 4u);
      EXPECT_GT(n, 5u);
      return;
    }
  }
  FAIL() << "there is no end of operations to fail";
}

// MANIFEST-v1 was written by the first version of the format. With SIEVEDB_REWRITE=1
// it is written anew: only for a format that is meant to change.
TEST_F(VersionSetTest, GoldenManifest) {
  constexpr char kGolden[] = "MANIFEST-v1";
  if (std::getenv("SIEVEDB_REWRITE") != nullptr) {
    VersionEdit snapshot;
    snapshot.comparator_name = store_.options.comparator->Name();
    snapshot.db_id = 0x0123456789abcdef;
    snapshot.log_number = 3;
    snapshot.next_file_number = 8;
    snapshot.last_sequence = 1000;
    snapshot.added_files.emplace_back(6, MakeFile(4, "apple", "banana", 10, 123456));
    VersionEdit edit;
    edit.log_number = 9;
    edit.next_file_number = 20;
    edit.last_sequence = 2000;
    edit.removed_files.emplace_back(6, 4);
    edit.added_files.emplace_back(0, MakeFile(10, std::string("\0\xff", 2), "z", 1500, 300));
    edit.added_files.emplace_back(5, MakeFile(11, "apple", "banana", 10, 123000));
    WriteGolden(kGolden, {snapshot, edit});
  }
  auto set = RecoveredGolden(kGolden);
  EXPECT_EQ(set->current()->DebugString(),
            "L0: 10[\\x00\\xff .. z]300\n"
            "L5: 11[apple .. banana]123000\n");
  EXPECT_EQ(set->db_id(), 0x0123456789abcdefu);
  EXPECT_EQ(set->log_number(), 9u);
  EXPECT_EQ(set->last_sequence(), 2000u);
  EXPECT_EQ(set->NewFileNumber(), 20u);
  const FileMeta& table = *set->current()->files(5)[0];
  EXPECT_EQ(table.tail_bytes, 12300u);
  EXPECT_EQ(table.entries, 100u);
  EXPECT_EQ(table.tombstones, 0u);
  EXPECT_EQ(table.raw_bytes, 246000u);
  EXPECT_EQ(table.smallest, version_test::InternalKey("apple", 10));
  EXPECT_EQ(table.smallest_sequence, 10u);
  // It is from before there was a seed, and stays without one.
  EXPECT_EQ(set->hash_seed(), 0u);
  ASSERT_TRUE(AddTable(set.get(), 6, "x", "y").ok());
  set.reset();
  EXPECT_EQ(Recovered()->hash_seed(), 0u);
}

// The same of a table that SstFileWriter made, which versions before it refuse to open.
TEST_F(VersionSetTest, GoldenManifestWithAnExternalTable) {
  constexpr char kGolden[] = "MANIFEST-v1_external";
  constexpr uint64_t kExternalNumber = 0x8123456789abcdef;
  if (std::getenv("SIEVEDB_REWRITE") != nullptr) {
    VersionEdit edit;
    edit.comparator_name = store_.options.comparator->Name();
    edit.db_id = 0x0123456789abcdef;
    edit.log_number = 3;
    edit.next_file_number = 8;
    edit.last_sequence = 9;  // that of the table counts too
    auto table = MakeFile(4, "apple", "banana", 10, 123456);
    table->external_number = kExternalNumber;
    edit.added_files.emplace_back(6, std::move(table));
    WriteGolden(kGolden, {edit});
  }
  auto set = RecoveredGolden(kGolden);
  EXPECT_EQ(set->last_sequence(), 10u);
  const auto check = [&] {
    EXPECT_EQ(set->current()->DebugString(), "L6: 4[apple .. banana]123456\n");
    const FileMeta& table = *set->current()->files(6)[0];
    EXPECT_EQ(table.external_number, kExternalNumber);
    EXPECT_EQ(table.checksum_number(), kExternalNumber);
    EXPECT_EQ(table.global_sequence(), 10u);
    EXPECT_EQ(table.smallest, version_test::InternalKey("apple", 10));
  };
  check();
  // And in the snapshot that a new MANIFEST begins with.
  VersionEdit edit;
  ASSERT_TRUE(set->Apply(&edit).ok());
  set.reset();
  set = Recovered();
  check();
}

// The same of tables with range tombstones, of which one ends where the next begins.
TEST_F(VersionSetTest, GoldenManifestWithRangeTombstones) {
  constexpr char kGolden[] = "MANIFEST-v1_ranges";
  if (std::getenv("SIEVEDB_REWRITE") != nullptr) {
    VersionEdit edit;
    edit.comparator_name = store_.options.comparator->Name();
    edit.db_id = 0x0123456789abcdef;
    edit.log_number = 3;
    edit.next_file_number = 8;
    edit.last_sequence = 12;
    auto first = MakeFile(4, "apple", "banana", 10, 123456);
    first->range_tombstones = 3;
    first->largest.clear();
    AppendInternalKey(&first->largest, "cherry", kMaxTag);
    auto second = MakeFile(5, "cherry", "fig", 11, 1000);
    second->range_tombstones = 1;
    second->entries = second->tombstones = 0;
    edit.added_files.emplace_back(6, std::move(first));
    edit.added_files.emplace_back(6, std::move(second));
    WriteGolden(kGolden, {edit});
  }
  auto set = RecoveredGolden(kGolden);
  const auto check = [&] {
    EXPECT_EQ(set->current()->DebugString(), "L6: 4[apple .. cherry]123456 5[cherry .. fig]1000\n");
    const FileMeta& first = *set->current()->files(6)[0];
    EXPECT_EQ(first.range_tombstones, 3u);
    EXPECT_TRUE(first.largest_is_outside());
    const FileMeta& second = *set->current()->files(6)[1];
    EXPECT_EQ(second.range_tombstones, 1u);
    EXPECT_FALSE(second.largest_is_outside());
    EXPECT_EQ(second.entries, 0u);
  };
  check();
  // And in the snapshot that a new MANIFEST begins with.
  VersionEdit edit;
  ASSERT_TRUE(set->Apply(&edit).ok());
  set.reset();
  set = Recovered();
  check();
}

// The same of levels of several sorted runs, which versions before them refuse to open.
TEST_F(VersionSetTest, GoldenManifestWithRuns) {
  const std::string golden_path = std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/MANIFEST-v1_runs";
  if (const char* rewrite = std::getenv("SIEVEDB_REWRITE"); rewrite != nullptr) {
    VersionEdit edit;
    edit.comparator_name = store_.options.comparator->Name();
    edit.db_id = 0x0123456789abcdef;
    edit.log_number = 3;
    edit.next_file_number = 8;
    edit.last_sequence = 1000;
    edit.added_files.emplace_back(6, MakeFile(4, "apple", "banana", 10, 1000));
    edit.added_files.emplace_back(6, MakeFile(5, "avocado", "cherry", 20, 2000), 1);
    edit.added_files.emplace_back(5, MakeFile(6, "apple", "fig", 30, 300), 1000);
    auto log = LogWriter::Create(*fs()->NewWritableFile("db/golden"), LogKind::kManifest, 7);
    ASSERT_TRUE((*log)->AddRecord(edit.Encode()).ok());
    std::ofstream(golden_path, std::ios::binary) << Read("db/golden");
  }
  std::ifstream file(golden_path, std::ios::binary);
  ASSERT_TRUE(file) << golden_path;
  Write("db/MANIFEST-000007", std::string(std::istreambuf_iterator<char>(file), {}));
  Write("db/CURRENT", "MANIFEST-000007\n");
  const std::string expected =
      "L5: run 1000: 6[apple .. fig]300\n"
      "L6: run 1: 5[avocado .. cherry]2000\n"
      "L6: 4[apple .. banana]1000\n";
  auto set = Recovered();
  EXPECT_EQ(set->current()->DebugString(), expected);
  // And in the snapshot that a new MANIFEST begins with.
  VersionEdit edit;
  ASSERT_TRUE(set->Apply(&edit).ok());
  set.reset();
  EXPECT_EQ(Recovered()->current()->DebugString(), expected);
}

}  // namespace
}  // namespace sievedb
