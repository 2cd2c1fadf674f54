#!/bin/sh
# make bisect: finds the first patch with which a command fails, or prints a number
# above or below a limit, in a tree of its own.
#   RUN='…'            the command; its PATH includes the built programs
#   ABOVE=n, BELOW=n   limits on the last number that it prints
#   BUILD='…'          the build command (cargo build --workspace by default)
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
check_ends "$tip" "$tmp/commits"
find_first_bad "$tip" "$good" >"$tmp/found"
while read -r commit; do
    echo "first bad: patches/$(tree_git log -1 --format=%s "$commit")"
done <"$tmp/found" | sort
[ "$(wc -l <"$tmp/found")" -eq 1 ] || die "the steps between could not run RUN: it is one of these patches"
