# Separate trees, next to the working copy, in which commands check out and build commits
# (sourced). Each has its own target folder: cargo confuses two checkouts that share one.

# Allows one command at a time in FOLDER; the lock ends with the process.
tree_lock() { # FOLDER
    mkdir -p "$1"
    exec 8>"$1/lock"
    command -v flock >/dev/null || return 0
    flock -n 8 || die "another command is at work in $1: wait for it"
}

# Makes FOLDER/tree a clone of REPOSITORY that shares its objects, unless it exists.
# Refuses to discard edits in it.
open_tree() { # FOLDER REPOSITORY
    tree=$1/tree
    export CARGO_TARGET_DIR="$1/build"
    if [ ! -d "$tree/.git" ]; then
        rm -rf "$tree" "$tree.next"
        plain_git clone -q --shared --no-checkout "$2" "$tree.next"
        mv "$tree.next" "$tree"
    elif [ -z "${FORCE:-}" ]; then
        edits=$(tree_git diff --name-only | paste -sd ' ' -)
        [ -z "$edits" ] || die "$tree has edits in $edits: take them from there, or drop them with FORCE=1"
    fi
    rm -f "$tree/.git/index.lock"
    tree_git bisect reset HEAD >/dev/null 2>&1 || true
}

# Opens the steps of the series, target/steps/tree: a commit with the applications for each
# patch, the release first. Writes their ids to $tmp/steps.
open_steps() {
    tree_lock "$root/target/steps"
    fork_lock
    refuse_unexported_edits
    last_step=$(build_workspaces "$(build_hooks patches)" all)
    fork_git update-ref refs/heads/workspaces "$last_step"
    exec 9>&-
    open_tree "$root/target/steps" "$fork"
    fork_git rev-list --reverse "$last_step" >"$tmp/steps"
}

step_commit() { # NUMBER of patches
    sed -n "$(($1 + 1))p" "$tmp/steps"
}

tree_git() {
    plain_git -C "$tree" "$@"
}

# Checks out a commit; unchanged files keep their mtime.
tree_at() { # COMMIT
    tree_git -c advice.detachedHead=false checkout -q -f --detach "$1"
}

# These commands use patches/, so that edits it lacks would be ignored.
refuse_unexported_edits() {
    [ -f "$fork/index" ] || return 0
    edits=$(edited_files | sed 's,^,quiche/,' | paste -sd ' ' -)
    [ -z "$edits" ] ||
        die "$edits has edits that patches/ lacks: make patches keeps them, make quiche FORCE=1 drops them"
}
