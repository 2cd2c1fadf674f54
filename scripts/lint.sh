#!/bin/sh
# make lint: clippy on our own code, where a warning is an error. Arguments go to
# cargo. Upstream's files are upstream's: what clippy says of them is dropped.
set -eu
cd "$(dirname "$0")/.."
cargo clippy --version >/dev/null 2>&1 || {
    echo "error: clippy is missing: rustup component add clippy" >&2
    exit 1
}

said=$(mktemp)
trap 'rm -f "$said"' EXIT
# The whole workspace, as everywhere else: another choice of packages is another
# set of features, and BoringSSL is built once more.
cargo clippy --workspace --all-targets --message-format short "$@" 2>"$said" || {
    grep ': error' "$said" >&2 || cat "$said" >&2
    exit 1
}

git ls-files -co --exclude-standard '*.rs' |
    awk -F : 'NR == FNR { ours[$1]; next } $1 in ours && /: (warning|error)/ && !seen[$0]++ { print; bad = 1 } END { exit bad }' - "$said" >&2 || {
    echo "error: clippy warns of the lines above; cargo clippy --workspace --all-targets says more" >&2
    exit 1
}
