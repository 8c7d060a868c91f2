#ifndef SIEVEDB_TESTS_DATA_DRIVEN_H_
#define SIEVEDB_TESTS_DATA_DRIVEN_H_

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"

namespace sievedb {

// Tests written as text. A file is a list of cases, each followed by an empty line:
//
//   # a comment, anywhere between cases
//   command argument name=value
//   input, any number of lines
//   ----
//   expected output, any number of lines
//
// The test is a function from a case to its output. With SIEVEDB_REWRITE=1 in the
// environment the outputs are written into the file instead of being compared:
// read the difference before you keep it.
struct DataDrivenCase {
  std::string command;
  std::vector<std::string> arguments;
  std::string input;  // each line with its end
  std::string expected;
  int line = 0;

  // The value of name=value, or otherwise.
  std::string Argument(std::string_view name, std::string_view otherwise = "") const {
    for (const std::string& argument : arguments) {
      if (argument.size() > name.size() && argument[name.size()] == '=' &&
          argument.compare(0, name.size(), name) == 0) {
        return argument.substr(name.size() + 1);
      }
    }
    return std::string(otherwise);
  }
  bool HasArgument(std::string_view name) const {
    return std::any_of(arguments.begin(), arguments.end(), [name](const std::string& argument) {
      return argument == name || argument.substr(0, argument.find('=')) == name;
    });
  }
};

inline std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::string> SplitWords(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

inline void RunDataDrivenFile(const std::string& path,
                              absl::FunctionRef<std::string(const DataDrivenCase&)> run) {
  SCOPED_TRACE(path);
  std::ifstream file(path);
  ASSERT_TRUE(file) << "cannot read " << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const std::vector<std::string> lines = SplitLines(bytes.str());
  const char* const rewrite_variable = std::getenv("SIEVEDB_REWRITE");
  const bool rewrite = rewrite_variable != nullptr && std::string_view(rewrite_variable) == "1";

  std::string rewritten;
  int cases = 0;
  for (size_t i = 0; i < lines.size();) {
    if (lines[i].empty() || lines[i][0] == '#') {
      rewritten += lines[i++] + "\n";
      continue;
    }
    DataDrivenCase test;
    test.line = static_cast<int>(i) + 1;
    test.arguments = SplitWords(lines[i]);
    test.command = test.arguments.front();
    test.arguments.erase(test.arguments.begin());
    rewritten += lines[i++] + "\n";
    for (; i < lines.size() && lines[i] != "----"; ++i) test.input += lines[i] + "\n";
    ASSERT_LT(i, lines.size()) << path << ":" << test.line << ": no line ---- follows";
    ++i;
    for (; i < lines.size() && !lines[i].empty(); ++i) test.expected += lines[i] + "\n";

    std::string output = run(test);
    if (!output.empty() && output.back() != '\n') output += '\n';
    ASSERT_TRUE(output.find("\n\n") == std::string::npos && output[0] != '\n')
        << path << ":" << test.line << ": output with an empty line, which ends a case";
    if (!rewrite) {
      EXPECT_EQ(output, test.expected) << path << ":" << test.line << ": " << test.command;
    }
    rewritten += test.input + "----\n" + output;
    ++cases;
  }
  EXPECT_GT(cases, 0) << path << " has no cases";
  if (rewrite) {
    std::ofstream to(path, std::ios::trunc);
    to << rewritten;
    ASSERT_TRUE(to.flush()) << "cannot write " << path;
  }
}

// Runs all *.txt of tests/data/<topic>; begin is called before each, for a state of
// its own.
inline void RunDataDriven(const std::string& topic, absl::FunctionRef<void()> begin,
                          absl::FunctionRef<std::string(const DataDrivenCase&)> run) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SIEVEDB_TEST_DATA_DIR) + "/" + topic)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_FALSE(paths.empty()) << "no tests in tests/data/" << topic;
  for (const std::string& path : paths) {
    begin();
    RunDataDrivenFile(path, run);
  }
}

}  // namespace sievedb

#endif  // SIEVEDB_TESTS_DATA_DRIVEN_H_
