#!/bin/sh
# make docs-check: every relative link in our pages leads to a file, and every
# `make target` they mention exists.
set -eu
cd "$(dirname "$0")/.."
status=0
for page in $(git ls-files '*.md'); do
    folder=$(dirname "$page")
    for link in $(grep -o ']([^) ]*)' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -v '^[a-z]*:' | sort -u); do
        [ -e "$folder/$link" ] || {
            echo "error: $page links to $link, which does not exist" >&2
            status=1
        }
    done
    for target in $(grep -o '`make [a-z][a-z-]*' "$page" | cut -d' ' -f2 | sort -u); do
        grep -q "^$target:" Makefile || {
            echo "error: $page mentions make $target, which is not in the Makefile" >&2
            status=1
        }
    done
done
exit $status
