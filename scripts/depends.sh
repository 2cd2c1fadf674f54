#!/bin/sh
# make depends: prints, for each patch of the series, the earlier patches without which
# it does not apply to the release, as lines for its header. Considers hunks only: a
# patch may also need the meaning of another one.
#   DIR=folder   a series elsewhere; its headers may lack everything
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/depends.sh

dir=${DIR:-patches}
[ -f "$dir/series" ] || die "$dir/series does not exist: DIR= names a folder with a series"
if [ -f "$dir/UPSTREAM" ]; then pin=$dir/UPSTREAM; fi
fork_lock
find_depends "$dir"
number=0
while read -r patch; do
    number=$((number + 1))
    echo "$patch"
    if [ ! -s "$tmp/direct/$number" ]; then echo 'Depends: none'; fi
    while read -r needed; do
        echo "Depends: $(patch_id "$(sed -n "${needed}p" "$tmp/order")")"
    done <"$tmp/direct/$number"
done <"$tmp/order"
