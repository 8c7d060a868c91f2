// Runs the benchmark programs on small databases; the scripts beside this file
// say what they must print.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

void RunScript(const std::string& script, const std::string& program) {
  const std::string path = std::string(SIEVEDB_TOOLS_DIR) + "/" + program;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " was not built";
  const std::string command =
      "sh '" + std::string(SIEVEDB_TEST_DATA_DIR) + "/../tools/" + script + "' '" + path + "'";
  const int state = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(state)) << command;
  EXPECT_EQ(WEXITSTATUS(state), 0) << command;
}

TEST(BenchSmokeTest, DbBench) { RunScript("db_bench_smoke.sh", "db_bench"); }

TEST(BenchSmokeTest, Compare) { RunScript("compare_smoke.sh", "compare"); }

}  // namespace
}  // namespace sievedb
