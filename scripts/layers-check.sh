#!/bin/sh
# make layers-check: checks that imports between the folders of edge-server only point
# down, and that no files of a crate import each other in a cycle. Tests may import
# anything.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "${LAYERS_ROOT:-$root}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: >"$tmp/complaints"

# Folders of apps/edge-server/src, from the top down.
layers='server worker tcp acme connection telemetry h3 content admission resume net quic http config'

# Prints the files of each cycle, which tsort reports as paragraphs.
circles() { # IMPORTS
    tsort "$1" 2>&1 >/dev/null | sed -n 's/^tsort: //p' | awk '
        / input contains a loop:$/ { if (files) print files; files = ""; next }
        { files = files (files ? ", " : "") $0 }
        END { if (files) print files }' | sed 's/^/circle of imports: /'
}

upward() { # FOLDER IMPORTS
    awk -v src="$1/" -v layers="$layers" '
        function layer(file) {
            file = substr(file, length(src) + 1)
            return sub(/\/.*/, "", file) ? file : ""
        }
        BEGIN { for (count = split(layers, names, " "); count; count--) rank[names[count]] = count }
        {
            from = layer($1)
            to = layer($2)
            if (from == "") next
            if (!(from in rank)) print $1 " is in a folder without a layer: name it in scripts/layers-check.sh"
            else if (!(to in rank) || rank[to] < rank[from]) print "upward import: " $1 " of " $2
        }' "$2"
}

for src in apps/*/src tools/*/src crates/*/src; do
    [ -d "$src" ] || continue
    imports=$tmp/imports
    find "$src" -name '*.rs' ! -name tests.rs ! -name '*_tests.rs' ! -path '*/tests/*' |
        sort | xargs awk -v src="$src" -f "$root/scripts/imports.awk" >"$imports"
    circles "$imports" >>"$tmp/complaints"
    [ "$src" = apps/edge-server/src ] || continue
    upward "$src" "$imports" >>"$tmp/complaints"
done

sort -u "$tmp/complaints" | sed 's/^/error: /' >&2
[ ! -s "$tmp/complaints" ]
