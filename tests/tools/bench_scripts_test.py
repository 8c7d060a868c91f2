#!/usr/bin/env python3
"""The scripts of bench/: bench_scripts_test.py DIRECTORY_OF_PROGRAMS"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = None
SVG = "{http://www.w3.org/2000/svg}"


def run(script, *arguments):
    return subprocess.run([sys.executable, "-B", os.path.join(ROOT, "bench", script), *arguments],
                          capture_output=True, text=True)


class ScalingTest(unittest.TestCase):
    def test_each_count_of_threads_is_measured(self):
        result = run("scaling.py", os.path.join(PROGRAMS, "db_bench"), "--threads=1,2,3",
                     "--num=2000", "--reads=1000", "--rounds=2")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(lines[0], ["workload", "threads", "ops/s", "scaling"])
        self.assertEqual([line[:2] for line in lines[1:]],
                         [[name, count] for name in ("readmissing", "readrandom")
                          for count in ("1", "2", "3")])
        for line in lines[1:]:
            self.assertGreater(float(line[2]), 0)
            self.assertEqual(line[3] == "1.00" or line[1] != "1", True)


class FilterKindsTest(unittest.TestCase):
    def test_each_kind_has_a_row_whose_sums_add_up(self):
        if shutil.which("valgrind") is None:
            self.skipTest("valgrind is not installed")
        program = os.path.join(PROGRAMS, "filter_kinds")
        # What a sanitizer or a debugger has changed is no figure.
        probe = subprocess.run(["valgrind", "--tool=none", program, "fuse", "10", "10", "10"],
                               capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest("the program does not run under valgrind")
        result = run("filter_kinds.py", program, "--keys=20000", "--lookups=20000")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in result.stdout.splitlines()]
        self.assertEqual([row[0] for row in rows],
                         ["filter", "---", "blocked", "dense", "ribbon", "ribbon", "fuse"])
        by_name = {row[0]: row for row in rows[2:]}
        # A count is the same on every machine but for the compiler: these are far apart.
        build = {name: float(row[3]) for name, row in by_name.items()}
        self.assertLess(build["blocked"], build["dense"])
        self.assertLess(build["blocked"], build["ribbon"])
        self.assertAlmostEqual(float(by_name["blocked"][1]), 10, delta=0.1)
        self.assertLess(float(by_name["fuse"][2].split()[0]), 0.6)
        for row in rows[2:]:
            rate, ask = float(row[2].split()[0]) / 100, float(row[4])
            self.assertAlmostEqual(float(row[5]), float(row[3]) + ask + rate * 1100, delta=2)
            self.assertAlmostEqual(float(row[6]), float(row[3]) + 10 * (ask + rate * 1100),
                                   delta=2)


class PlotTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, workloads):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"workloads": workloads}, file)
        return self.path(name)

    def plot(self, *arguments):
        out = self.path("out.svg")
        result = run("plot.py", *arguments, out)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return xml.etree.ElementTree.parse(out).getroot()

    def fails(self, reason, *arguments):
        result = run("plot.py", *arguments, self.path("none.svg"))
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(reason, result.stderr)
        self.assertFalse(os.path.exists(self.path("none.svg")))

    @staticmethod
    def texts(svg):
        return [element.text for element in svg.iter(SVG + "text")]

    @staticmethod
    def point(end, nanos):
        return {"end_seconds": end, "operations": 5, "ops_per_s": 5.0, "p50_ns": nanos,
                "p99_ns": 2 * nanos, "p999_ns": 3 * nanos, "max_ns": 1000 * nanos}

    def test_bars_are_as_long_as_the_logarithms(self):
        file = self.write("c.json", [
            {"name": "a<b", "cache": "all", "engines": {}, "ratio": {"rocksdb": 4.0, "leveldb": 2.0}},
            {"name": "slow", "cache": "64MiB", "engines": {}, "ratio": {"leveldb": 0.5}},
            {"name": "alone", "cache": "all", "engines": {}, "ratio": {}}])
        svg = self.plot("ratios", file)
        bars = {bar.find(SVG + "title").text: (float(bar.get("x")), float(bar.get("width")))
                for bar in svg.iter(SVG + "rect")}
        four = bars["a<b: 4.00 × RocksDB"]
        two = bars["a<b: 2.00 × LevelDB"]
        half = bars["slow: 0.50 × LevelDB"]
        self.assertAlmostEqual(four[1], 2 * two[1], delta=0.2)
        self.assertAlmostEqual(two[1], half[1], delta=0.2)
        self.assertEqual(four[0], two[0])  # at 1
        self.assertAlmostEqual(half[0] + half[1], two[0], delta=0.2)
        for text in ("a<b", "slow", "4.00", "0.50", "× RocksDB", "all fits the block cache",
                     "block cache of 64MiB", "1", "5"):
            self.assertIn(text, self.texts(svg))
        self.assertNotIn("alone", self.texts(svg))

    def test_programs_stand_beside_each_other_with_the_same_axes(self):
        slow = [self.point(1.0, 100), self.point(2.0, 100)]
        fast = [self.point(1.0, 10)]
        both = self.write("c.json", [
            {"name": "fillseq", "cache": "all", "ratio": {}, "engines": {"sievedb": {}}},
            {"name": "fillrandom", "cache": "all", "ratio": {},
             "engines": {"rocksdb": {"series": slow}, "sievedb": {"series": fast}}}])
        files = [self.write("old.json", [{"name": "fillrandom", "series": slow}]),
                 self.write("new.json", [{"name": "fillrandom", "series": fast}])]
        for arguments, names in (([both], ["SieveDB", "RocksDB"]), (files, ["old", "new"])):
            svg = self.plot("latency", "--workload=fillrandom", *arguments)
            texts = self.texts(svg)
            for text in names + ["fillrandom: latency over time", "p99.9", "10 ns", "100 µs", "2 s"]:
                self.assertIn(text, texts)
            lines = [[tuple(map(float, corner.split(",")))
                      for corner in line.get("points").split()]
                     for line in svg.iter(SVG + "polyline")]
            self.assertEqual(len(lines), 8)
            slow_line, fast_line = (lines[4], lines[0]) if arguments == [both] else (lines[0],
                                                                                     lines[4])
            self.assertEqual((len(slow_line), len(fast_line)), (2, 1))
            self.assertGreater(fast_line[0][1], slow_line[0][1])  # lower on the page
            # A decade: of p50 from 10 to 100 ns, as of its maximum.
            decade = fast_line[0][1] - slow_line[0][1]
            maximum = abs(lines[7][0][1] - lines[3][0][1])
            self.assertAlmostEqual(decade, maximum, delta=0.2)

    def test_db_bench_and_compare_are_understood(self):
        for program, arguments in (
                ("db_bench", ["--num=20000", "--benchmarks=fillrandom", "--stats_interval_ms=1",
                              "--json", "--db=" + self.path("db")]),
                ("compare", ["--num=2000", "--rounds=1", "--workloads=fillrandom", "--series_ms=1",
                             "--caches=all", "--db=" + self.directory,
                             "--json=" + self.path("compare.json")])):
            path = os.path.join(PROGRAMS, program)
            if not os.path.exists(path):
                self.skipTest(f"{program} was not built")
            result = subprocess.run([path, *arguments], check=True,
                                    capture_output=True, text=True)
            if program == "db_bench":
                with open(self.path("db_bench.json"), "w", encoding="utf-8") as file:
                    file.write(result.stdout)
            svg = self.plot("latency", self.path(program + ".json"))
            self.assertIn("fillrandom: latency over time", self.texts(svg))

    def test_what_cannot_be_drawn_is_said(self):
        empty = self.write("e.json", [{"name": "readseq", "cache": "all", "engines": {}, "ratio": {}}])
        self.fails("no workload has a ratio", "ratios", empty)
        self.fails("no workload has latencies", "latency", empty)
        self.fails("fillrandom has no latencies", "latency", "--workload=fillrandom", empty)
        self.fails("No such file", "ratios", self.path("none.json"))
        with open(self.path("bad.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.fails("bad.json", "ratios", self.path("bad.json"))
        self.fails("not as expected", "ratios", self.write("k.json", [{"name": "x"}]))


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop()
    unittest.main()
