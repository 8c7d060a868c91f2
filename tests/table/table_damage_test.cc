// Whatever happens to a table's bytes: an error or the right answer, never a crash, a
// wrong value or a key that is denied.

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "table/format.h"
#include "tests/table/table_test_util.h"
#include "util/coding.h"
#include "util/hash.h"
#include "util/statistics_impl.h"

namespace sievedb {
namespace {

class TableDamageTest : public testing::TestWithParam<Compression> {
 protected:
  TableDamageTest() : filter_(NewBlockedBloomPolicy(10)) {
    options_.filter_policy = filter_.get();
    options_.compression = GetParam();
    options_.block_bytes = 150;
    options_.block_restart_interval = 3;
    options_.file_number = 3;
    for (int i = 0; i < 20; ++i) {
      entries_.push_back({absl::StrFormat("key%02d", i), 5, EntryType::kPut,
                          absl::StrFormat("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%d", i)});
      if (i % 5 == 0) entries_.push_back({entries_.back().user_key, 3, EntryType::kDelete, ""});
    }
    table_ = BuildTable(options_, entries_);
    footer_ =
        *DecodeFooter(std::string_view(table_.bytes).substr(table_.bytes.size() - kFooterBytes),
                      table_.bytes.size(), "");
  }

  bool InFilter(size_t at) const {
    return at >= footer_.filter.offset &&
           at < footer_.filter.offset + footer_.filter.size + kBlockTrailerBytes;
  }

  // Opens and reads everything that bytes give. Returns whether all of it was there.
  bool Read(const TableReaderOptions& reader_options, const std::string& bytes,
            bool wrong_allowed = false) {
    const auto reader = OpenTable(reader_options, bytes);
    if (!reader.ok()) {
      EXPECT_EQ(reader.status().code(), absl::StatusCode::kDataLoss) << reader.status();
      EXPECT_NE(reader.status().message().find("test.sst"), absl::string_view::npos);
      return false;
    }
    ReadOptions read;
    read.verify_checksums = !wrong_allowed;
    bool complete = true;
    for (const TestEntry& entry : entries_) {
      for (const char* behind : {"", "x"}) {
        const std::string key = entry.user_key + behind;
        if (*behind == '\0') {
          EXPECT_TRUE((*reader)->MayContain(Hash64(key)) || wrong_allowed);
        }
        const std::string text = GetText(**reader, options_.order, key, entry.sequence, read);
        if (text.rfind("error: DATA_LOSS", 0) == 0) {
          complete = false;
        } else if (!wrong_allowed) {
          EXPECT_EQ(text, ExpectedText(entries_, options_.order, key, entry.sequence));
        }
      }
    }
    complete = Iterate(**reader, read, wrong_allowed) && complete;
    const absl::Status verified = (*reader)->Verify();
    EXPECT_TRUE(verified.ok() || verified.code() == absl::StatusCode::kDataLoss) << verified;
    EXPECT_FALSE(verified.ok() && !complete && !wrong_allowed);
    return complete;
  }

  bool Iterate(const TableReader& reader, const ReadOptions& read, bool wrong_allowed) {
    size_t forward = 0;
    const auto it = reader.NewIterator(read);
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++forward) {
      if (wrong_allowed) {
        EXPECT_LT(forward, table_.bytes.size());
        continue;
      }
      if (forward >= entries_.size()) {
        ADD_FAILURE() << "too many entries";
        return false;
      }
      EXPECT_EQ(it->key(), entries_[forward].internal_key());
      EXPECT_EQ(it->value(), entries_[forward].value);
    }
    const bool forward_ok = it->status().ok();
    EXPECT_TRUE(wrong_allowed || !forward_ok || forward == entries_.size());
    size_t backward = 0;
    for (it->SeekToLast(); it->Valid(); it->Prev()) ++backward;
    EXPECT_LE(backward, table_.bytes.size());
    EXPECT_TRUE(wrong_allowed || !it->status().ok() || backward == entries_.size());
    return forward_ok && it->status().ok();
  }

  TableBuilderOptions options_;
  const std::shared_ptr<const FilterPolicy> filter_;
  std::vector<TestEntry> entries_;
  BuiltTable table_;
  Footer footer_;
};

TEST_P(TableDamageTest, EveryByteFlipped) {
  const TableReaderOptions reader_options = ReaderOptionsFor(options_, table_);
  ASSERT_TRUE(Read(reader_options, table_.bytes));
  for (size_t at = 0; at < table_.bytes.size(); ++at) {
    SCOPED_TRACE(at);
    for (const int mask : {1 << (at % 8), 0xff}) {
      std::string bytes = table_.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      // Damage to the filter costs no answer; any other is noticed.
      EXPECT_EQ(Read(reader_options, bytes), InFilter(at));
      TableReaderOptions unknown_tail = reader_options;
      unknown_tail.tail_bytes = 0;
      unknown_tail.file_number = kAnyFileNumber;
      EXPECT_EQ(Read(unknown_tail, bytes), InFilter(at));
    }
    if (HasFailure()) break;
  }
}

// Without checksums values may be wrong, and no more than that.
TEST_P(TableDamageTest, EveryByteFlippedAndChecksumsOff) {
  const TableReaderOptions reader_options = ReaderOptionsFor(options_, table_);
  for (size_t at = 0; at < footer_.index.offset; ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bytes = table_.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      Read(reader_options, bytes, /*wrong_allowed=*/true);
    }
  }
}

TEST_P(TableDamageTest, EveryTruncation) {
  for (size_t n = 0; n < table_.bytes.size(); ++n) {
    SCOPED_TRACE(n);
    const std::string bytes = table_.bytes.substr(0, n);
    TableReaderOptions reader_options = ReaderOptionsFor(options_, table_);
    EXPECT_FALSE(OpenTable(reader_options, bytes).ok());  // its size is known from elsewhere
    reader_options.tail_bytes = 0;
    EXPECT_EQ(OpenTable(reader_options, bytes).status().code(), absl::StatusCode::kDataLoss);
    reader_options.file_bytes = n;
    EXPECT_EQ(OpenTable(reader_options, bytes).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_P(TableDamageTest, DamagedFilterIsReported) {
  std::string bytes = table_.bytes;
  bytes[footer_.filter.offset + 5] = static_cast<char>(bytes[footer_.filter.offset + 5] ^ 4);
  TableReaderOptions reader_options = ReaderOptionsFor(options_, table_);
  StatisticsImpl statistics;
  reader_options.statistics = &statistics;
  const auto reader = OpenTable(reader_options, bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->filter(), nullptr);
  EXPECT_EQ((*reader)->filter_status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE((*reader)->filter_status().message().find(
                absl::StrFormat("test.sst: block at offset %d: checksum", footer_.filter.offset)),
            absl::string_view::npos)
      << (*reader)->filter_status();
  EXPECT_EQ((*reader)->Verify().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(statistics.Get(Counter::kFilterLoadErrors), 1u);
  EXPECT_TRUE((*reader)->MayContain(12345));
}

TEST_P(TableDamageTest, FilterWithGoodChecksumAndBadContents) {
  std::string bytes = table_.bytes;
  std::memset(bytes.data() + footer_.filter.offset, 0xee, footer_.filter.size);
  AddBlockTrailer(bytes.data() + footer_.filter.offset, footer_.filter.size, Compression::kNone,
                  options_.file_number, footer_.filter.offset);
  EXPECT_TRUE(Read(ReaderOptionsFor(options_, table_), bytes));
}

TEST_P(TableDamageTest, BlocksInEachOthersPlaceAreNoticed) {
  // Two blocks of the same size, swapped.
  const std::string bytes = table_.bytes;
  const auto reader = OpenTable(ReaderOptionsFor(options_, table_), bytes);
  ASSERT_TRUE(reader.ok());
  std::vector<BlockDescription> blocks;
  ASSERT_TRUE((*reader)
                  ->ForEachBlock([&](const BlockDescription& block) {
                    blocks.push_back(block);
                    return true;
                  })
                  .ok());
  int swapped = 0;
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    for (size_t j = i + 1; j < blocks.size(); ++j) {
      if (blocks[i].stored_bytes != blocks[j].stored_bytes) continue;
      const size_t n = blocks[i].stored_bytes + kBlockTrailerBytes;
      std::string moved = bytes;
      moved.replace(blocks[i].offset, n, bytes, blocks[j].offset, n);
      moved.replace(blocks[j].offset, n, bytes, blocks[i].offset, n);
      EXPECT_FALSE(Read(ReaderOptionsFor(options_, table_), moved));
      ++swapped;
    }
  }
  EXPECT_GT(swapped, 0);
}

// A block with good checksums whose entries lie about themselves is found by Verify.
TEST_P(TableDamageTest, VerifyLooksBehindChecksums) {
  if (GetParam() != Compression::kNone) GTEST_SKIP() << "needs the raw bytes";
  const TableReaderOptions reader_options = ReaderOptionsFor(options_, table_);
  const auto good = OpenTable(reader_options, table_.bytes);
  ASSERT_TRUE(good.ok());
  std::vector<BlockDescription> blocks;
  ASSERT_TRUE((*good)
                  ->ForEachBlock([&](const BlockDescription& block) {
                    blocks.push_back(block);
                    return true;
                  })
                  .ok());
  int found = 0, unnoticed = 0;
  for (const BlockDescription& block : blocks) {
    for (size_t at = 0; at < block.stored_bytes; ++at) {
      std::string bytes = table_.bytes;
      bytes[block.offset + at] = static_cast<char>(bytes[block.offset + at] ^ 0x10);
      AddBlockTrailer(bytes.data() + block.offset, block.stored_bytes, Compression::kNone,
                      options_.file_number, block.offset);
      const auto reader = OpenTable(reader_options, bytes);
      ASSERT_TRUE(reader.ok());
      const absl::Status verified = (*reader)->Verify();
      EXPECT_TRUE(verified.ok() || verified.code() == absl::StatusCode::kDataLoss);
      ++(verified.ok() ? unnoticed : found);
    }
  }
  // Values, some tags, and buckets of no key may say anything.
  EXPECT_GT(found, 400);
  EXPECT_LT(unnoticed, 1100);
}

INSTANTIATE_TEST_SUITE_P(Codecs, TableDamageTest,
                         testing::Values(Compression::kNone, Compression::kSnappy),
                         [](const testing::TestParamInfo<Compression>& param_info) {
                           return param_info.param == Compression::kNone ? "None" : "Snappy";
                         });

}  // namespace
}  // namespace sievedb
