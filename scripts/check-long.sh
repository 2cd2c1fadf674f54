#!/bin/sh
# make check-long: measurements on the release binaries that depend on this machine's
# clock: accuracy of the link emulator, pacing of a jump, cost of the store under load,
# downloads during a flood, jumps of responses from an origin, a load of many clients, the gain that an access log tells, and
# the simulator beside real processes;
# first downloads of other projects' clients over long paths; alert rules and dashboard in
# Prometheus; the speed-test page, and the discovery of HTTP/3, in browsers; interruptions of the fork's commands; the fork's
# tests without qlog; upstream's workspace with the series; curl with the fork's library; and
# tests that take too long for every day.
# Arguments go to cargo. Where permitted, real-time scheduling keeps other processes
# from affecting the measurements.
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
# 200 kills, 1000 damaged files, 10,000 forged clients, 30 s without a reply, 1000
# sequences of takeovers, a control group of half of 1000 clients, 2000 connections that keep
# all they can, forty searches and a mixed subnet with path state in tokens. Origins of other projects
# are for make test-origin, and the load of 2000 clients on the cache for the release build.
cargo build --workspace $locked
cargo test --workspace $locked --bin edge-server --test crashes --test damage --test process --test hostile_input -- --ignored --nocapture \
    --skip origins_of_other_projects --skip load_of_2000 || status=1
measure link accuracy
measure edge-server jump_pacing
measure edge-server store_load
measure edge-server initial_flood
measure edge-server handshake_flood
measure edge-server stalled_origin
measure edge-server proxied_jump
measure edge-server load
measure speed-test gain
measure speed-test validity
sh scripts/test-cache-load.sh $locked || status=1
LONG=1 sh scripts/test-no-loss.sh || status=1
sh scripts/test-metrics.sh --live $locked || status=1
cargo test -p quiche --tests --features internal,ffi $locked || status=1
sh scripts/workspace-check.sh || status=1
sh scripts/test-acme.sh $locked || status=1
sh scripts/interop-curl.sh $locked || status=1
sh scripts/interop-paths.sh || status=1
sh scripts/interop-page.sh $locked || status=1
sh scripts/interop-alt-svc.sh $locked || status=1
exit $status
