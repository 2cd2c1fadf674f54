#!/bin/sh
# make interop-alt-svc: headless browsers that discover HTTP/3 by Alt-Svc, against the debug
# build of edge-server. Arguments go to cargo; BROWSER=firefox runs one. Browsers are Debian
# packages: those that cannot be installed are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

prepare_browsers "$@"
"$work/venv-browser/bin/python" -m unittest discover --quiet --pattern test_discovery.py tools/interop
# shellcheck disable=SC2086
"$work/venv-browser/bin/python" tools/interop/discovery.py --target "$target" ${BROWSER:-}
