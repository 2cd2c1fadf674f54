#!/bin/sh
# make test-tokio-quiche: builds the released tokio-quiche with the fork, and tests the
# server on it (examples/tokio-quiche) over an emulated path. --check only compiles both.
# --bench compares its times with edge-server's. Other arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/boringssl.sh
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)

command="test"
profile=debug
case ${1:-} in
--check)
    shift
    command="check --tests"
    ;;
--bench)
    shift
    command="bench --profile dev"
    profile=release
    ;;
*)
    # The same targets as for the other tests: another selection has other features, and
    # would build BoringSSL again.
    cargo test --workspace --no-run --quiet "$@"
    ;;
esac

# A folder of its own: with lent BoringSSL the other workspace's would not be found again.
lend_boringssl examples/tokio-quiche
# shellcheck disable=SC2086
TOOLS=$target/$profile cargo $command --manifest-path examples/tokio-quiche/Cargo.toml \
    --target-dir "$target/tokio-quiche" "$@"
