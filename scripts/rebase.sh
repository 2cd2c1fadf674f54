#!/bin/sh
# make rebase: moves the series to another release of upstream: patches/, the pin
# in patches/UPSTREAM, quiche/, Cargo.lock, and the release that make same-packets takes.
#   UPSTREAM=x.y.z   the release
#   ABORT=1          aborts a rebase that stopped at conflicts
# Works in $work in git's directory. Its tree/ is a repository in which conflicts are
# resolved. After conflicts or an interruption, the same command continues.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/trees.sh
. scripts/fork/lock.sh

work=$fork/rebase
tree=$work/tree

refuse_unsaved_work() {
    refuse_unexported_edits
    unsaved=$(git status --porcelain patches Cargo.lock tools/same-packets/Cargo.\* | cut -c4- | paste -sd ' ' -)
    [ -z "$unsaved" ] || die "$unsaved is not committed, and would be replaced: git commit it first"
}

# Rebases a copy of the hooks' history, which becomes the current rebase when it is
# moved to $work.
start() {
    refuse_unsaved_work
    old=$(upstream_commit)
    tip=$(build_hooks patches)
    fork_git update-ref refs/heads/hooks "$tip"
    name=$(upstream_field name)
    crate=$(fetched_crate "$name" "$UPSTREAM")
    rm -rf "$work.next"
    mkdir "$work.next"
    sed "s/^\(version *\).*/\1$UPSTREAM/; s/^\(sha256 *\).*/\1$(git_sha256 "$crate")/" patches/UPSTREAM >"$work.next/UPSTREAM"
    new=$(pin=$work.next/UPSTREAM && upstream_commit)
    echo "$new" >"$work.next/onto"
    echo "$old" >"$work.next/from"
    patches_stamp >"$work.next/stamp"
    tree=$work.next/tree
    plain_git clone -q --shared --no-checkout "$fork" "$tree"
    tree_git config user.name quiche-resume
    tree_git config user.email quiche-resume@invalid
    tree_git config merge.conflictStyle diff3
    tree_git checkout -q --detach "$tip"
    # A patch that the release includes stays in the series, without hooks, until it is
    # removed by hand.
    tree_git rebase -q --empty=keep --onto "$new" "$old" >"$tmp/rebase" 2>&1 || is_stopped ||
        die "git cannot rebase: $(tail -n 1 "$tmp/rebase")"
    tree=$work/tree
    mv "$work.next" "$work"
}

is_stopped() {
    [ -d "$tree/.git/rebase-merge" ]
}

# Continues once all conflicts are resolved.
go_on() {
    while is_stopped; do
        [ -z "$(tree_git diff --name-only)" ] || explain_conflict
        GIT_EDITOR=true tree_git rebase --continue >"$tmp/rebase" 2>&1 || is_stopped ||
            die "git cannot go on: $(tail -n 1 "$tmp/rebase")"
    done
}

explain_conflict() {
    cat >&2 <<END
error: "$(tree_git log -1 --format=%s REBASE_HEAD)" does not fit $(upstream_field name) $UPSTREAM by itself, in $(tree_git diff --name-only | sort -u | paste -sd ' ' -)
  resolve the conflicts in $tree, git add the files there, and here: make rebase UPSTREAM=$UPSTREAM
  or give up: make rebase ABORT=1 (nothing has changed here so far)
END
    exit 1
}

# Replaces patches/ by the rebased patches.
take_patches() {
    [ "$(cat "$work/stamp")" = "$(patches_stamp)" ] ||
        die "patches/ has changed since the rebase began: make rebase ABORT=1, and begin again"
    new=$(cat "$work/onto")
    [ "$(tree_git rev-list --count "$new..HEAD")" = "$(series patches | wc -l | tr -d ' ')" ] ||
        die "$tree does not have a commit for each patch: make rebase ABORT=1, and begin again"
    fork_git fetch -q "$tree" HEAD
    chain_trees "$new..FETCH_HEAD" >"$tmp/rebased"
    { fork_git log -1 --format=%T "$new"; cat "$tmp/rebased"; } >"$tmp/trees"
    write_series patches "$tmp/trees" "$tmp/out"
    check=$(pin=$work/UPSTREAM && build_hooks "$tmp/out")
    [ "$(fork_git rev-parse "$check^{tree}")" = "$(tail -n 1 "$tmp/trees")" ] ||
        die "the patches do not give the rebased files back; nothing is changed"
    cp "$work/UPSTREAM" "$tmp/out"
    replace_patches "$tmp/out" 2>"$tmp/said"
}

# Updates what depends on patches/. Can be repeated after an interruption.
follow_patches() {
    exec 9>&-
    sh scripts/quiche.sh
    update_lock "$(cat "$work/from")"
    update_comparison
    for patch in $(series patches); do
        grep -q '^--- ' "patches/$patch" ||
            echo "patches/$patch has no hook left: take it off the series if the release has what it was for" >&2
    done
    rm -rf "$work"
    echo "the series is on $(upstream_field name) $UPSTREAM; next: make check" >&2
}

update_comparison() {
    comparison=tools/same-packets/Cargo.toml
    [ -f "$comparison" ] || return 0
    sed "s/^\(release = .*version = \"=\)[^\"]*/\1$UPSTREAM/" "$comparison" >"$tmp/comparison"
    cp "$tmp/comparison" "$comparison"
    cargo update -q --workspace --manifest-path "$comparison" ||
        die "cargo cannot lock the release for $comparison, see above; then the same command again"
}

fork_lock
on=$(upstream_field version)
under_way=
[ ! -d "$work" ] || under_way=$(pin=$work/UPSTREAM && upstream_field version)
if [ -n "${ABORT:-}" ]; then
    [ -z "$under_way" ] || [ "$under_way" != "$on" ] ||
        die "it is past all conflicts: make rebase UPSTREAM=$under_way ends it"
    rm -rf "$work"
    if [ -n "$under_way" ]; then
        echo "the rebase to $under_way is given up; the series stays on $(upstream_field name) $on" >&2
    else
        echo "no rebase is under way; the series is on $(upstream_field name) $on" >&2
    fi
    exit
fi
[ -n "${UPSTREAM:-}" ] || die "make rebase needs a release: UPSTREAM=x.y.z"
case $under_way in
"$UPSTREAM") ;;
'')
    if [ "$on" = "$UPSTREAM" ]; then
        echo "the series is on $(upstream_field name) $on already" >&2
        exit
    fi
    start
    ;;
*) die "a rebase to $under_way is under way: make rebase UPSTREAM=$under_way goes on, make rebase ABORT=1 gives it up" ;;
esac
if [ "$on" != "$UPSTREAM" ]; then
    go_on
    take_patches
fi
follow_patches
