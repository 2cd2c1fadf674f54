#!/bin/sh
# Parses the script of the speed-test page, if Node.js is installed. `make interop-page` runs it.
set -eu
cd "$(dirname "$0")/.."
if command -v node >/dev/null; then
    node --check apps/edge-server/src/content/speedtest/page.js
else
    echo "test-page: skipped, node is not installed" >&2
fi
