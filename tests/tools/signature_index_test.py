#!/usr/bin/env python3
"""Drives signature_index.

    signature_index_test.py DIRECTORY     where the program is
"""

import examples_testing

SMALL = ("--rows=5000", "--columns=4", "--values=50", "--rows_per_page=16")


def without_times(report):
    for group in report["groups"]:
        del group["seconds"], group["scan_seconds"]
    return report


class SignatureIndexTest(examples_testing.ExampleTest):
    program = "signature_index"

    def shoes(self):
        """Rows over the columns color, size and make, and the file that they are in."""
        rows = [("color%d" % (i % 7), "%d" % (i * i % 11), "make%d" % (i // 40), )
                for i in range(1000)]
        rows.append(("", "", "odd \xe9"))
        text = "color\tsize\tmake\n" + "".join("\t".join(row) + "\n" for row in rows)
        return rows, self.write("shoes.tsv", text.encode())

    def test_queries_of_a_file_find_what_a_loop_finds(self):
        rows, file = self.shoes()
        names = ["color", "size", "make"]
        queries = [{"color": "color3"}, {"size": "4", "make": "make5"},
                   {"color": "color1", "size": "9", "make": "make0"}, {"color": "none"},
                   {"color": "color1", "size": "none"}, {"size": ""}, {"make": "odd \xe9"}]
        for layout in ["sliced", "pages"]:
            for page in ["1", "20", "64", "5000"]:
                for query in queries:
                    report = self.json("--tsv=" + file, "--layout=" + layout, "--check",
                                       "--rows_per_page=" + page, "--limit=0",
                                       *[f"{name}={value}" for name, value in query.items()])
                    want = [row for row in rows
                            if all(row[names.index(n)] == v for n, v in query.items())]
                    self.assertEqual(report["found"], ["\t".join(row) for row in want])
                    group = report["groups"][0]
                    self.assertEqual(group["matches"], len(want))
                    self.assertEqual(group["pages_read"], group["pages_matching"] +
                                     group["pages_apart"] + group["pages_false"])

    def test_pages_without_the_tag_are_skipped(self):
        _, file = self.shoes()
        # A make's 40 rows are in at most 3 pages of 20.
        group = self.json("--tsv=" + file, "--rows_per_page=20", "--bits=24",
                          "make=make5")["groups"][0]
        self.assertEqual(group["pages"], 51)
        self.assertIn(group["pages_matching"], [2, 3])
        self.assertLessEqual(group["pages_read"], 4)

    def test_random_queries(self):
        for layout in ["sliced", "pages"]:
            report = self.json(*SMALL, "--queries=400", "--check", "--layout=" + layout,
                               "--bits=5")
            self.assertTrue(report["checked"])
            self.assertEqual([group["terms"] for group in report["groups"]], [1, 2, 3, 4])
            for group in report["groups"]:
                self.assertEqual(group["queries"], 100)
                # Half of the queries are of a row that is there.
                self.assertGreaterEqual(group["matches"], 50)
                self.assertEqual(group["pages_read"], group["pages_matching"] +
                                 group["pages_apart"] + group["pages_false"])
                # The pages of one query share its tags' luck: more than a fair draw's spread.
                expected = group["expected_false"]
                self.assertAlmostEqual(group["pages_false"], expected,
                                       delta=0.25 * expected + 6 * expected ** 0.5 + 2)
            reads = [group["pages_read"] for group in report["groups"]]
            self.assertEqual(reads, sorted(reads, reverse=True))
            self.assertLess(reads[3], reads[0] / 20)

    def test_more_bits_read_fewer_false_pages(self):
        false = [self.json(*SMALL, "--queries=100", "--bits=" + bits)["groups"][0]["pages_false"]
                 for bits in ["2", "6", "16"]]
        self.assertGreater(false[0], 2 * false[1])
        self.assertGreater(false[1], 2 * false[2])

    def test_follows_from_the_seed(self):
        first = without_times(self.json(*SMALL, "--seed=5"))
        self.assertEqual(first, without_times(self.json(*SMALL, "--seed=5")))
        self.assertNotEqual(first, without_times(self.json(*SMALL, "--seed=6")))

    def test_text_and_limit(self):
        _, file = self.shoes()
        text = self.ok("--tsv=" + file, "--limit=3", "--check", "color=color3")
        self.assertEqual(len([line for line in text.splitlines() if "\t" in line]), 3)
        self.assertTrue(text.startswith("color3\t"))
        self.assertIn("a full scan found the same rows for every query", text)
        self.assertRegex(self.ok(*SMALL, "--queries=4"), r"(?m)^ +4 +1 ")

    def test_no_rows(self):
        file = self.write("empty.tsv", b"a\tb\n")
        for layout in ["sliced", "pages"]:
            flags = ["--tsv=" + file, "--layout=" + layout, "--check"]
            self.assertEqual(self.json(*flags)["groups"], [])
            self.assertEqual(self.json(*flags, "a=x")["found"], [])
            self.ok(*flags, "a=x")

    def test_bad_input(self):
        self.fails(1, "--tsv=" + self.path("missing"))
        for text in [b"", b"a\ta\n", b"a\t\n"]:
            self.fails(1, "--tsv=" + self.write("bad.tsv", text))
        bad = self.write("bad.tsv", b"a\tb\nx\ty\nx\n")
        self.assertIn("line 3: expected 2 values, found 1", self.fails(1, "--tsv=" + bad))
        for arguments in [["c9=v"], ["c1"], ["=v"]]:
            self.fails(2, *SMALL, *arguments)
        for arguments in [["--bits=0"], ["--bits=100"], ["--layout=heap"], ["--rows=0"],
                          ["--rows_per_page=0"], ["--tsv=x", "--rows=5"], ["--no_such_flag"]]:
            self.fails(2, *arguments)
        self.assertIn("Usage: signature_index ", self.ok("--help"))
        with open("/dev/full", "w") as full:
            self.fails(1, *SMALL, stdout=full)


if __name__ == "__main__":
    examples_testing.main()
