# Series with our own files, and the whole workspace at each of its steps (sourced).

# Prints the tip of the series in $root: the release, a commit for each patch with our
# own files in their current state, and the pages of the fork last. A file of ours is
# added as a whole by the patch that names it in Adds:.
build_series() { # HOOKS-TIP
    fork_git rev-list --reverse "$1" >"$tmp/steps"
    : >"$tmp/entered"
    number=0
    {
        read -r commit
        for patch in $(series patches); do
            read -r step
            number=$((number + 1))
            patch_adds "patches/$patch" >>"$tmp/entered"
            while read -r path; do
                [ -f "quiche/$path" ] || die "patches/$patch says Adds: $path, but quiche/$path does not exist"
            done <"$tmp/entered"
            tree=$(tree_with "$step" "$tmp/entered")
            exported_message "patches/$patch" >"$tmp/message"
            commit=$(fork_commit "$number" "$tmp/message" "$tree" "$commit")
        done
    } <"$tmp/steps"
    own_pages "$1" >"$tmp/pages"
    if [ -s "$tmp/pages" ]; then
        tree=$(tree_with "$commit" "$tmp/pages")
        printf 'the pages of the fork\n\nHow it is used, and what RFC 9959 asks of it.\n' >"$tmp/message"
        commit=$(fork_commit "$((number + 1))" "$tmp/message" "$tree" "$commit")
    fi
    echo "$commit"
}

# Prints the tree of a commit with files of quiche/ added.
tree_with() { # COMMIT PATHS-FILE
    scratch_git read-tree "$1"
    tr '\n' '\0' <"$2" | scratch_git -c core.fileMode=true update-index --add -z --stdin
    scratch_git write-tree
}

# Our pages in quiche/, which no patch adds.
own_pages() { # HOOKS-TIP
    for page in quiche/*.md; do
        page=${page#quiche/}
        [ -f "quiche/$page" ] || continue
        if ! fork_git cat-file -e "$1:$page" 2>/dev/null; then echo "$page"; fi
    done
}

# Prints the tip of a chain with a commit for each step of the given one: the whole
# repository of the working copy with quiche/ at that step. With "all", every step has
# all of our files, as in the working copy of a series that ends early; files that no
# patch declares yet are unused.
build_workspaces() { # TIP [all]
    : >"$tmp/own"
    if [ "${2:-}" = all ]; then
        git ls-files -co --exclude-standard quiche | sed 's,^quiche/,,' | existing "$root/quiche" >"$tmp/own"
    fi
    outside=$(outside_tree)
    step_names >"$tmp/names"
    fork_git rev-list --reverse "$1" >"$tmp/steps"
    commit=
    number=0
    while read -r name; do
        number=$((number + 1))
        quiche=$(tree_with "$(sed -n "${number}p" "$tmp/steps")" "$tmp/own")
        echo "$name" >"$tmp/message"
        commit=$(fork_commit "$number" "$tmp/message" "$(workspace_tree "$outside" "$quiche")" "$commit")
    done <"$tmp/names"
    echo "$commit"
}

# Prints the tree of the working copy without quiche/.
outside_tree() {
    git ls-files -co --exclude-standard -- . ':!quiche' | existing "$root" >"$tmp/outside"
    rm -f "$tmp/index"
    tr '\n' '\0' <"$tmp/outside" |
        scratch_git -c core.fileMode=true --work-tree="$root" -C "$root" update-index --add -z --stdin
    scratch_git write-tree
}

# Prints the tree of the working copy with another quiche/.
workspace_tree() { # OUTSIDE-TREE QUICHE-TREE
    scratch_git read-tree "$1"
    scratch_git read-tree --prefix=quiche/ "$2"
    scratch_git write-tree
}

# Removes from a list the files that git tracks and that were deleted.
existing() { # FOLDER
    while read -r path; do
        if [ -f "$1/$path" ]; then echo "$path"; fi
    done
}

# Prints the names of the steps in reports: the release, then the patches.
step_names() {
    echo "$(upstream_field name) $(upstream_field version)"
    series patches
}
