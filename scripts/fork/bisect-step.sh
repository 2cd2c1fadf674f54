#!/bin/sh
# Step of git bisect, run in its tree: prepares and builds it, then runs RUN. Exit codes
# as git defines them: 0 good, 1 bad, 125 the step cannot run it, above 127 stop. With
# ABOVE or BELOW, the last number that RUN prints decides. If RUN prints none, a pipe may
# hide an error, and the step is skipped.
set -u
unset CDPATH

verdict() { # EXIT-CODE TEXT
    echo "$(git log -1 --format=%s): $2" >&2
    # The command may change files of its tree, which the next step needs unchanged.
    git reset -q --hard
    exit "$1"
}

# Succeeds if $number is beyond the limit.
is_beyond() {
    awk -v n="$number" -v above="${ABOVE:-}" -v below="${BELOW:-}" \
        'BEGIN { exit !((above != "" && n + 0 > above + 0) || (below != "" && n + 0 < below + 0)) }'
}

{ sh -c "$PREPARE" && sh -c "$BUILD"; } >"$LOG" 2>&1 </dev/null || {
    tail -n 3 "$LOG" >&2
    verdict 125 "skipped, it does not build: $LOG"
}
sh -c "$RUN" >"$LOG.out" 2>"$LOG" </dev/null
status=$?
cat "$LOG.out" >>"$LOG"
number=
case $status in
125) verdict 125 "skipped, RUN says that it cannot run ($(tail -n 1 "$LOG"))" ;;
129 | 130 | 143) verdict 130 "interrupted" ;;
esac
if [ -n "${ABOVE:-}${BELOW:-}" ]; then
    number=$(grep -Eo -- '-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?' "$LOG.out" | tail -n 1)
    [ -n "$number" ] || verdict 125 "skipped, RUN printed no number ($(tail -n 1 "$LOG"))"
fi
[ "$status" -eq 0 ] || verdict 1 "bad, exit code $status"
if [ -n "$number" ] && is_beyond; then verdict 1 "bad, $number"; fi
verdict 0 "good${number:+, $number}"
