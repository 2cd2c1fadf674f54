#!/bin/sh
# make test-interop: other projects' clients, over HTTP/3, HTTP/2 and HTTP/1.1, against the
# debug build of edge-server, and quic-go's first download over the GEO path. Arguments go to cargo;
# CLIENT='quinn aioquic' runs only these. Some clients are Debian packages, or need Java from
# them: if these cannot be installed they are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_clients() {
    install_languages
    packages=
    for one in chromium:chromium gtlsclient:ngtcp2-client curl:curl h2load:nghttp2-client \
        javac:default-jdk-headless mvn:maven; do
        command -v "${one%%:*}" >/dev/null || packages="$packages ${one#*:}"
    done
    # shellcheck disable=SC2086
    [ -z "$packages" ] || (install_packages $packages) || echo "some clients will be missing" >&2
}

build_clients() {
    # The same targets as for the tests: another selection has other features, and would
    # build BoringSSL again.
    cargo test --workspace --no-run --quiet "$@"
    build_quic_go
    for name in aioquic curl_cffi niquests; do
        install_python_client "$name"
    done
    if has_java; then
        build_java_clients
    fi
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
