#!/usr/bin/env python3
"""Prints how lookups scale with threads: rates of db_bench, and how they stand to one thread's.

    bench/scaling.py build/release/bin/db_bench [--threads 1,2] [--num N] [--reads N] [--rounds N]

All fits the block cache. Rates are medians of rounds that alternate between the thread counts;
each process reads all keys once before it measures. 2.00 with two threads is perfect.
"""

import argparse
import json
import statistics
import subprocess
import tempfile

WORKLOADS = ("readmissing", "readrandom")


def run(program, db, num, reads, threads, benchmarks, existing):
    """The rates of a process's workloads by name; of the last where a name comes twice."""
    command = [program, f"--db={db}", f"--num={num}", f"--reads={reads}", f"--threads={threads}",
               f"--benchmarks={benchmarks}", f"--cache_size={1 << 32}", "--json"]
    if existing:
        command.append("--use_existing_db")
    document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {entry["name"]: entry["ops_per_s"] for entry in document["workloads"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("db_bench")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--num", type=int, default=1_000_000)
    parser.add_argument("--reads", type=int, default=2_000_000, help="of each thread")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.threads.split(",")]
    with tempfile.TemporaryDirectory() as db:
        run(arguments.db_bench, db, arguments.num, 0, 1, "fillseq,compact", False)
        rates = {(name, count): [] for name in WORKLOADS for count in counts}
        for _ in range(arguments.rounds):
            for count in counts:
                found = run(arguments.db_bench, db, arguments.num, arguments.reads, count,
                            "readseq,readrandom," + ",".join(WORKLOADS), True)
                for name in WORKLOADS:
                    rates[name, count].append(found[name])
    print(f"{'workload':12} {'threads':>7} {'ops/s':>11} {'scaling':>8}")
    for name in WORKLOADS:
        first = statistics.median(rates[name, counts[0]])
        for count in counts:
            median = statistics.median(rates[name, count])
            scaling = median / first * counts[0]
            print(f"{name:12} {count:7} {median:11.0f} {scaling:8.2f}")


if __name__ == "__main__":
    main()
