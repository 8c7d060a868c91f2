#!/usr/bin/env python3
"""Drives sst_dump --command=filter over levels, pictures and audits.

    filter_cli_test.py DIRECTORY     where the programs are
"""

import json
import os
import re
import shutil
import sys
import unittest
import xml.etree.ElementTree

import tools_cli_test

SVG = "{http://www.w3.org/2000/svg}"


class FilterTest(tools_cli_test.ToolsTest):
    def make(self, name, *flags, num=20000):
        db = self.path(name)
        self.ok("db_bench", "--db=" + db, f"--num={num}", "--value_size=20",
                "--write_buffer_size=256K", *flags)
        return db

    def layered(self):
        """Two overlapping tables in level 0 above one in a deeper level."""
        db = self.path("layered")
        self.load(self.words(3000), db=db)
        self.sievedb("compact", db=db)
        for start in (1, 2):
            rows = {key + b"%d" % start: value for key, value in self.words(1000 * start).items()}
            self.load({**rows, b"a": b"", b"z": b""}, db=db)
        self.sievedb("put", "a", "1", db=db)  # opens again: the last load is in a table now
        return db

    def report(self, *arguments):
        """The reports of the tables, and what comes after them."""
        document = json.loads(self.dump("--command=filter", "--json", "--absent_keys=1000",
                                        *arguments))
        return ([entry for entry in document if "file" in entry],
                [entry for entry in document if "file" not in entry])

    def levels_in_manifest(self, db):
        """Tables and levels as the database itself tells them."""
        lines = self.sievedb("levels", db=db).decode().splitlines()
        rows = [re.findall(r"\d+", line) for line in lines]
        return {int(row[0]): int(row[1]) for row in rows if len(row) > 2 and int(row[1]) > 0}


class LevelsTest(FilterTest):
    def test_totals(self):
        db = self.layered()
        tables, (levels,) = self.report(db)
        self.assertEqual(levels["database"], db)
        self.assertEqual((levels["tables"], levels["manifest_tables"]),
                         (len(tables), len(tables)))
        total = 0
        for level in levels["levels"]:
            mine = [table for table in tables if table["level"] == level["level"]]
            keys = sum(table["keys"] for table in mine)
            rates = [table["expected_fpr"] for table in mine]
            self.assertEqual((level["tables"], level["keys"]), (len(mine), keys))
            self.assertEqual(level["filter_bytes"], sum(table["bytes"] for table in mine))
            self.assertAlmostEqual(level["bits_per_key"], 8 * level["filter_bytes"] / keys)
            mean = sum(table["keys"] * table["expected_fpr"] for table in mine) / keys
            self.assertAlmostEqual(level["expected_fpr"], mean)
            reads = sum(rates) if level["level"] == 0 else mean
            self.assertAlmostEqual(level["false_reads_per_absent_key"], reads)
            total += reads
        self.assertAlmostEqual(levels["false_reads_per_absent_key"], total)
        self.assertGreater(total, 0)
        self.assertEqual([level["tables"] for level in levels["levels"]], [2, 1])
        self.assertEqual([level["level"] == 0 for level in levels["levels"]], [True, False])
        self.assertEqual({level["level"]: level["tables"] for level in levels["levels"]},
                         self.levels_in_manifest(db))
        text = self.dump("--command=filter", "--absent_keys=0", db).decode()
        self.assertIn("levels of " + db, text)
        self.assertIn(f"reads {total:.6f} tables in vain", text)

    def test_prefixes(self):
        db = self.make("prefixes", "--benchmarks=fillseq,compact", "--prefix_size=14")
        tables, _ = self.report(db)
        # 16 digits of even numbers: one prefix for 50 of them, which may lie in two tables.
        prefixes = sum(table["prefixes"] for table in tables)
        self.assertLessEqual(400, prefixes)
        self.assertLess(prefixes, 400 + len(tables))
        self.assertEqual(sum(table["keys"] for table in tables), 20000 + prefixes)
        for table in tables:
            self.assertEqual(table["prefix_extractor"], "sievedb.FixedPrefix.14")
            self.assertEqual(table["present_keys_denied"], 0)
        self.assertIn(b"sievedb.FixedPrefix.14", self.dump("--command=filter", db))
        properties = json.loads(self.dump("--command=properties", "--json", db))
        self.assertEqual(sum(table["prefixes"] for table in properties), prefixes)
        self.assertEqual({table["prefix_extractor"] for table in properties},
                         {"sievedb.FixedPrefix.14"})
        self.assertNotIn("0" * 16, {table["hash_seed"] for table in properties})
        # Without one there is no line of it.
        db = self.make("none", "--benchmarks=fillseq")
        self.assertNotIn(b"refix", self.dump("--command=filter", db))

    def test_which_tables(self):
        db = self.layered()
        tables, _ = self.report(db)
        self.assertGreater(len(tables), 2)
        # One table has no sum; some of a database have one of what is there.
        one, rest = self.report(tables[0]["file"])
        self.assertEqual((len(one), rest, one[0]["level"]), (1, [], "-"))
        self.assertEqual(self.report("--key=0", db)[1], [])
        _, (levels,) = self.report(tables[0]["file"], tables[1]["file"])
        self.assertEqual((levels["tables"], levels["manifest_tables"]), (2, len(tables)))
        # A file that the MANIFEST does not have is not read by lookups.
        shutil.copy(tables[0]["file"], os.path.join(db, "900000.sst"))
        _, (with_copy,) = self.report(db)
        self.assertEqual(with_copy["levels"][-1]["level"], "unlisted")
        self.assertEqual(with_copy["levels"][-1]["false_reads_per_absent_key"], 0)

    def test_without_a_database(self):
        db = self.layered()
        loose = self.path("loose")
        os.mkdir(loose)
        for name in os.listdir(db):
            if name.endswith(".sst"):
                shutil.copy(os.path.join(db, name), loose)
        tables, (levels,) = self.report(loose)
        self.assertIsNone(levels["database"])
        self.assertEqual([level["level"] for level in levels["levels"]], ["-"])
        self.assertAlmostEqual(levels["false_reads_per_absent_key"],
                               sum(table["expected_fpr"] for table in tables))

    def test_a_damaged_manifest(self):
        db = self.layered()
        with open(os.path.join(db, "CURRENT"), "w", encoding="ascii") as file:
            file.write("nonsense\n")
        message = self.fails(1, "sst_dump", "--command=filter", "--absent_keys=0", db)
        self.assertIn("levels are not known", message)
        self.assertIn("CURRENT", message)


class SvgTest(FilterTest):
    def draw(self, *arguments):
        """The report of the table that was drawn, and the picture."""
        path = self.path("picture.svg")
        tables, _ = self.report("--svg=" + path, *arguments)
        picture = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual(picture.tag, SVG + "svg")
        self.assertEqual(picture.get("width"), "1000")
        figures = json.loads(picture.find(SVG + "metadata").text)
        (table,) = [table for table in tables if table["file"] == figures["file"]]
        self.assertEqual(table["bytes"], max(table["bytes"] for table in tables))
        for name, value in figures.items():
            if isinstance(value, float):
                self.assertAlmostEqual(value, table[name], msg=name)
            else:
                self.assertEqual(value, table[name], name)
        return table, picture

    def check_point(self, table, picture):
        (circle,) = [c for c in picture.iter(SVG + "circle") if c.get("id") == "point"]
        # 850 pixels for 4 to 24 bits, from 110 on.
        bits = 4 + (float(circle.get("cx")) - 110) / 850 * 20
        self.assertAlmostEqual(bits, min(table["bits_per_key_used"], 24), delta=0.01)
        texts = [text.text for text in picture.iter(SVG + "text")]
        self.assertTrue(any(f"this table: {table['bits_per_key_used']:.2f} bits" in text
                            for text in texts), texts)
        ticks = {text.text: float(text.get("y")) - 4 for text in picture.iter(SVG + "text")
                 if text.get("text-anchor") == "end"}
        decade = ticks["0.0001 %"] - ticks["0.001 %"]
        rate = 10 ** ((ticks["1 %"] - float(circle.get("cy"))) / decade) / 100
        self.assertAlmostEqual(rate / table["expected_fpr"], 1, delta=0.02)

    def test_every_kind(self):
        for kind, has_blocks in (("blocked", True), ("dense", True), ("bloom", False),
                                 ("ribbon", False), ("fuse", False)):
            db = self.make(kind, "--benchmarks=fillrandom", "--filter=" + kind)
            table, picture = self.draw(db)
            groups = {group.get("id"): group for group in picture.iter(SVG + "g")}
            lines = {line.get("id"): line for line in picture.iter(SVG + "polyline")}
            self.assertEqual("heatmap" in groups, has_blocks, kind)
            self.assertEqual("histogram" in groups, has_blocks, kind)
            self.assertEqual("theory" in lines, has_blocks, kind)
            self.assertEqual(any("has no blocks" in (text.text or "")
                                 for text in picture.iter(SVG + "text")), not has_blocks, kind)
            self.check_point(table, picture)
            if has_blocks:
                cells = sum(path.get("d").count("M") for path in groups["heatmap"])
                self.assertEqual(cells, min(table["blocks"], 4096))
            own = [line for line in picture.iter(SVG + "polyline")
                   if line.get("class") == "rate own"]
            self.assertEqual(len(own), 0 if kind == "fuse" else 1, kind)

    def test_nothing_to_draw(self):
        db = self.make("none", "--benchmarks=fillrandom", "--bloom_bits=0")
        path = self.path("picture.svg")
        arguments = ("--command=filter", "--absent_keys=0", "--svg=" + path, db)
        self.assertIn("no table has a filter", self.fails(1, "sst_dump", *arguments))
        self.assertFalse(os.path.exists(path))

    def test_a_picture_that_cannot_be_written(self):
        db = self.make("db", "--benchmarks=fillrandom")
        message = self.fails(1, "sst_dump", "--command=filter", "--absent_keys=0",
                             "--svg=" + self.path("nowhere/x.svg"), db)
        self.assertIn("nowhere/x.svg", message)


class AuditTest(FilterTest):
    def setUp(self):
        super().setUp()
        self.rows = self.words(3000)
        self.load(self.rows)
        self.sievedb("compact")

    def keys(self, lines):
        path = self.path("keys")
        with open(path, "wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
        return path

    def audit(self, lines, *flags):
        _, (levels, audit) = self.report("--audit=" + self.keys(lines), *flags, self.db)
        self.assertIn("levels", levels)
        return audit["audit"]

    def test_counts(self):
        present = sorted(self.rows)[::3]
        absent = [key + b"x" for key in sorted(self.rows)[:-1]]
        audit = self.audit(present + absent + present[:5] + [b"a", b"z"])
        self.assertEqual((audit["lines"], audit["keys"]),
                         (len(present) + len(absent) + 7, len(present) + len(absent) + 2))
        (table,) = audit["tables"]
        self.assertEqual(table["asked"], len(present) + len(absent))
        self.assertEqual(table["maybe_present"], len(present))
        self.assertEqual(table["denied"], 0)
        self.assertEqual(table["said_no"] + table["maybe_absent"], len(absent))
        false = sum(json.loads(self.dump("--command=filter", "--json", "--key=" + key.decode(),
                                         self.db))[0]["admitted"] for key in absent[:60])
        self.assertGreaterEqual(table["maybe_absent"], false)
        self.assertAlmostEqual(table["measured_fpr"], table["maybe_absent"] / len(absent))
        self.assertLessEqual(table["measured_fpr_low"], table["measured_fpr"])
        self.assertLessEqual(table["measured_fpr"], table["measured_fpr_high"])
        self.assertAlmostEqual(table["expected_fpr"],
                               self.report(self.db)[0][0]["expected_fpr"])
        self.assertFalse(table["above_expected"])
        self.assertIn("nothing to do", audit["verdict"])
        (level,) = audit["levels"]
        self.assertEqual(level["level"], table["level"])
        self.assertIsInstance(level["level"], int)
        for name in ("asked", "said_no", "maybe_present", "maybe_absent", "measured_fpr"):
            self.assertEqual(level[name], table[name])
            self.assertEqual(audit["total"][name], table[name])

    def test_text_and_hex(self):
        lines = [key.hex().encode() for key in self.rows]
        audit = self.audit(lines, "--hex")
        self.assertEqual(audit["tables"][0]["maybe_present"], 3000)
        self.assertIn("no absent key", audit["verdict"])
        text = self.dump("--command=filter", "--absent_keys=0", "--hex",
                         "--audit=" + self.keys(lines), self.tables()[0]).decode()
        self.assertIn("3000 keys on 3000 lines", text)
        self.assertRegex(text, r"\.sst +\d +3000 +0 +3000 +0 ")

    def test_chosen_keys_are_told(self):
        def admitted(keys, count):
            """The first so many that the filter admits, found by asking for halves."""
            if count == 0 or self.audit(keys)["total"]["maybe_absent"] == 0:
                return []
            if len(keys) == 1:
                return keys
            first = admitted(keys[:len(keys) // 2], count)
            return first + admitted(keys[len(keys) // 2:], count - len(first))
        chosen = admitted([b"word00007%d" % i for i in range(1000)], 4)
        self.assertEqual(len(chosen), 4)
        audit = self.audit(chosen)
        self.assertTrue(audit["tables"][0]["above_expected"])
        self.assertIn("these keys are special", audit["verdict"])

    def test_bad_key_files(self):
        for lines, flags, part in (([b"zz"], ["--hex"], "line 1: "),
                                   ([b"a", b"\\q"], [], "line 2: "), ([], [], "no keys in it")):
            message = self.fails(1, "sst_dump", "--command=filter", *flags,
                                 "--audit=" + self.keys(lines), self.db)
            self.assertIn(part, message)
            self.assertIn(self.path("keys"), message)
        for path in (self.path("nowhere"), self.work):
            self.assertIn(path, self.fails(1, "sst_dump", "--command=filter", "--audit=" + path,
                                           self.db))

    def test_wrong_usage(self):
        keys = self.keys([b"a"])
        for arguments in (["--svg=x.svg"], ["--command=scan", "--svg=x.svg"], ["--audit=" + keys],
                          ["--command=verify", "--audit=" + keys],
                          ["--command=filter", "--svg="], ["--command=filter", "--audit="],
                          ["--command=filter", "--key=a", "--svg=x.svg"],
                          ["--command=filter", "--key=a", "--audit=" + keys],
                          ["--command=filter", "--svgs=x"]):
            self.fails(2, "sst_dump", *arguments, self.db)


if __name__ == "__main__":
    tools_cli_test.PROGRAMS = sys.argv.pop(1)
    unittest.main()
