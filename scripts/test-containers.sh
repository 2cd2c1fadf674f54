#!/bin/sh
# make test-containers: test-docker.sh and test-fleet.sh in one Docker engine, on one base, from programs of
# the debug build. Starts dockerd if there is none that runs. Needs root.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/docker.sh
PROGRAMS=${PROGRAMS:-${CARGO_TARGET_DIR:-$PWD/target}/debug}
export PROGRAMS
work=$(mktemp -d)
stop() {
    stop_engine
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM
start_engine test-containers "$work"
import_base "$work/log"
docker run --rm debian:bookworm-slim true >"$work/log" 2>&1 ||
    skip_engine test-containers "it cannot run a container: $(tail -1 "$work/log")"
sh scripts/test-docker.sh
sh scripts/test-fleet.sh
