#!/bin/sh
# make test-fleet: do make fleet-demo and make testbed run to their end, from programs that are built
# already, on a base that debootstrap makes? Starts dockerd if there is none that runs. Needs root.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/docker.sh
work=$(mktemp -d)
stop() {
    stop_engine
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM
start_engine test-fleet "$work"
import_base "$work/log"
sh scripts/fleet-demo.sh
RUNS=1 RESULTS=$work/results ENV_FILE=docker/testbed/leo.env sh scripts/testbed.sh
[ -s "$work/results/speed-test.jsonl" ] || die "the testbed has no results"
