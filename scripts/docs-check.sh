#!/bin/sh
# make docs-check: checks that every relative link in our pages leads to a file, and
# to its heading, and that every `make target` in them exists.
set -eu
cd "$(dirname "$0")/.."
status=0

complain() {
    echo "error: $*" >&2
    status=1
}

# Prints the anchors of a page's headings, as GitHub makes them.
anchors() { # PAGE
    awk '/^ *```/ { code = !code } !code && /^#+ / {
        sub(/^#+ /, "")
        $0 = tolower($0)
        gsub(/[^a-z0-9 _-]/, "")
        gsub(/ /, "-")
        print
    }' "$1"
}

check_link() { # PAGE LINK
    path=${2%%#*}
    target=$1
    [ -z "$path" ] || target=$(dirname "$1")/$path
    [ -e "$target" ] || {
        complain "$1 links to $2, which does not exist"
        return
    }
    case $target$2 in
    *.md*'#'*) anchors "$target" | grep -qxF -- "${2#*#}" || complain "$1 links to $2, and there is no such heading" ;;
    esac
}

for page in $(git ls-files -co --exclude-standard '*.md'); do
    [ -e "$page" ] || continue
    for link in $(grep -o ']([^) ]*)' "$page" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' | sort -u); do
        check_link "$page" "$link"
    done
    for target in $(grep -o '`make [a-z][a-z0-9-]*' "$page" | cut -d' ' -f2 | sort -u); do
        grep -q "^$target:" Makefile || complain "$page mentions make $target, which is not in the Makefile"
    done
done
exit $status
