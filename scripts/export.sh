#!/bin/sh
# make export: writes the series, with our files, as mail files for git am.
#   LAYOUT=crate   for the released package
#   LAYOUT=repo    for upstream's repository: paths under quiche/, and changes of
#                  the manifest as those of Cargo.toml.orig
#   TOPIC=20-careful-resume   only that topic, to apply after the topics before it
#   OUT=folder     instead of results/series-LAYOUT, or results/series-LAYOUT-TOPIC
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/fork/trees.sh
. scripts/fork/mail.sh

case ${LAYOUT:-} in
crate | repo) ;;
*) die "LAYOUT=${LAYOUT:-} is unknown: crate is for the released package, repo for upstream's repository" ;;
esac
out=${OUT:-results/series-$LAYOUT${TOPIC:+-$TOPIC}}
fork_lock
choose_topic
refuse_unexported_edits
tip=$(build_series "$(build_hooks patches)")
if [ "$LAYOUT" = repo ]; then tip=$(move_to_repository "$tip"); fi
base=$(commit_after "$tip" 0)
if [ -n "${TOPIC:-}" ]; then
    base=$(commit_after "$tip" $(($(topic_first "$TOPIC") - 1)))
    tip=$(commit_after "$tip" "$(topic_last "$TOPIC")")
fi
write_mails "$base" "$tip" "$tmp/mails"

mkdir -p "$out"
if [ -e "$out/.series" ]; then
    (cd "$out" && xargs rm -f <.series)
elif [ -n "$(ls -A "$out")" ]; then
    die "$out holds files that make export did not write: name another folder with OUT="
fi
(cd "$tmp/mails" && ls) >"$out/.series"
cp "$tmp/mails"/*.patch "$out"
echo "$(wc -l <"$out/.series" | tr -d ' ') mails in $out: git am $out/*.patch" >&2
