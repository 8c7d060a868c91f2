#!/bin/sh
# A small comparison, in text and JSON, with whatever engines were compiled in.
#
# Usage: compare_smoke.sh path/to/compare
set -eu

compare=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/compare_smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "compare_smoke: $*" >&2
  cat "$work/out" "$work/err" >&2
  exit 1
}

expect() {
  want=$1
  shift
  code=0
  "$compare" "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$want" ] || fail "exit code $code instead of $want: $*"
  if [ "$want" -eq 0 ]; then
    [ ! -s "$work/err" ] || fail "stderr is not empty: $*"
  else
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "stderr is not one line: $*"
  fi
}

mkdir "$work/db"
expect 0 --num=3000 --rounds=2 --open_tables=3 --write_buffer_size=64K --compaction_style=lazy_leveling --compare_threads=2 --series_ms=1 \
  --db="$work/db" --json="$work/json"
grep -q 'readmissing  *sievedb ' "$work/out" || fail "no figures of readmissing"
[ -z "$(ls -A "$work/db")" ] || fail "databases were left"
if command -v python3 >/dev/null; then
  python3 - "$work/json" <<'PYTHON' || fail "the JSON is not as expected"
import json, sys
document = json.load(open(sys.argv[1]))
assert set(document) == {"machine", "settings", "workloads"}
seen = [(entry["name"], entry["cache"]) for entry in document["workloads"]]
assert len(seen) == len(set(seen))
reads = ["readrandom", "readmissing", "multiget", "multigetmissing", "seekrandom", "readseq", "readreverse",
         "readwhilewriting"]
writes = ["fillseq", "bulkload", "fillsync", "memfill", "memread", "memmissing", "fillrandom",
           "fillrandom_quiesced", "overwrite", "overwrite_quiesced"]
wanted = [(name, "all") for name in writes + reads + ["open"]] + [(name, "64MiB") for name in reads]
assert sorted(seen) == sorted(wanted), seen
for entry in document["workloads"]:
    engines = entry["engines"]
    assert entry["name"] not in ("bulkload", "memfill") or "leveldb" not in engines
    assert set(entry["ratio"]) == set(engines) - {"sievedb"}
    for figures in engines.values():
        assert set(figures) - {"syncs_per_put", "series"} == {
            "ops_per_s", "p50_ns", "p99_ns", "p999_ns", "max_ns", "write_amp", "space_amp",
            "peak_rss_bytes"}
        assert ("syncs_per_put" in figures) == (entry["name"] == "fillsync")
        assert ("series" in figures) == (entry["name"] in ("fillrandom", "overwrite"))
        if "series" in figures:
            assert sum(point["operations"] for point in figures["series"]) == 3000
        assert figures["ops_per_s"] > 0 and figures["peak_rss_bytes"] > 0
        assert figures["p50_ns"] <= figures["p99_ns"] <= figures["p999_ns"]
        if entry["name"] in writes + reads and not entry["name"].startswith(("mem", "fillsync")):
            assert figures["space_amp"] > 0
PYTHON
fi

expect 0 --engines=sievedb --workloads=fillrandom_quiesced,readrandom --caches=1M --num=1000 \
  --rounds=1 --db="$work/db"
expect 0 --help
expect 2 --engines=nonsense
expect 2 --workloads=nonsense
expect 2 --caches=huge
expect 2 --rounds=0
expect 2 stray
touch "$work/file"
expect 1 --num=1000 --db="$work/file/db"
expect 1 --num=1000 --workloads=fillseq --rounds=1 --db="$work/db" --json="$work/none/json"

echo "compare_smoke: ok"
