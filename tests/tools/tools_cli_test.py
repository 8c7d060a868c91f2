#!/usr/bin/env python3
"""Drives sievedb and sst_dump as a person at a terminal would.

    tools_cli_test.py DIRECTORY     where the programs are
"""

import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = ""


def run(program, *arguments, stdin=b"", stdout=subprocess.PIPE):
    return subprocess.run([os.path.join(PROGRAMS, program), *arguments], input=stdin,
                          stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def escape(data):
    """The escapes of TSV, written down a second time."""
    names = {9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\"}
    return "".join(names.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data)


def from_json(record):
    """The bytes of a field of a record."""
    def field(name):
        if name + "_hex" in record:
            return bytes.fromhex(record[name + "_hex"])
        return record[name].encode()
    return field("key"), field("value")


class ToolsTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="sievedb_tools.")
        self.addCleanup(shutil.rmtree, self.work)
        self.db = self.path("db")

    def path(self, name):
        return os.path.join(self.work, name)

    def ok(self, program, *arguments, stdin=b""):
        """Exit code 0, nothing on stderr. Returns what was printed."""
        result = run(program, *arguments, stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout

    def fails(self, code, program, *arguments, stdin=b"", stdout=subprocess.PIPE):
        """This exit code, and one line on stderr, which is returned."""
        result = run(program, *arguments, stdin=stdin, stdout=stdout)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, code, (arguments, message))
        self.assertRegex(message, rf"\A{program}: [^\n]+\n\Z", arguments)
        return message

    def sievedb(self, *arguments, stdin=b"", db=None):
        return self.ok("sievedb", "--db=" + (db or self.db), *arguments, stdin=stdin)

    def sievedb_fails(self, code, *arguments, stdin=b"", db=None):
        return self.fails(code, "sievedb", "--db=" + (db or self.db), *arguments, stdin=stdin)

    def dump(self, *arguments):
        return self.ok("sst_dump", *arguments)

    def tables(self):
        return sorted(self.path("db/" + name) for name in os.listdir(self.db)
                      if name.endswith(".sst"))

    def load(self, rows, **kwargs):
        text = "".join(f"{escape(k)}\t{escape(v)}\n" for k, v in rows.items()).encode()
        return self.sievedb("load", "-", stdin=text, **kwargs)

    def words(self, count=1500):
        return {b"word%05d" % i: b"%d " % i * 20 for i in range(count)}


class SievedbTest(ToolsTest):
    def test_put_get_delete(self):
        for key, value in [("k", "v"), ("", "the empty key"), ("empty value", ""),
                           (r"\x00\xff\t", r"\n\\")]:
            self.assertEqual(self.sievedb("put", key, value), b"")
            self.assertEqual(self.sievedb("get", key), value.encode() + b"\n")
        self.sievedb("put", "k", "another")
        self.assertEqual(self.sievedb("get", "k"), b"another\n")
        self.sievedb("delete", "k")
        self.sievedb("delete", "never there")
        self.assertIn("NOT_FOUND: no such key: k", self.sievedb_fails(1, "get", "k"))
        self.sievedb("put", "--", "--a key like a flag", "-")
        self.assertEqual(self.sievedb("get", "--", "--a key like a flag"), b"-\n")

    def test_hex_and_json(self):
        self.sievedb("--hex", "put", "00ff", "0A0d")
        self.assertEqual(self.sievedb("--hex", "get", "00FF"), b"0a0d\n")
        self.assertEqual(self.sievedb("get", r"\x00\xff"), b"\\n\\r\n")
        self.assertEqual(json.loads(self.sievedb("--json", "get", r"\x00\xff")),
                         {"key_hex": "00ff", "value": "\n\r"})
        self.assertEqual(self.sievedb("--hex", "scan"), b"00ff\t0a0d\n")

    def test_scan(self):
        rows = self.words(20)
        self.load(rows)
        keys = [line.split(b"\t")[0] for line in self.sievedb("scan").splitlines()]
        self.assertEqual(keys, sorted(rows))

        def scanned(*flags):
            return [json.loads(line)["key"] for line in
                    self.sievedb("--json", *flags, "scan").splitlines()]
        self.assertEqual(scanned("--limit=2"), ["word00000", "word00001"])
        self.assertEqual(scanned("--limit=2", "--reverse"), ["word00019", "word00018"])
        self.assertEqual(scanned("--from=word00005", "--to=word00008"),
                         ["word00005", "word00006", "word00007"])
        self.assertEqual(scanned("--from=word00005", "--to=word00008", "--reverse", "--limit=1"),
                         ["word00007"])
        self.assertEqual(scanned("--from=x"), [])
        self.assertEqual(scanned("--to="), [])

    def test_reports(self):
        self.load(self.words())
        for command, part in [("stats", b"block cache bytes"), ("levels", b"tombstones"),
                              ("files", b"word00000 .. word01499"), ("properties", b"1500")]:
            self.assertIn(part, self.sievedb(command))
            document = json.loads(self.sievedb("--json", command))
            self.assertTrue(any(part.decode() in text for text in document.values()), document)
        self.assertEqual(self.sievedb("properties", "sievedb.estimate-num-keys"), b"1500\n")
        self.assertIn("no such property", self.sievedb_fails(1, "properties", "sievedb.nonsense"))
        probe = self.sievedb("probe", "-", stdin=b"word00001\tother\nword00002\tother\n").decode()
        self.assertIn("read back 2 records (2 of them with another value by now)", probe)
        self.assertRegex(probe, r"filters ruled out \d+")
        self.assertIn("absent", self.sievedb_fails(1, "probe", "-", stdin=b"absent\tx\n"))

    def test_compact_and_verify(self):
        self.load(self.words())
        self.sievedb("delete", "word00007")
        self.sievedb("--from=word00000", "--to=word00100", "compact")
        self.sievedb("compact")
        self.assertEqual(len(self.tables()), 1)
        properties = json.loads(self.dump("--command=properties", "--json", self.db))[0]
        self.assertEqual((properties["entries"], properties["tombstones"]), (1499, 0))
        self.assertIn(b"sound", self.sievedb("verify"))

    def test_load_and_dump_bring_every_byte_back(self):
        generator = random.Random(20260104)
        rows = {generator.randbytes(generator.randrange(12)): generator.randbytes(size)
                for size in range(300)}
        rows.update({b"": b"", b"{key": b"like JSON", "schlüssel".encode(): "ünïcode".encode(),
                     b"large": b"x\n" * 300_000, b"\xed\xa0\x80": b"no UTF-8"})
        self.load(rows)
        tsv, lines, other = self.path("a.tsv"), self.path("a.jsonl"), self.path("other")
        self.sievedb("dump", tsv)
        self.sievedb("--format=json", "dump", lines)
        self.assertEqual(self.sievedb("dump"), read(tsv))
        self.assertEqual(self.sievedb("--json", "dump", "-"), read(lines))
        with open(tsv, encoding="ascii") as file:
            self.assertEqual(file.read().splitlines(),
                             [f"{escape(k)}\t{escape(rows[k])}" for k in sorted(rows)])
        with open(lines, encoding="utf-8") as file:
            self.assertEqual([from_json(json.loads(line)) for line in file],
                             sorted(rows.items()))
        for source in (tsv, lines):
            self.assertRegex(self.sievedb("load", source, db=other),
                             rb"\Aloaded %d records, %d bytes, in " %
                             (len(rows), sum(len(k) + len(v) for k, v in rows.items())))
            self.assertEqual(self.sievedb("dump", db=other), read(tsv))
            shutil.rmtree(other)
        self.assertEqual(self.sievedb("--limit=1", "--from=large", "dump").split(b"\t")[0],
                         b"large")

    def test_a_first_key_like_json(self):
        self.load({b"{\"key\":": b"1"})
        text = self.sievedb("dump")
        self.sievedb("load", "-", stdin=text, db=self.path("other"))
        self.assertEqual(self.sievedb("dump", db=self.path("other")), text)

    def test_load_says_which_line_is_wrong(self):
        message = self.sievedb_fails(1, "load", "-", stdin=b"a\tb\n\nno tab\n")
        self.assertIn("line 3: no tab", message)
        message = self.sievedb_fails(1, "load", "-", stdin=b'{"key":"a"}\n')
        self.assertIn('line 1: no field "value"', message)
        self.assertIn("nowhere", self.sievedb_fails(1, "load", self.path("nowhere")))
        self.assertIn("directory", self.sievedb_fails(1, "load", self.work))
        self.assertIn("nowhere", self.sievedb_fails(1, "dump", self.path("nowhere/x")))

    def test_load_sorted(self):
        rows = self.words(3000)
        tsv = "".join(f"{escape(k)}\t{escape(v)}\n" for k, v in rows.items()).encode()
        lines = b"".join(json.dumps({"key": k.decode(), "value": v.decode()}).encode() + b"\n"
                         for k, v in rows.items())
        size = sum(len(k) + len(v) for k, v in rows.items())
        for text in (tsv, lines):
            self.assertRegex(self.sievedb("--sorted", "load", "-", stdin=text),
                             rb"\Aloaded 3000 records, %d bytes, as 1 tables in " % size)
            self.assertEqual(self.sievedb("dump"), tsv)
            levels = self.sievedb("levels").splitlines()
            self.assertRegex(levels[7], rb"^ +6 +1 .* 3000 +0$")
            self.assertIn(b"sound", self.sievedb("verify"))
            self.assertIn(b"every block is sound", self.dump("--command=verify", self.db))
            properties = json.loads(self.dump("--command=properties", "--json", self.db))[0]
            self.assertEqual((properties["entries"], properties["external"]), (3000, True))
            self.sievedb("compact")
            properties = json.loads(self.dump("--command=properties", "--json", self.db))[0]
            self.assertEqual((properties["entries"], properties["external"]), (3000, False))
            self.assertEqual(os.listdir(self.work), ["db"])
            shutil.rmtree(self.db)

    def test_load_sorted_over_what_is_there(self):
        self.load(self.words(10))
        self.sievedb("--sorted", "load", "-", stdin=b"word00003\tnew\nzz\tnew\n")
        self.assertEqual(self.sievedb("get", "word00003"), b"new\n")
        self.assertEqual(self.sievedb("get", "word00004"), b"4 " * 20 + b"\n")
        self.sievedb("put", "zz", "newer")
        self.assertEqual(self.sievedb("get", "zz"), b"newer\n")
        self.sievedb("compact")
        self.assertEqual(self.sievedb("get", "word00003"), b"new\n")
        self.assertEqual(self.sievedb("get", "zz"), b"newer\n")

    def test_load_sorted_says_what_is_not_sorted(self):
        self.load(self.words(3))
        before = self.sievedb("dump")
        for text, line, key, last in ((b"a\t1\n\nc\t2\nb\t3\nd\t4\n", 4, "b", "c"),
                                      (b"a\t1\nb\t2\nb\t3\n", 3, "b", "b")):
            message = self.sievedb_fails(1, "--sorted", "load", "-", stdin=text)
            self.assertIn(f'line {line}: not sorted: key "{key}" is not after "{last}"', message)
            self.assertEqual(self.sievedb("dump"), before)
            self.assertEqual(os.listdir(self.work), ["db"])
        self.assertIn("line 2: no tab", self.sievedb_fails(1, "--sorted", "load", "-",
                                                           stdin=b"a\t1\nno tab\n"))
        self.assertIn(b"loaded 0 records", self.sievedb("--sorted", "load", "-"))
        # The order is the database's.
        other = self.path("other")
        reverse = b"c\t1\nb\t2\na\t3\n"
        self.sievedb("--sorted", "--reverse_comparator", "load", "-", stdin=reverse, db=other)
        self.assertEqual(self.sievedb("--reverse_comparator", "dump", db=other), reverse)

    def test_reverse_order(self):
        rows = self.words(10)
        self.sievedb("--reverse_comparator", "load", "-",
                     stdin=b"".join(k + b"\t1\n" for k in rows))
        keys = [line.split(b"\t")[0]
                for line in self.sievedb("--reverse_comparator", "scan").splitlines()]
        self.assertEqual(keys, sorted(rows, reverse=True))
        for command in (["scan"], ["put", "a", "b"]):
            message = self.sievedb_fails(1, *command)
            self.assertIn("sievedb.ReverseBytewiseComparator", message)
        self.assertIn(b"every block is sound", self.dump("--command=verify", self.db))

    def test_commands_that_read_create_nothing(self):
        for command in (["get", "a"], ["scan"], ["stats"], ["levels"], ["files"], ["properties"],
                        ["dump"], ["verify"], ["probe", "-"], ["compact"], ["delete", "a"]):
            message = self.sievedb_fails(1, *command)
            self.assertIn("NOT_FOUND", message)
            self.assertIn(self.db, message)
            self.assertFalse(os.path.exists(self.db), command)

    def test_wrong_usage(self):
        self.assertIn(b"Usage: sievedb", self.ok("sievedb", "--help"))
        self.sievedb("put", "a", "b")
        for arguments in ([], ["nonsense"], ["get"], ["get", "a", "b"], ["put", "a"], ["scan", "x"],
                          ["--nonsense", "scan"], ["--limit=-1", "scan"], ["--format=xml", "dump"],
                          ["--hex", "get", "zz"], ["--hex", "get", "abc"], ["get", "\\q"],
                          ["put", "a", "\\x0"], ["--hex", "--from=zz", "scan"],
                          ["--to=\\", "dump"], ["--batch_size=0", "load", "-"],
                          ["--bloom_bits=0", "scan"], ["--db=", "scan"], ["scan", "--limit"]):
            self.fails(2, "sievedb", "--db=" + self.db, *arguments)
        self.assertIn("--db", self.fails(2, "sievedb", "scan"))
        self.assertEqual(self.sievedb("scan"), b"a\tb\n")

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_output_that_cannot_be_written(self):
        self.load(self.words(10))
        with open("/dev/full", "wb") as full:
            for arguments in (["get", "word00001"], ["scan"], ["dump"], ["files"], ["stats"],
                              ["--help"]):
                message = self.fails(1, "sievedb", "--db=" + self.db, *arguments, stdout=full)
                self.assertIn("No space left", message)
            for command in ("check", "scan", "raw", "verify", "properties", "filter"):
                self.fails(1, "sst_dump", "--command=" + command, self.db, stdout=full)
            self.fails(1, "db_bench", "--help", stdout=full)

    def test_two_processes(self):
        self.load(self.words(10))
        holder = subprocess.Popen([os.path.join(PROGRAMS, "sievedb"), "--db=" + self.db, "load",
                                   "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            # More than a pipe holds: when it is written, the loader has begun to read.
            holder.stdin.write(b"more\t1\n" * 50_000)
            holder.stdin.flush()
            message = self.sievedb_fails(1, "put", "a", "b")
            self.assertIn("FAILED_PRECONDITION", message)
            self.assertIn(f"{self.db}/LOCK: held by process {holder.pid}", message)
            self.assertEqual(self.sievedb("get", "word00003"), b"3 " * 20 + b"\n")
        finally:
            holder.stdin.close()
            self.assertEqual(holder.wait(timeout=60), 0)
        self.assertEqual(self.sievedb("get", "more"), b"1\n")

    def test_killed_loads_leave_a_prefix(self):
        have, sent = {}, 0
        for _ in range(4):
            loader = subprocess.Popen([os.path.join(PROGRAMS, "sievedb"), "--db=" + self.db,
                                       "--batch_size=7", "load", "-"], stdin=subprocess.PIPE)
            rows = [(b"k%04d" % random.Random(i).randrange(500), b"%d" % i)
                    for i in range(sent, sent + 30_000)]
            sent += len(rows)
            loader.stdin.write(b"".join(k + b"\t" + v + b"\n" for k, v in rows))
            loader.stdin.flush()
            loader.kill()
            loader.wait()
            loader.stdin.close()
            found = dict(line.split(b"\t") for line in self.sievedb("dump").splitlines())
            new = [int(v) for v in found.values() if int(v) >= sent - len(rows)]
            count = max(new) - (sent - len(rows)) + 1 if new else 0
            have.update(rows[:count])
            self.assertEqual(found, have)
            self.assertGreater(count, 0)


class DamageTest(ToolsTest):
    def setUp(self):
        super().setUp()
        self.rows = self.words()
        self.load(self.rows)
        self.sievedb("compact")
        self.table = self.tables()[0]
        with open(self.table, "rb") as file:
            self.bytes = file.read()

    def flip(self, at):
        data = bytearray(self.bytes)
        data[at] ^= 0x20
        with open(self.table, "wb") as file:
            file.write(data)

    def test_block(self):
        blocks = json.loads(self.dump("--command=raw", "--json", self.table))[0]["data_blocks"]
        self.assertGreater(len(blocks), 5)
        at = blocks[3]["offset"]
        self.flip(at + 10)
        where = re.escape(self.table) + rf".*offset {at}\b.*expected [0-9a-f]+, found [0-9a-f]+"
        self.assertRegex(self.sievedb_fails(1, "verify"), "DATA_LOSS: " + where)
        self.assertRegex(self.fails(1, "sst_dump", "--command=verify", self.table), where)
        self.assertRegex(self.sievedb_fails(1, "scan"), where)
        # What lies in other blocks is still there.
        self.assertEqual(self.sievedb("get", "word00000"), self.rows[b"word00000"] + b"\n")
        self.assertEqual(self.sievedb("get", "word01499"), self.rows[b"word01499"] + b"\n")

    def test_filter_costs_time_only(self):
        properties = json.loads(self.dump("--command=properties", "--json", self.table))[0]
        self.flip(properties["data_bytes"] + 100)
        message = self.fails(1, "sst_dump", "--command=filter", self.table)
        self.assertIn(self.table, message)
        self.assertIn("DATA_LOSS", self.fails(1, "sst_dump", self.table))
        self.assertEqual(len(self.sievedb("scan").splitlines()), len(self.rows))
        for key in (b"word00000", b"word00777"):
            self.assertEqual(self.sievedb("get", key.decode()), self.rows[key] + b"\n")

    def test_whole_files(self):
        for data in (b"", self.bytes[:-1], b"\x7fELF" + self.bytes[4:-20] + bytes(20)):
            with open(self.table, "wb") as file:
                file.write(data)
            self.assertIn(self.table, self.sievedb_fails(1, "verify"))
            self.assertIn(self.table, self.fails(1, "sst_dump", self.table))
        os.remove(self.table)
        self.assertIn(self.table, self.sievedb_fails(1, "put", "a", "b"))
        with open(self.table, "wb") as file:
            file.write(self.bytes)
        self.assertEqual(len(self.sievedb("scan").splitlines()), len(self.rows))

    def test_lost_current_is_not_a_new_database(self):
        current = self.path("db/CURRENT")
        os.rename(current, self.path("CURRENT"))
        for command in (["scan"], ["put", "a", "b"], ["load", "-"]):
            self.assertIn(f"DATA_LOSS: {current} is missing", self.sievedb_fails(1, *command))
        os.rename(self.path("CURRENT"), current)
        self.assertEqual(len(self.sievedb("scan").splitlines()), len(self.rows))

    def test_one_bad_table_among_several(self):
        self.sievedb("put", "zz", "1")
        self.sievedb("put", "zzz", "2")  # opens again: the first is in a table now
        self.assertEqual(len(self.tables()), 2)
        self.flip(50)
        message = self.fails(1, "sst_dump", "--command=verify", self.db)
        self.assertIn("1 of 2 tables failed", message)
        result = run("sst_dump", "--command=verify", "--json", self.db)
        report = {entry["file"]: entry for entry in json.loads(result.stdout)}
        self.assertIn("error", report[self.table])
        self.assertTrue(report[self.tables()[1]]["ok"])


class SstDumpTest(ToolsTest):
    def setUp(self):
        super().setUp()
        self.rows = {**self.words(400), b"\x00\xff": b"\n"}
        self.load(self.rows)
        self.sievedb("delete", "word00001")
        self.sievedb("put", "word00002", "new")
        self.sievedb("stats")
        self.table = self.tables()[0]

    def document(self, *flags):
        return json.loads(self.dump("--json", *flags, self.table))

    def test_check_and_verify(self):
        for argument in (self.table, self.db):
            self.assertIn(b"are sound: 401 entries", self.dump(argument))
        self.assertEqual(self.document()[0]["entries"], 401)
        self.assertIn(b"every block is sound", self.dump("--command=verify", self.table))
        self.assertTrue(self.document("--command=verify")[0]["ok"])

    def test_scan(self):
        lines = self.dump("--command=scan", "--limit=2", self.table).decode().splitlines()
        self.assertRegex(lines[0], r"^\\x00\\xff @ \d+ : put => \\n$")
        self.assertRegex(lines[1], r"^word00000 @ 1 : put => 0 0 ")
        entries = self.document("--command=scan", "--from=word00005", "--to=word00007")
        self.assertEqual([(e["key"], e["type"]) for e in entries],
                         [("word00005", "put"), ("word00006", "put")])
        entries = self.document("--command=scan", "--hex", "--limit=1")
        self.assertEqual((entries[0]["key"], entries[0]["value"]), ("00ff", "0a"))
        self.assertEqual(len(self.document("--command=scan")), 401)
        everything = json.loads(self.dump("--json", "--command=scan", *self.tables()))
        self.assertIn(("word00001", "delete"), [(e["key"], e["type"]) for e in everything])

    def test_raw(self):
        report = self.document("--command=raw")[0]
        blocks = report["data_blocks"]
        self.assertEqual(sum(block["entries"] for block in blocks), 401)
        self.assertEqual(blocks[0]["offset"], 0)
        for before, block in zip(blocks, blocks[1:]):
            self.assertEqual(block["offset"], before["offset"] + before["stored_bytes"] + 9)
        self.assertEqual(self.document("--command=raw", "--limit=1")[0]["data_blocks"], blocks[:1])
        self.assertIn(b"offset", self.dump("--command=raw", self.table))

    def test_properties(self):
        properties = self.document("--command=properties")[0]
        self.assertEqual(properties["entries"], 401)
        self.assertEqual(properties["raw_value_bytes"], sum(map(len, self.rows.values())))
        self.assertEqual(properties["file_bytes"], os.path.getsize(self.table))
        self.assertEqual(properties["comparator"], "sievedb.BytewiseComparator")
        self.assertRegex(properties["smallest_key"], r"^\\x00\\xff @ \d+ : put$")
        self.assertIn(b"filter_bits_per_key", self.dump("--command=properties", self.table))

    def test_filter(self):
        report = self.document("--command=filter", "--absent_keys=20000")[0]
        self.assertEqual(report["present"], True)
        self.assertEqual((report["keys"], report["present_keys_asked"]), (401, 401))
        self.assertEqual(report["present_keys_denied"], 0)
        self.assertEqual(report["absent_keys_asked"], 20000)
        self.assertAlmostEqual(report["bits_per_key"], 10)
        self.assertGreater(report["expected_fpr"], 0)
        self.assertLess(report["measured_fpr"], 0.05)
        self.assertLessEqual(report["block_bits_min"], report["block_bits_median"])
        self.assertLessEqual(report["block_bits_median"], report["block_bits_max"])
        self.assertIn(b"401 keys are denied", self.dump("--command=filter", self.table))

        key = self.document("--command=filter", "--key=word00003")[0]
        self.assertTrue(key["admitted"] and key["really_there"])
        self.assertTrue(all(probe["set"] for probe in key["probes"]))
        self.assertEqual(len(key["probes"]), report["probes"])
        self.assertLess(key["block"], report["blocks"])
        absent = [self.document("--command=filter", f"--key=absent{i}")[0] for i in range(10)]
        self.assertFalse(any(key["really_there"] for key in absent))
        for key in absent:
            self.assertEqual(key["admitted"], all(probe["set"] for probe in key["probes"]))
        self.assertFalse(all(key["admitted"] for key in absent))
        self.assertTrue(self.document("--command=filter", "--hex", "--key=00ff")[0]["really_there"])

    def test_filter_of_every_kind(self):
        for kind, has_blocks in (("blocked", True), ("dense", True), ("bloom", False),
                                 ("ribbon", False), ("fuse", False)):
            db = self.path(kind)
            self.ok("db_bench", "--db=" + db, "--num=5000", "--benchmarks=fillseq,compact",
                    "--filter=" + kind)
            table = sorted(glob.glob(os.path.join(db, "*.sst")))[-1]
            arguments = ("--json", "--command=filter", "--absent_keys=20000", table)
            report = json.loads(self.dump(*arguments))[0]
            self.assertTrue(report["present"], kind)
            self.assertEqual((report["keys"], report["present_keys_denied"]), (5000, 0), kind)
            self.assertLess(report["measured_fpr"], 0.015, kind)
            self.assertEqual(report["blocks"] > 0, has_blocks, kind)
            self.assertEqual(report["block_bits_max"] > 0, has_blocks, kind)
            text = self.dump("--command=filter", table)
            self.assertEqual(b"of 512 bits" in text, has_blocks, kind)
            for key in (b"present", b"absent"):
                key = json.loads(self.dump("--json", "--command=filter", "--key=" + key.decode(),
                                           table))[0]
                self.assertEqual(len(key["probes"]), report["probes"] if has_blocks else 0, kind)
                if has_blocks:
                    self.assertEqual(key["admitted"], all(p["set"] for p in key["probes"]), kind)

    def test_wrong_usage(self):
        self.assertIn(b"Usage: sst_dump", self.ok("sst_dump", "--help"))
        for arguments in ([], ["--command=nonsense", self.table], ["--nonsense", self.table],
                          ["--hex", "--key=zz", self.table], ["--from=\\q", self.table],
                          ["--limit=many", self.table]):
            self.fails(2, "sst_dump", *arguments)
        os.mkdir(self.path("empty"))
        for argument in (self.path("nowhere"), self.path("empty"), "/dev/null",
                         self.path("db/CURRENT")):
            self.assertIn(argument, self.fails(1, "sst_dump", argument))


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
