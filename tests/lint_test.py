#!/usr/bin/env python3
"""Checks that tools/lint finds each kind of offence, and none where there is none."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

GUARD = "#ifndef {0}\n#define {0}\n{1}\n#endif  // {0}\n"


def header(guard, body):
    return GUARD.format(guard, body)


class LintTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        # What the cases below include.
        for name, guard in [("include/sievedb/db.h", "SIEVEDB_DB_H_"),
                            ("util/arena.h", "SIEVEDB_UTIL_ARENA_H_"),
                            ("table/block.h", "SIEVEDB_TABLE_BLOCK_H_"),
                            ("db/version.h", "SIEVEDB_DB_VERSION_H_")]:
            self.write(name, header(guard, ""))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def lint(self):
        return subprocess.run([sys.executable, str(ROOT / "tools/lint"), str(self.root)],
                              capture_output=True, text=True)

    def test_offences(self):
        cases = [
            ("util/a.cc", '#include "table/block.h"\n', 1, "util must not include table/block.h"),
            ("table/a.cc", '\n#include "db/version.h"\n', 2, "includes point down"),
            ("db/a.cc", '#include "tools/flags.h"\n', 1, "db must not include tools/flags.h"),
            ("db/a.cc", '#include "util/none.h"\n', 1, "does not exist"),
            ("db/a.cc", '#include "arena.h"\n', 1, "neither a path from the root"),
            ("db/a.cc", '#include "snappy.h"\n', 1, "db must not include snappy.h"),
            ("util/a.cc", "#include <gtest/gtest.h>\n", 1, "util must not include"),
            ("include/sievedb/x.h", header("SIEVEDB_X_H_", '#include "util/arena.h"'), 3,
             "sievedb must not include util/arena.h"),
            ("include/sievedb/x.h", header("SIEVEDB_X_H_", "#include <unistd.h>"), 3,
             "not of the standard"),
            ("util/a.h", header("UTIL_A_H", ""), 1, "must be SIEVEDB_UTIL_A_H_"),
            ("util/a.cc", "\n" * 601, 601, "more than 600"),
            ("util/a.cc", "int* p = new int;\n", 1, "a raw new"),
            ("util/a.cc", "void F() {\n  Take(new int);\n}\n", 2, "a raw new"),
            ("util/a.cc", "void* p = ::operator new(8);\n", 1, "a raw new"),
            ("tests/a.cc", "absl::Mutex mu;\n", 1, "util/mutex.h"),
            ("util/a.cc", "std::mutex mu;\n", 1, "util/mutex.h"),
            ("util/a.cc", "void F(absl::string_view s);\n", 1, "std::string_view"),
            ("util/a.cc", "void F() { throw 1; }\n", 1, "exceptions"),
            ("util/a.cc", "auto* d = dynamic_cast<D*>(b);\n", 1, "RTTI"),
            ("util/a.cc", "// TO" + "DO: more\n", 1, "unfinished"),
            ("notes.md", "as `ArenaTest.None` shows\n", 1, "ArenaTest.None, which does not exist"),
            ("notes.md", "see /wo" + "rk/main\n", 1, "a path or a host"),
        ]
        for name, text, line, reason in cases:
            with self.subTest(name=name, reason=reason):
                self.write(name, text)
                result = self.lint()
                (self.root / name).unlink()
                self.assertEqual(result.returncode, 1, result.stdout)
                found = [l for l in result.stdout.splitlines()
                         if l.startswith(f"{name}:{line}: ") and reason in l]
                self.assertTrue(found, f"wanted {reason!r} in {name}:{line}, got {result.stdout!r}")

    def test_clean_code_passes(self):
        self.write("db/a.cc", '''// A new idea; std::mutex is only named here.
#include <new>

#include "absl/status/status.h"
#include "db/version.h"
#include "sievedb/db.h"
#include "table/block.h"
#include "util/arena.h"

std::unique_ptr<Version> Make() { return std::unique_ptr<Version>(new Version(1'000'000)); }
int* Construct(void* memory) { return new (memory) int(1); }
const char* Text() { return "a new throw"; }
Leaked* Get() {
  static Leaked* const leaked = new Leaked;
  return leaked;
}
''')
        self.write("util/arena.cc", "char* p = new char[1];\n")
        result = self.lint()
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
