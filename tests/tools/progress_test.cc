#include "tools/progress.h"

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TemporaryFile = std::unique_ptr<std::FILE, FileCloser>;

std::string Contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int byte = std::fgetc(file); byte != EOF; byte = std::fgetc(file)) {
    text += static_cast<char>(byte);
  }
  return text;
}

TEST(ProgressBarTest, WritesNothingWhereTheStreamIsNoTerminal) {
  const TemporaryFile file(std::tmpfile());
  ASSERT_NE(file, nullptr);
  {
    ProgressBar bar("load", 10, file.get());
    EXPECT_FALSE(bar.visible());
    bar.Advance(10);
    EXPECT_EQ(bar.done(), 10u);
    bar.Finish();
  }
  EXPECT_EQ(Contents(file.get()), "");
}

TEST(ProgressBarTest, DrawsInPlaceAndWipesItsLine) {
  const TemporaryFile file(std::tmpfile());
  ASSERT_NE(file, nullptr);
  {
    ProgressBar bar("load", 1000, file.get(), ProgressBar::Mode::kAlways);
    EXPECT_TRUE(bar.visible());
    // The first line comes after a fifth of a second.
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    bar.Advance(500);
  }
  const std::string text = Contents(file.get());
  EXPECT_THAT(text, StartsWith("\rload ["));
  EXPECT_THAT(text, HasSubstr(" 50%"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_EQ(text.substr(text.size() - 4), "\r\x1b[K");
}

TEST(ProgressBarTest, FinishIsIdempotentAndFinal) {
  const TemporaryFile file(std::tmpfile());
  ASSERT_NE(file, nullptr);
  ProgressBar bar("load", 1000, file.get(), ProgressBar::Mode::kAlways);
  bar.Finish();
  bar.Finish();
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  bar.Advance(1);
  EXPECT_EQ(Contents(file.get()), "");
}

TEST(ProgressBarTest, CountsStepsOfSeveralThreads) {
  ProgressBar bar("load", 40'000, stderr, ProgressBar::Mode::kNever);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&bar] {
      for (int step = 0; step < 10'000; ++step) bar.Advance(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bar.done(), 40'000u);
}

TEST(ProgressBarTest, ThreadsMayDrawTogether) {
  const TemporaryFile file(std::tmpfile());
  ASSERT_NE(file, nullptr);
  {
    ProgressBar bar("load", 4, file.get(), ProgressBar::Mode::kAlways);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&bar] {
        std::this_thread::sleep_for(std::chrono::milliseconds(210));
        bar.Advance(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(bar.done(), 4u);
  }
  EXPECT_THAT(Contents(file.get()), StartsWith("\rload ["));
}

TEST(ProgressBarTest, RenderWithTotal) {
  EXPECT_EQ(ProgressBar::Render("load", 0, 100, 0, 80),
            "load [........................]   0%  0/s");
  EXPECT_EQ(ProgressBar::Render("load", 50, 100, 2, 80),
            "load [############............]  50%  25/s  0:02 left");
  EXPECT_EQ(ProgressBar::Render("load", 2'000'000, 200'000'000, 1, 80),
            "load [........................]   1%  2.0M/s  1:39 left");
  EXPECT_EQ(ProgressBar::Render("load", 1, 7200, 1, 80),
            "load [........................]   0%  1/s  1:59:59 left");
  // More than was planned is not more than everything.
  EXPECT_EQ(ProgressBar::Render("load", 300, 100, 1, 80),
            "load [########################] 100%  300/s  0:00 left");
}

TEST(ProgressBarTest, RenderWithoutTotal) {
  EXPECT_EQ(ProgressBar::Render("scan", 12'000, 0, 1, 80), "scan  12000  12.0k/s  0:01");
}

TEST(ProgressBarTest, RenderStaysWithinTheWidth) {
  for (int width : {-1, 0, 1, 10, 40, 200}) {
    const std::string line = ProgressBar::Render("a long label", 1, 2, 1, width);
    EXPECT_LE(line.size(), static_cast<size_t>(std::max(width, 0)));
  }
}

}  // namespace
}  // namespace sievedb
