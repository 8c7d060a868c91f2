#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/log_format.h"
#include "db/log_reader.h"
#include "db/log_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/file_system.h"
#include "util/coding.h"
#include "util/escape.h"
#include "util/hash.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kNumber = 7;

// A file whose bytes are given, in a buffer of just that size.
class BytesFile : public RandomAccessFile {
 public:
  explicit BytesFile(std::string_view bytes) : bytes_(bytes.begin(), bytes.end()) {}
  absl::Status Read(uint64_t offset, size_t n, char* scratch,
                    std::string_view* result) const override {
    offset = std::min<uint64_t>(offset, bytes_.size());
    n = std::min<size_t>(n, bytes_.size() - offset);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), n, scratch);
    *result = std::string_view(scratch, n);
    return absl::OkStatus();
  }

 private:
  const std::vector<char> bytes_;
};

// What a log says from its first byte to its end.
struct Reading {
  absl::Status status;
  std::vector<std::string> records;
  LogPredecessor predecessor;
  uint64_t offset = 0;
  uint64_t torn_bytes = 0;
};

Reading Read(std::string_view bytes, LogKind kind = LogKind::kWal, uint64_t number = kNumber,
             uint64_t boot_id = 0) {
  Reading reading;
  auto reader = LogReader::Open(std::make_unique<BytesFile>(bytes), bytes.size(), "db/000007.wal",
                                kind, number, boot_id);
  if (!reader.ok()) {
    reading.status = reader.status();
    return reading;
  }
  std::string_view payload;
  for (;;) {
    const absl::StatusOr<bool> more = (*reader)->ReadRecord(&payload);
    reading.status = more.status();
    if (!more.ok()) {
      EXPECT_EQ((*reader)->ReadRecord(&payload).status(), more.status());
    }
    if (!more.ok() || !*more) break;
    reading.records.emplace_back(payload);
  }
  if (reading.status.ok()) {
    EXPECT_FALSE((*reader)->ReadRecord(&payload).value());
  }
  reading.predecessor = (*reader)->predecessor();
  reading.offset = (*reader)->offset();
  reading.torn_bytes = (*reader)->torn_bytes();
  return reading;
}

// The bytes of a log, and where each record begins.
struct Log {
  std::string bytes;
  std::vector<uint64_t> begins;
};

std::string FileBytes(FileSystem* fs, const std::string& path) {
  auto file = fs->NewRandomAccessFile(path);
  std::string bytes(fs->FileSize(path).value(), '\0');
  std::string_view result;
  EXPECT_TRUE((*file)->Read(0, bytes.size(), bytes.data(), &result).ok());
  return bytes;
}

// Writes records as log number. old: what the file held in an earlier life.
Log Write(const std::vector<std::string>& records, std::string_view old = {},
          LogKind kind = LogKind::kWal, uint64_t number = kNumber, LogPredecessor predecessor = {},
          uint64_t boot_id = 0, size_t synced_records = 0) {
  const auto fs = NewMemoryFileSystem();
  {
    auto file = fs->NewWritableFile("/old");
    EXPECT_TRUE((*file)->Append(old).ok());
  }
  auto file = fs->ReuseWritableFile("/log", "/old");
  auto writer = LogWriter::Create(*std::move(file), kind, number, predecessor, boot_id);
  EXPECT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->size(), kLogHeaderBytes);
  Log log;
  for (const std::string& record : records) {
    log.begins.push_back((*writer)->size());
    EXPECT_TRUE((*writer)->AddRecord(record).ok());
    if (log.begins.size() == synced_records) {
      EXPECT_TRUE((*writer)->Sync().ok());
    }
  }
  EXPECT_TRUE((*writer)->Sync().ok());
  // Before Close, which would cut the earlier life off: so does a crash find it.
  log.bytes = FileBytes(fs.get(), "/log");
  if (old.empty()) {
    EXPECT_EQ(log.bytes.size(), (*writer)->size());
  }
  return log;
}

std::vector<std::string> RandomRecords(uint64_t seed, int count, size_t max_bytes) {
  std::mt19937_64 random(seed);
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    std::string record(1 + random() % max_bytes, '\0');
    for (char& c : record) c = static_cast<char>(random() % 3);  // many zeros and ones
    records.push_back(std::move(record));
  }
  return records;
}

bool IsPrefix(const std::vector<std::string>& prefix, const std::vector<std::string>& whole) {
  return prefix.size() <= whole.size() && std::equal(prefix.begin(), prefix.end(), whole.begin());
}

const std::vector<std::string>& SmallRecords() {
  static const std::vector<std::string> records = {"first", "2", std::string(40, '\1'), "x",
                                                   "the last one"};
  return records;
}

TEST(LogTest, RecordsComeBackInOrder) {
  std::vector<std::string> records = RandomRecords(1, 300, 20000);
  records.push_back(std::string(3 << 20, 'L'));  // more than the writer copies, or the reader reads
  records.push_back("behind the large one");
  const Log log = Write(records);
  const Reading reading = Read(log.bytes);
  ASSERT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.records == records);
  EXPECT_EQ(reading.offset, log.bytes.size());
  EXPECT_EQ(reading.torn_bytes, 0u);
}

TEST(LogTest, PredecessorIsKept) {
  const Log log = Write({"a"}, {}, LogKind::kWal, kNumber, {5, 1234567890123});
  const Reading reading = Read(log.bytes);
  ASSERT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.predecessor.file_number, 5u);
  EXPECT_EQ(reading.predecessor.end, 1234567890123u);
}

TEST(LogTest, EmptyLogHasNoRecords) {
  const Reading reading = Read(Write({}).bytes);
  ASSERT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.records.empty());
  EXPECT_EQ(reading.offset, kLogHeaderBytes);
}

TEST(LogTest, CutAnywhereGivesTheWholeRecordsBefore) {
  const Log log = Write(SmallRecords());
  for (size_t cut = 0; cut <= log.bytes.size(); ++cut) {
    SCOPED_TRACE(absl::StrFormat("cut at %d", cut));
    const Reading reading = Read(log.bytes.substr(0, cut));
    ASSERT_TRUE(reading.status.ok()) << reading.status;
    size_t whole = 0;
    while (whole < log.begins.size() &&
           (whole + 1 < log.begins.size() ? log.begins[whole + 1] : log.bytes.size()) <= cut) {
      ++whole;
    }
    ASSERT_EQ(reading.records.size(), whole);
    ASSERT_TRUE(IsPrefix(reading.records, SmallRecords()));
    ASSERT_EQ(reading.torn_bytes, cut - reading.offset);
    // The same cut, but the file's size came to the disk before its bytes.
    for (const size_t zeros : {1, 17, 18, 5000}) {
      const Reading padded = Read(log.bytes.substr(0, cut) + std::string(zeros, '\0'));
      ASSERT_TRUE(padded.status.ok()) << padded.status;
      ASSERT_EQ(padded.records, reading.records);
    }
  }
}

TEST(LogTest, AnyFlippedBitIsATornLastRecordOrDataLoss) {
  const Log log = Write(SmallRecords());
  for (size_t at = 0; at < log.bytes.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      SCOPED_TRACE(absl::StrFormat("bit %d of byte %d", bit, at));
      std::string bytes = log.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const Reading reading = Read(bytes);
      ASSERT_TRUE(IsPrefix(reading.records, SmallRecords()));
      if (at >= log.begins.back()) {
        ASSERT_TRUE(reading.status.ok()) << reading.status;
        ASSERT_EQ(reading.records.size(), SmallRecords().size() - 1);
        continue;
      }
      ASSERT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
      const std::string message(reading.status.message());
      EXPECT_THAT(message, HasSubstr("db/000007.wal: offset "));
      EXPECT_THAT(message, HasSubstr("expected "));
      EXPECT_THAT(message, HasSubstr("found "));
      if (at < kLogHeaderBytes) {
        EXPECT_TRUE(reading.records.empty());
        continue;
      }
      const size_t damaged = static_cast<size_t>(
          std::upper_bound(log.begins.begin(), log.begins.end(), at) - log.begins.begin() - 1);
      EXPECT_EQ(reading.records.size(), damaged);
      EXPECT_THAT(message, HasSubstr(absl::StrFormat("offset %d: expected", log.begins[damaged])));
      EXPECT_THAT(message, HasSubstr(absl::StrFormat("a record follows at offset %d",
                                                     log.begins[damaged + 1])));
    }
  }
}

TEST(LogTest, ZeroedRecordBeforeTheTailIsDataLoss) {
  const Log log = Write(SmallRecords());
  std::string bytes = log.bytes;
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(log.begins[1]),
            bytes.begin() + static_cast<std::ptrdiff_t>(log.begins[3]), '\0');
  const Reading reading = Read(bytes);
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_EQ(reading.records.size(), 1u);
}

TEST(LogTest, DamageIsFoundThoughTheNextRecordIsFarAway) {
  const std::vector<std::string> records = {"a", std::string(2 << 20, '\1'), "b"};
  const Log log = Write(records);
  std::string bytes = log.bytes;
  bytes[log.begins[1] + kLogRecordHeaderBytes + 1000] ^= 1;
  const Reading reading = Read(bytes);
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_THAT(std::string(reading.status.message()),
              HasSubstr(absl::StrFormat("a record follows at offset %d", log.begins[2])));
}

TEST(LogTest, LargeRecordBehindDamageIsFound) {
  const std::vector<std::string> records = {"a", std::string(2 << 20, '\1')};
  const Log log = Write(records);
  std::string bytes = log.bytes;
  bytes[log.begins[0]] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(Read(bytes).status));
  // Where it is torn itself, no whole record follows.
  bytes.pop_back();
  const Reading reading = Read(bytes);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.records.empty());
}

TEST(LogTest, RecycledFileNeverShowsItsEarlierLife) {
  const std::vector<std::string> old_records = RandomRecords(2, 60, 50);
  const Log old = Write(old_records, {}, LogKind::kWal, 3);
  std::vector<std::string> records;
  // The new life grows record by record, and a crash may come at each.
  for (const std::string& record : RandomRecords(3, 40, 50)) {
    records.push_back(record);
    const Log log = Write(records, old.bytes);
    const Reading reading = Read(log.bytes);
    ASSERT_TRUE(reading.status.ok()) << reading.status;
    ASSERT_EQ(reading.records, records);
  }
  // The same records at the same offsets, too.
  const Log same = Write({old_records[0]}, old.bytes);
  EXPECT_EQ(Read(same.bytes).records.size(), 1u);
}

TEST(LogTest, RecycledFileTornAnywhere) {
  const Log old = Write(RandomRecords(4, 20, 40), {}, LogKind::kWal, 3);
  const Log log = Write(SmallRecords(), old.bytes);
  const uint64_t end = Read(log.bytes).offset;
  for (uint64_t cut = 0; cut <= end; ++cut) {
    SCOPED_TRACE(absl::StrFormat("cut at %d", cut));
    // The first bytes of the new life, then those of the old one.
    const Reading reading = Read(log.bytes.substr(0, cut) + old.bytes.substr(cut));
    ASSERT_TRUE(reading.status.ok()) << reading.status;
    ASSERT_TRUE(IsPrefix(reading.records, SmallRecords()));
    const size_t whole =
        static_cast<size_t>(std::count_if(log.begins.begin() + 1, log.begins.end(),
                                          [&](uint64_t begin) { return begin <= cut; }) +
                            (cut == end ? 1 : 0));
    ASSERT_EQ(reading.records.size(), whole);
  }
}

TEST(LogTest, DamageInARecycledFileIsStillFound) {
  const Log old = Write(RandomRecords(5, 20, 40), {}, LogKind::kWal, 3);
  const Log log = Write(SmallRecords(), old.bytes);
  for (const uint64_t at : {log.begins[0], log.begins[1] + 9, log.begins[3] + 17}) {
    std::string bytes = log.bytes;
    bytes[at] ^= 0x20;
    EXPECT_TRUE(absl::IsDataLoss(Read(bytes).status)) << at;
  }
}

TEST(LogTest, HeaderOfAnEarlierLifeIsALogThatWasNotBegun) {
  const Log old = Write(SmallRecords(), {}, LogKind::kWal, 3);
  const Reading reading = Read(old.bytes);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.records.empty());
  // A later number cannot be an earlier life.
  EXPECT_TRUE(absl::IsDataLoss(Read(old.bytes, LogKind::kWal, 2).status));
  // With a record of this life behind it the header was damaged.
  const Log log = Write(SmallRecords());
  const std::string mixed =
      old.bytes.substr(0, kLogHeaderBytes) + log.bytes.substr(kLogHeaderBytes);
  const Reading damaged = Read(mixed);
  EXPECT_TRUE(absl::IsDataLoss(damaged.status)) << damaged.status;
  EXPECT_THAT(std::string(damaged.status.message()), HasSubstr("expected file number 7, found 3"));
  // MANIFESTs are never recycled.
  const Log manifest = Write(SmallRecords(), {}, LogKind::kManifest, 3);
  EXPECT_TRUE(absl::IsDataLoss(Read(manifest.bytes, LogKind::kManifest).status));
}

TEST(LogTest, ZeroHeaderIsALogThatWasNotBegunUnlessRecordsFollow) {
  for (const size_t size : {0, 1, 55, 56, 100, 100000}) {
    const Reading reading = Read(std::string(size, '\0'));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_TRUE(reading.records.empty());
    EXPECT_EQ(reading.torn_bytes, 0u);
  }
  std::string bytes = Write(SmallRecords()).bytes;
  std::fill_n(bytes.begin(), kLogHeaderBytes, '\0');
  EXPECT_TRUE(absl::IsDataLoss(Read(bytes).status));
}

std::string WithHeaderField(std::string bytes, size_t at, uint32_t value) {
  EncodeFixed32(bytes.data() + at, value);
  EncodeFixed64(bytes.data() + 40, Hash64({bytes.data(), 40}));
  return bytes;
}

TEST(LogTest, NewerVersionIsRefusedAsSuch) {
  const std::string bytes = Write(SmallRecords()).bytes;
  const Reading newer = Read(WithHeaderField(bytes, 8, 2));
  EXPECT_TRUE(absl::IsInvalidArgument(newer.status)) << newer.status;
  EXPECT_THAT(std::string(newer.status.message()), HasSubstr("newer"));
  // A newer header may be checked differently.
  std::string other_check = WithHeaderField(bytes, 8, 2);
  other_check[44] ^= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Read(other_check).status));
  EXPECT_TRUE(absl::IsDataLoss(Read(WithHeaderField(bytes, 8, 0)).status));
}

TEST(LogTest, ForeignFilesAreDataLoss) {
  const std::string bytes = Write(SmallRecords()).bytes;
  const Reading text = Read(std::string(1000, 'T'));
  EXPECT_TRUE(absl::IsDataLoss(text.status)) << text.status;
  EXPECT_THAT(std::string(text.status.message()),
              HasSubstr("offset 0: expected the magic \"SIEVELOG\", found \"TTTTTTTT\""));
  const Reading kind = Read(bytes, LogKind::kManifest);
  EXPECT_TRUE(absl::IsDataLoss(kind.status)) << kind.status;
  EXPECT_THAT(std::string(kind.status.message()), HasSubstr("(MANIFEST)"));
}

// A record with any type and length, and checks that hold.
std::string CraftRecord(uint64_t offset, uint32_t length, uint8_t type, std::string_view payload) {
  const uint64_t seed = LogRecordSeed(kNumber, offset);
  std::string record;
  AppendFixed64(&record, Hash64(payload, seed));
  AppendFixed32(&record, length);
  record.push_back(static_cast<char>(type));
  record.push_back(0);  // flags
  AppendFixed32(&record,
                static_cast<uint32_t>(Hash64(std::string_view(record).substr(8, 6), seed)));
  record.append(payload);
  return record;
}

TEST(LogTest, UnknownRecordTypeIsDataLoss) {
  std::string bytes = Write({"a"}).bytes;
  const uint64_t at = bytes.size();
  bytes += CraftRecord(at, 1, 2, "b");
  const Reading reading = Read(bytes);
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_THAT(std::string(reading.status.message()),
              HasSubstr(absl::StrFormat(
                  "offset %d: expected record type 1 with known flags, found type 2", at + 12)));
  EXPECT_EQ(reading.records.size(), 1u);
}

TEST(LogTest, LengthBeyondTheFileIsATornTailAndAllocatesNothing) {
  std::string bytes = Write({"a"}).bytes;
  bytes += CraftRecord(bytes.size(), 0xfffffff0u, 1, "b");
  const Reading reading = Read(bytes);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.records.size(), 1u);
  EXPECT_EQ(reading.torn_bytes, kLogRecordHeaderBytes + 1);
}

TEST(LogTest, SearchThroughManyBadRecordsEnds) {
  // Each header is right, each payload reaches to the end of the file and is wrong:
  // hashing every one would be quadratic.
  std::string bytes = Write({}).bytes;
  constexpr size_t kEnd = 4 << 20;
  while (bytes.size() + kLogRecordHeaderBytes < kEnd) {
    const uint64_t at = bytes.size();
    std::string record =
        CraftRecord(at, static_cast<uint32_t>(kEnd - at - kLogRecordHeaderBytes), 1, "");
    record[0] ^= 1;
    bytes += record;
  }
  bytes.resize(kEnd);
  const Reading reading = Read(bytes);
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
}

TEST(LogTest, HolesAfterARestartOfTheMachineEndTheLogWhereNothingBehindWasSynced) {
  const std::vector<std::string> records = RandomRecords(9, 8, 60);
  constexpr size_t kSynced = 4;  // records
  const Log log = Write(records, {}, LogKind::kWal, kNumber, {}, /*boot_id=*/11, kSynced);
  for (size_t hole = 0; hole < records.size(); ++hole) {
    SCOPED_TRACE(absl::StrFormat("record %d is zeros", hole));
    std::string bytes = log.bytes;
    const uint64_t end = hole + 1 < records.size() ? log.begins[hole + 1] : bytes.size();
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(log.begins[hole]),
              bytes.begin() + static_cast<ptrdiff_t>(end), '\0');
    const bool last = hole + 1 == records.size();
    // The same machine lost no page.
    EXPECT_EQ(absl::IsDataLoss(Read(bytes, LogKind::kWal, kNumber, 11).status), !last);
    EXPECT_EQ(absl::IsDataLoss(Read(bytes, LogKind::kWal, kNumber, 0).status), !last);
    const Reading after = Read(bytes, LogKind::kWal, kNumber, 12);
    EXPECT_EQ(absl::IsDataLoss(after.status), hole < kSynced) << after.status;
    EXPECT_EQ(after.records.size(), hole);
    EXPECT_TRUE(IsPrefix(after.records, records));
  }
}

// A sector that did not come to the disk is as it was before: zeros, or an earlier
// life's. Anything else in the header's place is damage, whatever machine looks.
TEST(LogTest, HeaderThatIsLostEndsTheLogOnlyWhereACrashMayHaveLostIt) {
  const std::vector<std::string> records = RandomRecords(10, 5, 60);
  constexpr uint64_t kHere = 12;  // boot ids
  for (const size_t synced : {size_t{0}, size_t{3}}) {
    SCOPED_TRACE(absl::StrFormat("%d records were synced", synced));
    const Log log = Write(records, {}, LogKind::kWal, kNumber, {}, /*boot_id=*/11, synced);
    const std::string rest = log.bytes.substr(kLogHeaderBytes);
    const Log old = Write({}, {}, LogKind::kWal, 3);
    for (const std::string& header : {std::string(kLogHeaderBytes, '\0'), old.bytes}) {
      const Reading reading = Read(header + rest, LogKind::kWal, kNumber, kHere);
      EXPECT_EQ(absl::IsDataLoss(reading.status), synced > 0) << reading.status;
      EXPECT_TRUE(reading.records.empty());
      EXPECT_TRUE(absl::IsDataLoss(Read(header + rest).status));
    }
    for (size_t at = 0; at < kLogHeaderBytes; ++at) {
      std::string bytes = log.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ 4);
      EXPECT_FALSE(Read(bytes, LogKind::kWal, kNumber, kHere).status.ok()) << at;
    }
  }
}

TEST(LogTest, CloseEndsALogSoThatItsLastRecordIsCheckedToo) {
  const auto fs = NewMemoryFileSystem();
  auto writer = LogWriter::Create(fs->NewWritableFile("/log").value(), LogKind::kWal, kNumber);
  ASSERT_TRUE((*writer)->AddRecord("one").ok());
  ASSERT_TRUE((*writer)->AddRecord("two").ok());
  const uint64_t end = (*writer)->size();
  ASSERT_TRUE((*writer)->Close().ok());
  std::string bytes = FileBytes(fs.get(), "/log");
  EXPECT_EQ(bytes.size(), end + kLogRecordHeaderBytes);
  EXPECT_EQ(Read(bytes).records, (std::vector<std::string>{"one", "two"}));
  bytes[end - 1] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(Read(bytes).status));
  // Nothing hangs on the end itself.
  EXPECT_EQ(Read(bytes.substr(0, end - 1) + "o").records, (std::vector<std::string>{"one", "two"}));
}

TEST(LogTest, OversizeRecordIsRefusedAndNothingIsWritten) {
  const auto fs = NewMemoryFileSystem();
  auto writer = LogWriter::Create(fs->NewWritableFile("/log").value(), LogKind::kWal, kNumber);
  ASSERT_TRUE(writer.ok());
  const char byte = 'x';
  // Never read: only its length is looked at.
  const std::string_view huge(&byte, kMaxLogPayloadBytes + 1);
  EXPECT_TRUE(absl::IsInvalidArgument((*writer)->AddRecord(huge)));
  EXPECT_EQ(fs->FileSize("/log").value(), kLogHeaderBytes);
  EXPECT_TRUE((*writer)->AddRecord("fits").ok());
  EXPECT_EQ(Read(FileBytes(fs.get(), "/log")).records, std::vector<std::string>{"fits"});
}

TEST(LogTest, FileThatShrinksUnderTheReaderEndsThere) {
  const Log log = Write(RandomRecords(6, 50, 100));
  for (const size_t cut : {size_t{0}, size_t{20}, size_t{kLogHeaderBytes}, log.bytes.size() / 2}) {
    auto reader = LogReader::Open(std::make_unique<BytesFile>(log.bytes.substr(0, cut)),
                                  log.bytes.size() + 1000, "p", LogKind::kWal, kNumber);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::string_view payload;
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) more = (*reader)->ReadRecord(&payload);
    EXPECT_TRUE(more.ok()) << more.status();
    EXPECT_LE((*reader)->offset(), cut);
  }
}

TEST(LogTest, ReadErrorIsPassedOnAndSticks) {
  class Failing : public RandomAccessFile {
   public:
    absl::Status Read(uint64_t, size_t, char*, std::string_view*) const override {
      return absl::UnavailableError("pread: Input/output error");
    }
  };
  const auto reader =
      LogReader::Open(std::make_unique<Failing>(), 1000, "p", LogKind::kWal, kNumber);
  EXPECT_TRUE(absl::IsUnavailable(reader.status()));
}

// The formats, byte for byte. A change here is a change of format: it needs a new
// version number, and these files stay to prove that old ones are still read.
std::string Golden(const char* name, const std::string& now) {
  if (std::getenv("SIEVEDB_REWRITE") != nullptr) {
    std::ofstream(std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/" + name, std::ios::binary) << now;
  }
  std::ifstream in(std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST(LogTest, GoldenWal) {
  const std::vector<std::string> records = {"first", "2", std::string("\0\1\2\xff", 4),
                                            std::string(300, 'z')};
  const std::string now = Write(records, {}, LogKind::kWal, 12, {9, 4711}, /*boot_id=*/77, 2).bytes;
  const std::string golden = Golden("wal_v1.wal", now);
  EXPECT_EQ(ToHex(now), ToHex(golden));
  const Reading reading = Read(golden, LogKind::kWal, 12);
  ASSERT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.records, records);
  EXPECT_EQ(reading.predecessor.file_number, 9u);
  EXPECT_EQ(reading.predecessor.end, 4711u);
}

TEST(LogTest, GoldenManifestHeader) {
  const std::string now = Write({}, {}, LogKind::kManifest, 0x0102030405060708).bytes;
  const std::string golden = Golden("manifest_header_v1.bin", now);
  EXPECT_EQ(golden.size(), kLogHeaderBytes);
  EXPECT_EQ(ToHex(now), ToHex(golden));
  EXPECT_TRUE(Read(golden, LogKind::kManifest, 0x0102030405060708).status.ok());
}

}  // namespace
}  // namespace sievedb
