#!/bin/sh
# make bisect-history: finds the first commit of this repository at which a command
# fails, as make bisect does for the patches.
#   GOOD=commit        a commit at which it succeeds
#   BAD=commit         a commit at which it fails (HEAD by default)
. "$(dirname "$0")/fork/common.sh"
. scripts/boringssl.sh
. scripts/fork/trees.sh
. scripts/fork/bisect.sh

commit_of() { # NAME REVISION
    git rev-parse -q --verify "$2^{commit}" || die "$1=$2 is no commit of this repository"
}

[ -n "${GOOD:-}" ] || die "make bisect-history needs a commit where RUN does not fail: GOOD=…"
bad=$(commit_of BAD "${BAD:-HEAD}")
good=$(commit_of GOOD "$GOOD")
git merge-base --is-ancestor "$good" "$bad" || die "GOOD=$GOOD is not an ancestor of ${BAD:-HEAD}"
folder=$root/target/history
PREPARE='sh scripts/quiche.sh'
bisect_settings 'make bisect-history' "$folder"
tree_lock "$folder"
open_tree "$folder" "$root"
echo "$good" >"$tmp/commits"
check_ends "$bad" "$tmp/commits"
find_first_bad "$bad" "$good" >"$tmp/found"
while read -r commit; do
    echo "first bad: $(title "$commit")"
done <"$tmp/found"
[ "$(wc -l <"$tmp/found")" -eq 1 ] || die "the commits between could not run RUN: it is one of these"
