#!/usr/bin/env python3
"""Draws what compare and db_bench measured, as SVG.

    bench/plot.py ratios compare.json out.svg
        SieveDB's rate over each peer's, workload by workload, on a logarithmic axis.
    bench/plot.py latency [--workload=NAME] FILE [FILE] out.svg
        Latencies over time, panels beside each other with the same axes: one for each engine of
        a file that compare --json wrote with --series_ms, one for each file that
        db_bench --json wrote with --stats_interval_ms.

Needs nothing but Python. Text and lines are readable on a light page and on a dark one.
"""

import argparse
import json
import math
import os
import sys
from xml.sax.saxutils import escape

TEXT = "#7d838c"  # as far from white as from black
GRID = "#7d838c"
COLORS = {"rocksdb": "#3b82c4", "leveldb": "#d9822b"}
NAMES = {"sievedb": "SieveDB", "rocksdb": "RocksDB", "leveldb": "LevelDB"}
# Of a point of a series: its name, what it is called and its colour.
LINES = [("p50_ns", "p50", "#3b82c4"), ("p99_ns", "p99", "#3a9d5d"),
         ("p999_ns", "p99.9", "#d9822b"), ("max_ns", "max", "#c8484f")]


class Problem(Exception):
    """What is wrong with the input, in one line."""


class Svg:
    def __init__(self):
        self.parts = []

    def text(self, x, y, text, anchor="start", size=12, weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}" font-weight="{weight}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, width=1.0, opacity=1.0):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{GRID}" stroke-width="{width}" stroke-opacity="{opacity}"/>')

    def bar(self, x, y, width, height, color, title):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                          f'height="{height:.1f}" fill="{color}"><title>{escape(title)}</title>'
                          "</rect>")

    def path(self, points, color):
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{corners}" fill="none" stroke="{color}" '
                          'stroke-width="1.5" stroke-linejoin="round"/>')

    def document(self, width, height):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
                f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
                f'font-family="Helvetica, Arial, sans-serif" fill="{TEXT}">\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def log_ticks(low, high, steps):
    """The numbers step * 10^n from low to high."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0 ** n for n in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low * 0.9999 <= tick <= high * 1.0001]


def log_limits(numbers, steps):
    """The closest such numbers around all of numbers."""
    low, high = min(numbers), max(numbers)
    ticks = log_ticks(low / 100, high * 100, steps)
    return (max(tick for tick in ticks if tick <= low * 1.0001),
            min(tick for tick in ticks if tick >= high * 0.9999))


def duration(nanos):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanos >= size * 0.9999:
            return f"{nanos / size:g} {unit}"
    return f"{nanos:g} ns"


def draw_ratios(document):
    rows = [(entry["cache"], entry["name"],
             {peer: ratio for peer, ratio in entry["ratio"].items() if ratio and ratio > 0})
            for entry in document["workloads"]]
    rows = [row for row in rows if row[2]]
    if not rows:
        raise Problem("no workload has a ratio: were RocksDB and LevelDB measured?")
    peers = sorted({peer for _, _, ratios in rows for peer in ratios}, reverse=True)
    numbers = [ratio for _, _, ratios in rows for ratio in ratios.values()]
    low, high = log_limits(numbers + [0.5, 2], (1, 2, 5))
    left, width, bar, top = 170.0, 520.0, 11.0, 66.0

    def x(ratio):
        return left + width * math.log(ratio / low) / math.log(high / low)

    svg = Svg()
    svg.text(left, 20, "SieveDB's rate over its peers'", size=15, weight="bold")
    for i, peer in enumerate(peers):
        svg.bar(left + 110 * i, 31, 11, 11, COLORS.get(peer, "#8a63b8"), peer)
        svg.text(left + 110 * i + 17, 41, "× " + NAMES.get(peer, peer))
    y = top
    for cache in dict.fromkeys(cache for cache, _, _ in rows):
        y += 20
        fits = "all fits the block cache" if cache == "all" else f"block cache of {cache}"
        svg.text(left - 8, y, fits, anchor="end", weight="bold", size=11)
        y += 8
        for _, name, ratios in (row for row in rows if row[0] == cache):
            svg.text(left - 8, y + (bar + 1) * len(peers) / 2 + 4, name, anchor="end")
            for peer in peers:
                if peer in ratios:
                    ratio = ratios[peer]
                    begin, end = sorted((x(1), x(ratio)))
                    svg.bar(begin, y, max(end - begin, 1), bar, COLORS.get(peer, "#8a63b8"),
                            f"{name}: {ratio:.2f} × {NAMES.get(peer, peer)}")
                    after = ratio >= 1
                    svg.text(end + 4 if after else begin - 4, y + bar - 1.5, f"{ratio:.2f}",
                             anchor="start" if after else "end", size=10)
                y += bar + 1
            y += 7
    for tick in log_ticks(low, high, (1, 2, 5)):
        svg.line(x(tick), top, x(tick), y, opacity=1.0 if tick == 1 else 0.25)
        svg.text(x(tick), top - 5, f"{tick:g}", anchor="middle", size=11)
    svg.text(x(1) - 8, y + 18, "← slower", anchor="end", size=11)
    svg.text(x(1) + 8, y + 18, "faster →", size=11)
    return svg.document(left + width + 50, y + 30)


def find_series(paths, wanted):
    """(workload, [(program, series)]) of the files."""
    found = {}
    for path in paths:
        for entry in read(path)["workloads"]:
            if "engines" in entry:
                panels = [(NAMES.get(name, name), entry["engines"][name].get("series"))
                          for name in sorted(entry["engines"], key=lambda name: (
                              list(NAMES).index(name) if name in NAMES else len(NAMES), name))]
            else:
                program = os.path.splitext(os.path.basename(path))[0]
                panels = [(program, entry.get("series"))]
            found.setdefault(entry["name"], []).extend(
                (program, series) for program, series in panels if series)
    found = {name: panels for name, panels in found.items() if panels}
    if wanted is not None:
        found = {name: panels for name, panels in found.items() if name == wanted}
    if not found:
        raise Problem("no workload has latencies over time" if wanted is None
                      else f"{wanted} has no latencies over time")
    return next(iter(found.items()))


def time_step(seconds):
    for step in (s * 10.0 ** n for n in range(-4, 6) for s in (1, 2, 5)):
        if seconds / step <= 5:
            return step
    return seconds


def draw_latency(workload, panels):
    numbers = [point[field] for _, series in panels for point in series
               for field, _, _ in LINES if point[field] > 0]
    seconds = max(series[-1]["end_seconds"] for _, series in panels)
    if not numbers or seconds <= 0:
        raise Problem(f"{workload} has no latencies over time")
    low, high = log_limits(numbers, (1,))
    if low == high:
        high = low * 10
    width, height, left, top, gap = 360.0, 260.0, 70.0, 84.0, 40.0
    svg = Svg()
    svg.text(left, 20, f"{workload}: latency over time", size=15, weight="bold")
    for i, (_, name, color) in enumerate(LINES):
        svg.bar(left + 75 * i, 36, 18, 3, color, name)
        svg.text(left + 75 * i + 23, 42, name)

    def y(nanos):
        return top + height * (1 - math.log(nanos / low) / math.log(high / low))

    for tick in log_ticks(low, high, (1,)):
        svg.text(left - 8, y(tick) + 4, duration(tick), anchor="end", size=11)
    step = time_step(seconds)
    for i, (program, series) in enumerate(panels):
        begin = left + i * (width + gap)
        svg.text(begin, top - 10, program, weight="bold")
        for tick in log_ticks(low, high, (1,)):
            svg.line(begin, y(tick), begin + width, y(tick), opacity=0.25)
        for n in range(int(seconds / step) + 1):
            at = begin + width * n * step / seconds
            svg.line(at, top, at, top + height, opacity=0.25)
            svg.text(at, top + height + 16, f"{n * step:g} s", anchor="middle", size=11)
        for field, _, color in LINES:
            svg.path([(begin + width * point["end_seconds"] / seconds, y(point[field]))
                      for point in series if point[field] > 0], color)
    return svg.document(left + len(panels) * (width + gap) + 10, top + height + 30)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise Problem(f"{path}: {error}") from error
    if not isinstance(document, dict) or "workloads" not in document:
        raise Problem(f"{path}: neither of compare --json nor of db_bench --json")
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    ratios = kinds.add_parser("ratios")
    ratios.add_argument("file")
    ratios.add_argument("out")
    latency = kinds.add_parser("latency")
    latency.add_argument("--workload")
    latency.add_argument("files", nargs="+")
    latency.add_argument("out")
    arguments = parser.parse_args()
    try:
        if arguments.kind == "ratios":
            svg = draw_ratios(read(arguments.file))
        else:
            svg = draw_latency(*find_series(arguments.files, arguments.workload))
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(svg)
    except (Problem, OSError) as problem:
        print(f"plot.py: {problem}", file=sys.stderr)
        return 1
    except (KeyError, TypeError) as error:
        print(f"plot.py: the JSON is not as expected: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
