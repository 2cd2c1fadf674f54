#!/bin/sh
# make test-origin: edge-server in front of nginx, Node and Python, over HTTP/1.1 and HTTP/2 to them, and HTTP/3, HTTP/2
# and HTTP/1.1 to clients. Origins that break the rules are in make test. Without nginx it unpacks Debian's package in
# target/, which needs no root and starts no service. Arguments go to cargo.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
unpacked=$target/nginx

command -v node >/dev/null || install_packages nodejs
command -v python3 >/dev/null || install_packages python3
PATH=$PATH:/usr/sbin:$unpacked/usr/sbin
if ! command -v nginx >/dev/null; then
    unpack_package nginx "$unpacked" || skip test-origin "nginx is missing, run: sudo apt-get install -y nginx-light"
fi

# The targets of make test: another selection has other features, and would build BoringSSL again.
process=$(cargo test --workspace --no-run --quiet --message-format=json "$@" |
    sed -n 's/.*"executable":"\([^"]*\/process-[^"]*\)".*/\1/p')
(cd apps/edge-server && "$process" --quiet --ignored origins_of_other_projects)
echo "test-origin: files, ranges, conditions, uploads and long fields are the same behind nginx, Node and Python"
