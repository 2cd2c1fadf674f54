#!/bin/sh
# make patches: exports the edits of upstream's files in quiche/ to patches/.
#   PATCH=0003            into that patch (the last one by default)
#   NEW=0007-subject      into a new patch at the end
#   FILES='src/lib.rs …'  edits of these files only
# An edit is merged into its patch and every later one; if it conflicts there,
# nothing is changed.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/tree.sh

# Prints the tree that results from the edit BASE..EDITED of another tree.
merge_edit() { # BASE EDITED ONTO PATCH
    scratch_git read-tree "$3"
    fork_git diff-tree -p -r --no-renames --full-index --binary "$1" "$2" >"$tmp/edit"
    if [ -s "$tmp/edit" ]; then
        scratch_git apply --cached --3way --whitespace=nowarn "$tmp/edit" 2>"$tmp/apply" ||
            die "the edit of quiche/$(conflicting_file) does not fit into $4 by itself: it touches" \
                "lines of another patch; choose that one with PATCH=, or export file by file with FILES="
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
        series patches | tail -n 1 | grep . || die "patches/series is empty: name the first patch, make patches NEW=0001-subject"
        return
    fi
    series patches >"$tmp/names"
    grep "^${PATCH%.patch}" "$tmp/names" >"$tmp/matches" || die "PATCH=$PATCH: no patch of patches/series begins so"
    [ "$(wc -l <"$tmp/matches")" -eq 1 ] || die "PATCH=$PATCH: several patches begin so: $(paste -sd ' ' "$tmp/matches")"
    cat "$tmp/matches"
}

# Prints the header of a new patch, with our files that no patch adds yet.
new_header() { # NAME
    echo "Subject: $(echo "${1#*-}" | tr '-' ' ')"
    printf '\nTODO: why.\n\nSpec: TODO\nUpstream-Status: TODO\nTested-by: TODO\n'
    for patch in $(series patches); do patch_adds "patches/$patch"; done | sort >"$tmp/added"
    own_files -co --exclude-standard | sort | comm -23 - "$tmp/added" | sed 's/^/Adds: /'
    echo
}

# Makes DIR a copy of patches/ with one more patch, without hooks.
append_patch() { # DIR
    name=${NEW%.patch}
    next=$(printf '%04d' $(($(series patches | wc -l) + 1)))
    case $name in
    "$next"-?*) ;;
    *) die "NEW=$NEW: the next patch is named $next-subject" ;;
    esac
    echo "$name.patch" >>"$1/series"
    new_header "$name" >"$1/$name.patch"
}

# Writes to $tmp/trees the new tree of every step of the series.
fold_edit() { # BASE EDITED TIP
    merged=$(merge_edit "$1" "$2" "$3" "the series as it is now")
    chain_trees "$3" >"$tmp/before"
    if [ -n "${NEW:-}" ]; then
        { cat "$tmp/before"; echo "$merged"; } >"$tmp/trees"
        return
    fi
    target=$(chosen_patch)
    series patches >"$tmp/names"
    from=$(grep -nxF "$target" "$tmp/names" | cut -d: -f1)
    step=0
    while read -r tree; do
        if [ "$step" -ge "$from" ]; then
            tree=$(merge_edit "$3" "$merged" "$tree" "$(sed -n "${step}p" "$tmp/names")")
        fi
        echo "$tree"
        step=$((step + 1))
    done <"$tmp/before" >"$tmp/trees"
}

fork_lock
[ -f "$fork/index" ] || die "quiche/ was never written here: make quiche"
tip=$(build_hooks patches)
mkdir "$tmp/in"
for patch in $(series patches); do cp "patches/$patch" "$tmp/in/"; done
if [ -f patches/series ]; then cp patches/series "$tmp/in/"; fi

# shellcheck disable=SC2086
edited_files ${FILES:-} >"$tmp/edits"
if [ -s "$tmp/edits" ]; then
    base=$(fork_git write-tree)
    cp "$fork/index" "$fork/index.edited"
    tr '\n' '\0' <"$tmp/edits" | with_index "$fork/index.edited" update-index -z --stdin
    edited=$(with_index "$fork/index.edited" write-tree)
    [ -z "${NEW:-}" ] || append_patch "$tmp/in"
    fold_edit "$base" "$edited" "$tip"
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
sh scripts/quiche.sh
