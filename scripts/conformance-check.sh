#!/bin/sh
# make conformance-check: checks that every row of quiche/CONFORMANCE.md names
# existing functions and tests, that no row of the checklist is missing, and that
# every row with a test has a fault in scripts/conformance-faults.txt.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "${CONFORMANCE_ROOT:-$root}"
page=quiche/CONFORMANCE.md
faults=scripts/conformance-faults.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: >"$tmp/complaints"

complain() {
    echo "error: $*" >>"$tmp/complaints"
}

# Names on the page are relative to the fork's recovery module.
file_of() { # PATH::NAME
    case $1 in
    apps/*) echo "${1%%::*}" ;;
    *) echo "quiche/src/recovery/${1%%::*}" ;;
    esac
}

has_function() { # FILE NAME
    [ -f "$1" ] && grep -qw "fn $2" "$1"
}

# A test is a function below a test attribute, or a name in a suite! macro.
has_test() { # FILE NAME
    [ -f "$1" ] && awk -v name="$2" '
        /^ *#\[(rs)?test\]/ { attribute = 1 }
        $0 ~ "^ *" name ",$" { listed = 1 }
        $0 ~ "fn " name "\\(" { if (attribute || listed) found = 1 }
        /(^| )fn [a-z]/ { attribute = 0 }
        END { exit !found }' "$1"
}

# Prints a line for each row and for each name in its last two columns.
awk -F ' *\\| *' '
    function names(kind, cell) {
        while (match(cell, /`[^`]*::[^`]*`/)) {
            print kind, $2, substr(cell, RSTART + 1, RLENGTH - 2)
            cell = substr(cell, RSTART + RLENGTH)
        }
    }
    /^\| [A-H][0-9]+ \|/ {
        print "row", $2, NF
        names("code", $5)
        names("test", $6)
    }' "$page" >"$tmp/page"

awk '$1 ~ /^[A-H][0-9]+$/ { print $1, $2, $3 }' "$faults" >"$tmp/faults"

for rows in A:10 B:12 C:14 D:4 E:9 F:11 G:9 H:3; do
    for number in $(seq "${rows#*:}"); do
        id=${rows%:*}$number
        count=$(grep -c "^row $id " "$tmp/page") || true
        [ "$count" -eq 1 ] || complain "$page has $count rows $id, not 1"
    done
done

while read -r kind id name; do
    case $kind in
    row) [ "$name" -eq 7 ] || complain "$page: row $id has $((name - 2)) columns, not 5" ;;
    code) has_function "$(file_of "$name")" "${name##*::}" ||
        complain "$page: row $id names the function $name, which does not exist" ;;
    test) has_test "$(file_of "$name")" "${name##*::}" ||
        complain "$page: row $id names the test $name, which does not exist" ;;
    esac
done <"$tmp/page"

# The test vectors (G) are covered by the tests of other rows.
for id in $(awk '$1 == "test" && $2 !~ /^G/ { print $2 }' "$tmp/page" | uniq); do
    grep -q "^$id " "$tmp/faults" || complain "$faults has no fault for row $id, which $page says is tested"
done

while read -r id file name; do
    grep -qxF "test $id $name" "$tmp/page" ||
        complain "$faults: the fault of row $id expects $name to fail, but $page does not name it in that row"
    [ -f "$(file_of "$file")" ] || complain "$faults: row $id edits $file, which does not exist"
done <"$tmp/faults"

if [ -s "$tmp/complaints" ]; then
    cat "$tmp/complaints" >&2
    exit 1
fi
