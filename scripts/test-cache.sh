#!/bin/sh
# make test-cache: the public suite cache-tests against the cache of edge-server, over TLS. It fails if a
# required test fails. Node runs it; the suite and its libraries come from GitHub and npm, once, to
# target/cache-tests. CACHE_TESTS=DIR names a copy with its node_modules instead. Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
root=$PWD
target=${CARGO_TARGET_DIR:-$PWD/target}
suite=${CACHE_TESTS:-$target/cache-tests}
commit=b55b8bda3dbb8c927c04e85bd8d496a8caa3e4ba
origin_port=$((20000 + $$ % 10000))
port=$((origin_port + 10000))
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

command -v node >/dev/null && command -v npm >/dev/null ||
    skip test-cache "Node is missing, run: sudo apt-get install -y nodejs npm"
if [ ! -d "$suite/node_modules/undici" ]; then
    rm -rf "$suite"
    git clone --quiet https://github.com/http-tests/cache-tests.git "$suite" &&
        git -C "$suite" checkout --quiet "$commit" &&
        (cd "$suite" && npm install --silent --omit=dev --no-audit --no-fund) ||
        skip test-cache "cannot get the suite from GitHub and npm; name a copy by CACHE_TESTS=DIR"
fi

cargo build --quiet -p edge-server "$@"
mkdir "$work/www"
cat >"$work/edge.toml" <<CONFIG
[[host]]
[[host.origin]]
url = "http://127.0.0.1:$origin_port"
cache = { keep-set-cookie = true }
CONFIG
cd "$suite"
npm_config_port=$origin_port npm_config_protocol=http npm_config_pidfile="$work/pid" \
    node test-engine/server/server.mjs >"$work/origin.log" 2>&1 &
pids=$!
"$target/debug/edge-server" --listen "127.0.0.1:$port" --tcp on --root "$work/www" \
    --config "$work/edge.toml" 2>"$work/edge-server.log" &
pids="$pids $!"
sleep 2
NODE_TLS_REJECT_UNAUTHORIZED=0 npm_config_base="https://127.0.0.1:$port" npm_package_config_id='' \
    node --no-warnings test-engine/cli.mjs >"$work/results.json" ||
    die "the suite failed; $(tail -1 "$work/edge-server.log")"
node "$root/scripts/test-cache.mjs" "$suite" "$work/results.json"
