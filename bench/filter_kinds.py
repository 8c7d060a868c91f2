#!/usr/bin/env python3
"""Prints what each kind of filter costs the last level, where nearly all keys are.

    bench/filter_kinds.py build/release/bin/filter_kinds [--keys N] [--lookups N]

Instructions are those that valgrind's callgrind counts, so the table is the same on an idle and
on a busy machine. For each kind: to build it, a key; to ask it, an absent key; its memory and its
false reads. Then the sum for a key that is written once and, until it is rewritten, stands beside
so many lookups of absent keys: build + lookups * (ask + rate * read), where a read is a block
that is cached, one from the kernel's page cache, or one from a disk, in instructions.
"""

import argparse
import os
import subprocess
import tempfile

# Near 10 bits a key, since memory is a price of its own. A ribbon's policy is given the bits of a
# Bloom filter with its rate, of which it takes 70 %: so it is here at the rate of the blocked one,
# and at its memory. Binary fuse has no choice.
KINDS = (("blocked", 10), ("dense", 10), ("ribbon", 10), ("ribbon", 14.2), ("fuse", 10))
READS = (("cached", 1_100), ("page cache", 10_000), ("disk", 300_000))
LOOKUPS = (1, 10)


def instructions(function, command):
    """Those of function and what it calls."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "callgrind")
        subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out,
                        f"--toggle-collect=sievedb::{function}(*", *command],
                       check=True, capture_output=True)
        with open(out) as file:
            for line in file:
                if line.startswith(("summary:", "totals:")):
                    return int(line.split()[1])
    raise RuntimeError(f"{function} was not called")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter_kinds")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--lookups", type=int, default=500_000)
    arguments = parser.parse_args()
    sums = [f"{name}, {lookups:g}" for name, _ in READS for lookups in LOOKUPS]
    print("| filter | bits per key | false reads | build | ask | " + " | ".join(sums) + " |")
    print("|---" * (5 + len(sums)) + "|")
    for name, bits in KINDS:
        command = [arguments.filter_kinds, name, str(bits), str(arguments.keys)]
        # The rate needs more lookups than the count of instructions does.
        figures = subprocess.run(command + [str(20 * arguments.lookups)], check=True,
                                 capture_output=True).stdout.split()
        bits_per_key, rate = map(float, figures)
        command.append(str(arguments.lookups))
        build = instructions("BuildFilter", command) / arguments.keys
        ask = instructions("AskFilter", command) / arguments.lookups
        row = [f"{build + lookups * (ask + rate * read):.0f}" for _, read in READS
               for lookups in LOOKUPS]
        print(f"| {name} | {bits_per_key:.2f} | {100 * rate:.3f} % | {build:.0f} | {ask:.1f} | " +
              " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
