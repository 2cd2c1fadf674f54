#!/bin/sh
# make range-diff: shows the changes of the series and of our files since a commit of
# this repository, patch by patch.
#   BASE=origin/main
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/fork/trees.sh

[ -n "${BASE:-}" ] || die "make range-diff needs the commit to compare with: BASE=origin/main"
base=$(git rev-parse -q --verify "$BASE^{commit}") || die "BASE=$BASE is no commit of this repository"
git cat-file -e "$base:patches/series" 2>/dev/null || die "BASE=$BASE has no patches/series"
fork_lock
refuse_unexported_edits
new=$(build_series "$(build_hooks patches)")
mkdir "$tmp/base"
git archive "$base" patches quiche | tar -xf - -C "$tmp/base"
old=$(
    root=$tmp/base
    cd "$root"
    build_series "$(build_hooks patches)"
)
first() { fork_git rev-list --max-parents=0 "$1"; }
fork_git --no-pager range-diff --no-notes ${COLOR:+--color} "$(first "$old")..$old" "$(first "$new")..$new"
