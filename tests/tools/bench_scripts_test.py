#!/usr/bin/env python3
"""The scripts of bench/: bench_scripts_test.py DIRECTORY_OF_PROGRAMS"""

import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = None


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


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop()
    unittest.main()
