#!/bin/sh
# make test-interop: other projects' clients, over HTTP/3, HTTP/2 and HTTP/1.1, against the
# debug build of edge-server, and quic-go's first download over the GEO path. Arguments go to cargo;
# CLIENT='quinn aioquic' runs only these. Three clients are Debian packages: if they
# cannot be installed they are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_clients() {
    install_languages
    if ! command -v chromium >/dev/null || ! command -v gtlsclient >/dev/null || ! command -v curl >/dev/null; then
        (install_packages chromium ngtcp2-client curl) || echo "some clients will be missing" >&2
    fi
}

build_clients() {
    # The same targets as for the tests: another selection has other features, and would
    # build BoringSSL again.
    cargo test --workspace --no-run --quiet "$@"
    build_quic_go
    install_python_client aioquic
}

echo "test-interop: installing clients" >&2
install_clients
echo "test-interop: building" >&2
build_clients "$@"
python3 -m unittest discover --quiet tools/interop
status=0
# shellcheck disable=SC2086
python3 tools/interop/run.py --target "$target" ${CLIENT:-} || status=1
case " ${CLIENT:-quic-go} " in
*" quic-go "*)
    echo "test-interop: a first download over GEO" >&2
    python3 tools/interop/paths.py --target "$target" --profile debug --out "$work" \
        --clients quic-go --paths 50/600 --buffers 1 || status=1
    ;;
esac
exit $status
