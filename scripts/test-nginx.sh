#!/bin/sh
# make test-nginx: the recipe of docs/edge-server/tcp.md, nginx over TCP beside edge-server over UDP at
# the same port. Without nginx it unpacks Debian's package in target/, which needs no root and starts
# no service; if there is none, it prints how to install it, and fails with REQUIRE_ALL=1
# only. Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
unpacked=$target/nginx
port=${PORT:-$((20000 + $$ % 10000))}
work=$(mktemp -d)
pids=

stop() {
    for pid in $pids; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap stop EXIT

command -v openssl >/dev/null && command -v curl >/dev/null || install_packages openssl curl
PATH=$PATH:/usr/sbin:$unpacked/usr/sbin
if ! command -v nginx >/dev/null; then
    unpack_package nginx "$unpacked" || skip test-nginx "nginx is missing, run: sudo apt-get install -y nginx-light"
fi

cargo test --workspace --no-run --quiet "$@"
mkdir "$work/root"
echo "the same over both" >"$work/root/page.txt"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=www.example.org \
    -addext subjectAltName=DNS:www.example.org -days 90 -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl.log" ||
    die "openssl: $(cat "$work/openssl.log")"

# The block of the page, with the paths and the port of this test.
block=$(sed -n '/^```nginx$/,/^```$/p' docs/edge-server/tcp.md | sed '/^```/d' |
    sed "s,/etc/edge/fullchain.pem,$work/cert.pem,; s,/etc/edge/key.pem,$work/key.pem,; s,/srv/www,$work/root,; s,\([ :]\)443\b,\1$port,g")
cat >"$work/nginx.conf" <<CONFIG
daemon off;
master_process off;
pid $work/nginx.pid;
error_log $work/nginx.log;
events {}
http {
    access_log off;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
$block
}
CONFIG
nginx -p "$work" -c "$work/nginx.conf" 2>"$work/nginx-start.log" &
pids=$!
"$target/debug/edge-server" --tcp off --listen "127.0.0.1:$port" --root "$work/root" \
    --cert "$work/cert.pem" --key "$work/key.pem" 2>"$work/edge-server.log" &
pids="$pids $!"

fetch_tcp() {
    curl --silent --show-error --cacert "$work/cert.pem" --resolve "www.example.org:$port:127.0.0.1" \
        --http2 --dump-header "$work/headers" "https://www.example.org:$port/page.txt"
}

tries=100
until fetch_tcp >"$work/tcp.txt" 2>"$work/curl.log"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || die "nginx does not serve: $(cat "$work"/*.log)"
    sleep 0.1
done
SSL_CERT_FILE=$work/cert.pem "$target/debug/edge-client" --connect "127.0.0.1:$port" \
    --output "$work/quic.txt" "https://www.example.org:$port/page.txt" ||
    die "edge-server does not serve: $(cat "$work/edge-server.log")"
cmp "$work/root/page.txt" "$work/tcp.txt" && cmp "$work/root/page.txt" "$work/quic.txt"
grep -q '^HTTP/2 200' "$work/headers" || die "nginx does not speak HTTP/2: $(cat "$work/headers")"
tr -d '\r' <"$work/headers" | grep -qx "alt-svc: h3=\":$port\"; ma=86400" ||
    die "nginx does not tell of HTTP/3: $(cat "$work/headers")"
echo "test-nginx: nginx serves TCP and tells of HTTP/3 at port $port, where edge-server serves UDP"
