#!/bin/sh
# make interop-curl: builds curl with libquiche of the fork, by its C API and its
# pkg-config file, and runs it against the debug build of edge-server. curl's sources are
# those of the package curl-sys. Arguments go to cargo.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/boringssl.sh
. scripts/packages.sh

VERSION=0.4.91+curl-8.22.0
SHA256=cd39579123e45bf762716bb893d43886ed1cabe6289455be29a4f1d4e37afb06

target=${CARGO_TARGET_DIR:-$root/target}
work=$target/interop/curl

build_libquiche() {
    CARGO_TARGET_DIR=$work/quiche cargo build --quiet -p quiche --features ffi,pkg-config-meta "$@"
    # It contains a BoringSSL of its own, and curl shares its connections' TLS with quiche.
    rm -f "$work/quiche/debug/libquiche.so"
}

unpack_curl() {
    crate=$(fetched_crate curl-sys "$VERSION" "$SHA256")
    rm -rf "$work/source" "$work/build"
    mkdir -p "$work/source"
    tar -xzf "$crate" -C "$work/source" --strip-components=2 "curl-sys-$VERSION/curl"
    # The package has no docs, which the build enters in any case.
    mkdir "$work/source/docs"
    : >"$work/source/docs/CMakeLists.txt"
}

# BoringSSL is written in C++; a check of curl's for QUIC in it links without that library.
build_curl() {
    PKG_CONFIG_PATH=$work/quiche/debug cmake -S "$work/source" -B "$work/build" \
        -DUSE_QUICHE=ON -DOPENSSL_ROOT_DIR="$BORING_BSSL_PATH" \
        -DCMAKE_C_STANDARD_LIBRARIES='-lstdc++ -lm -lpthread -ldl' -DHAVE_SSL_SET_QUIC_USE_LEGACY_CODEPOINT=ON \
        -DBUILD_SHARED_LIBS=OFF -DHTTP_ONLY=ON -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF -DUSE_NGHTTP2=OFF \
        -DUSE_LIBIDN2=OFF -DCURL_ZLIB=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DBUILD_TESTING=OFF \
        -DBUILD_EXAMPLES=OFF -DBUILD_LIBCURL_DOCS=OFF -DBUILD_MISC_DOCS=OFF -DENABLE_CURL_MANUAL=OFF \
        -DCURL_DISABLE_INSTALL=ON >"$work/log"
    cmake --build "$work/build" --target curl >>"$work/log"
}

for program in cmake pkg-config python3 openssl; do
    command -v "$program" >/dev/null || install_packages "$program"
done
mkdir -p "$work"
# The same targets as for the tests: another selection would build BoringSSL again.
cargo test --workspace --no-run --quiet "$@"
lend_boringssl "$root"
[ -n "${BORING_BSSL_PATH:-}" ] || die "no build of BoringSSL was found in $target: set BORING_BSSL_PATH"
build_libquiche "$@"
unpack_curl
build_curl || die "curl does not build with libquiche: $work/log"
"$work/build/src/curl" --version | grep -q "quiche/$(upstream_field version)" || die "curl lacks quiche: $work/log"
PYTHONDONTWRITEBYTECODE=1 python3 tools/interop/run.py --target "$target" curl
