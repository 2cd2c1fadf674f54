# Conversion of patch files to commits, and back (sourced).

# Applies a series to the release, a commit for each patch. Prints the tip.
build_hooks() { # DIR
    commit=$(upstream_commit)
    number=0
    scratch_git read-tree "$commit"
    for patch in $(series "$1"); do
        number=$((number + 1))
        [ -f "$1/$patch" ] || die "patches/series names $patch, which is not in patches/"
        apply_hooks "$1" "$patch" "$commit"
        patch_message "$1/$patch" >"$tmp/message"
        commit=$(fork_commit "$number" "$tmp/message" "$(scratch_git write-tree)" "$commit")
    done
    echo "$commit"
}

apply_hooks() { # DIR PATCH PARENT
    grep -q '^--- ' "$1/$2" || return 0
    hooks=$(cd "$1" && pwd)/$2
    scratch_git apply --cached --whitespace=nowarn "$hooks" 2>"$tmp/apply" ||
        die "patches/$2 does not apply: $(apply_error); correct that hunk, or git checkout patches"
    stray=$(scratch_git diff-index --cached --name-only --diff-filter=AD "$3")
    [ -z "$stray" ] ||
        die "patches/$2 adds or deletes $(echo $stray): a patch only changes files of upstream, ours are tracked in quiche/ and named by Adds:"
}

# Prints git's message on one line.
apply_error() {
    sed -n 's/^error: patch failed: \(.*\)/the lines it expects at \1 are not there/p; s/^error: //p' "$tmp/apply" |
        head -n 1
}

# Writes a patch: the given header, then the hooks between two trees.
write_patch() { # HEADER-FILE FROM TO > PATCH
    cat "$1"
    fork_git diff-tree -p -r --no-renames --no-ext-diff --no-textconv --no-color -U3 \
        --diff-algorithm=myers --indent-heuristic --src-prefix=a/ --dst-prefix=b/ "$2" "$3" >"$tmp/diff"
    sed '/^diff --git /d; /^index /d' "$tmp/diff"
}

# Writes the series DIR to OUT, with the trees of the file TREES (the release's first)
# instead of those that its patches produce.
write_series() { # DIR TREES OUT
    mkdir -p "$3"
    if [ -f "$1/series" ]; then cp "$1/series" "$3/series"; fi
    number=1
    for patch in $(series "$1"); do
        mkdir -p "$(dirname "$3/$patch")"
        patch_header "$1/$patch" >"$tmp/header"
        write_patch "$tmp/header" "$(sed -n "${number}p" "$2")" \
            "$(sed -n "$((number + 1))p" "$2")" >"$3/$patch"
        number=$((number + 1))
    done
}

# Prints the trees of a chain, one on each line, the release's first.
chain_trees() { # TIP
    fork_git log --reverse --format=%T "$1"
}
