#include "tools/filter_audit.h"

#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/file_system.h"
#include "sievedb/filter_policy.h"
#include "table/table_builder.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Key(int i) { return absl::StrFormat("key%06d", i); }

// A blocked Bloom filter that forgets every tenth key.
class ForgetfulPolicy final : public FilterPolicy {
 public:
  class Builder final : public FilterBuilder {
   public:
    explicit Builder(std::unique_ptr<FilterBuilder> builder) : builder_(std::move(builder)) {}
    void AddHash(uint64_t hash) override {
      if (added_++ % 10 != 0) builder_->AddHash(hash);
    }
    std::string Finish() override { return builder_->Finish(); }

   private:
    const std::unique_ptr<FilterBuilder> builder_;
    int added_ = 0;
  };
  uint8_t Kind() const override { return kBlockedBloomKind; }
  const char* Name() const override { return "sievedb.BlockedBloom"; }
  double BitsPerKey(const FilterContext&) const override { return 10; }
  std::unique_ptr<FilterBuilder> NewBuilder(const FilterContext& context) const override {
    return std::make_unique<Builder>(NewBlockedBloomPolicy(10)->NewBuilder(context));
  }
  absl::StatusOr<std::unique_ptr<FilterReader>> NewReader(std::string_view bytes) const override {
    return NewBlockedBloomPolicy(10)->NewReader(bytes);
  }
};

class FilterAuditTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // Keys 0, 2, 4 … of 2 * count.
  OpenedTable Build(const FilterPolicy* policy, int count,
                    const Comparator* comparator = BytewiseComparator()) {
    const std::string path = directory_ + "/000007.sst";
    const auto file = PosixFileSystem()->NewWritableFile(path);
    EXPECT_TRUE(file.ok()) << file.status();
    TableBuilderOptions options;
    options.order = InternalKeyOrder(comparator);
    options.filter_policy = policy;
    options.file_number = 7;
    options.hash_seed = 0x13198a2e03707344;  // as of any database
    TableBuilder builder(options, file->get());
    for (int i = 0; i < count; ++i) {
      const int number = comparator == BytewiseComparator() ? i : count - 1 - i;
      std::string key;
      AppendInternalKey(&key, Key(2 * number), MakeTag(1, EntryType::kPut));
      EXPECT_TRUE(builder.Add(key, "value").ok());
    }
    EXPECT_TRUE(builder.Finish().ok());
    EXPECT_TRUE((*file)->Close().ok());
    absl::StatusOr<OpenedTable> table = OpenTableFile(path);
    EXPECT_TRUE(table.ok()) << table.status();
    return *std::move(table);
  }

  std::string Write(const std::string& text) const {
    const std::string path = directory_ + "/keys";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  const std::string directory_ = testing::TempDir() + "sievedb_filter_audit_" +
                                 testing::UnitTest::GetInstance()->current_test_info()->name();
};

// All of the table's keys, as many absent ones between them, and two outside.
std::vector<std::string> KeysAround(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < 2 * count - 1; ++i) keys.push_back(Key(i));
  keys.push_back("a before all");
  keys.push_back("z behind all");
  return keys;
}

TEST_F(FilterAuditTest, CountsWhatAGoodFilterSays) {
  constexpr int kCount = 5000;
  for (const Comparator* comparator : {BytewiseComparator(), ReverseBytewiseComparator()}) {
    const OpenedTable table = Build(NewBlockedBloomPolicy(10).get(), kCount, comparator);
    std::vector<std::string> keys = KeysAround(kCount);
    const auto counts = AuditTable(table, 0.01, &keys);
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->asked(), 2u * kCount - 1);
    EXPECT_EQ(counts->denied, 0u);
    EXPECT_EQ(counts->maybe_present, static_cast<uint64_t>(kCount));
    EXPECT_EQ(counts->absent(), kCount - 1u);
    uint64_t maybe = 0;
    for (int i = 1; i < 2 * kCount - 1; i += 2)
      maybe += table.reader->MayContain(table.reader->HashOf(Key(i)));
    EXPECT_EQ(counts->maybe_absent, maybe);
    EXPECT_GT(maybe, 0u);
    EXPECT_NEAR(counts->expected_fpr(), 0.01, 1e-12);
    EXPECT_FALSE(AboveExpected(*counts, 3));
  }
}

TEST_F(FilterAuditTest, ATableWithoutAFilterSaysMaybe) {
  const OpenedTable table = Build(nullptr, 100);
  std::vector<std::string> keys = KeysAround(100);
  const auto counts = AuditTable(table, 1, &keys);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->maybe_present, 100u);
  EXPECT_EQ(counts->maybe_absent, 99u);
  EXPECT_EQ(counts->measured_fpr(), 1);
  EXPECT_FALSE(AboveExpected(*counts, 1));
}

TEST_F(FilterAuditTest, ADeniedKeyIsFoundAndFailsTheProgram) {
  const ForgetfulPolicy policy;
  const OpenedTable table = Build(&policy, 1000);
  std::vector<std::string> keys = KeysAround(1000);
  const auto counts = AuditTable(table, 0.01, &keys);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_GT(counts->denied, 90u);
  EXPECT_LE(counts->denied, 100u);
  EXPECT_EQ(counts->denied + counts->maybe_present, 1000u);

  Audit audit{"keys", 10, 10, {{table.path, {}, *counts, {}}}};
  EXPECT_EQ(AuditStatus(audit).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(AuditVerdict(audit), HasSubstr("were denied"));
  audit.tables[0].counts.denied = 0;
  EXPECT_TRUE(AuditStatus(audit).ok());

  const std::string program = std::string(SIEVEDB_TOOLS_DIR) + "/sst_dump";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " was not built";
  const std::string errors = directory_ + "/stderr";
  const std::string command = absl::StrFormat(
      "'%s' --command=filter --absent_keys=0 --audit='%s' '%s' >'%s' 2>'%s'", program,
      Write(Key(0) + "\n" + Key(1) + "\n"), table.path, directory_ + "/stdout", errors);
  const int state = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(state)) << command;
  EXPECT_EQ(WEXITSTATUS(state), 1);
  std::ifstream stream(errors);
  std::string line;
  ASSERT_TRUE(std::getline(stream, line));
  EXPECT_THAT(line, HasSubstr("denies"));
  EXPECT_FALSE(std::getline(stream, line)) << line;
}

TEST_F(FilterAuditTest, KeysThatWereChosenToBeFalsePositivesStandOut) {
  const OpenedTable table = Build(NewBlockedBloomPolicy(10).get(), 5000);
  const double expected = table.reader->filter()->Figures().expected_fpr;
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 50; ++i) {
    const std::string key = Key(2) + absl::StrFormat("x%d", i);
    if (table.reader->MayContain(table.reader->HashOf(key))) keys.push_back(key);
  }
  const auto counts = AuditTable(table, expected, &keys);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->maybe_absent, 50u);
  EXPECT_TRUE(AboveExpected(*counts, 3));
  Audit audit{"keys", 50, 50, {{table.path, {}, *counts, {}}}};
  EXPECT_THAT(AuditVerdict(audit), HasSubstr("--absent_keys=1000000"));
  AuditCounts random;
  random.said_no = 990'000;
  random.maybe_absent = 10'000;
  random.expected_false = 10'000;
  audit.tables[0].random = random;
  EXPECT_THAT(AuditVerdict(audit), HasSubstr("these keys are special"));
  audit.tables[0].random.expected_false = 5'000;
  EXPECT_THAT(AuditVerdict(audit), HasSubstr("so is that of random keys"));
  EXPECT_TRUE(AuditJson(audit)["tables"][0]["above_expected"]);
  EXPECT_THAT(AuditText(audit), HasSubstr("above expectation"));
}

TEST_F(FilterAuditTest, KeyFiles) {
  auto keys = ReadAuditKeys(Write("b\na\\x00\nb\n\n"), false);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->lines, 4u);
  EXPECT_THAT(keys->keys, testing::ElementsAre("", std::string("a\0", 2), "b"));
  keys = ReadAuditKeys(Write("00FF\n61"), true);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_THAT(keys->keys, testing::ElementsAre(std::string("\0\xff", 2), "a"));
  EXPECT_THAT(std::string(ReadAuditKeys(Write("61\n\nzz\n"), true).status().message()),
              HasSubstr("keys, line 3: "));
  EXPECT_EQ(ReadAuditKeys(Write("a\n\\q\n"), false).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ReadAuditKeys(Write(""), false).status().message()),
              HasSubstr("no keys in it"));
  EXPECT_EQ(ReadAuditKeys(directory_ + "/nowhere", false).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(FilterAuditMathTest, IntervalsAreWilsons) {
  const auto [low, high] = RateInterval(5, 100);
  EXPECT_NEAR(low, 0.021543, 1e-5);
  EXPECT_NEAR(high, 0.111752, 1e-5);
  EXPECT_EQ(RateInterval(0, 0), std::make_pair(0.0, 1.0));
  EXPECT_EQ(RateInterval(0, 10).first, 0);
  EXPECT_NEAR(RateInterval(0, 10).second, 0.277533, 1e-5);
  EXPECT_EQ(RateInterval(10, 10).second, 1);
}

TEST(FilterAuditMathTest, ChancesAreTheBinomials) {
  EXPECT_NEAR(ChanceOfAtLeast(2, 3, 0.5), 0.5, 1e-12);
  EXPECT_NEAR(ChanceOfAtLeast(1, 20, 0.01), 1 - std::pow(0.99, 20), 1e-12);
  EXPECT_NEAR(ChanceOfAtLeast(3, 3, 0.1), 0.001, 1e-12);
  EXPECT_EQ(ChanceOfAtLeast(0, 10, 0.5), 1);
  EXPECT_EQ(ChanceOfAtLeast(11, 10, 0.5), 0);
  EXPECT_EQ(ChanceOfAtLeast(1, 10, 0), 0);
  EXPECT_EQ(ChanceOfAtLeast(10, 10, 1), 1);
  EXPECT_EQ(ChanceOfAtLeast(1000, 10'000'000, 0.01), 1);
  EXPECT_NEAR(ChanceOfAtLeast(100'000, 10'000'000, 0.01), 0.5, 0.01);
  EXPECT_LT(ChanceOfAtLeast(120'000, 10'000'000, 0.01), 1e-100);
}

TEST(FilterAuditMathTest, OnlyWhatChanceDoesNotExplainIsAbove) {
  AuditCounts counts;
  counts.said_no = 99'000;
  counts.maybe_absent = 1'000;
  counts.expected_false = 1'000;
  EXPECT_FALSE(AboveExpected(counts, 1));
  counts.expected_false = 950;  // some two standard deviations
  EXPECT_FALSE(AboveExpected(counts, 1));
  counts.expected_false = 800;
  EXPECT_TRUE(AboveExpected(counts, 1));
  EXPECT_TRUE(AboveExpected(counts, 100));
  EXPECT_FALSE(AboveExpected(AuditCounts(), 1));
}

TEST(FilterAuditMathTest, LevelsAreSumsOfTheirTables) {
  AuditCounts one;
  one.said_no = 90;
  one.maybe_absent = 10;
  one.expected_false = 5;
  Audit audit{"keys", 1, 1, {}};
  audit.tables = {{"db/1", {"db", 1}, one, {}},
                  {"db/2", {"db", 0}, one, {}},
                  {"db/3", {"db", 1}, one, {}},
                  {"x/1", {"", kNoDatabase}, one, {}}};
  const std::vector<AuditRow> levels = SumAudit(audit);
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].place.level, kNoDatabase);
  EXPECT_EQ(levels[1].place.level, 0);
  EXPECT_EQ(levels[2].place.level, 1);
  EXPECT_EQ(levels[2].counts.absent(), 200u);
  EXPECT_EQ(levels[2].counts.measured_fpr(), 0.1);
  EXPECT_EQ(levels[2].counts.expected_fpr(), 0.05);
  EXPECT_EQ(AuditJson(audit)["total"]["asked"], 400);
  EXPECT_THAT(AuditVerdict(Audit{"keys", 1, 1, {}}), HasSubstr("no absent key"));
  EXPECT_THAT(AuditText(audit), Not(HasSubstr("no absent key")));
}

}  // namespace
}  // namespace sievedb
