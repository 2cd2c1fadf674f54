#!/bin/sh
# make patches-check: checks that patches/ holds what `make patches` would write, that
# the series adds each of our files in quiche/ once, that each patch follows the rules
# of scripts/fork/lint.sh and needs no patch that its Depends: does not name, and that
# git am applies the exported series.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/fork/mail.sh
. scripts/fork/lint.sh
. scripts/fork/depends.sh

check_round_trip() {
    chain_trees "$tip" >"$tmp/trees"
    write_series patches "$tmp/trees" "$tmp/out"
    for patch in $(series patches); do
        cmp -s "patches/$patch" "$tmp/out/$patch" ||
            complain "patches/$patch is not as make patches writes it (line numbers, context, an empty line before the hunks?): run make patches"
    done
    for file in $(find patches -name '*.patch' | sort); do
        series patches | grep -qxF "${file#patches/}" || complain "$file is not named in patches/series"
    done
    [ -f "$fork/index" ] || return 0
    for path in $(edited_files); do
        complain "quiche/$path has edits that patches/ lacks: make patches keeps them, make quiche FORCE=1 drops them"
    done
}

check_our_files() {
    : >"$tmp/added"
    for patch in $(series patches); do
        patch_adds "patches/$patch" >>"$tmp/added"
    done
    sort -o "$tmp/added" "$tmp/added"
    git ls-files quiche | sed 's,^quiche/,,' | sort >"$tmp/tracked"
    own_files | sort >"$tmp/own"
    fork_git ls-tree -r --name-only "$tip" | sort >"$tmp/upstream"

    for path in $(uniq -d "$tmp/added"); do complain "quiche/$path is in the Adds: of two patches: keep the first"; done
    for path in $(uniq "$tmp/added" | comm -23 - "$tmp/tracked"); do
        complain "a patch says Adds: $path, but git does not track quiche/$path: git add it, or take it off"
    done
    for path in $(uniq "$tmp/added" | comm -13 - "$tmp/own"); do
        complain "quiche/$path is in no patch: name it in the Adds: of the patch that first declares it"
    done
    for path in $(comm -12 "$tmp/upstream" "$tmp/tracked"); do
        complain "quiche/$path is a file of upstream, and tracked: git rm --cached it, its edits belong in patches/"
    done
}

fork_lock
: >"$tmp/complaints"
tip=$(build_hooks patches)
check_round_trip
check_our_files
check_numbers
for patch in $(series patches); do
    check_header "$patch"
    check_hooks "$patch"
done
check_threads
check_depends
if [ ! -s "$tmp/complaints" ]; then
    whole=$(build_series "$tip")
    check_whitespace "$whole"
    write_mails "$(commit_after "$whole" 0)" "$whole" "$tmp/crate"
    moved=$(move_to_repository "$whole")
    write_mails "$(commit_after "$moved" 0)" "$moved" "$tmp/repo"
fi
if [ -s "$tmp/complaints" ]; then
    cat "$tmp/complaints" >&2
    exit 1
fi
fork_git update-ref refs/heads/series "$whole"
