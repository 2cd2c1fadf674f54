#!/bin/sh
# make patches: exports the edits of upstream's files in quiche/ to patches/, each into
# the patch that introduced the lines it changes.
#   PATCH=10-fixes/03          into that patch, with lines of no patch; FORCE=1 with any
#   NEW=30-options/12-subject  into a new patch at the end of that topic
#   FILES='src/lib.rs …'       edits of these files only
# An edit is merged into its patch and every later one; if it conflicts there,
# nothing is changed.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/tree.sh
. scripts/fork/owners.sh

# Prints the tree that results from the edit BASE..EDITED of another tree.
merge_edit() { # BASE EDITED ONTO PATCH [ADVICE]
    scratch_git read-tree "$3"
    fork_git diff-tree -p -r --no-renames --full-index --binary "$1" "$2" >"$tmp/edit"
    if [ -s "$tmp/edit" ]; then
        scratch_git apply --cached --3way --whitespace=nowarn "$tmp/edit" 2>"$tmp/apply" ||
            die "the edit of quiche/$(conflicting_file) does not fit into $4 by itself: it touches" \
                "lines of another patch; ${5:-choose that one with PATCH=, or export file by file with FILES=}"
    fi
    scratch_git write-tree
}

conflicting_file() {
    scratch_git diff-files --name-only --diff-filter=U 2>/dev/null | sort -u | grep . ||
        sed -n 's/^error: patch failed: \(.*\):.*/\1/p' "$tmp/apply" | head -n 1
}

# Sets $name to the path of the patch that NEW names, and $topic to its topic.
read_new() {
    name=${NEW%.patch} topic=${NEW%%/*}
    [ -n "$(topic_kind "$topic")" ] ||
        die "NEW=$NEW: it begins with a topic, one of $(echo "$TOPICS" | cut -d' ' -f1 | paste -sd ' ' -)"
    next=$topic/$(printf '%02d' "$(($(grep -c "^$topic/" "$tmp/names" || true) + 1))")
    case $name in
    */*/*) die "NEW=$NEW: the subject has no /" ;;
    "$next"-?*) ;;
    *) die "NEW=$NEW: the next patch is named $next-subject" ;;
    esac
}

# Prints the number of the patch that the new one follows: the last of its topic, or of
# the topics before.
patch_before() { # TOPIC
    awk -F/ -v topic="$1" '$1 <= topic { before = NR } END { print before + 0 }' "$tmp/names"
}

# An edit that enters later would disappear from quiche/.
check_is_held() { # PATCH
    [ -z "$held" ] || [ "${1%%-*}" -le "${held%%-*}" ] ||
        die "$1 comes after $held, with which quiche/ ends: make quiche, and edit there"
}

# Prints the header of a new patch, with our files that no patch adds yet.
new_header() { # NAME
    echo "Subject: $(echo "${1#*/*-}" | tr '-' ' ')"
    printf '\nTODO: why.\n\nKind: %s\nDepends: TODO\nSpec: TODO\nForwarded: no\nTests: TODO\n' "$(topic_kind "$topic")"
    if [ "$topic" = 40-performance ]; then echo 'Figure: TODO'; fi
    for patch in $(series patches); do patch_adds "patches/$patch"; done | sort >"$tmp/added"
    own_files -co --exclude-standard | sort | comm -23 - "$tmp/added" | sed 's/^/Adds: /'
    echo
}

# Adds the new patch to DIR, a copy of patches/, without hooks.
insert_patch() { # DIR NUMBER-BEFORE
    if [ ! -f "$1/series" ]; then : >"$1/series"; fi
    awk -v new="$name.patch" -v before="$2" '
        function enter() { if (!entered) print new; entered = 1 }
        { line = $0; sub(/#.*/, "", line); is_patch = line ~ /[^ \t]/ }
        is_patch && before == 0 { enter() }
        { print }
        is_patch && ++count == before { enter() }
        END { enter() }' "$1/series" >"$tmp/new-series"
    cp "$tmp/new-series" "$1/series"
    mkdir -p "$1/$topic"
    new_header "$name" >"$1/$name.patch"
}

# Changes the trees of all steps in $tmp/trees by an edit of the last one, from the patch
# of number FROM on, which is new if NEW is set.
enter_edit() { # TIP-TREE EDITED-TREE FROM
    cp "$tmp/trees" "$tmp/before"
    step=0
    while read -r tree; do
        was=$tree
        if [ "$step" -ge "$3" ]; then
            tree=$(merge_edit "$1" "$2" "$was" "$(sed -n "${step}p" "$tmp/names")")
        fi
        echo "$tree"
        step=$((step + 1))
        if [ -n "${NEW:-}" ] && [ "$step" -eq "$3" ]; then merge_edit "$1" "$2" "$was" "$name.patch"; fi
    done <"$tmp/before" >"$tmp/trees"
}

# Enters each hunk with its owner, an edit of the tip.
enter_by_owner() { # TIP
    refuse_without_owner
    from=$(fork_git rev-parse "$1^{tree}")
    for number in $(cut -d' ' -f3 "$tmp/hunks" | sort -nu); do
        owner=$(owner_names "$number")
        check_is_held "$owner"
        hunks_up_to "$number" >"$tmp/part"
        scratch_git read-tree "$1"
        scratch_git apply --cached --unidiff-zero --whitespace=nowarn "$tmp/part"
        part=$(scratch_git write-tree)
        enter_edit "$from" "$part" "$number"
        from=$part
        echo "into $owner: $(awk -v number="$number" '$3 == number { print $1 }' "$tmp/hunks" | paste -sd ' ' -)" >&2
    done
}

fork_lock
[ -f "$fork/index" ] || die "quiche/ was never written here: make quiche"
tip=$(build_hooks patches)
cp -R patches "$tmp/in"
series patches >"$tmp/names"
held=$(held_topic)
chain_trees "$tip" >"$tmp/trees"

if [ -n "${NEW:-}" ]; then
    read_new
    check_is_held "$name"
elif [ -n "${PATCH:-}" ]; then
    number=$(patch_number PATCH "$PATCH")
    check_is_held "$(sed -n "${number}p" "$tmp/names")"
fi
for file in ${FILES:-}; do
    [ -f "quiche/$file" ] || die "FILES: there is no quiche/$file"
done
# shellcheck disable=SC2086
edited_files ${FILES:-} >"$tmp/edits"
if [ -s "$tmp/edits" ]; then
    base=$(fork_git write-tree)
    cp "$fork/index" "$fork/index.edited"
    tr '\n' '\0' <"$tmp/edits" | with_index "$fork/index.edited" update-index -z --stdin
    edited=$(with_index "$fork/index.edited" write-tree)
    merged=$(merge_edit "$base" "$edited" "$tip" "the ${held:+topics after }${held:-series as it is now}" \
        "${held:+copy it, make quiche FORCE=1, and make it there}")
    find_owners "$tip" "$merged"
    if [ -n "${NEW:-}" ]; then
        before=$(patch_before "$topic")
        insert_patch "$tmp/in" "$before"
        enter_edit "$tip" "$merged" $((before + 1))
    elif [ -n "${PATCH:-}" ]; then
        [ -n "${FORCE:-}" ] || refuse_other_owners "$number"
        enter_edit "$tip" "$merged" "$number"
    else
        enter_by_owner "$tip"
    fi
else
    [ -z "${NEW:-}" ] || die "NEW=$NEW: no file of upstream in quiche/ is edited, a patch needs a hook"
    [ -z "${PATCH:-}${FILES:-}" ] || echo "there is nothing to export: no file of upstream in quiche/ is edited" >&2
fi

write_series "$tmp/in" "$tmp/trees" "$tmp/out"
# Replaces nothing unless the patches reproduce the tree they were made from.
check=$(build_hooks "$tmp/out")
[ "$(fork_git rev-parse "$check^{tree}")" = "$(tail -n 1 "$tmp/trees")" ] ||
    die "the exported patches do not give the edited files back; patches/ is unchanged"
replace_patches "$tmp/out"
if [ -s "$tmp/edits" ]; then mv "$fork/index.edited" "$fork/index"; fi
exec 9>&-
unset TOPIC
[ -z "$held" ] || export TOPIC="$held"
FORCE= sh scripts/quiche.sh
