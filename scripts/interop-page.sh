#!/bin/sh
# make interop-page: the speed-test page in headless browsers, against the debug build of
# edge-server. Arguments go to cargo; BROWSER=firefox runs one. Browsers are Debian
# packages: those that cannot be installed are skipped, unless REQUIRE_ALL=1.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_browsers() {
    command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v firefox-esr >/dev/null ||
        (install_packages chromium chromium-driver firefox-esr) || echo "some browsers will be missing" >&2
}

install_python
install_browsers
install_python_client browser
# The same targets as for the tests, which would otherwise build BoringSSL again.
cargo test --workspace --no-run --quiet "$@"
# shellcheck disable=SC2086
"$work/venv-browser/bin/python" tools/interop/speedtest_page.py --target "$target" ${BROWSER:-}
