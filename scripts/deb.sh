#!/bin/sh
# make deb: the Debian package, and one with debug files, in OUT (target/packages). dpkg's own tools make
# them: nothing has to be installed, and the files are those of make dist. VERSION= names another version;
# scripts/stage.sh has the rest.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/stage.sh
out=${OUT:-target/packages}
revision=$version-1
command -v dpkg-shlibdeps >/dev/null && command -v readelf >/dev/null || install_packages dpkg-dev binutils
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$out"
out=$(cd "$out" && pwd)
root=$work/edge-server
debug=$work/dbgsym

stage_programs "$root" "$debug"
stage_manual "$root"
stage_files "$root"
stage_components "$root"
maintainer=$(git log -1 --format='%an <%ae>')
doc=$root/usr/share/doc/edge-server
cp COPYING "$doc/copyright"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
gzip -9nc >"$doc/changelog.Debian.gz" <<CHANGELOG
edge-server ($revision) unstable; urgency=medium

  * See changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

# What the programs are linked with.
mkdir "$work/debian"
printf 'Source: edge-server\n\nPackage: edge-server\nArchitecture: %s\n' "$arch" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info edge-server/usr/bin/* 2>"$work/said" | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || die "dpkg-shlibdeps: $(cat "$work/said")"

pack() { # FOLDER: its control file is on standard input, without the size
    mkdir -p "$1/DEBIAN"
    size=$(du -k -s --apparent-size --exclude=DEBIAN "$1" | cut -f1)
    sed "s/^Priority:/Installed-Size: $size\n&/" >"$1/DEBIAN/control"
    (cd "$1" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$1/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$1" "$out" >&2
}

mkdir -p "$root/DEBIAN"
install -m 755 packages/debian/postinst packages/debian/prerm packages/debian/postrm "$root/DEBIAN"
(cd "$root" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$root/DEBIAN/conffiles"
pack "$root" <<CONTROL
Package: edge-server
Version: $revision
Architecture: $arch
Maintainer: $maintainer
Section: httpd
Priority: optional
Depends: $depends, systemd | systemd-standalone-sysusers, passwd
Recommends: ca-certificates, logrotate
Suggests: edge-server-dbgsym (= $revision)
Description: HTTP/3 server and cache with Careful Resume
 Serves files and cached responses of origins over HTTP/3, HTTP/2 and
 HTTP/1.1. What it observes of a client's path it saves for later
 connections from the same subnet, which skip most of slow start (Careful
 Resume, RFC 9959).
 .
 This package also has path-store, which shows and edits what is saved, and
 edge-client, a client for downloads and load.
CONTROL
mkdir -p "$debug/usr/share/doc"
ln -s edge-server "$debug/usr/share/doc/edge-server-dbgsym"
pack "$debug" <<CONTROL
Package: edge-server-dbgsym
Version: $revision
Architecture: $arch
Maintainer: $maintainer
Section: debug
Priority: optional
Depends: edge-server (= $revision)
Auto-Built-Package: debug-symbols
Build-Ids: $(find "$debug/usr" -name '*.debug' -printf '%P\n' | sed 's,.*/.build-id/\(..\)/\(.*\).debug,\1\2,' | sort | tr '\n' ' ')
Description: debug symbols for edge-server
 Debuggers find them by the programs' build IDs.
CONTROL
ls "$out"/edge-server*"_${revision}_$arch.deb"
