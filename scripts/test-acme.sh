#!/bin/sh
# make test-acme: edge-server's ACME against Pebble, the test authority of Let's Encrypt, which is
# built with Go, over loopback (under two minutes). Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_languages
echo "test-acme: building" >&2
# The same targets as for the tests, which would otherwise build BoringSSL again.
cargo test --workspace --no-run --quiet "$@"
build_pebble
python3 tools/acme/run.py --target "$target" --programs "$work"
