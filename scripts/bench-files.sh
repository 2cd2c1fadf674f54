#!/bin/sh
# make bench-files: compares the CPU cost of files with that of the same bytes from memory, and
# with nginx, h2o and Caddy, on two cores. ARGS='--size 0.1 --rounds 1 --files 10000' is a trial.
set -eu
cd "$(dirname "$0")/.."
for tool in taskset openssl python3; do
    command -v "$tool" >/dev/null || {
        echo "error: $tool is missing: sudo apt-get install util-linux openssl python3" >&2
        exit 1
    }
done
python3 tools/server-bench/files.py --release "${CARGO_TARGET_DIR:-$PWD/target}/release" "$@"
