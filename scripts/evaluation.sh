#!/bin/sh
# make evaluation: runs every scenario and makes the report, also when a run
# failed; fails then, and when a figure is not what it must be.
set -eu
cd "$(dirname "$0")/.."
mkdir -p results
status=0
target/release/sim run --all --out results/evaluation.jsonl || status=1
target/release/sim report results/evaluation.jsonl --out results/evaluation.html || status=1
exit $status
