#!/bin/sh
# make h2spec: the conformance test of HTTP/2, 146 tests, against the debug build of edge-server.
# Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_languages
# The same targets as for the tests, which would otherwise build BoringSSL again.
cargo test --workspace --no-run --quiet "$@"
build_h2spec
python3 tools/interop/http2_conformance.py --target "$target"
