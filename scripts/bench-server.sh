#!/bin/sh
# make bench-server: compares the CPU cost of edge-server with a minimal server on
# upstream's crate, tokio-quiche's published example, and quinn with h3, on two cores.
# ARGS='--size 0.1 --rounds 1' is a trial. The peers' builds are in target/bench-server.
set -eu
cd "$(dirname "$0")/.."
TOKIO_QUICHE=0.20.1
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$target/bench-server
boring=$(sed -n '/^name = "boring"$/{n;s/^version = "\(.*\)"$/\1/p;}' Cargo.lock)

die() {
    echo "error: $*" >&2
    exit 1
}

for tool in taskset openssl python3; do
    command -v "$tool" >/dev/null || die "$tool is missing: sudo apt-get install util-linux openssl python3"
done

build_peers() {
    CARGO_TARGET_DIR="$work/peers" cargo build --release --locked --manifest-path tools/server-bench/peers/Cargo.toml
}

# The unmodified package, built with the fork's version of boring.
build_tokio_quiche() {
    source=$work/tokio-quiche-$TOKIO_QUICHE
    if [ ! -e "$source/Cargo.toml" ]; then
        (cd "$work" && cargo info -q "tokio-quiche@$TOKIO_QUICHE" >/dev/null)
        crate=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/cache" -name "tokio-quiche-$TOKIO_QUICHE.crate" | head -n 1)
        [ -n "$crate" ] || die "cargo cannot download tokio-quiche $TOKIO_QUICHE"
        tar -xzf "$crate" -C "$work"
        printf '\n[workspace]\n' >>"$source/Cargo.toml"
        rm -f "$source/Cargo.lock"
        (cd "$source" && cargo update -q -p boring --precise "$boring" && cargo update -q -p boring-sys --precise "$boring")
    fi
    CARGO_TARGET_DIR="$work/tokio-quiche" cargo build --release --example async_http3_server \
        --manifest-path "$source/Cargo.toml"
}

mkdir -p "$work"
build_peers
build_tokio_quiche
python3 tools/server-bench/run.py --release "$target/release" --peers "$work/peers" \
    --tokio-quiche "$work/tokio-quiche" "$@"
