#!/bin/sh
# make test-path-mtu: downloads over paths whose MTU is small, or changes, by the debug
# build, in network namespaces, where the system allows these. Arguments go to
# tools/interop/path_mtu.py.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

if ! unshare -Urnm true 2>/dev/null; then
    echo "test-path-mtu: skipped, this system allows no namespaces" >&2
    exit 0
fi
for command in ip:iproute2 tc:iproute2 ethtool:ethtool; do
    command -v "${command%:*}" >/dev/null || install_packages "${command#*:}"
done
PYTHONDONTWRITEBYTECODE=1 exec unshare -Urnm python3 tools/interop/path_mtu.py \
    --programs "${CARGO_TARGET_DIR:-target}/debug" "$@"
