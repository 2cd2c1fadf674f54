#!/bin/sh
# make check-long: what depends on this machine's clock, on the release binaries:
# how close the link emulator comes to its settings, how evenly a jump leaves, what
# the store costs under load, what a flood does to downloads, and how a load of many clients is
# borne; first downloads by other people's clients over long paths; and the tests that take
# too long for every day.
# Arguments go to cargo. What else runs here is not what is measured: with
# real-time scheduling, where it may be had, it does not count.
set -eu
cd "$(dirname "$0")/.."
first=
if chrt -r 1 true 2>/dev/null; then first='chrt -r 1'; fi

measure() { # PACKAGE BENCH: builds as usual, then runs
    cargo bench -p "$1" --bench "$2" --no-run $locked
    $first cargo bench -q -p "$1" --bench "$2" $locked || status=1
}

locked="$*"
status=0
# 200 kills, 1000 damaged files, 10,000 forged clients, 30 s without an answer.
cargo build --workspace $locked
cargo test --workspace $locked --test crashes --test damage --test process -- --ignored --nocapture || status=1
measure link accuracy
measure edge-server jump_pacing
measure edge-server store_load
measure edge-server initial_flood
measure edge-server load
sh scripts/interop-paths.sh || status=1
exit $status
