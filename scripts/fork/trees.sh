# Sourced. Owns: trees of their own, next to the working copy, where commands
# check commits out and build them. Each has a target folder of its own: cargo
# takes two checkouts that share one for the same.

# One command at a time uses FOLDER; the lock goes with the process.
tree_lock() { # FOLDER
    mkdir -p "$1"
    exec 8>"$1/lock"
    command -v flock >/dev/null || return 0
    flock -n 8 || die "another command is at work in $1: wait for it"
}

# Makes FOLDER/tree a clone of REPOSITORY, whose objects it shares, unless it is
# there. What somebody has edited in it is not dropped.
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

tree_git() {
    plain_git -C "$tree" "$@"
}

# Checks a commit out; a file that stays the same keeps its mtime.
tree_at() { # COMMIT
    tree_git -c advice.detachedHead=false checkout -q -f --detach "$1"
}

# These commands work from patches/: edits that it lacks would be left out.
refuse_unexported_edits() {
    [ -f "$fork/index" ] || return 0
    edits=$(edited_files | sed 's,^,quiche/,' | paste -sd ' ' -)
    [ -z "$edits" ] ||
        die "$edits has edits that patches/ lacks: make patches keeps them, make quiche FORCE=1 drops them"
}
