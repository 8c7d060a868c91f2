#!/bin/sh
# Every workload of db_bench on a small database: exit codes, the shape of each
# line, silence in a pipe.
#
# Usage: db_bench_smoke.sh path/to/db_bench
set -eu

db_bench=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/db_bench_smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
num=2000

fail() {
  echo "db_bench_smoke: $*" >&2
  for file in out err; do
    if [ -s "$work/$file" ]; then
      echo "--- $file" >&2
      tail -n 40 "$work/$file" >&2
    fi
  done
  exit 1
}

# expect CODE ARGUMENTS...: runs db_bench; what it printed is in out and err.
expect() {
  want=$1
  shift
  code=0
  "$db_bench" "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq "$want" ] || fail "exit code $code instead of $want: $*"
  if [ "$want" -eq 0 ]; then
    [ ! -s "$work/err" ] || fail "stderr is not empty: $*"
  else
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "stderr is not one line: $*"
    grep -q '^db_bench: ' "$work/err" || fail "stderr does not name the program: $*"
  fi
}

# has PATTERN: one line of out matches it.
has() {
  grep -Eq "$1" "$work/out" || fail "no line matches: $1"
}

# line NAME OPERATIONS [DETAIL]: the report of a workload.
line() {
  has "^$(printf '%-12s' "$1") : +[0-9]+\.[0-9]{3} micros/op [0-9]+ ops/sec [0-9]+\.[0-9]{3} seconds $2 operations;${3-}\$"
}
mb=' +[0-9]+\.[0-9] MB/s'

# --- every workload, one after the other
expect 0 --num=$num --db="$work/all" --benchmarks=fillseq,readseq,readreverse,readrandom,\
readmissing,readhot,seekrandom,seekmissing,multireadrandom,readwhilewriting,overwrite,fillrandom,fillbatch,ingest,\
fillsync,compact,flush,open,stats,levelstats,filterstats,deleterandom,deleteseq
has '^Keys:       16 bytes each$'
has '^Values:     100 bytes each \(50 bytes after compression\)$'
has "^Entries:    $num\$"
has '^RawSize:    0\.2 MB \(estimated\)$'
has '^FileSize:   0\.1 MB \(estimated\)$'
for name in fillseq readseq readreverse overwrite fillrandom fillbatch ingest; do
  line $name $num "$mb"
done
line fillsync 2 "$mb"
for name in readrandom readhot multireadrandom readwhilewriting; do
  line $name $num "$mb \($num of $num found\)"
done
line seekrandom $num "   \($num of $num found\)"
line seekmissing $num "   \(0 of $num found\)"
line readmissing $num "   \(0 of $num found\)"
line compact 1
line flush 1
line open 1
line deleterandom $num
line deleteseq $num
has '^level '
! grep -q "$(printf '\r')" "$work/out" || fail "a progress bar in a pipe"

# --- an existing database, several threads
expect 0 --num=$num --db="$work/old" --benchmarks=fillseq --value_size=400 --key_size=24
expect 0 --num=$num --db="$work/old" --use_existing_db --benchmarks=fillseq,readrandom,readmissing \
  --key_size=24 --threads=4 --reads=500 --histogram --statistics
has '^fillseq      : skipped \(--use_existing_db is true\)$'
line readrandom $num "$mb \($num of $num found\)"
line readmissing $num "   \(0 of $num found\)"
has '^Microseconds per op: '
has '^STATISTICS:$'
expect 1 --num=$num --db="$work/none" --use_existing_db --benchmarks=readrandom
expect 1 --num=$num --db="$work/old" --use_existing_db --benchmarks=readmissing  # other --key_size

# --- other options
expect 0 --num=$num --db="$work/options" --benchmarks=fillrandom,readrandom --compression_type=none \
  --bloom_bits=0 --cache_size=0 --block_size=1K --write_buffer_size=1M --compaction_style=lazy_leveling --batch_size=10 \
  --compression_ratio=1 --max_background_jobs=1 --disable_wal --seed=7
line readrandom $num "$mb \([0-9]+ of $num found\)"
expect 0 --num=$num --db="$work/options" --benchmarks=fillseq,readrandom --sync --num=100
line fillseq 100 "$mb"
expect 0 --num=$num --db="$work/options" --benchmarks=fillseq,readrandom --duration=1 --threads=2
line fillseq $num "$mb"
has '^readrandom   : .* [0-9]+ operations;'
# Tables of several threads, which are not left anywhere.
expect 0 --num=$num --db="$work/options" --benchmarks=ingest,readrandom,readmissing,readseq --threads=3
line ingest $num "$mb"
line readrandom $((3 * num)) "$mb \($((3 * num)) of $((3 * num)) found\)"
line readmissing $((3 * num)) "   \(0 of $((3 * num)) found\)"
line readseq $((3 * num)) "$mb"
[ -z "$(ls "$work" | grep load)" ] || fail "tables are left"
# Every kind of filter denies most of what is not there, and what is there never.
for filter in blocked dense bloom ribbon fuse none; do
  expect 0 --num=$num --db="$work/options" --benchmarks=fillseq,readseq,readmissing,readrandom \
    --filter=$filter --bloom_bits=12
  line readmissing $num "   \(0 of $num found\)"
  line readrandom $num "$mb \($num of $num found\)"
done
# A short key makes binary keys; the last flag of a name counts.
expect 0 --num=$num --key_size=2 --db="$work/options" --benchmarks=fillseq,readmissing
line readmissing $num "   \(0 of $num found\)"

# --- intervals, and a limit that makes the flush take a while
expect 0 --num=$num --db="$work/options" --benchmarks=fillrandom,flush,readrandom --threads=2 \
  --stats_interval_ms=1 --rate_limiter_bytes_per_sec=1000000 \
  --rate_limiter_min_bytes_per_sec=500000
line fillrandom $num "$mb"
has '^  seconds     ops/sec    p50 us    p99 us  p99.9 us      max us$'
has '^     0\.00  '

# --- JSON
expect 0 --num=$num --db="$work/json" --benchmarks=fillseq,readmissing,levelstats --json --histogram \
  --stats_interval_ms=1
if command -v python3 >/dev/null; then
  python3 - "$work/out" <<'PYTHON' || fail "the JSON is not as expected"
import json, sys
document = json.load(open(sys.argv[1]))
fill, missing, levels = document["workloads"]
assert document["settings"]["num"] == 2000
assert fill["name"] == "fillseq" and fill["operations"] == 2000 and fill["ops_per_s"] > 0
assert sum(point["operations"] for point in fill["series"]) == 2000
assert missing["found"] == 0 and missing["latency"]["p50_ns"] > 0
assert levels["name"] == "levelstats" and levels["text"].startswith("level")
PYTHON
fi

# --- wrong usage
expect 0 --help
has '^Usage: db_bench '
has '^  --bloom_bits=N '
expect 2 --no_such_flag
expect 2 --num=many
expect 2 --num=0
expect 2 --threads=0
expect 2 --compression_type=zip
expect 2 --filter=coffee
expect 2 --benchmarks=fillseq,nonsense
expect 2 --benchmarks=
expect 2 --db=
expect 2 --sync --disable_wal
expect 2 --disable_wal --benchmarks=fillsync
expect 2 --key_size=1 --num=1000
expect 2 --block_size=0
expect 2 stray
# --- a directory that cannot be
touch "$work/file"
expect 1 --num=$num --db="$work/file/db" --benchmarks=fillseq

echo "db_bench_smoke: ok"
