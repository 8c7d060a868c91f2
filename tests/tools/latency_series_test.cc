#include "tools/latency_series.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace sievedb {
namespace {

constexpr uint64_t kStart = 5'000;
constexpr uint64_t kInterval = 1'000;

TEST(LatencySeriesTest, NothingHappened) {
  LatencySeries series(kStart, kInterval, 1);
  { const LatencySeries::Recorder recorder(&series, 0); }
  EXPECT_TRUE(series.Points().empty());
}

TEST(LatencySeriesTest, AnOperationCountsWhereItEnds) {
  LatencySeries series(kStart, kInterval, 1);
  {
    LatencySeries::Recorder recorder(&series, 0);
    recorder.Add(kStart, 7, 1);
    recorder.Add(kStart + 999, 9, 2);
    recorder.Add(kStart + 1000, 11, 4);
  }
  const std::vector<LatencySeries::Point> points = series.Points();
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(points[0].operations, 3);
  EXPECT_EQ(points[0].max_ns, 9);
  EXPECT_DOUBLE_EQ(points[0].end_seconds, 1e-6);
  EXPECT_DOUBLE_EQ(points[0].operations_per_s, 3e6);
  EXPECT_EQ(points[1].operations, 4);
  EXPECT_EQ(points[1].max_ns, 11);
}

// A stall: nothing ends for a while, and what ends then took long.
TEST(LatencySeriesTest, IntervalsWithoutAnOperationAreShown) {
  LatencySeries series(kStart, kInterval, 1);
  {
    LatencySeries::Recorder recorder(&series, 0);
    recorder.Add(kStart + 10, 10, 1);
    recorder.Add(kStart + 3500, 3490, 1);
  }
  const std::vector<LatencySeries::Point> points = series.Points();
  ASSERT_EQ(points.size(), 4);
  EXPECT_EQ(points[1].operations, 0);
  EXPECT_EQ(points[2].operations, 0);
  EXPECT_EQ(points[2].max_ns, 0);
  EXPECT_DOUBLE_EQ(points[2].end_seconds, 3e-6);
  EXPECT_EQ(points[3].max_ns, 3490);
}

TEST(LatencySeriesTest, ThreadsThatAreApartMeetInTheirIntervals) {
  LatencySeries series(kStart, kInterval, 2);
  {
    auto fast = std::make_unique<LatencySeries::Recorder>(&series, 0);
    LatencySeries::Recorder slow(&series, 1);
    for (uint64_t i = 0; i < 10; ++i) fast->Add(kStart + i * kInterval, 1, 1);
    fast.reset();
    for (uint64_t i = 0; i < 5; ++i) slow.Add(kStart + i * kInterval, 100, 3);
  }
  const std::vector<LatencySeries::Point> points = series.Points();
  ASSERT_EQ(points.size(), 10);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(points[i].operations, i < 5 ? 4 : 1) << i;
    EXPECT_EQ(points[i].max_ns, i < 5 ? 100 : 1) << i;
  }
}

// Time never runs backwards in a thread's figures, whatever its clock says.
TEST(LatencySeriesTest, TimesBeforeTheStartCountInTheFirstInterval) {
  LatencySeries series(kStart, kInterval, 1);
  {
    LatencySeries::Recorder recorder(&series, 0);
    recorder.Add(kStart - 1000, 1, 1);
    recorder.Add(kStart + 1500, 1, 1);
    recorder.Add(kStart + 500, 1, 1);
  }
  const std::vector<LatencySeries::Point> points = series.Points();
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(points[0].operations, 1);
  EXPECT_EQ(points[1].operations, 2);
}

TEST(LatencySeriesTest, Text) {
  LatencySeries series(0, 1'000'000'000, 1);
  {
    LatencySeries::Recorder recorder(&series, 0);
    for (int i = 0; i < 10; ++i) recorder.Add(1, 8, 1);
  }
  EXPECT_EQ(LatencySeries::ToText(series.Points()),
            "  seconds     ops/sec    p50 us    p99 us  p99.9 us      max us\n"
            "     1.00          10      0.01      0.01      0.01        0.01\n");
  const nlohmann::json json = LatencySeries::ToJson(series.Points());
  EXPECT_EQ(json.at(0).at("operations"), 10);
  EXPECT_EQ(LatencySeries::ToJson(LatencySeries::FromJson(json)), json);
}

}  // namespace
}  // namespace sievedb
