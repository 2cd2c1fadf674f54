#!/bin/sh
# make dist: a tarball of the installed files, for systems without Debian's packages, one of the debug
# files, and their checksums, in OUT (target/packages).
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/stage.sh
out=${OUT:-target/packages}
command -v readelf >/dev/null || install_packages binutils
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$out"
out=$(cd "$out" && pwd)
name=edge-server-$version-linux-$arch

stage_programs "$work/$name" "$work/$name-debug"
stage_manual "$work/$name"
stage_files "$work/$name"
stage_components "$work/$name"
cp COPYING CHANGELOG.md "$work/$name"
cp packages/README.md "$work/$name/README.md"
for tree in "$name" "$name-debug"; do
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$tree" |
        gzip -9n >"$out/$tree.tar.gz"
done
(cd "$out" && sha256sum "$name.tar.gz" "$name-debug.tar.gz" >"$name.sha256")
ls "$out/$name"*
