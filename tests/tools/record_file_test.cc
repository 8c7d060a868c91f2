#include "tools/record_file.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data_driven.h"
#include "util/escape.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;

RecordFormat FormatOf(const DataDrivenCase& one) {
  return one.Argument("format") == "json" ? RecordFormat::kJsonLines : RecordFormat::kTsv;
}

// parse format=tsv|json   each line of input -> key and value escaped, or the error
// guess                   each line of input -> the format of a file that it begins
// format format=tsv|json  each line of input, key TAB value in hex -> the record
TEST(RecordFileTest, Lines) {
  RunDataDriven(
      "record_file", [] {},
      [](const DataDrivenCase& one) {
        std::string output;
        for (const std::string& line : SplitLines(one.input)) {
          if (one.command == "parse") {
            const auto record = ParseRecord(FormatOf(one), line);
            output += record.ok()
                          ? absl::StrFormat("[%s] [%s]", Escape(record->key), Escape(record->value))
                          : "error: " + std::string(record.status().message());
          } else if (one.command == "guess") {
            output += GuessFormat(line) == RecordFormat::kTsv ? "tsv" : "json";
          } else {
            const size_t tab = line.find('\t');
            output += FormatRecord(FormatOf(one), *FromHex(line.substr(0, tab)),
                                   *FromHex(line.substr(tab + 1)));
          }
          output += '\n';
        }
        return output;
      });
}

TEST(RecordFileTest, AnyBytesComeBack) {
  std::mt19937 random(20260103);
  for (int i = 0; i < 2000; ++i) {
    std::string key;
    std::string value;
    for (std::string* text : {&key, &value}) {
      text->resize(random() % 40);
      // Some of them all ASCII, so that both forms of JSON are met.
      const unsigned range = i % 3 == 0 ? 128 : 256;
      for (char& c : *text) c = static_cast<char>(random() % range);
    }
    for (const RecordFormat format : {RecordFormat::kTsv, RecordFormat::kJsonLines}) {
      const std::string line = FormatRecord(format, key, value);
      ASSERT_EQ(line.find_first_of("\n\r"), line.npos) << line;
      const auto record = ParseRecord(format, line);
      ASSERT_TRUE(record.ok()) << record.status() << ": " << line;
      ASSERT_EQ(record->key, key) << line;
      ASSERT_EQ(record->value, value) << line;
      ASSERT_TRUE(GuessFormat(line) == format) << line;
    }
  }
}

TEST(RecordFileTest, NestingCostsNoStack) {
  constexpr int kDepth = 1'000'000;
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']');
  const auto record =
      ParseRecord(RecordFormat::kJsonLines, R"({"key":"deep","value":)" + nested + "}");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->value == nested);
  EXPECT_FALSE(
      ParseRecord(RecordFormat::kJsonLines, R"({"key":"deep","value":)" + std::string(kDepth, '['))
          .ok());
}

class LineReaderTest : public testing::Test {
 protected:
  LineReaderTest()
      : path_(testing::TempDir() + "/lines_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {}
  ~LineReaderTest() override { std::remove(path_.c_str()); }

  void Write(std::string_view text) {
    std::ofstream(path_, std::ios::binary).write(text.data(), std::streamsize(text.size()));
  }
  std::string Lines() {
    const auto reader = LineReader::Open(path_);
    if (!reader.ok()) return reader.status().ToString();
    std::string lines;
    while (true) {
      const auto line = (*reader)->Next();
      if (!line.ok()) return line.status().ToString();
      if (!line->has_value()) break;
      lines += absl::StrFormat("%d:%s|", (*reader)->line_number(), Escape(**line));
    }
    EXPECT_EQ((*reader)->bytes_read(), (*reader)->total_bytes());
    return lines;
  }

  const std::string path_;
};

TEST_F(LineReaderTest, LinesWithAndWithoutTheirEnd) {
  Write("");
  EXPECT_EQ(Lines(), "");
  Write("\n");
  EXPECT_EQ(Lines(), "1:|");
  Write("a\n\nb");
  EXPECT_EQ(Lines(), "1:a|2:|3:b|");
  Write(std::string_view("a\0b\r\nc\n", 7));
  EXPECT_EQ(Lines(), "1:a\\x00b\\r|2:c|");
  const std::string long_line(3 << 20, 'x');
  Write(long_line + "\nend\n");
  EXPECT_EQ(Lines(), "1:" + long_line + "|2:end|");
}

TEST_F(LineReaderTest, ErrorsNameTheFile) {
  const auto missing = LineReader::Open(path_);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(path_));
  const auto directory = LineReader::Open(testing::TempDir());
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ((*directory)->Next().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sievedb
