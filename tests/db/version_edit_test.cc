#include "db/version_edit.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/version_test_util.h"
#include "util/coding.h"
#include "util/escape.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using version_test::InternalKey;
using version_test::MakeFile;

VersionEdit FullEdit() {
  VersionEdit edit;
  edit.comparator_name = "sievedb.bytewise";
  edit.db_id = 0x1122334455667788;
  edit.hash_seed = 0x99aabbccddeeff00;
  edit.log_number = 12;
  edit.next_file_number = 300;
  edit.last_sequence = kMaxSequence;
  edit.removed_files = {{0, 5}, {6, 1000000}};
  edit.added_files.emplace_back(1, MakeFile(7, "a", std::string("z\0\xff", 3), 9, 70000));
  edit.added_files.emplace_back(6, MakeFile(8, "", "", 0, 0));
  auto external = MakeFile(10, "c", "d", 11, 1000);
  external->external_number = 0x8000000000000001;
  edit.added_files.emplace_back(0, std::move(external));
  edit.added_files.emplace_back(6, MakeFile(13, "a", "b", 2, 1000), 300);
  return edit;
}

constexpr const char* kFullText =
    "comparator sievedb.bytewise, id 1122334455667788, hash seed 99aabbccddeeff00, log 12, next "
    "file 300, "
    "sequence 72057594037927935, -L0:5, -L6:1000000, "
    "+L1:7[a .. z\\x00\\xff] 70000 bytes (tail 7000, raw 140000), 100 entries (0 deletes), "
    "sequences 9 .. 9, "
    "+L6:8[ .. ] 0 bytes (tail 0, raw 0), 100 entries (0 deletes), sequences 0 .. 0, "
    "+L0:10[c .. d] 1000 bytes (tail 100, raw 2000), 100 entries (0 deletes), "
    "sequences 11 .. 11, external 8000000000000001, "
    "+L6:13[a .. b] 1000 bytes (tail 100, raw 2000), 100 entries (0 deletes), sequences 2 .. 2, "
    "run 300";

absl::Status DecodeStatus(std::string_view bytes) { return VersionEdit::Decode(bytes).status(); }

TEST(VersionEditTest, EmptyEdit) {
  const std::string bytes = VersionEdit().Encode();
  EXPECT_EQ(bytes, std::string(1, '\0'));  // the column family alone
  const auto edit = VersionEdit::Decode(bytes);
  ASSERT_TRUE(edit.ok()) << edit.status();
  EXPECT_EQ(edit->DebugString(), "");
}

TEST(VersionEditTest, AllFieldsComeBack) {
  const VersionEdit edit = FullEdit();
  EXPECT_EQ(edit.DebugString(), kFullText);
  const auto decoded = VersionEdit::Decode(edit.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->DebugString(), kFullText);
  EXPECT_EQ(decoded->added_files[0].file->smallest, InternalKey("a", 9));
  EXPECT_EQ(decoded->Encode(), edit.Encode());
}

TEST(VersionEditTest, BytesAreAsDescribed) {
  VersionEdit edit;
  edit.hash_seed = 0x0102030405060708;
  edit.log_number = 300;
  edit.removed_files = {{2, 5}};
  auto file = MakeFile(9, "k", "k", 3, 200);
  edit.added_files.emplace_back(4, file);
  EXPECT_EQ(ToHex(edit.Encode()),
            "00"                    // column family
            "080807060504030201"    // hash seed
            "03ac02"                // log number
            "060205"                // removed table
            "070409c80114"          // added table: level, number, bytes, tail
            "096b0103000000000000"  // smallest
            "096b0103000000000000"  // largest
            "0303640090"
            "03");  // sequences, entries, tombstones, raw bytes

  VersionEdit external;
  file = MakeFile(9, "k", "k", 3, 200);
  file->external_number = 0x8899aabbccddeeff;
  external.added_files.emplace_back(4, file);
  EXPECT_EQ(ToHex(external.Encode()),
            "00"
            "200409c80114"  // external table, as an added one
            "096b0103000000000000"
            "096b0103000000000000"
            "030364009003"
            "ffeeddccbbaa9988");  // the number in its footer

  VersionEdit run;
  run.added_files.emplace_back(4, MakeFile(9, "k", "k", 3, 200), 300);
  EXPECT_EQ(ToHex(run.Encode()),
            "00"
            "070409c80114"
            "096b0103000000000000"
            "096b0103000000000000"
            "030364009003"
            "10ac02");  // run
}

TEST(VersionEditTest, ARunIsThatOfTheTableBeforeIt) {
  const auto edit_of = [](int level, std::string_view after) {
    VersionEdit edit;
    edit.added_files.emplace_back(level, MakeFile(9, "k", "k", 3, 200));
    return VersionEdit::Decode(edit.Encode() + std::string(after));
  };
  // Other fields may stand between.
  const auto edit = edit_of(4, "\x03\x05\x10\x07");
  ASSERT_TRUE(edit.ok()) << edit.status();
  EXPECT_EQ(edit->added_files[0].run, 7u);
  EXPECT_EQ(edit_of(4, "")->added_files[0].run, 0u);

  using std::string_view_literals::operator""sv;
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus("\x00\x10\x07"sv)));           // no table
  EXPECT_TRUE(absl::IsDataLoss(edit_of(0, "\x10\x07").status()));          // level 0
  EXPECT_TRUE(absl::IsDataLoss(edit_of(4, "\x10\x00"sv).status()));        // run 0
  EXPECT_TRUE(absl::IsDataLoss(edit_of(4, "\x10").status()));              // cut short
  EXPECT_TRUE(absl::IsDataLoss(edit_of(4, "\x10\x07\x10\x08").status()));  // twice
  std::string large = "\x10";
  AppendVarint64(&large, ~uint64_t{0});
  EXPECT_TRUE(absl::IsDataLoss(edit_of(4, large).status()));
}

TEST(VersionEditTest, EveryCutIsAnError) {
  const std::string bytes = FullEdit().Encode();
  size_t ok = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto edit = VersionEdit::Decode(std::string_view(bytes).substr(0, n));
    if (edit.ok()) {
      // Cut between two fields: what is left is an edit.
      EXPECT_EQ(edit->Encode(), bytes.substr(0, n));
      ++ok;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(edit.status())) << n << ": " << edit.status();
    }
  }
  EXPECT_EQ(ok, 13u);
}

TEST(VersionEditTest, EveryFlippedByteGivesAnErrorOrAnEdit) {
  const std::string good = FullEdit().Encode();
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      const auto edit = VersionEdit::Decode(bytes);
      if (!edit.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(edit.status()) || absl::IsInvalidArgument(edit.status()))
            << edit.status();
        continue;
      }
      // What it took it for is sound.
      const auto again = VersionEdit::Decode(edit->Encode());
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->DebugString(), edit->DebugString());
    }
  }
}

TEST(VersionEditTest, OtherColumnFamilyIsOfANewerVersion) {
  const absl::Status status = DecodeStatus("\x01");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer version"));
}

TEST(VersionEditTest, UnknownTags) {
  std::string bytes = FullEdit().Encode();
  AppendVarint64(&bytes, 0x41);
  AppendLengthPrefixed(&bytes, "something");
  AppendVarint64(&bytes, 0x03 | 0x80 | 0x40);  // two bytes, bit 0x40 set
  AppendLengthPrefixed(&bytes, "");
  const auto edit = VersionEdit::Decode(bytes);
  ASSERT_TRUE(edit.ok()) << edit.status();
  EXPECT_EQ(edit->DebugString(), kFullText);

  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(bytes + "\x41")));
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(bytes + "\x41\x05"
                                                    "four")));
  for (const char* tag : {"\x09", "\x3f", "\x80\x01"}) {
    const absl::Status status = DecodeStatus(bytes + tag);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("newer version"));
  }
}

TEST(VersionEditTest, FieldsOutOfRange) {
  const std::string empty(1, '\0');
  const auto with_number = [&](char tag, uint64_t value) {
    std::string bytes = empty + tag;
    AppendVarint64(&bytes, value);
    return bytes;
  };
  EXPECT_TRUE(DecodeStatus(with_number(5, kMaxSequence)).ok());
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(with_number(5, kMaxSequence + 1))));
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(with_number(4, ~uint64_t{0}))));
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(with_number(3, ~uint64_t{0}))));
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(with_number(3, 1) + with_number(3, 1).substr(1))));
  EXPECT_TRUE(absl::IsDataLoss(DecodeStatus(empty + "\x06\x07\x01")));  // level 7

  const auto with_file = [](auto change) {
    // Encode asserts what Decode checks, so the fields are written by hand.
    const auto file = MakeFile(9, "b", "c", 3, 200);
    change(file.get());
    std::string bytes(1, '\0');
    bytes += file->external_number != 0 ? '\x20' : '\x07';
    AppendVarint64(&bytes, 1);
    AppendVarint64(&bytes, file->number);
    AppendVarint64(&bytes, file->file_bytes);
    AppendVarint64(&bytes, file->tail_bytes);
    AppendLengthPrefixed(&bytes, file->smallest);
    AppendLengthPrefixed(&bytes, file->largest);
    AppendVarint64(&bytes, file->smallest_sequence);
    AppendVarint64(&bytes, file->largest_sequence);
    AppendVarint64(&bytes, file->entries);
    AppendVarint64(&bytes, file->tombstones);
    AppendVarint64(&bytes, file->raw_bytes);
    if (file->external_number != 0) AppendFixed64(&bytes, file->external_number);
    return DecodeStatus(bytes);
  };
  EXPECT_TRUE(with_file([](FileMeta*) {}).ok());
  const auto expect_damage = [&](auto change) {
    const absl::Status status = with_file(change);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("added table"));
  };
  expect_damage([](FileMeta* f) { f->number = 0; });
  expect_damage([](FileMeta* f) { f->number = ~uint64_t{0}; });
  expect_damage([](FileMeta* f) { f->file_bytes = ~uint64_t{0}; });
  expect_damage([](FileMeta* f) { f->tail_bytes = f->file_bytes + 1; });
  expect_damage([](FileMeta* f) { f->smallest = "short"; });
  expect_damage([](FileMeta* f) { f->largest[f->largest.size() - 8] = '\x09'; });  // the type
  expect_damage([](FileMeta* f) { f->smallest_sequence = 4; });
  expect_damage([](FileMeta* f) { f->largest_sequence = kMaxSequence + 1; });
  expect_damage([](FileMeta* f) { f->tombstones = f->entries + 1; });
  expect_damage([](FileMeta* f) { f->raw_bytes = ~uint64_t{0}; });

  // An external table: all entries are of one sequence, which is none of the first.
  constexpr uint64_t kExternal = uint64_t{1} << 63;
  EXPECT_TRUE(with_file([](FileMeta* f) { f->external_number = kExternal; }).ok());
  expect_damage([](FileMeta* f) { f->external_number = 1; });
  const auto expect_external_damage = [&](auto change) {
    expect_damage([&](FileMeta* f) {
      f->external_number = kExternal;
      change(f);
    });
  };
  expect_external_damage([](FileMeta* f) { f->smallest_sequence = 2; });
  expect_external_damage([](FileMeta* f) { f->smallest = InternalKey("b", 2); });
  expect_external_damage([](FileMeta* f) { f->largest = InternalKey("c", 4); });
  expect_external_damage([](FileMeta* f) {
    f->smallest = InternalKey("b", 0);
    f->largest = InternalKey("c", 0);
    f->smallest_sequence = f->largest_sequence = 0;
  });
}

}  // namespace
}  // namespace sievedb
