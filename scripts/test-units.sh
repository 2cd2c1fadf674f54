#!/bin/sh
# make test-units: does systemd take the unit, is its exposure what the page says, and are the user's and
# the folders' files right?
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
exposure_max=16 # tenths
unit=packages/systemd/edge@.service
command -v systemd-analyze >/dev/null || skip test-units "systemd-analyze is missing, run: sudo apt-get install -y systemd"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The programs need not be installed, nor the manual.
sed '/^Documentation=/d; s,/usr/bin/edge-server,/bin/true,' "$unit" >"$work/edge@.service"
said=$(systemd-analyze verify "$work/edge@a.service" 2>&1) || die "systemd-analyze verify: $said"
[ -z "$said" ] || die "systemd-analyze verify: $said"
report=$(systemd-analyze security --offline=yes --threshold=$exposure_max "$work/edge@.service") ||
    die "$(echo "$report" | tail -1), above $exposure_max tenths"
echo "$report" | tail -1

mkdir -p "$work/root/etc"
systemd-sysusers --root="$work/root" "$PWD/packages/systemd/edge.sysusers"
grep -q '^edge:.*:/var/lib/edge:' "$work/root/etc/passwd" || die "edge.sysusers makes no user"
systemd-tmpfiles --root="$work/root" --create "$PWD/packages/systemd/edge.tmpfiles"
folders=$(awk '!/^#/ { print $2, $3 }' packages/systemd/edge.tmpfiles)
echo "$folders" | while read -r folder mode; do
    [ "0$(stat -c %a "$work/root$folder")" = "$mode" ] || die "edge.tmpfiles: $folder is not of mode $mode"
done
echo "the unit and its files are right"
