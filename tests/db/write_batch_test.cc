#include "sievedb/write_batch.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "db/log_format.h"
#include "db/memtable.h"
#include "db/write_batch_internal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/comparator.h"
#include "table/internal_key.h"
#include "util/coding.h"
#include "util/escape.h"

namespace sievedb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes down what it is given.
class Recorder : public WriteBatch::Handler {
 public:
  absl::Status Put(std::string_view key, std::string_view value) override {
    return Note("put " + Escape(key) + "=" + Escape(value));
  }
  absl::Status Delete(std::string_view key) override { return Note("delete " + Escape(key)); }
  absl::Status DeleteRange(std::string_view begin, std::string_view end) override {
    return Note("delete [" + Escape(begin) + ", " + Escape(end) + ")");
  }

  std::vector<std::string> seen;
  size_t fail_at = SIZE_MAX;

 private:
  absl::Status Note(std::string what) {
    if (seen.size() == fail_at) return absl::AbortedError("enough");
    seen.push_back(std::move(what));
    return absl::OkStatus();
  }
};

std::vector<std::string> Changes(const WriteBatch& batch) {
  Recorder recorder;
  const absl::Status status = batch.Iterate(&recorder);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(recorder.seen.size(), batch.Count());
  return recorder.seen;
}

// A view of n bytes of which only the length may be looked at.
std::string_view Claimed(uint64_t n) {
  static const char byte = 'x';
  return std::string_view(&byte, n);
}

TEST(WriteBatchTest, KeepsChangesInOrder) {
  WriteBatch batch;
  EXPECT_EQ(batch.Count(), 0u);
  EXPECT_EQ(batch.ByteSize(), WriteBatchInternal::kHeaderBytes);
  batch.Put("a", "1");
  batch.Delete("a");
  batch.Put("", "");
  batch.Put(std::string_view("\0\n", 2), std::string_view("\xff", 1));
  EXPECT_THAT(Changes(batch), ElementsAre("put a=1", "delete a", "put =", "put \\x00\\n=\\xff"));
  EXPECT_EQ(batch.ByteSize(), 12u + 6 + 4 + 4 + 7);
  batch.Clear();
  EXPECT_TRUE(Changes(batch).empty());
  EXPECT_EQ(batch.ByteSize(), WriteBatchInternal::kHeaderBytes);
}

TEST(WriteBatchTest, EveryLengthOfKeyAndValue) {
  // Across the sizes at which a varint grows and the encoding takes another way.
  for (const size_t key_bytes : {0, 1, 127, 128, 500, 1000, 1023, 16383, 16384}) {
    for (const size_t value_bytes : {0, 1, 127, 128, 500, 1011, 1012, 1013, 5000, 2097152}) {
      const std::string key(key_bytes, 'k');
      const std::string value(value_bytes, 'v');
      WriteBatch batch;
      batch.Put(key, value);
      batch.Delete(key);
      ASSERT_THAT(Changes(batch), ElementsAre("put " + key + "=" + value, "delete " + key))
          << key_bytes << " " << value_bytes;
    }
  }
}

TEST(WriteBatchTest, CopyAndMove) {
  WriteBatch a;
  a.Put("k", "v");
  WriteBatch copy = a;
  WriteBatch moved = std::move(a);
  EXPECT_THAT(Changes(copy), ElementsAre("put k=v"));
  EXPECT_THAT(Changes(moved), ElementsAre("put k=v"));
  // What was moved from is an empty batch that can be used.
  EXPECT_EQ(a.Count(), 0u);  // NOLINT(bugprone-use-after-move)
  a.Put("again", "1");
  EXPECT_THAT(Changes(a), ElementsAre("put again=1"));
  copy = std::move(a);
  EXPECT_THAT(Changes(copy), ElementsAre("put again=1"));
  EXPECT_EQ(a.Count(), 0u);  // NOLINT(bugprone-use-after-move)
  WriteBatch& alias = copy;
  copy = std::move(alias);
  copy = alias;
  EXPECT_THAT(Changes(copy), ElementsAre("put again=1"));
}

TEST(WriteBatchTest, AppendAddsBehind) {
  WriteBatch a;
  a.Put("a", "1");
  WriteBatch b;
  b.Delete("b");
  b.Put("c", "3");
  a.Append(b);
  EXPECT_THAT(Changes(a), ElementsAre("put a=1", "delete b", "put c=3"));
  a.Append(WriteBatch());
  EXPECT_EQ(a.Count(), 3u);
  b.Append(b);
  EXPECT_THAT(Changes(b), ElementsAre("delete b", "put c=3", "delete b", "put c=3"));
}

TEST(WriteBatchTest, OversizeIsFlaggedAndNothingIsAdded) {
  WriteBatch batch;
  batch.Put("good", "1");
  const size_t size = batch.ByteSize();
  batch.Put(Claimed((uint64_t{64} << 20) + 1), "v");
  EXPECT_TRUE(absl::IsInvalidArgument(WriteBatchInternal::Error(batch)));
  EXPECT_THAT(std::string(WriteBatchInternal::Error(batch).message()),
              HasSubstr("key of 67108865"));
  batch.Clear();
  EXPECT_TRUE(WriteBatchInternal::Error(batch).ok());

  batch.Put("good", "1");
  batch.Put("k", Claimed((uint64_t{3} << 30) + 1));
  EXPECT_THAT(std::string(WriteBatchInternal::Error(batch).message()),
              HasSubstr("value of 3221225473"));
  batch.Delete(Claimed((uint64_t{64} << 20) + 1));
  EXPECT_EQ(batch.ByteSize(), size);
  EXPECT_THAT(Changes(batch), ElementsAre("put good=1"));

  // The first error stays, and goes along with copies and appends.
  WriteBatch other;
  other.Append(batch);
  EXPECT_EQ(WriteBatchInternal::Error(other), WriteBatchInternal::Error(batch));
  batch.Put("later", "2");
  EXPECT_THAT(std::string(WriteBatchInternal::Error(batch).message()),
              HasSubstr("value of 3221225473"));
}

TEST(WriteBatchTest, LargestKeyIsTaken) {
  const std::string key(size_t{64} << 20, 'k');
  WriteBatch batch;
  batch.Delete(key);
  EXPECT_TRUE(WriteBatchInternal::Error(batch).ok());
  EXPECT_EQ(batch.Count(), 1u);
  WriteBatch again;
  EXPECT_TRUE(WriteBatchInternal::SetBytes(&again, WriteBatchInternal::Bytes(batch)).ok());
}

TEST(WriteBatchTest, IterateStopsAtTheHandlersError) {
  WriteBatch batch;
  for (const char* key : {"a", "b", "c"}) batch.Delete(key);
  Recorder recorder;
  recorder.fail_at = 1;
  EXPECT_TRUE(absl::IsAborted(batch.Iterate(&recorder)));
  EXPECT_THAT(recorder.seen, ElementsAre("delete a"));
}

TEST(WriteBatchTest, SequenceIsInTheHeader) {
  WriteBatch batch;
  EXPECT_EQ(WriteBatchInternal::Sequence(batch), 0u);
  WriteBatchInternal::SetSequence(&batch, kMaxSequence);
  EXPECT_EQ(WriteBatchInternal::Sequence(batch), kMaxSequence);
  EXPECT_EQ(batch.Count(), 0u);
}

TEST(WriteBatchTest, ConcatenateMakesOneRecord) {
  WriteBatch a;
  a.Put("a", "1");
  WriteBatch empty;
  WriteBatch b;
  b.Delete("b");
  b.Put("c", "3");
  const WriteBatch* batches[] = {&a, &empty, &b};
  std::string bytes = "what was there before";
  WriteBatchInternal::Concatenate(&bytes, 42, batches, 3);
  WriteBatch all;
  const absl::Status status = WriteBatchInternal::SetBytes(&all, bytes);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(WriteBatchInternal::Sequence(all), 42u);
  EXPECT_THAT(Changes(all), ElementsAre("put a=1", "delete b", "put c=3"));
}

TEST(WriteBatchTest, InsertIntoGivesEachChangeItsSequence) {
  const InternalKeyOrder order(BytewiseComparator());
  const auto memtable = RefPtr<MemTable>::New(order, 1);
  WriteBatch batch;
  batch.Put("b", "old");
  batch.Put("a", "1");
  batch.Delete("b");
  ASSERT_TRUE(WriteBatchInternal::InsertInto(batch, 100, memtable.get()).ok());
  EXPECT_EQ(memtable->entries(), 3u);
  EXPECT_EQ(memtable->tombstones(), 1u);
  std::vector<std::string> entries;
  auto iterator = memtable->NewIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const uint64_t tag = Tag(iterator->key());
    entries.push_back(absl::StrFormat("%s@%d:%d=%s", UserKey(iterator->key()), TagSequence(tag),
                                      TagType(tag), iterator->value()));
  }
  EXPECT_THAT(entries, ElementsAre("a@101:1=1", "b@102:0=", "b@100:1=old"));
}

WriteBatch GoldenBatch() {
  WriteBatch batch;
  batch.Put("key", "value");
  batch.Delete("gone");
  batch.Put("", "");
  batch.Put(std::string(200, 'K'), std::string(300, 'V'));
  WriteBatchInternal::SetSequence(&batch, 0x0102030405060708);
  return batch;
}

TEST(WriteBatchTest, GoldenBytes) {
  std::ifstream in(std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/write_batch_v1.bin",
                   std::ios::binary);
  ASSERT_TRUE(in.good());
  const std::string golden(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(ToHex(WriteBatchInternal::Bytes(GoldenBatch())), ToHex(golden));
  WriteBatch batch;
  ASSERT_TRUE(WriteBatchInternal::SetBytes(&batch, golden).ok());
  EXPECT_EQ(Changes(batch), Changes(GoldenBatch()));
}

// With the change that version 1 got later.
TEST(WriteBatchTest, GoldenBytesOfARange) {
  WriteBatch batch;
  batch.Put("key", "value");
  batch.DeleteRange("begin", "end");
  batch.DeleteRange("", std::string(200, 'z'));
  WriteBatchInternal::SetSequence(&batch, 0x0102030405060708);
  const std::string path = std::string(SIEVEDB_TEST_DATA_DIR) + "/golden/write_batch_v1_ranges.bin";
  if (std::getenv("SIEVEDB_REWRITE") != nullptr) {
    std::ofstream(path, std::ios::binary) << WriteBatchInternal::Bytes(batch);
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.good());
  const std::string golden(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(ToHex(WriteBatchInternal::Bytes(batch)), ToHex(golden));
  WriteBatch read;
  ASSERT_TRUE(WriteBatchInternal::SetBytes(&read, golden).ok());
  EXPECT_TRUE(WriteBatchInternal::HasRanges(read));
  EXPECT_EQ(Changes(read), Changes(batch));
  for (size_t n = 0; n < golden.size(); ++n) {
    WriteBatch cut;
    EXPECT_TRUE(absl::IsDataLoss(WriteBatchInternal::SetBytes(&cut, golden.substr(0, n)))) << n;
  }
}

TEST(WriteBatchTest, RangesAreRememberedByCopiesAndForgottenByClear) {
  WriteBatch batch;
  batch.DeleteRange("b", "a");
  const auto refused = [](const WriteBatch& b) {
    return absl::IsInvalidArgument(WriteBatchInternal::CheckRanges(b, *BytewiseComparator()));
  };
  EXPECT_TRUE(refused(batch));
  WriteBatch copy = batch;
  EXPECT_TRUE(refused(copy));
  WriteBatch appended;
  appended.Append(copy);
  EXPECT_TRUE(refused(appended));
  const WriteBatch moved = std::move(copy);
  EXPECT_TRUE(refused(moved));
  batch.Clear();
  EXPECT_FALSE(WriteBatchInternal::HasRanges(batch));
  EXPECT_FALSE(refused(batch));
  batch.DeleteRange(Claimed((uint64_t{64} << 20) + 1), "z");
  EXPECT_TRUE(absl::IsInvalidArgument(WriteBatchInternal::Error(batch)));
}

TEST(WriteBatchTest, EveryTruncationIsDataLoss) {
  const WriteBatch batch = GoldenBatch();
  const std::string_view bytes = WriteBatchInternal::Bytes(batch);
  for (size_t n = 0; n < bytes.size(); ++n) {
    // In a buffer of its own size, so that a sanitizer sees a read behind it.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    WriteBatch target;
    target.Put("untouched", "1");
    const absl::Status status =
        WriteBatchInternal::SetBytes(&target, std::string_view(cut.data(), cut.size()));
    ASSERT_TRUE(absl::IsDataLoss(status)) << n << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("offset "));
    EXPECT_THAT(Changes(target), ElementsAre("put untouched=1"));
  }
}

TEST(WriteBatchTest, FlippedBytesAreDataLossOrAnotherBatch) {
  const WriteBatch batch = GoldenBatch();
  const std::string good(WriteBatchInternal::Bytes(batch));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      WriteBatch target;
      const absl::Status status = WriteBatchInternal::SetBytes(&target, bytes);
      if (!status.ok()) {
        ASSERT_TRUE(absl::IsDataLoss(status)) << status;
      } else {
        ASSERT_EQ(Changes(target).size(), 4u);
      }
    }
  }
}

TEST(WriteBatchTest, DamageIsNamed) {
  const auto error_of = [](std::string_view changes, uint32_t count) {
    std::string bytes;
    AppendFixed64(&bytes, 1);
    AppendFixed32(&bytes, count);
    bytes.append(changes);
    WriteBatch batch;
    return WriteBatchInternal::SetBytes(&batch, bytes).ToString();
  };
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(error_of("\1\0\1k\1v"sv, 1), "OK");
  EXPECT_THAT(error_of("\1\0\1k\1v"sv, 2), HasSubstr("offset 8: expected 2 changes, found 1"));
  EXPECT_THAT(error_of("\7\0\1k"sv, 1),
              HasSubstr("offset 12: expected an entry type of at most 2, found 7"));
  EXPECT_THAT(error_of("\1\3\1k\1v"sv, 1),
              HasSubstr("offset 13: expected column family 0, found 3"));
  EXPECT_THAT(error_of("\1\0\5k"sv, 1), HasSubstr("offset 14: expected a key of 5 bytes, found 1"));
  EXPECT_THAT(error_of("\1\0\1k\xff\xff\xff\xff\x0f"sv, 1),
              HasSubstr("offset 16: expected a value of at most 3221225472 bytes"));
  EXPECT_THAT(error_of("\1\0\xff\xff\xff\x7fk"sv, 1),
              HasSubstr("expected a key of at most 67108864 bytes"));
  EXPECT_THAT(error_of("\1\0\1k\xff\xff\xff\xff\xff\xff"sv, 1),
              HasSubstr("expected the length of a value"));
}

// Written before there were ranges.
TEST(WriteBatchTest, HandlerThatKnowsNoRangesPassesOverNone) {
  class OldHandler : public WriteBatch::Handler {
   public:
    absl::Status Put(std::string_view, std::string_view) override { return absl::OkStatus(); }
    absl::Status Delete(std::string_view) override { return absl::OkStatus(); }
  };
  OldHandler handler;
  WriteBatch batch;
  batch.Put("a", "b");
  EXPECT_TRUE(batch.Iterate(&handler).ok());
  batch.DeleteRange("a", "b");
  EXPECT_TRUE(absl::IsUnimplemented(batch.Iterate(&handler)));
}

}  // namespace
}  // namespace sievedb
