#!/bin/sh
# make bisect: finds the patch from which on a command fails, or prints a number
# that is too high or too low, in a tree of its own.
#   RUN='…'            the command; what BUILD builds is on its PATH
#   ABOVE=n, BELOW=n   the last number that it prints is bad above, below that
#   BUILD='…'          instead of: cargo build --workspace
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh
. scripts/fork/bisect.sh

folder=$root/target/steps
bisect_settings 'make bisect' "$folder"
tree_lock "$folder"
fork_lock
refuse_unexported_edits
tip=$(build_workspaces "$(build_hooks patches)" all)
fork_git update-ref refs/heads/workspaces "$tip"
exec 9>&-

open_tree "$folder" "$fork"
fork_git rev-list --reverse "$tip^" >"$tmp/commits"
judge_ends "$tip" "$tmp/commits"
find_first_bad "$tip" "$good" >"$tmp/found"
while read -r commit; do
    echo "first bad: patches/$(tree_git log -1 --format=%s "$commit")"
done <"$tmp/found" | sort
[ "$(wc -l <"$tmp/found")" -eq 1 ] || die "the steps between could not run RUN: it is one of these patches"
