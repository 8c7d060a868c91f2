#!/usr/bin/env python3
"""Drives dedup.

    dedup_test.py DIRECTORY     where the program is
"""

import json
import os
import shutil
import subprocess

import examples_testing

FILTER = "db/FILTER.dedup"


class DedupTest(examples_testing.ExampleTest):
    program = "dedup"

    def setUp(self):
        super().setUp()
        self.db = self.path("db")

    def dedup(self, *arguments, stdin=b""):
        """The lines that were printed, and the summary."""
        result = self.run_program("--db=" + self.db, "--json", *arguments, stdin=stdin)
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stderr)
        lines = result.stdout.split(b"\n")[:-1]
        if "--out" not in " ".join(arguments):
            self.assertEqual(len(lines), summary["unique"])
        self.assertEqual(summary["records"], summary["certainly_new"] + summary["maybes"])
        self.assertEqual(summary["unique"], summary["certainly_new"] + summary["false_maybes"])
        self.assertEqual(summary["disk_lookups_saved"], summary["certainly_new"])
        return lines, summary

    def test_first_of_each_line_in_order(self):
        lines = [b"%d" % (i * i % 997) for i in range(3000)] + [b"", b"\xff\x80", b"", b"a\tb"]
        text = b"\n".join(lines) + b"\nno newline"
        want = list(dict.fromkeys(lines + [b"no newline"]))
        self.assertEqual(self.dedup("-", stdin=text)[0], want)
        # From a file, with every size of batch, a tiny filter that must grow, and none.
        file = self.write("lines", text)
        for i, flags in enumerate([["--batch=1"], ["--batch=7"], ["--expected=1", "--fpr=0.3"],
                                   ["--nofilter"]]):
            self.db = self.path("db%d" % i)
            found, summary = self.dedup(file, *flags)
            self.assertEqual(found, want)
            self.assertEqual(summary["records"], len(lines) + 1)
        self.assertEqual(summary["certainly_new"], 0)  # --nofilter

    def test_goes_on_after_a_restart(self):
        _, first = self.dedup("-", stdin=b"a\nb\na\n")
        self.assertEqual((first["filter_from"], first["unique"]), ("new", 2))
        found, second = self.dedup("-", stdin=b"c\nb\nc\nd\n")
        self.assertEqual(found, [b"c", b"d"])
        self.assertEqual(second["filter_from"], "file")
        self.assertEqual(self.dedup("-", stdin=b"")[0], [])
        self.assertEqual(self.dedup("-", stdin=b"a\nb\nc\nd\n")[0], [])

    def test_filter_saves_the_lookups_of_new_lines(self):
        lines, summary = self.dedup("--num=20000", "--duplicates=0", "--expected=20000")
        self.assertEqual(len(set(lines)), 20000)
        self.assertLess(summary["false_maybes"], 0.015 * 20000)
        lines, summary = self.dedup("--num=20000", "--duplicates=0", "--expected=20000")
        self.assertEqual((lines, summary["certainly_new"], summary["maybes"]), ([], 0, 20000))

    def test_generated_lines(self):
        lines, summary = self.dedup("--num=10000", "--duplicates=0.75", "--seed=3")
        self.assertEqual(len(set(lines)), len(lines))
        self.assertAlmostEqual(len(lines), 2500, delta=260)  # six standard deviations
        shutil.rmtree(self.db)
        again, other = self.dedup("--num=10000", "--duplicates=0.75", "--seed=3")
        for report in summary, other:
            del report["seconds"]
        self.assertEqual((lines, summary), (again, other))
        self.assertEqual(len(self.dedup("--num=100", "--duplicates=0", "--seed=4")[0]), 100)

    def test_damaged_missing_or_stale_filter_is_built_again(self):
        rows = b"".join(b"row %d\n" % i for i in range(2000))
        self.dedup("-", stdin=rows)
        stale = self.read(FILTER)
        self.dedup("-", stdin=b"more\n")
        good = self.read(FILTER)
        rows += b"more\n"
        bad = [good[:0], good[:15], good[:-1], good + b"x", stale]
        for at in [0, len(good) // 2, len(good) - 60, len(good) - 16, len(good) - 1]:
            bad.append(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        for filter_bytes in bad:
            self.write(FILTER, filter_bytes)
            found, summary = self.dedup("-", stdin=rows)
            self.assertEqual((found, summary["filter_from"]), ([], "records"))
            self.assertIn("FILTER.dedup: ", summary["filter_problem"])
        os.remove(self.path(FILTER))
        found, summary = self.dedup("-", stdin=rows)
        self.assertEqual((found, summary["filter_from"]), ([], "records"))
        self.assertEqual(self.dedup("-", stdin=rows)[1]["filter_from"], "file")

    def test_filter_file_is_the_golden_one(self):
        rows = b"".join(b"row %d\n" % i for i in range(150)) + b"\n\xff\x80\n"
        arguments = ["--expected=100", "--fpr=0.01", "-"]  # it grows once
        self.dedup(*arguments, stdin=rows)
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                              "../data/golden/dedup_filter_v1.bin")
        with open(golden, "rb") as file:
            golden = file.read()
        self.assertEqual(self.read(FILTER), golden)
        self.write(FILTER, golden)
        found, summary = self.dedup(*arguments, stdin=rows + b"another\n")
        self.assertEqual((found, summary["filter_from"]), ([b"another"], "file"))

    def test_killed_run_loses_no_line(self):
        rows = [b"row %d" % i for i in range(2500)]
        self.dedup("-", stdin=b"before\n")
        process = subprocess.Popen(self.command("--db=" + self.db, "--batch=100", "-"),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        process.stdin.write(b"\n".join(rows) + b"\n")
        process.stdin.flush()
        printed = [process.stdout.readline() for _ in range(1000)]
        process.kill()
        printed += process.stdout.read().splitlines(keepends=True)
        process.stdin.close()
        process.stdout.close()
        process.wait()
        printed = [line[:-1] for line in printed if line.endswith(b"\n")]
        self.assertEqual(printed, rows[:len(printed)])
        found, summary = self.dedup("-", stdin=b"before\n" + b"\n".join(rows) + b"\n")
        self.assertEqual(summary["filter_from"], "records")
        # Only the last batch may come twice; nothing is left out.
        self.assertEqual(found, rows[len(rows) - len(found):])
        self.assertLessEqual(len(rows) - len(found), len(printed))
        self.assertGreaterEqual(len(rows) - len(found), len(printed) - 100)

    def test_out_file_is_appended_to(self):
        out = self.path("unique")
        self.dedup("-", "--out=" + out, stdin=b"a\nb\n")
        self.dedup("-", "--out=" + out, stdin=b"b\nc\n")
        self.assertEqual(self.read("unique"), b"a\nb\nc\n")

    def test_line_that_was_not_printed_is_not_remembered(self):
        with open("/dev/full", "w") as full:
            self.fails(1, "--db=" + self.db, "-", stdin=b"a\nb\n", stdout=full)
        self.assertEqual(self.dedup("-", stdin=b"a\nb\n")[0], [b"a", b"b"])

    def test_text_summary(self):
        result = self.run_program("--db=" + self.db, "-", stdin=b"a\nb\na\n")
        self.assertEqual(result.stdout, b"a\nb\n")
        self.assertRegex(result.stderr.decode(), r"\Arecords +3, of them unique 2, in ")
        self.write(FILTER, b"nonsense")
        result = self.run_program("--db=" + self.db, "-", stdin=b"a\n")
        self.assertIn("its file was of no use", result.stderr.decode())

    def test_bad_input(self):
        self.fails(1, "--db=" + self.db, self.path("missing"))
        self.assertFalse(os.path.exists(self.db))
        self.fails(1, "--db=" + self.path("missing/db"), "-")
        self.fails(1, "--db=" + self.db, "--out=" + self.path("missing/out"), "-")
        for arguments in [["-"], ["--db=x"], ["--db=x", "--num=1", "-"], ["--db=x", "a", "b"],
                          ["--db=x", "--num=few"], ["--db=x", "--duplicates=2", "--num=1"],
                          ["--db=x", "--fpr=0", "-"], ["--db=x", "--batch=0", "-"]]:
            self.fails(2, *arguments)
        self.assertIn("Usage: dedup ", self.ok("--help"))


if __name__ == "__main__":
    examples_testing.main()
