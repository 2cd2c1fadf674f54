#!/bin/sh
# make test-cache-load: 2,000 clients over HTTP/1.1, HTTP/2 and HTTP/3 on the cache of the release build, while the origin
# and the server are killed, and the server is reloaded, drained and taken over. SEED, CLIENTS, OBJECTS and TIME (seconds)
# change it. Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --release "$@" -p edge-server
cargo test --quiet --release "$@" -p edge-server --test process -- --ignored --nocapture --test-threads 1 load_of_2000
