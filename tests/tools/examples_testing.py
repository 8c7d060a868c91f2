"""What the tests of tools/examples share: running one as a person would."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

DIRECTORY = ""


class ExampleTest(unittest.TestCase):
    program = ""

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="sievedb_examples.")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name):
        return os.path.join(self.work, name)

    def command(self, *arguments):
        return [os.path.join(DIRECTORY, self.program), *arguments]

    def run_program(self, *arguments, stdin=b"", stdout=subprocess.PIPE):
        return subprocess.run(self.command(*arguments), input=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=120, check=False)

    def ok(self, *arguments, stdin=b""):
        """Exit code 0, nothing on stderr. Returns what was printed."""
        result = self.run_program(*arguments, stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout.decode()

    def json(self, *arguments):
        return json.loads(self.ok("--json", *arguments))

    def fails(self, code, *arguments, stdin=b"", stdout=subprocess.PIPE):
        """This exit code, and one line on stderr, which is returned."""
        result = self.run_program(*arguments, stdin=stdin, stdout=stdout)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, code, (arguments, message))
        self.assertRegex(message, rf"\A{self.program}: [^\n]+\n\Z", arguments)
        return message

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()


def main():
    global DIRECTORY
    DIRECTORY = sys.argv.pop(1)
    unittest.main()
