#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "util/clock.h"

namespace sievedb {
namespace {

constexpr uint64_t kDrawIntervalNanos = 200'000'000;
constexpr int kBarColumns = 24;
constexpr int kDefaultColumns = 80;

int TerminalColumns(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

bool IsVisible(std::FILE* stream, ProgressBar::Mode mode) {
  if (mode == ProgressBar::Mode::kOnTerminal) return isatty(fileno(stream)) == 1;
  return mode == ProgressBar::Mode::kAlways;
}

// 1234567 -> "1.2M": a rate is read at a glance, not to the last digit.
std::string ShortCount(double count) {
  if (count >= 1e9) return absl::StrFormat("%.1fG", count / 1e9);
  if (count >= 1e6) return absl::StrFormat("%.1fM", count / 1e6);
  if (count >= 1e4) return absl::StrFormat("%.1fk", count / 1e3);
  return absl::StrFormat("%.0f", count);
}

std::string ShortTime(double seconds) {
  const uint64_t whole = static_cast<uint64_t>(std::min(std::ceil(seconds), 359'999.0));
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::string_view label, uint64_t total, std::FILE* stream, Mode mode)
    : label_(label),
      total_(total),
      stream_(stream),
      visible_(IsVisible(stream, mode)),
      start_nanos_(NowNanos()),
      // Work that is over before the first interval shows no bar: no flicker.
      next_draw_nanos_(start_nanos_ + kDrawIntervalNanos) {}

void ProgressBar::Advance(uint64_t steps) {
  done_.fetch_add(steps, std::memory_order_relaxed);
  if (visible_) MaybeDraw();
}

void ProgressBar::Set(uint64_t done) {
  done_.store(done, std::memory_order_relaxed);
  if (visible_) MaybeDraw();
}

void ProgressBar::MaybeDraw() {
  const uint64_t now = NowNanos();
  uint64_t next = next_draw_nanos_.load(std::memory_order_relaxed);
  if (now < next) return;
  // Of the threads that come here at the same time, one draws.
  if (!next_draw_nanos_.compare_exchange_strong(next, now + kDrawIntervalNanos,
                                                std::memory_order_relaxed)) {
    return;
  }
  MutexLock lock(&mu_);
  if (finished_) return;
  const double seconds = static_cast<double>(now - start_nanos_) / 1e9;
  // The last column stays free: some terminals wrap when it is written.
  const std::string line = Render(label_, done(), total_, seconds, TerminalColumns(stream_) - 1);
  std::fprintf(stream_, "\r%s\x1b[K", line.c_str());
  std::fflush(stream_);
  drawn_ = true;
}

void ProgressBar::Finish() {
  MutexLock lock(&mu_);
  if (drawn_ && !finished_) {
    std::fputs("\r\x1b[K", stream_);
    std::fflush(stream_);
  }
  finished_ = true;
}

std::string ProgressBar::Render(std::string_view label, uint64_t done, uint64_t total,
                                double seconds, int width) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line;
  if (total == 0) {
    line = absl::StrFormat("%s  %d  %s/s  %s", label, done, ShortCount(rate), ShortTime(seconds));
  } else {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const size_t filled = static_cast<size_t>(share * kBarColumns);
    const std::string bar = std::string(filled, '#') + std::string(kBarColumns - filled, '.');
    line = absl::StrFormat("%s [%s] %3d%%  %s/s", label, bar,
                           static_cast<int>(std::floor(share * 100)), ShortCount(rate));
    if (rate > 0) {
      line += "  " + ShortTime(static_cast<double>(total - std::min(done, total)) / rate) + " left";
    }
  }
  if (line.size() > static_cast<size_t>(std::max(width, 0))) {
    line.resize(static_cast<size_t>(std::max(width, 0)));
  }
  return line;
}

}  // namespace sievedb
