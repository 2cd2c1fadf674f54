#!/bin/sh
# make patches: exports the edits of upstream's files in quiche/ to patches/.
#   PATCH=10-fixes/03          into that patch (by default the last one in quiche/)
#   NEW=30-options/12-subject  into a new patch at the end of that topic
#   FILES='src/lib.rs …'       edits of these files only
# An edit is merged into its patch and every later one; if it conflicts there,
# nothing is changed.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/tree.sh

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

# Prints the name in the series that PATCH abbreviates.
chosen_patch() {
    if [ -z "${PATCH:-}" ]; then
        if [ -n "$held" ]; then sed -n "$(topic_last "$held")p" "$tmp/names"; else tail -n 1 "$tmp/names"; fi | grep . ||
            die "patches/series is empty: name the first patch, make patches NEW=10-fixes/01-subject"
        return
    fi
    grep "^${PATCH%.patch}" "$tmp/names" >"$tmp/matches" || die "PATCH=$PATCH: no patch of patches/series begins so"
    [ "$(wc -l <"$tmp/matches")" -eq 1 ] || die "PATCH=$PATCH: several patches begin so: $(paste -sd ' ' "$tmp/matches")"
    cat "$tmp/matches"
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

# Writes to $tmp/trees the new tree of every step of the series. The edit enters with
# the patch of number FROM, which is new if NEW is set.
fold_edit() { # BASE EDITED TIP FROM
    merged=$(merge_edit "$1" "$2" "$3" "the ${held:+topics after }${held:-series as it is now}" \
        "${held:+copy it, make quiche FORCE=1, and make it there}")
    chain_trees "$3" >"$tmp/before"
    step=0
    while read -r tree; do
        was=$tree
        if [ "$step" -ge "$4" ]; then
            tree=$(merge_edit "$3" "$merged" "$was" "$(sed -n "${step}p" "$tmp/names")")
        fi
        echo "$tree"
        step=$((step + 1))
        if [ -n "${NEW:-}" ] && [ "$step" -eq "$4" ]; then merge_edit "$3" "$merged" "$was" "$name.patch"; fi
    done <"$tmp/before" >"$tmp/trees"
}

fork_lock
[ -f "$fork/index" ] || die "quiche/ was never written here: make quiche"
tip=$(build_hooks patches)
cp -R patches "$tmp/in"
series patches >"$tmp/names"
held=$(held_topic)

# shellcheck disable=SC2086
edited_files ${FILES:-} >"$tmp/edits"
if [ -s "$tmp/edits" ]; then
    base=$(fork_git write-tree)
    cp "$fork/index" "$fork/index.edited"
    tr '\n' '\0' <"$tmp/edits" | with_index "$fork/index.edited" update-index -z --stdin
    edited=$(with_index "$fork/index.edited" write-tree)
    if [ -n "${NEW:-}" ]; then
        read_new
        check_is_held "$name"
        before=$(patch_before "$topic")
        insert_patch "$tmp/in" "$before"
        fold_edit "$base" "$edited" "$tip" $((before + 1))
    else
        target=$(chosen_patch)
        check_is_held "$target"
        fold_edit "$base" "$edited" "$tip" "$(grep -nxF "$target" "$tmp/names" | cut -d: -f1)"
    fi
else
    [ -z "${NEW:-}" ] || die "NEW=$NEW: no file of upstream in quiche/ is edited, a patch needs a hook"
    chain_trees "$tip" >"$tmp/trees"
fi

write_series "$tmp/in" "$tmp/trees" "$tmp/out"
# Replaces nothing unless the patches reproduce the tree they were made from.
check=$(build_hooks "$tmp/out")
[ "$(fork_git rev-parse "$check^{tree}")" = "$(tail -n 1 "$tmp/trees")" ] ||
    die "the exported patches do not give the edited files back; patches/ is unchanged"
replace_patches "$tmp/out"
if [ -s "$tmp/edits" ]; then mv "$fork/index.edited" "$fork/index"; fi
exec 9>&-
TOPIC=$held sh scripts/quiche.sh
