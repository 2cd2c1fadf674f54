#!/bin/sh
# Puts what docker/edge/Dockerfile copies into OUT: stripped programs, the configuration, and the list of
# components.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/stage.sh
rm -rf "$OUT"
symbols=$(mktemp -d)
trap 'rm -rf "$symbols"' EXIT
umask 022
stage_programs "$OUT" "$symbols"
stage_components "$OUT"
install -Dm 644 docker/edge/edge.toml "$OUT/etc/edge/edge.toml"
install -Dm 644 packages/www/index.html "$OUT/srv/www/index.html"
install -Dm 644 COPYING "$OUT/usr/share/doc/edge-server/copyright"
