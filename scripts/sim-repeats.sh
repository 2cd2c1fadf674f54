#!/bin/sh
# Determinism of the simulator: debug and release builds, and one job and two, must
# write the same bytes, for a part of the evaluation that covers every phase of Careful
# Resume. Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --workspace --bin sim "$@"
scenarios="run paths changed dynamics recovery --runs 1"
# shellcheck disable=SC2086
{
    target/debug/sim $scenarios --out "$work/debug.jsonl"
    target/release/sim $scenarios --jobs 1 --out "$work/one.jsonl"
    target/release/sim $scenarios --jobs 2 --out "$work/two.jsonl"
}
cmp "$work/debug.jsonl" "$work/one.jsonl"
cmp "$work/one.jsonl" "$work/two.jsonl"
echo "sim-repeats: $(wc -l <"$work/one.jsonl") runs, the same bytes from debug and release, one job and two"
