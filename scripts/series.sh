#!/bin/sh
# make series: builds refs/heads/series of the generated repository: the release, then
# a commit for each patch with our own files, to read or to cherry-pick.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh

fork_lock
tip=$(build_hooks patches)
fork_git update-ref refs/heads/series "$(build_series "$tip")"
echo "$(series patches | wc -l | tr -d ' ') patches: git --git-dir=$fork log -p series" >&2
