#!/bin/sh
# make interop-page: the speed-test page in headless browsers, against the debug build of
# edge-server. Arguments go to cargo; BROWSER=firefox runs one. Browsers are Debian
# packages: those that cannot be installed are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

prepare_browsers "$@"
# shellcheck disable=SC2086
"$work/venv-browser/bin/python" tools/interop/speedtest_page.py --target "$target" ${BROWSER:-}
