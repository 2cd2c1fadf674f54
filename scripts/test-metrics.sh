#!/bin/sh
# make test-metrics: checks a scrape of edge-server's debug build, and the alert rules, with
# promtool. With --live, a real Prometheus also scrapes the server, and evaluates the rules and
# the dashboard's expressions. Without Prometheus it unpacks Debian's package in target/, which
# needs no root and starts no service; if there is none, it prints how to install it, and fails
# with REQUIRE_ALL=1 only. Other arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
target=${CARGO_TARGET_DIR:-target}
unpacked=$target/prometheus

live=
cargo_args=
for arg in "$@"; do
    case $arg in
    --live) live=--live ;;
    *) cargo_args="$cargo_args $arg" ;;
    esac
done

command -v python3 >/dev/null || skip test-metrics "python3 is missing, run: sudo apt-get install -y python3"
if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
    bin=$(dirname "$(command -v promtool)")
else
    bin=$unpacked/usr/bin
    [ -x "$bin/promtool" ] || unpack_package prometheus "$unpacked" ||
        skip test-metrics "Prometheus is missing, run: sudo apt-get install -y --no-install-recommends prometheus"
fi
# The same targets as for the tests, which would otherwise build BoringSSL again.
# shellcheck disable=SC2086
cargo test --workspace --no-run --quiet $cargo_args
PYTHONDONTWRITEBYTECODE=1 python3 tools/metrics/check.py --target "$target" \
    --promtool "$bin/promtool" --prometheus "$bin/prometheus" $live
