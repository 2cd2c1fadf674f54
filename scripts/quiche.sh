#!/bin/sh
# make quiche: writes the release with every patch of the series to quiche/, in
# place. FORCE=1 discards edits that patches/ lacks.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/tree.sh

fork_lock
stamp=$(patches_stamp)
if [ -z "${FORCE:-}" ] && [ "$stamp" = "$(cat "$fork/stamp" 2>/dev/null)" ]; then
    write_ignore refs/heads/hooks
    restore_missing
    exit
fi

tip=$(build_hooks patches)
materialise "$tip"
fork_git update-ref refs/heads/hooks "$tip"
echo "$stamp" >"$fork/stamp"
echo "quiche/ is $(upstream_field name) $(upstream_field version) and $(series patches | wc -l | tr -d ' ') patches" >&2
