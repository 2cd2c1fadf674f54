#!/bin/sh
# make interop-page: the speed-test page in headless browsers, against the debug build of
# edge-server. Arguments go to cargo; BROWSER=firefox runs one. Browsers are Debian
# packages: those that cannot be installed are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_python
install_browsers
install_python_client browser
# The same targets as for the tests, which would otherwise build BoringSSL again.
cargo test --workspace --no-run --quiet "$@"
# shellcheck disable=SC2086
"$work/venv-browser/bin/python" tools/interop/speedtest_page.py --target "$target" ${BROWSER:-}
