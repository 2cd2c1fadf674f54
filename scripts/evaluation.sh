#!/bin/sh
# make evaluation: runs every scenario and writes the report. Fails, after the report,
# if a run failed or a figure is outside its limits.
set -eu
cd "$(dirname "$0")/.."
mkdir -p results
status=0
target/release/sim run --all --out results/evaluation.jsonl || status=1
target/release/sim report --evaluation results/evaluation.jsonl --out results/evaluation.html || status=1
exit $status
