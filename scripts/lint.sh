#!/bin/sh
# make lint: clippy on our own code, where a warning is an error. Arguments go to
# cargo. Warnings about upstream's files are dropped.
set -eu
cd "$(dirname "$0")/.."
. scripts/boringssl.sh

cargo clippy --version >/dev/null 2>&1 || {
    echo "error: clippy is missing: rustup component add clippy" >&2
    exit 1
}

said=$(mktemp)
trap 'rm -f "$said"' EXIT

lint() { # FOLDER/ ARGUMENT…
    folder=$1
    shift
    cargo clippy --message-format short "$@" 2>"$said" || {
        grep ': error' "$said" >&2 || cat "$said" >&2
        exit 1
    }
    git ls-files -co --exclude-standard '*.rs' |
        awk -F : -v folder="$folder" 'NR == FNR { ours[$1]; next } (folder $1) in ours && /: (warning|error)/ && !seen[$0]++ { print folder $0; bad = 1 } END { exit bad }' - "$said" >&2 || {
        echo "error: clippy warns of the lines above; cargo clippy $* says more" >&2
        exit 1
    }
}

# The whole workspace, as everywhere else: another selection of packages has other
# features, and would build BoringSSL again.
lint '' --workspace --all-targets "$@"
# Separate workspaces that use modules of this one, which a change may break.
for workspace in fuzz tools/same-packets examples/tokio-quiche; do
    target=${CARGO_TARGET_DIR:-target}
    # The folder of make tokio-quiche-check, which checks the same dependencies.
    [ "$workspace" != examples/tokio-quiche ] || target=$target/tokio-quiche
    # The tests of modules that the fuzz targets borrow are not theirs.
    targets=--all-targets
    [ "$workspace" != fuzz ] || targets=--bins
    lend_boringssl "$workspace"
    lint "$workspace/" --manifest-path "$workspace/Cargo.toml" "$targets" --target-dir "$target" "$@"
done
