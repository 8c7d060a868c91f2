#include "tools/filter_svg.h"

#include <cmath>
#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sievedb/filter.h"
#include "tools/filter_theory.h"
#include "util/dense_bloom.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double Mean(const std::vector<double>& distribution) {
  double mean = 0;
  for (size_t s = 0; s < distribution.size(); ++s) mean += static_cast<double>(s) * distribution[s];
  return mean;
}
// The false-positive rate of blocks that are filled so.
double Rate(const std::vector<double>& distribution, int probes) {
  const double bits = static_cast<double>(distribution.size()) - 1;
  double rate = 0;
  for (size_t s = 0; s < distribution.size(); ++s) {
    rate += distribution[s] * std::pow(static_cast<double>(s) / bits, probes);
  }
  return rate;
}

TEST(FilterTheoryTest, SetBitsAreThoseOfPoissonLoads) {
  for (const double bits_per_key : {1.0, 4.0, 10.0, 16.0, 64.0}) {
    const int probes = FilterSizing::OptimalBlockedProbes(bits_per_key);
    const double load = 512 / bits_per_key;
    const std::vector<double> distribution = SetBitsDistribution(load, probes, 512);
    ASSERT_EQ(distribution.size(), 513u);
    EXPECT_NEAR(Sum(distribution), 1, 1e-9) << bits_per_key;
    const double clear = std::exp(-load * (1 - std::pow(1 - 1.0 / 512, probes)));
    EXPECT_NEAR(Mean(distribution), 512 * (1 - clear), 1e-6) << bits_per_key;
    const double expected = FilterSizing::ExpectedBlockedFpr(bits_per_key, probes);
    EXPECT_NEAR(Rate(distribution, probes) / expected, 1, 0.005) << bits_per_key;
  }
  EXPECT_EQ(SetBitsDistribution(0, 6, 512)[0], 1);
  EXPECT_EQ(SetBitsDistribution(1e12, 6, 512)[512], 1);
}

TEST(FilterTheoryTest, DenseBlocksHaveFewerBitsSet) {
  const double load = 51.2;
  const int probes = DenseBlockedBloom::OptimalProbes(10);
  const std::vector<double> dense = DenseSetBitsDistribution(load, probes);
  EXPECT_NEAR(Sum(dense), 1, 1e-9);
  EXPECT_LT(Mean(dense), Mean(SetBitsDistribution(load, probes, 480)) - 20);
  EXPECT_NEAR(Rate(dense, probes) / DenseBlockedBloom::ExpectedFpr(10), 1, 0.05);
  EXPECT_EQ(dense, DenseSetBitsDistribution(load, probes));
  EXPECT_EQ(DenseSetBitsDistribution(0, probes)[0] > 0.999, true);
}

TEST(FilterTheoryTest, CurvesFallAndNoneIsBelowTheLeastPossible) {
  const std::vector<RateCurve> curves = RateCurves(4, 24);
  ASSERT_EQ(curves.size(), 6u);
  EXPECT_EQ(curves.back().kind, 0);
  for (const RateCurve& curve : curves) {
    for (size_t i = 0; i < curve.points.size(); ++i) {
      const RatePoint& point = curve.points[i];
      EXPECT_GE(point.fpr, std::exp2(-point.bits_per_key)) << curve.name;
      if (i > 0) {
        EXPECT_LT(point.fpr, curve.points[i - 1].fpr) << curve.name;
      }
    }
  }
}

TEST(FilterSvgTest, HeatMapsAreAtMost64By64) {
  const HeatMap one = MakeHeatMap({256}, 512);
  EXPECT_EQ(one.columns, 1u);
  EXPECT_EQ(one.fill, std::vector<double>({0.5}));
  EXPECT_EQ(MakeHeatMap(std::vector<int>(5, 1), 512).columns, 3u);
  const HeatMap full = MakeHeatMap(std::vector<int>(4096, 1), 512);
  EXPECT_EQ(full.columns, 64u);
  EXPECT_EQ(full.fill.size(), 4096u);
  const HeatMap more = MakeHeatMap(std::vector<int>(4097, 480), 480);
  EXPECT_EQ(more.blocks_per_cell, 2u);
  EXPECT_EQ(more.fill.size(), 2049u);
  EXPECT_EQ(more.fill.back(), 1);  // of one block
  const HeatMap large = MakeHeatMap(std::vector<int>(1'000'003, 48), 480);
  EXPECT_LE(large.fill.size(), 4096u);
  EXPECT_NEAR(large.fill.front(), 0.1, 1e-12);
}

FilterReport Report() {
  FilterReport report;
  report.present = true;
  report.kind = "sievedb.BlockedBloom";
  report.filter_kind = kBlockedBloomKind;
  report.keys = 5120;
  report.blocks = 100;
  report.bits_per_block = 512;
  report.bytes = 6432;
  report.bits_per_key_used = 10.05;
  report.probes = 6;
  report.fill_ratio = 0.45;
  report.expected_fpr = 0.0096;
  return report;
}

TEST(FilterSvgTest, DrawsBlocksOfAnyFill) {
  // Empty, full and damaged filters: all of one fill, or none near what theory says.
  for (const int bits : {0, 230, 512}) {
    const std::string svg = DrawFilter("x.sst", Report(), std::vector<int>(100, bits));
    EXPECT_THAT(svg, HasSubstr("id=\"heatmap\"")) << bits;
    EXPECT_THAT(svg, HasSubstr("id=\"theory\"")) << bits;
    EXPECT_THAT(svg, HasSubstr("id=\"point\"")) << bits;
    EXPECT_THAT(svg, HasSubstr("this table: 10.05 bits, 0.96 %")) << bits;
    EXPECT_THAT(svg, Not(HasSubstr("nan"))) << bits;
    EXPECT_THAT(svg, Not(HasSubstr("inf"))) << bits;
  }
}

TEST(FilterSvgTest, SaysWhatDoesNotExistOrIsBeyondTheAxes) {
  FilterReport report = Report();
  report.filter_kind = kRibbonKind;
  report.blocks = report.bits_per_block = 0;
  report.bits_per_key_used = 30;
  report.expected_fpr = 0;
  const std::string svg = DrawFilter("x.sst", report, {});
  EXPECT_THAT(svg, HasSubstr("has no blocks"));
  EXPECT_THAT(svg, Not(HasSubstr("id=\"heatmap\"")));
  EXPECT_THAT(svg, HasSubstr("ribbon, this table's kind"));
  EXPECT_THAT(svg, HasSubstr("(beyond the axes)"));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(FilterSvgTest, NamesOfAnyBytesAreText) {
  EXPECT_EQ(XmlText("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  const std::string svg = DrawFilter("d/<&\xff\n>.sst", Report(), std::vector<int>(4, 200));
  EXPECT_THAT(svg, HasSubstr("Filter of &lt;&amp;\\xff\\n&gt;.sst"));
}

}  // namespace
}  // namespace sievedb
