#!/usr/bin/env python3
"""Drives the commands of sievedb that copy a whole database or put one right.

    maintenance_cli_test.py DIRECTORY     where the programs are
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = ""


class MaintenanceTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="sievedb_maintenance.")
        self.addCleanup(shutil.rmtree, self.work)
        self.db = self.path("db")

    def path(self, name):
        return os.path.join(self.work, name)

    def run_on(self, db, *arguments, stdin=b""):
        return subprocess.run([os.path.join(PROGRAMS, "sievedb"), "--db=" + db, *arguments],
                              input=stdin, capture_output=True, timeout=120, check=False)

    def ok(self, db, *arguments, stdin=b""):
        """Exit code 0, nothing on stderr. Returns what was printed."""
        result = self.run_on(db, *arguments, stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout

    def fails(self, db, *arguments):
        """Exit code 1, one line on stderr, which is returned."""
        result = self.run_on(db, *arguments)
        self.assertEqual((result.returncode, result.stdout), (1, b""), arguments)
        self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
        return result.stderr.decode()

    def load(self, first=0, last=1000):
        records = b"".join(b"key%06d\tvalue %d\n" % (i, i) for i in range(first, last))
        self.ok(self.db, "load", "-", stdin=records)

    def test_checkpoint(self):
        self.load()
        before = self.ok(self.db, "dump")
        copy = self.path("copy")
        self.ok(self.db, "checkpoint", copy)
        self.ok(self.db, "delete", "key000007")
        self.assertEqual(self.ok(copy, "dump"), before)
        self.ok(copy, "put", "key", "only here")
        self.assertIn("is there already", self.fails(self.db, "checkpoint", copy))
        self.assertEqual(self.ok(copy, "get", "key"), b"only here\n")
        self.assertEqual(sorted(os.listdir(self.work)), ["copy", "db"])

    def test_repair(self):
        self.load()
        before = self.ok(self.db, "dump")
        self.assertIn(b"nothing is wrong", self.ok(self.db, "repair"))
        for name in os.listdir(self.db):
            if name.startswith(("MANIFEST", "CURRENT")):
                os.remove(os.path.join(self.db, name))
        self.assertIn("CURRENT is missing", self.fails(self.db, "dump"))
        report = json.loads(self.ok(self.db, "--json", "repair"))
        self.assertTrue(report["changed"])
        self.assertEqual(report["manifest"], "")
        self.assertGreater(report["tables"], 0)
        self.assertEqual(self.ok(self.db, "dump"), before)
        self.assertFalse(json.loads(self.ok(self.db, "--json", "repair"))["changed"])
        table = glob.glob(os.path.join(self.db, "*.sst"))[0]
        with open(table, "r+b") as file:
            file.seek(20)
            file.write(b"damage")
        text = self.ok(self.db, "repair").decode()
        self.assertIn("set aside: lost/" + os.path.basename(table), text)
        self.assertEqual(self.ok(self.db, "dump"), b"")
        self.assertIn("no database is here", self.fails(self.path(""), "repair"))

    def test_backup_and_restore(self):
        backups = self.path("backups")
        self.load(0, 500)
        first = self.ok(self.db, "dump")
        made = json.loads(self.ok(self.db, "--json", "backup", backups))
        self.assertEqual((made["id"], made["new_bytes"]), (1, made["bytes"]))
        self.load(500, 600)
        second = self.ok(self.db, "dump")
        made = json.loads(self.ok(self.db, "--json", "backup", backups))
        self.assertEqual(made["id"], 2)
        self.assertLess(made["new_bytes"], made["bytes"])
        lines = self.ok("", "--json", "backups", backups).splitlines()
        self.assertEqual([json.loads(line)["id"] for line in lines], [1, 2])
        self.assertIn(b"2 backups are sound", self.ok("", "verify-backup", backups))
        self.ok(self.path("newest"), "restore", backups)
        self.assertEqual(self.ok(self.path("newest"), "dump"), second)
        self.ok(self.path("first"), "restore", backups, "1")
        self.assertEqual(self.ok(self.path("first"), "dump"), first)
        self.assertIn("is there already", self.fails(self.path("first"), "restore", backups))
        self.ok("", "delete-backup", backups, "1")
        self.assertEqual(self.ok("", "backups", backups).count(b"\n"), 1)
        self.assertIn("no backup 1", self.fails("", "verify-backup", backups, "1"))
        self.assertIn("no number", self.fails("", "delete-backup", backups, "one"))
        self.assertIn("no backups", self.fails("", "backups", self.path("none")))
        self.assertFalse(os.path.exists(self.path("none")))
        table = glob.glob(os.path.join(backups, "*.sst"))[0]
        with open(table, "r+b") as file:
            file.seek(20)
            file.write(b"damage")
        self.assertIn(os.path.basename(table), self.fails("", "verify-backup", backups))
        self.fails(self.path("damaged"), "restore", backups)
        self.assertFalse(os.path.exists(self.path("damaged")))

    def test_manifest_and_wal(self):
        self.ok(self.db, "put", "a\\n", "1")
        self.ok(self.db, "put", "b", "2")
        self.ok(self.db, "delete-range", "b", "c")
        self.ok(self.db, "delete", "d")
        # Each opening makes a table of what the WAL had; the last one's is there still.
        text = self.ok(self.db, "wal").decode()
        self.assertRegex(text, r"WAL \d{6} to offset \d+: sequence 4, 1 changes\n  delete\td\n$")
        edits = [json.loads(line) for line in self.ok(self.db, "--json", "manifest").splitlines()]
        self.assertEqual(edits[0]["comparator"], "sievedb.BytewiseComparator")
        tables = [table for edit in edits for table in edit.get("added", [])]
        tables.sort(key=lambda table: table["table"])
        self.assertEqual([(t["smallest"], t["largest"]) for t in tables],
                         [("a\\n", "a\\n"), ("b", "b"), ("b", "c")])
        self.assertEqual(tables[2]["range_tombstones"], 1)
        text = self.ok(self.db, "manifest").decode()
        self.assertEqual(text.count("\n"), len(edits))
        self.assertIn("comparator sievedb.BytewiseComparator", text)
        wal = glob.glob(os.path.join(self.db, "*.wal"))
        self.assertEqual(len(wal), 1)
        records = [json.loads(line) for line in self.ok("", "--json", "wal", wal[0]).splitlines()]
        self.assertEqual([record["changes"] for record in records],
                         [[{"type": "delete", "key": "d"}]])
        manifest = glob.glob(os.path.join(self.db, "MANIFEST-*"))
        self.assertEqual(self.ok("", "manifest", manifest[0]).decode(), text)
        with open(manifest[0], "r+b") as file:
            file.seek(80)
            file.write(b"damage")
        # What comes before damage is shown, and here nothing does.
        self.assertIn(os.path.basename(manifest[0]), self.fails(self.db, "manifest"))
        self.assertIn("expected the name of a WAL", self.fails("", "wal", self.path("notes")))
        self.assertIn("neither --db nor a FILE", self.fails("", "manifest"))


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
