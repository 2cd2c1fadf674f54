#!/bin/sh
# make interop-paths: first downloads of several clients from the release build of
# edge-server over long paths. CLIENT='quic-go aioquic', PATHS='50/600 20/700'
# (Mbit/s / ms) and BUFFER='0.5 1' (BDP) select; arguments go to
# tools/interop/paths.py. The table is in results/.
set -eu
cd "$(dirname "$0")/.."
. scripts/interop-clients.sh

install_languages
build_quic_go
install_python_client aioquic
install_python_client curl_cffi
[ -z "${CLIENT:-}" ] || set -- --clients "$CLIENT" "$@"
[ -z "${PATHS:-}" ] || set -- --paths "$PATHS" "$@"
[ -z "${BUFFER:-}" ] || set -- --buffers "$BUFFER" "$@"
python3 tools/interop/paths.py --target "$target" "$@"
