#!/bin/sh
# make export: writes the whole series, with our files, as mail files for git am.
#   LAYOUT=crate   for the released package
#   LAYOUT=repo    for upstream's repository: paths under quiche/, and changes of
#                  the manifest as those of Cargo.toml.orig
#   OUT=folder     instead of results/series-LAYOUT
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/fork/trees.sh
. scripts/fork/mail.sh

case ${LAYOUT:-} in
crate | repo) ;;
*) die "LAYOUT=${LAYOUT:-} is unknown: crate is for the released package, repo for upstream's repository" ;;
esac
out=${OUT:-results/series-$LAYOUT}
fork_lock
refuse_unexported_edits
tip=$(build_series "$(build_hooks patches)")
if [ "$LAYOUT" = repo ]; then tip=$(move_to_repository "$tip"); fi
write_mails "$tip" "$tmp/mails"

mkdir -p "$out"
if [ -e "$out/.series" ]; then
    (cd "$out" && xargs rm -f <.series)
elif [ -n "$(ls -A "$out")" ]; then
    die "$out holds files that make export did not write: name another folder with OUT="
fi
(cd "$tmp/mails" && ls) >"$out/.series"
cp "$tmp/mails"/*.patch "$out"
echo "$(wc -l <"$out/.series" | tr -d ' ') mails in $out: git am $out/*.patch" >&2
