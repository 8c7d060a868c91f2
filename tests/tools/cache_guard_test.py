#!/usr/bin/env python3
"""Drives cache_guard.

    cache_guard_test.py DIRECTORY     where the program is
"""

import examples_testing

SMALL = ("--ids=20000", "--days=2", "--lookups=30000")


def without_times(report):
    del report["filter"]["ready_seconds"]
    for day in [*report["days"], report["total"]]:
        del day["batched_per_s"], day["single_per_s"]
    return report


class CacheGuardTest(examples_testing.ExampleTest):
    program = "cache_guard"

    def test_every_filter_turns_away_what_is_absent_and_nothing_else(self):
        bits = {}
        for kind in ["blocked", "dense", "bloom", "ribbon", "fuse"]:
            report = self.json("--filter=" + kind, *SMALL)
            total = report["total"]
            self.assertEqual(len(report["days"]), 2)
            self.assertEqual(total["lookups"], 60000)
            self.assertEqual(report["filter"]["denied_ids"], 0)
            self.assertEqual(total["wrongly_turned_away"], 0)
            self.assertEqual(total["turned_away"], total["absent"] - total["false_positives"])
            # Six standard deviations of a fair draw.
            self.assertAlmostEqual(total["absent"] / 60000, 0.62, delta=0.012)
            expected = report["filter"]["expected_fpr"]
            self.assertAlmostEqual(expected, 1 / 256 if kind == "fuse" else 0.01, delta=0.0035)
            deviation = (expected / total["absent"]) ** 0.5
            self.assertAlmostEqual(total["fpr"], expected, delta=6 * deviation)
            self.assertLess(total["fpr_low"], total["fpr"])
            self.assertGreater(total["fpr_high"], total["fpr"])
            for name in ["batched_per_s", "single_per_s"]:
                self.assertGreater(total[name], 0)
            bits[kind] = report["filter"]["memory_bytes"] * 8 / 20000
        self.assertLess(bits["ribbon"], bits["dense"])
        self.assertLess(bits["dense"], bits["blocked"])
        self.assertLess(bits["blocked"], 10.5)

    def test_days_sum_up(self):
        report = self.json("--ids=1000", "--days=3", "--lookups=1001")
        for name in ["lookups", "absent", "turned_away", "false_positives"]:
            self.assertEqual(sum(day[name] for day in report["days"]), report["total"][name])

    def test_only_absent_and_only_present(self):
        total = self.json("--absent=1", *SMALL)["total"]
        self.assertEqual(total["absent"], total["lookups"])
        total = self.json("--absent=0", *SMALL)["total"]
        self.assertEqual((total["absent"], total["turned_away"]), (0, 0))
        self.assertEqual(self.json("--ids=1", "--days=1", "--lookups=1")["total"]["lookups"], 1)

    def test_follows_from_the_seed(self):
        first = without_times(self.json("--seed=7", *SMALL))
        self.assertEqual(first, without_times(self.json("--seed=7", *SMALL)))
        other = without_times(self.json("--seed=8", *SMALL))
        self.assertNotEqual(first["days"], other["days"])

    def test_text(self):
        text = self.ok(*SMALL)
        self.assertRegex(text, r"\A20000 ids in \d+\.\d MB \(\d+\.\d\d bits an id\), hashed")
        self.assertRegex(text, r"(?m)^1 +30000 .* (above|below|as expected) ")
        self.assertRegex(text, r"(?m)^all +60000 ")

    def test_saved_filter_gives_the_same_days(self):
        for kind in ["blocked", "dense", "bloom", "ribbon", "fuse"]:
            file = self.path("ids.filter")
            built = self.json("--filter=" + kind, "--save=" + file, *SMALL)
            loaded = self.json("--load=" + file, *SMALL)
            self.assertEqual(without_times(built)["days"], without_times(loaded)["days"])
            self.assertEqual(built["filter"]["expected_fpr"], loaded["filter"]["expected_fpr"])

    def test_filter_of_other_ids_is_found_out(self):
        file = self.path("ids.filter")
        self.ok("--save=" + file, *SMALL)
        result = self.run_program("--load=" + file, "--seed=2", *SMALL)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"denies \d+ of 20000 ids that are there")

    def test_damaged_filter(self):
        file = self.path("ids.filter")
        self.ok("--save=" + file, *SMALL)
        good = self.read("ids.filter")
        for at in [0, len(good) // 2, len(good) - 1]:
            bad = bytearray(good)
            bad[at] ^= 4
            self.assertIn("checksum", self.fails(1, "--load=" + self.write("bad", bad), *SMALL))
        for size in [0, 1, len(good) - 1]:
            self.fails(1, "--load=" + self.write("bad", good[:size]), *SMALL)

    def test_bad_input(self):
        self.fails(1, "--load=" + self.path("missing"), *SMALL)
        self.fails(1, "--load=" + self.work, *SMALL)
        self.fails(1, "--save=" + self.path("missing/filter"), *SMALL)
        for arguments in [["--ids=0"], ["--absent=1.5"], ["--fpr=0"], ["--filter=coffee"],
                          ["stray"], ["--lookups=many"], ["--load=x", "--save=y"],
                          ["--load=x", "--filter=bloom"], ["--filter=fuse", "--fpr=0.01"]]:
            self.fails(2, *arguments)
        self.assertIn("Usage: cache_guard ", self.ok("--help"))
        with open("/dev/full", "w") as full:
            self.fails(1, *SMALL, stdout=full)


if __name__ == "__main__":
    examples_testing.main()
