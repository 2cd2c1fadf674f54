#!/bin/sh
# make names-check: one type name stands for one thing within a package, and the names
# of scripts/old-names.txt do not come back.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "${NAMES_ROOT:-$root}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: >"$tmp/complaints"

# Rust sources and patches. Upstream's files in quiche/ are not tracked.
{ git ls-files -co --exclude-standard 2>/dev/null || find . -type f | sed 's|^\./||'; } |
    grep -E '\.(rs|patch)$' | sort -u | while read -r file; do
    [ ! -f "$file" ] || echo "$file"
done >"$tmp/files"
find . \( -name target -o -name .git \) -prune -o -name Cargo.toml -print |
    sed -n 's|^\./\(.*\)/Cargo.toml$|\1|p' >"$tmp/packages"

# Unit, integration and end-to-end tests and benchmarks count as parts of their package.
grep '\.rs$' "$tmp/files" | xargs awk -f "$root/scripts/type-names.awk" "$tmp/packages" >>"$tmp/complaints"

# The first search is for speed: few lines have an old name, and fewer outside comments.
awk '!/^#/ && NF { print $1 }' "$root/scripts/old-names.txt" | sort -u >"$tmp/old"
xargs grep -nHwF -f "$tmp/old" <"$tmp/files" |
    awk -f "$root/scripts/old-names.awk" "$root/scripts/old-names.txt" - >>"$tmp/complaints" || true

sed 's/^/error: /' "$tmp/complaints" >&2
[ ! -s "$tmp/complaints" ]
