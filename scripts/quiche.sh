#!/bin/sh
# make quiche: writes the release with every patch of the series to quiche/, in
# place. FORCE=1 discards edits that patches/ lacks.
#   TOPIC=20-careful-resume   only the patches up to the end of that topic
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/tree.sh

fork_lock
choose_topic
stamp="$(patches_stamp)${TOPIC:+ $TOPIC}"
if [ -z "${FORCE:-}" ] && [ "$stamp" = "$(cat "$fork/stamp" 2>/dev/null)" ]; then
    write_ignore refs/heads/hooks
    restore_missing
    exit
fi

tip=$(build_hooks patches)
count=$(series patches | wc -l | tr -d ' ')
[ -z "${TOPIC:-}" ] || count=$(topic_last "$TOPIC")
materialise "$(commit_after "$tip" "$count")"
fork_git update-ref refs/heads/hooks "$tip"
echo "$stamp" >"$fork/stamp"
echo "quiche/ is $(upstream_field name) $(upstream_field version) and $count patches${TOPIC:+, up to $TOPIC}" >&2
