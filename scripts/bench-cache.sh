#!/bin/sh
# make bench-cache: compares the CPU cost of cached responses with that of files, and with nginx and Varnish, and their
# latency, on two cores. ARGS='--size 0.1 --rounds 1' is a trial.
set -eu
cd "$(dirname "$0")/.."
for tool in taskset openssl python3; do
    command -v "$tool" >/dev/null || {
        echo "error: $tool is missing: sudo apt-get install util-linux openssl python3" >&2
        exit 1
    }
done
python3 tools/server-bench/cache.py --release "${CARGO_TARGET_DIR:-$PWD/target}/release" "$@"
