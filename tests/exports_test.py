#!/usr/bin/env python3
"""Checks that the shared library exports the API and nothing else.

    exports_test.py LIBRARY HEADER_DIRECTORY

What a public header marks with SIEVEDB_EXPORT may be exported, with its members
and nested classes; every other symbol is an offence.
"""

import pathlib
import re
import subprocess
import sys

# Symbols without which no program could be linked.
REQUIRED = ["sievedb::DB::Open", "sievedb::BytewiseComparator", "sievedb::WriteBatch::Put"]
REQUIRED_C = ["sievedb_filter_create", "sievedb_filter_open", "sievedb_free"]


def exported_by_headers(directory):
    """Names that the headers mark with SIEVEDB_EXPORT."""
    names = set()
    for path in sorted(directory.glob("*.h")):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for match in re.finditer(r"(class|struct)\s+SIEVEDB_EXPORT\s+(\w+)", text):
            names.add(match.group(2))
        # A function or variable: the last name before its argument list or its end.
        for match in re.finditer(r"SIEVEDB_EXPORT\s+([^;{}]*?)(\w+)\s*[(;=]", text):
            names.add(match.group(2))
    return names


def main():
    library, headers = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = subprocess.run(["nm", "-D", "-C", "--defined-only", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split(maxsplit=2)[2] for line in lines if len(line.split(maxsplit=2)) == 3]
    api = exported_by_headers(headers)
    offences = []
    for symbol in symbols:
        # Past "vtable for", "typeinfo name for", "non-virtual thunk to" and the like.
        bare = re.sub(r"^[a-z -]+ (?:for|to) ", "", symbol)
        # A function template's symbol begins with its return type; ours have none.
        # A C function's has no namespace, but a prefix.
        match = re.match(r"sievedb::(\w+)", bare) or re.fullmatch(r"(sievedb_\w+)", bare)
        if not match or match.group(1) not in api:
            offences.append(f"{library}: exports {symbol}, which no public header marks")
    for name in REQUIRED:
        if not any(symbol.startswith(name + "(") for symbol in symbols):
            offences.append(f"{library}: {name} is not exported")
    for name in REQUIRED_C:
        if name not in symbols:
            offences.append(f"{library}: {name} is not exported")
    print("\n".join(offences) if offences else f"{len(symbols)} symbols, all of the API")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
