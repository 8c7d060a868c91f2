#include "tools/filter_svg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/filter_theory.h"
#include "util/escape.h"
#include "util/filter_kinds.h"

namespace sievedb {
namespace {

constexpr size_t kMaxCells = 64;  // a side
constexpr char kInk[] = "#222222";
constexpr char kFaint[] = "fill=\"#666666\"";
constexpr char kGrid[] = "#dddddd";
constexpr char kBar[] = "#8fb8de";
constexpr char kTheory[] = "#c1440e";

// Dark blue to yellow, about even to the eye: viridis at five places.
struct Rgb {
  int red, green, blue;
};
constexpr Rgb kHeat[] = {{0x44, 0x01, 0x54},
                         {0x3b, 0x52, 0x8b},
                         {0x21, 0x91, 0x8c},
                         {0x5e, 0xc9, 0x62},
                         {0xfd, 0xe7, 0x25}};

std::string HeatColor(double part) {
  const double at = std::clamp(part, 0.0, 1.0) * (std::size(kHeat) - 1);
  const size_t below = std::min<size_t>(static_cast<size_t>(at), std::size(kHeat) - 2);
  const double t = at - static_cast<double>(below);
  const auto mix = [t](int a, int b) { return static_cast<int>(std::lround(std::lerp(a, b, t))); };
  const Rgb& a = kHeat[below];
  const Rgb& b = kHeat[below + 1];
  return absl::StrFormat("#%02x%02x%02x", mix(a.red, b.red), mix(a.green, b.green),
                         mix(a.blue, b.blue));
}

// 1234567 -> "1,234,567"
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string Percent(double rate) { return absl::StrFormat("%.3g %%", 100 * rate); }

struct Box {
  double left, top, width, height;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

enum class Anchor { kStart, kMiddle, kEnd };

// The elements of a picture, in the order in which they are drawn.
class Canvas {
 public:
  void Text(double x, double y, int size, Anchor anchor, std::string_view text,
            std::string_view style = "") {
    constexpr const char* kNames[] = {"start", "middle", "end"};
    absl::StrAppendFormat(&body_,
                          "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\"%s%s>%s"
                          "</text>\n",
                          x, y, size, kNames[static_cast<int>(anchor)], style.empty() ? "" : " ",
                          style, XmlText(text));
  }
  void Line(double x1, double y1, double x2, double y2, std::string_view color,
            std::string_view style = "") {
    absl::StrAppendFormat(
        &body_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s%s/>\n", x1,
        y1, x2, y2, color, style.empty() ? "" : " ", style);
  }
  void Rect(const Box& box, std::string_view style) {
    absl::StrAppendFormat(&body_,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n",
                          box.left, box.top, box.width, box.height, style);
  }
  void Circle(double x, double y, double radius, std::string_view style) {
    absl::StrAppendFormat(&body_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" %s/>\n", x, y, radius,
                          style);
  }
  void Polyline(const std::vector<std::pair<double, double>>& points, std::string_view style) {
    body_ += "<polyline fill=\"none\" points=\"";
    for (const auto& [x, y] : points) absl::StrAppendFormat(&body_, "%.1f,%.1f ", x, y);
    absl::StrAppendFormat(&body_, "\" %s/>\n", style);
  }
  void Raw(std::string_view xml) { body_ += xml; }

  std::string Finish(double height, std::string_view title, const std::string& metadata) const {
    return absl::StrFormat(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" height=\"%.0f\" "
        "viewBox=\"0 0 1000 %.0f\" font-family=\"'DejaVu Sans', Helvetica, Arial, sans-serif\" "
        "fill=\"%s\">\n<title>%s</title>\n<metadata>%s</metadata>\n"
        "<rect width=\"1000\" height=\"%.0f\" fill=\"#ffffff\"/>\n%s</svg>\n",
        height, height, kInk, XmlText(title), XmlText(metadata), height, body_);
  }

 private:
  std::string body_;
};

// 1, 2 or 5 times a power of ten, so that about `count` steps fill range.
double NiceStep(double range, double count) {
  const double rough = range / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

// --- the heat map

void DrawHeatMap(Canvas* canvas, const Box& box, const std::vector<int>& block_bits, int bits) {
  const HeatMap map = MakeHeatMap(block_bits, bits);
  const auto [least, most] = std::minmax_element(map.fill.begin(), map.fill.end());
  // A scale narrower than two points would make noise look like damage.
  const double middle = (*least + *most) / 2;
  const double half = std::max(0.01, (*most - *least) / 2);
  const double low = std::max(0.0, middle - half);
  const double high = std::min(1.0, middle + half);

  canvas->Text(box.left, box.top - 30, 16, Anchor::kStart, "Fill of the blocks",
               "font-weight=\"bold\"");
  canvas->Text(box.left, box.top - 11, 13, Anchor::kStart,
               absl::StrFormat("from the top left, row by row; a cell is %s",
                               map.blocks_per_cell == 1
                                   ? "one block"
                                   : "the mean of " + Grouped(map.blocks_per_cell) + " blocks"),
               kFaint);
  const double side = box.width / static_cast<double>(map.columns);
  // One path a shade: thousands of rectangles would make a file ten times as large.
  constexpr int kShades = 48;
  std::vector<std::string> shades(kShades + 1);
  for (size_t i = 0; i < map.fill.size(); ++i) {
    const double part = (map.fill[i] - low) / (high - low);
    std::string& path =
        shades[static_cast<size_t>(std::lround(std::clamp(part, 0.0, 1.0) * kShades))];
    absl::StrAppendFormat(&path, "M%.2f %.2fh%.2fv%.2fh-%.2fz",
                          box.left + static_cast<double>(i % map.columns) * side,
                          box.top + static_cast<double>(i / map.columns) * side, side, side, side);
  }
  canvas->Raw("<g id=\"heatmap\" shape-rendering=\"crispEdges\">\n");
  for (int i = 0; i <= kShades; ++i) {
    const std::string& path = shades[static_cast<size_t>(i)];
    if (path.empty()) continue;
    canvas->Raw(absl::StrFormat("<path fill=\"%s\" d=\"%s\"/>\n",
                                HeatColor(static_cast<double>(i) / kShades), path));
  }
  canvas->Raw("</g>\n");

  const Box scale{box.left, box.bottom() + 14, box.width, 14};
  constexpr int kSteps = 60;
  for (int i = 0; i < kSteps; ++i) {
    canvas->Rect({scale.left + scale.width * i / kSteps, scale.top, scale.width / kSteps + 0.5,
                  scale.height},
                 absl::StrFormat("fill=\"%s\"", HeatColor((i + 0.5) / kSteps)));
  }
  const double at = scale.bottom() + 18;
  canvas->Text(scale.left, at, 13, Anchor::kStart, absl::StrFormat("%.1f %%", 100 * low));
  canvas->Text(scale.left + scale.width / 2, at, 13, Anchor::kMiddle,
               absl::StrFormat("%.1f %% of a cell's bits set", 50 * (low + high)));
  canvas->Text(scale.right(), at, 13, Anchor::kEnd, absl::StrFormat("%.1f %%", 100 * high));
}

// --- the histogram

struct Bins {
  int first = 0;  // bits of the first bin
  int width = 1;
  std::vector<double> table;   // share of all blocks
  std::vector<double> theory;  // the same, predicted
};

Bins MakeBins(const std::vector<int>& block_bits, const std::vector<double>& theory) {
  const auto [least, most] = std::minmax_element(block_bits.begin(), block_bits.end());
  int low = *least;
  int high = *most;
  const double peak = *std::max_element(theory.begin(), theory.end());
  for (size_t s = 0; s < theory.size(); ++s) {
    if (theory[s] < peak * 0.002) continue;
    low = std::min(low, static_cast<int>(s));
    high = std::max(high, static_cast<int>(s));
  }
  Bins bins;
  bins.width = std::max(1, (high - low + 1 + 47) / 48);
  bins.first = low / bins.width * bins.width;
  const size_t count = static_cast<size_t>((high - bins.first) / bins.width) + 1;
  bins.table.resize(count);
  bins.theory.resize(count);
  const auto bin = [&](int bits) { return static_cast<size_t>((bits - bins.first) / bins.width); };
  for (const int bits : block_bits) {
    bins.table[bin(bits)] += 1.0 / static_cast<double>(block_bits.size());
  }
  for (int s = bins.first; s <= high && s < static_cast<int>(theory.size()); ++s) {
    bins.theory[bin(s)] += theory[static_cast<size_t>(s)];
  }
  return bins;
}

// The part of the histogram's height that the legend leaves.
constexpr double kLegendFree = 0.88;

void DrawHistogramAxes(Canvas* canvas, const Box& plot, const Bins& bins, double top, int bits) {
  const double step = NiceStep(top * 100, 5);
  for (double tick = 0; tick <= top * 100 * kLegendFree; tick += step) {
    const double y = plot.bottom() - plot.height * tick / 100 / top;
    canvas->Line(plot.left, y, plot.right(), y, kGrid);
    canvas->Text(plot.left - 6, y + 4, 13, Anchor::kEnd, absl::StrFormat("%.3g %%", tick));
  }
  const double range = static_cast<double>(bins.table.size()) * bins.width;
  const double x_step = std::max(1.0, NiceStep(range, 6));
  for (double tick = std::ceil(bins.first / x_step) * x_step; tick < bins.first + range;
       tick += x_step) {
    const double x = plot.left + plot.width * (tick + 0.5 - bins.first) / range;
    canvas->Line(x, plot.bottom(), x, plot.bottom() + 5, kInk);
    canvas->Text(x, plot.bottom() + 20, 13, Anchor::kMiddle, absl::StrFormat("%.0f", tick));
  }
  canvas->Line(plot.left, plot.bottom(), plot.right(), plot.bottom(), kInk);
  canvas->Text(plot.left + plot.width / 2, plot.bottom() + 40, 13, Anchor::kMiddle,
               absl::StrFormat("bits set in a block, of %d%s", bits,
                               bins.width == 1 ? std::string()
                                               : absl::StrFormat(" (%d to a bar)", bins.width)));
}

void DrawHistogram(Canvas* canvas, const Box& plot, const FilterReport& report,
                   const std::vector<int>& block_bits, int bits) {
  const bool dense = report.filter_kind == kDenseBlockedBloomKind;
  const double mean_keys =
      static_cast<double>(report.keys) / static_cast<double>(block_bits.size());
  const Bins bins =
      MakeBins(block_bits, dense ? DenseSetBitsDistribution(mean_keys, report.probes)
                                 : SetBitsDistribution(mean_keys, report.probes, bits));
  // Room above for the legend.
  const double top = 1.3 * std::max(*std::max_element(bins.table.begin(), bins.table.end()),
                                    *std::max_element(bins.theory.begin(), bins.theory.end()));
  canvas->Text(plot.left - 46, plot.top - 30, 16, Anchor::kStart, "Bits set in a block",
               "font-weight=\"bold\"");
  canvas->Text(plot.left - 46, plot.top - 11, 13, Anchor::kStart,
               absl::StrFormat("share of the %s blocks; %.1f keys a block, %d probes a key",
                               Grouped(block_bits.size()), mean_keys, report.probes),
               kFaint);
  DrawHistogramAxes(canvas, plot, bins, top, bits);
  const double width = plot.width / static_cast<double>(bins.table.size());
  std::vector<std::pair<double, double>> curve;
  canvas->Raw("<g id=\"histogram\">\n");
  for (size_t i = 0; i < bins.table.size(); ++i) {
    const double x = plot.left + static_cast<double>(i) * width;
    const double height = plot.height * bins.table[i] / top;
    curve.emplace_back(x + width / 2, plot.bottom() - plot.height * bins.theory[i] / top);
    if (bins.table[i] == 0) continue;
    canvas->Rect({x + width * 0.06, plot.bottom() - height, width * 0.88, height},
                 absl::StrFormat("fill=\"%s\"", kBar));
  }
  canvas->Raw("</g>\n");
  if (curve.size() == 1) curve = {{plot.left, curve[0].second}, {plot.right(), curve[0].second}};
  canvas->Polyline(curve,
                   absl::StrFormat("id=\"theory\" stroke=\"%s\" stroke-width=\"2\"", kTheory));
  canvas->Rect({plot.left + 10, plot.top + 2, 14, 12}, absl::StrFormat("fill=\"%s\"", kBar));
  canvas->Text(plot.left + 32, plot.top + 13, 13, Anchor::kStart, "this table");
  canvas->Line(plot.left + 10, plot.top + 28, plot.left + 24, plot.top + 28, kTheory,
               "stroke-width=\"2\"");
  canvas->Text(
      plot.left + 32, plot.top + 33, 13, Anchor::kStart,
      dense ? "the same load of random keys, simulated" : "theory: Poisson loads, random bits");
}

// --- the rates

struct CurveStyle {
  uint8_t kind;
  const char* color;
};
constexpr CurveStyle kCurveStyles[] = {
    {kBlockedBloomKind, "#1f77b4"}, {kDenseBlockedBloomKind, "#2ca02c"}, {kBloomKind, "#9467bd"},
    {kRibbonKind, "#e08214"},       {kBinaryFuseKind, "#8c564b"},        {0, "#888888"}};

const char* CurveColor(uint8_t kind) {
  for (const CurveStyle& style : kCurveStyles) {
    if (style.kind == kind) return style.color;
  }
  return kInk;
}

// Bits per key along, rates by powers of ten down.
class RatePlot {
 public:
  static constexpr double kFirstBits = 4;
  static constexpr double kLastBits = 24;
  static constexpr double kDecades = 6;  // 100 % to 0.0001 %

  RatePlot(Canvas* canvas, const Box& box) : canvas_(canvas), box_(box) {}

  void Draw(const FilterReport& report) {
    canvas_->Text(50, box_.top - 20, 16, Anchor::kStart, "False positives over bits per key",
                  "font-weight=\"bold\"");
    DrawAxes();
    const std::vector<RateCurve> curves = RateCurves(kFirstBits, kLastBits);
    for (const RateCurve& curve : curves) DrawCurve(curve, curve.kind == report.filter_kind);
    DrawPoint(report);
    DrawLegend(curves, report);
  }

 private:
  double X(double bits) const {
    return box_.left + box_.width * (bits - kFirstBits) / (kLastBits - kFirstBits);
  }
  double Y(double fpr) const { return box_.top - box_.height * std::log10(fpr) / kDecades; }

  void DrawAxes() {
    for (int decade = 0; decade <= static_cast<int>(kDecades); ++decade) {
      const double rate = std::pow(10, -decade);
      canvas_->Line(box_.left, Y(rate), box_.right(), Y(rate), kGrid);
      canvas_->Text(box_.left - 8, Y(rate) + 4, 13, Anchor::kEnd,
                    absl::StrFormat("%.*f %%", std::max(0, decade - 2), 100 * rate));
    }
    for (double bits = kFirstBits; bits <= kLastBits; bits += 2) {
      canvas_->Line(X(bits), box_.top, X(bits), box_.bottom(), kGrid);
      canvas_->Text(X(bits), box_.bottom() + 20, 13, Anchor::kMiddle,
                    absl::StrFormat("%.0f", bits));
    }
    canvas_->Line(box_.left, box_.bottom(), box_.right(), box_.bottom(), kInk);
    canvas_->Line(box_.left, box_.top, box_.left, box_.bottom(), kInk);
    canvas_->Text(box_.left + box_.width / 2, box_.bottom() + 42, 13, Anchor::kMiddle,
                  "bits per key, all of the filter's bytes counted");
    canvas_->Text(22, box_.top + box_.height / 2, 13, Anchor::kMiddle,
                  "absent keys that get a \"maybe\"",
                  absl::StrFormat("transform=\"rotate(-90 22 %.1f)\"", box_.top + box_.height / 2));
  }

  static std::string Stroke(const RateCurve& curve, bool own) {
    return absl::StrFormat("stroke=\"%s\" stroke-width=\"%s\"%s", CurveColor(curve.kind),
                           own ? "3.5" : "1.5", curve.kind == 0 ? " stroke-dasharray=\"5 4\"" : "");
  }

  void DrawCurve(const RateCurve& curve, bool own) {
    if (curve.points.size() == 1)
      return Diamond(X(curve.points[0].bits_per_key), Y(curve.points[0].fpr),
                     CurveColor(curve.kind));
    std::vector<std::pair<double, double>> points;
    const double least = std::pow(10, -kDecades);
    for (const RatePoint& point : curve.points) {
      if (point.fpr < least) break;
      points.emplace_back(X(point.bits_per_key), Y(point.fpr));
    }
    canvas_->Polyline(
        points, absl::StrFormat("class=\"rate%s\" %s", own ? " own" : "", Stroke(curve, own)));
  }

  void Diamond(double x, double y, const char* color) {
    canvas_->Raw(absl::StrFormat(
        "<path class=\"rate\" fill=\"%s\" d=\"M%.1f %.1fl6 6l-6 6l-6 -6z\"/>\n", color, x, y - 6));
  }

  // At the edge where it lies beyond the axes; the legend has its figures then too.
  void DrawPoint(const FilterReport& report) {
    const double x = X(std::clamp(report.bits_per_key_used, kFirstBits, kLastBits));
    const double y = Y(std::clamp(report.expected_fpr, std::pow(10, -kDecades), 1.0));
    canvas_->Line(box_.left, y, x, y, kTheory, "stroke-dasharray=\"2 3\"");
    canvas_->Line(x, y, x, box_.bottom(), kTheory, "stroke-dasharray=\"2 3\"");
    canvas_->Circle(
        x, y, 7,
        absl::StrFormat("id=\"point\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"2\"", kTheory));
  }

  void DrawLegend(const std::vector<RateCurve>& curves, const FilterReport& report) {
    constexpr double kRow = 21;
    const double rows = static_cast<double>(curves.size()) + 1;
    const bool beyond = report.bits_per_key_used < kFirstBits ||
                        report.bits_per_key_used > kLastBits ||
                        report.expected_fpr < std::pow(10, -kDecades);
    const Box box{box_.right() - 372, box_.top + 8, 364, rows * kRow + 12};
    canvas_->Rect(box, "fill=\"#ffffff\" fill-opacity=\"0.9\" stroke=\"#cccccc\"");
    double y = box.top + 20;
    canvas_->Circle(box.left + 24, y - 4, 7, absl::StrFormat("fill=\"%s\"", kTheory));
    canvas_->Text(box.left + 48, y, 13, Anchor::kStart,
                  absl::StrFormat("this table: %.2f bits, %s%s", report.bits_per_key_used,
                                  Percent(report.expected_fpr), beyond ? " (beyond the axes)" : ""),
                  "font-weight=\"bold\"");
    for (const RateCurve& curve : curves) {
      y += kRow;
      const bool own = curve.kind == report.filter_kind;
      if (curve.points.size() == 1) {
        Diamond(box.left + 24, y - 4, CurveColor(curve.kind));
      } else {
        canvas_->Line(box.left + 8, y - 4, box.left + 40, y - 4, CurveColor(curve.kind),
                      absl::StrFormat("stroke-width=\"%s\"%s", own ? "3.5" : "1.5",
                                      curve.kind == 0 ? " stroke-dasharray=\"5 4\"" : ""));
      }
      canvas_->Text(box.left + 48, y, 13, Anchor::kStart,
                    own ? curve.name + ", this table's kind" : curve.name);
    }
  }

  Canvas* const canvas_;
  const Box box_;
};

std::string Metadata(std::string_view file, const FilterReport& r) {
  const nlohmann::ordered_json json = {{"file", Escape(file)},
                                       {"kind", Escape(r.kind)},
                                       {"keys", r.keys},
                                       {"bytes", r.bytes},
                                       {"blocks", r.blocks},
                                       {"probes", r.probes},
                                       {"bits_per_key_used", r.bits_per_key_used},
                                       {"fill_ratio", r.fill_ratio},
                                       {"block_bits_min", r.block_bits_min},
                                       {"block_bits_median", r.block_bits_median},
                                       {"block_bits_max", r.block_bits_max},
                                       {"expected_fpr", r.expected_fpr}};
  return json.dump();
}

}  // namespace

std::string XmlText(std::string_view text) {
  std::string xml;
  for (const char c : text) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '"':
        xml += "&quot;";
        break;
      default:
        xml += c;
    }
  }
  return xml;
}

HeatMap MakeHeatMap(const std::vector<int>& block_bits, int bits_per_block) {
  HeatMap map;
  const uint64_t blocks = block_bits.size();
  map.blocks_per_cell = (blocks + kMaxCells * kMaxCells - 1) / (kMaxCells * kMaxCells);
  const uint64_t cells = (blocks + map.blocks_per_cell - 1) / map.blocks_per_cell;
  map.columns = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(cells))));
  for (uint64_t first = 0; first < blocks; first += map.blocks_per_cell) {
    const uint64_t end = std::min(blocks, first + map.blocks_per_cell);
    uint64_t set = 0;
    for (uint64_t i = first; i < end; ++i) set += static_cast<uint64_t>(block_bits[i]);
    map.fill.push_back(static_cast<double>(set) /
                       (static_cast<double>(end - first) * bits_per_block));
  }
  return map;
}

std::string DrawFilter(std::string_view file, const FilterReport& report,
                       const std::vector<int>& block_bits) {
  Canvas canvas;
  std::string name = Escape(file.substr(file.rfind('/') + 1));
  if (name.size() > 60) name = name.substr(0, 28) + "..." + name.substr(name.size() - 29);
  canvas.Text(50, 40, 22, Anchor::kStart, "Filter of " + name, "font-weight=\"bold\"");
  canvas.Text(
      50, 64, 14, Anchor::kStart,
      absl::StrFormat("%s: %s keys in %s bytes, %.2f bits per key", Escape(report.kind),
                      Grouped(report.keys), Grouped(report.bytes), report.bits_per_key_used));
  canvas.Text(50, 84, 14, Anchor::kStart,
              absl::StrFormat("%s of its bits are set; %s false positives are expected",
                              Percent(report.fill_ratio), Percent(report.expected_fpr)));
  double top = 150;
  if (block_bits.empty()) {
    canvas.Rect({50, 108, 900, 40}, "fill=\"#f3f3f3\" stroke=\"#cccccc\"");
    canvas.Text(66, 133, 14, Anchor::kStart,
                "This kind of filter has no blocks: there is no fill of blocks and no histogram to "
                "draw.",
                "id=\"noblocks\"");
    top = 210;
  } else {
    const int bits = static_cast<int>(report.bits_per_block);
    DrawHeatMap(&canvas, {50, top, 390, 390}, block_bits, bits);
    DrawHistogram(&canvas, {540, top, 420, 390}, report, block_bits, bits);
    top += 390 + 110;
  }
  RatePlot(&canvas, {110, top, 850, 370}).Draw(report);
  return canvas.Finish(top + 370 + 60, "Filter of " + name, Metadata(file, report));
}

}  // namespace sievedb
