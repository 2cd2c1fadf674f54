#!/bin/sh
# Builds refs/heads/series of the generated repository: the release, then one
# commit a patch, each with our own files as they are now. A file of ours enters
# whole, with the patch that names it in Adds:.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh

fork_lock
tip=$(build_hooks patches)
fork_git rev-list --reverse "$tip" >"$tmp/steps"
: >"$tmp/added"
number=0
{
    read -r commit
    for patch in $(series patches); do
        read -r step
        number=$((number + 1))
        patch_adds "patches/$patch" >>"$tmp/added"
        while read -r path; do
            [ -f "quiche/$path" ] || die "patches/$patch says Adds: $path, but quiche/$path does not exist"
        done <"$tmp/added"
        scratch_git read-tree "$step"
        tr '\n' '\0' <"$tmp/added" | scratch_git update-index --add -z --stdin
        patch_message "patches/$patch" >"$tmp/message"
        commit=$(fork_commit "$number" "$tmp/message" "$(scratch_git write-tree)" "$commit")
    done
} <"$tmp/steps"
fork_git update-ref refs/heads/series "$commit"
echo "$number patches: git --git-dir=$fork log -p series" >&2
