#!/bin/sh
# make test-arm64: builds edge-server for arm64, and runs it under qemu-user: over an emulated path, it serves a page
# and downloads to clients of this machine, and jumps. Needs rustup; as root it installs Debian's cross compiler and qemu.
# Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
rust=aarch64-unknown-linux-gnu
gnu=aarch64-linux-gnu
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$(mktemp -d)
server=
path=
stop() {
    for each in $path $server; do
        kill "$each" 2>/dev/null && wait "$each" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap stop EXIT

command -v rustup >/dev/null || skip test-arm64 "skipped: rustup is missing, which brings Rust's library for $rust"
command -v $gnu-g++ >/dev/null && command -v qemu-aarch64-static >/dev/null ||
    install_packages gcc-$gnu g++-$gnu libc6-dev-arm64-cross qemu-user-static
rustup target add $rust

# BoringSSL and the bindings to it are built anew, whatever this machine has prebuilt.
unset BORING_BSSL_PATH
export CC_aarch64_unknown_linux_gnu=$gnu-gcc CXX_aarch64_unknown_linux_gnu=$gnu-g++
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$gnu-gcc
export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu="--sysroot=/usr/$gnu -I/usr/$gnu/include"
cargo build --target $rust -p edge-server -p path-store -p edge-client "$@"
cargo build -p edge-client -p link "$@"
arm=$target/$rust/debug
emulator="qemu-aarch64-static -L /usr/$gnu"

for program in edge-server path-store edge-client; do
    readelf -h "$arm/$program" | grep -q AArch64 || die "$program is not for arm64"
    $emulator "$arm/$program" --version
done
mkdir "$work/www"
echo "from arm64" >"$work/www/index.html"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 60 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
set -- --listen 127.0.0.1:0 --root "$work/www" --cert "$work/cert.pem" --key "$work/key.pem" \
    --store "$work/paths.db" --speedtest --access-log "$work/access.jsonl"
$emulator "$arm/edge-server" "$@" --check
$emulator "$arm/edge-server" "$@" 2>"$work/log" &
server=$!
listening() { # PROCESS LOG: prints its port
    for _ in $(seq 150); do
        port=$(sed -n 's/.*listening on 127.0.0.1:\([0-9]*\).*/\1/p' "$2" | head -1)
        [ -z "$port" ] || break
        kill -0 "$1" 2>/dev/null || die "it has ended: $(tail -3 "$2")"
        sleep 0.2
    done
    [ -n "$port" ] || die "it does not listen: $(tail -3 "$2")"
    echo "$port"
}
port=$(listening $server "$work/log")
"$target/debug/link-emulator" --listen 127.0.0.1:0 --to "127.0.0.1:$port" --rate 20 --rtt 60 --buffer 150000 \
    >"$work/totals" 2>"$work/path" &
path=$!
port=$(listening $path "$work/path")

get() { # PATH: prints the body
    "$target/debug/edge-client" --insecure --output "$work/body" "https://127.0.0.1:$port$1" >/dev/null && cat "$work/body"
}
[ "$(get /)" = "from arm64" ] || die "the page is another one: $(tail -3 "$work/log")"
# An emulated processor that others slow down may be too late to observe the path.
for _ in 1 2 3 4 5 6; do
    [ "$(get /bytes/2000000 | wc -c)" = 2000000 ] || die "a download has another length"
done
kill -TERM $server
wait $server || die "it does not end well: $(tail -3 "$work/log")"
server=
grep -q '"jump_bytes":[0-9]' "$work/access.jsonl" || die "no download has jumped: $(tail -2 "$work/access.jsonl")"
echo "test-arm64: edge-server for arm64 serves, and jumps"
