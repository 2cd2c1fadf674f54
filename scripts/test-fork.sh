#!/bin/sh
# Tests of the fork's scripts, in a throw-away clone with a release of two files.
# Each test_* function starts from the same state: two patches, written to quiche/.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

export CARGO_HOME="$work/cargo" CARGO_NET_OFFLINE=true GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
unset FORCE NEW PATCH FILES
# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars)

# ---- the state every test starts from ----

make_release() {
    mkdir -p "$work/tiny-0.1.0/src" "$CARGO_HOME/registry/cache/local"
    (
        cd "$work/tiny-0.1.0"
        echo '{}' >.cargo_vcs_info.json
        echo 'upstream readme' >README.md
        echo 'exit' >run.sh
        chmod 755 run.sh
        seq -f 'lib line %g' 30 >src/lib.rs
        seq -f 'path line %g' 30 >src/path.rs
    )
    tar -czf "$CARGO_HOME/registry/cache/local/tiny-0.1.0.crate" -C "$work" tiny-0.1.0
    sha256=$(sha256sum "$CARGO_HOME/registry/cache/local/tiny-0.1.0.crate" | cut -d' ' -f1)
}

header() { # SUBJECT [OWN-FILE…]
    printf 'Subject: %s\n\nBecause.\n\nSpec: none\nUpstream-Status: not sent\n' "$1"
    shift
    for path; do echo "Adds: $path"; done
}

make_clone() {
    git init -q "$work/start"
    cd "$work/start"
    mkdir -p quiche/src patches
    cp -R "$here" scripts
    printf 'name tiny\nversion 0.1.0\nsha256 %s\n' "$sha256" >patches/UPSTREAM
    echo '# ours' >quiche/FORK.md
    echo 'clock' >quiche/src/clock.rs
    printf '0001-clock.patch\n0002-pacing.patch\n' >patches/series
    header clock src/clock.rs >patches/0001-clock.patch
    cat >>patches/0001-clock.patch <<'END'

--- a/src/lib.rs
+++ b/src/lib.rs
@@ -3,4 +3,5 @@ lib line 2
 lib line 3
 lib line 4
 lib line 5
+mod clock;
 lib line 6
END
    header pacing >patches/0002-pacing.patch
    cat >>patches/0002-pacing.patch <<'END'

--- a/src/lib.rs
+++ b/src/lib.rs
@@ -18,7 +18,7 @@ lib line 16
 lib line 17
 lib line 18
 lib line 19
-lib line 20
+lib line 20, paced
 lib line 21
 lib line 22
 lib line 23
END
    quiche
    patches
    git add .
    git commit -qm start
}

quiche() { sh scripts/quiche.sh 2>"$work/err"; }
patches() { sh scripts/patches.sh 2>"$work/err"; }
check() { sh scripts/patches-check.sh 2>"$work/err"; }

# ---- assertions ----

fail() {
    echo "FAILED $name: $*" >&2
    sed 's/^/    /' "$work/err" >&2
    exit 1
}

says() { # TEXT: the last command said so, in one line
    grep -qF -- "$1" "$work/err" || fail "expected: $1"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "expected one line"
}

refuses() { # COMMAND TEXT
    if "$1"; then fail "$1 succeeded"; fi
    says "$2"
}

holds() { # FILE LINE
    grep -qxF -- "$2" "$1" || fail "$1 lacks: $2"
}

lacks() { # FILE LINE
    if grep -qxF -- "$2" "$1"; then fail "$1 has: $2"; fi
}

edit() { # FILE SED-SCRIPT
    sed "$2" "quiche/$1" >"$work/edit"
    cat "$work/edit" >"quiche/$1"
}

backdate() {
    find quiche -type f -exec touch -t 202001010000 {} +
    touch -t 202001020000 "$work/mark"
}

rewritten() {
    find quiche -type f -newer "$work/mark" | sort | paste -sd ' ' -
}

# ---- make quiche ----

test_writes_the_patched_release() {
    holds quiche/src/lib.rs 'mod clock;'
    holds quiche/src/lib.rs 'lib line 20, paced'
    holds quiche/src/clock.rs 'clock'
    [ -x quiche/run.sh ] || fail "run.sh lost its mode"
    [ ! -e quiche/.cargo_vcs_info.json ] || fail "cargo's droppings were unpacked"
}

test_hides_upstream_files_and_shows_new_ones_of_ours() {
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
    touch quiche/src/new.rs
    [ "$(git status --porcelain)" = '?? quiche/src/new.rs' ] || fail "$(git status --porcelain)"
}

test_rewrites_nothing_when_nothing_changed() {
    backdate
    quiche
    [ -z "$(rewritten)" ] || fail "rewrote $(rewritten)"
    rm -rf .git/fork # as in a quiche/ that was copied here by hand
    quiche
    [ -z "$(rewritten)" ] || fail "rewrote $(rewritten)"
}

test_rewrites_only_what_a_pull_changed() {
    backdate
    echo '# ours' >>quiche/FORK.md
    printf '0001-clock.patch\n' >patches/series
    quiche
    lacks quiche/src/lib.rs 'lib line 20, paced'
    [ "$(rewritten)" = 'quiche/FORK.md quiche/src/lib.rs' ] || fail "rewrote $(rewritten)"
}

test_a_second_clone_makes_the_same_history() {
    git clone -q . ../second
    (cd ../second && git config core.autocrlf true && sh scripts/quiche.sh) 2>"$work/err"
    one=$(git --git-dir=.git/fork rev-parse hooks)
    two=$(git --git-dir=../second/.git/fork rev-parse hooks)
    [ "$one" = "$two" ] || fail "$one $two"
    diff -r quiche ../second/quiche >&2 || fail "the trees differ"
}

test_keeps_edits_while_patches_stay_the_same() {
    edit src/path.rs 's/path line 7/edited/'
    quiche
    holds quiche/src/path.rs edited
}

test_refuses_to_lose_an_edit() {
    edit src/lib.rs 's/lib line 28/edited/'
    printf '0001-clock.patch\n' >patches/series
    refuses quiche 'quiche/src/lib.rs has edits that patches/ lacks: make patches keeps them, make quiche FORCE=1 drops them'
    holds quiche/src/lib.rs edited
    holds quiche/src/lib.rs 'lib line 20, paced'
}

test_force_drops_edits() {
    edit src/path.rs 's/path line 7/edited/'
    FORCE=1 sh scripts/quiche.sh 2>"$work/err"
    lacks quiche/src/path.rs edited
}

test_refuses_to_lose_an_edit_made_before_the_first_run() {
    edit src/lib.rs 's/lib line 28/edited/'
    rm -rf .git/fork
    refuses quiche 'quiche/src/lib.rs has edits'
    holds quiche/src/lib.rs edited
}

test_restores_deleted_files() {
    rm -r quiche/src/path.rs quiche/.gitignore
    quiche
    says 'restored quiche/src/path.rs'
    holds quiche/src/path.rs 'path line 1'
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
}

test_repeats_a_run_that_was_cut_short() {
    printf '0001-clock.patch\n' >patches/series
    cp .git/fork/index .git/fork/stamp "$work"
    quiche
    cp "$work/index" "$work/stamp" .git/fork
    touch .git/fork/index.next .git/fork/index.next.lock
    quiche
    lacks quiche/src/lib.rs 'lib line 20, paced'
    check || true
    lacks "$work/err" 'has edits'
}

test_refuses_a_release_with_another_sha256() {
    other=$(printf '%064d' 0)
    sed "s/^sha256 .*/sha256 $other/" patches/UPSTREAM >"$work/pin"
    cp "$work/pin" patches/UPSTREAM
    refuses quiche "has sha256 $sha256, patches/UPSTREAM says $other"
}

test_says_when_the_release_cannot_be_downloaded() {
    sed 's/0.1.0/0.1.1/; s/^sha256 .*/sha256 none/' patches/UPSTREAM >"$work/pin"
    cp "$work/pin" patches/UPSTREAM
    if quiche; then fail "succeeded"; fi
    grep -qF 'error: cargo cannot download tiny 0.1.1: ' "$work/err" || fail "no clear line"
}

test_names_the_patch_that_does_not_apply() {
    sed 's/lib line 21/lib line x/' patches/0002-pacing.patch >"$work/patch"
    cp "$work/patch" patches/0002-pacing.patch
    refuses quiche 'error: patches/0002-pacing.patch does not apply: the lines it expects at src/lib.rs:18 are not there'
    rm patches/0002-pacing.patch
    refuses quiche 'error: patches/series names 0002-pacing.patch, which is not in patches/'
}

test_a_patch_cannot_add_a_file() {
    printf -- '--- /dev/null\n+++ b/src/own.rs\n@@ -0,0 +1 @@\n+own\n' >>patches/0002-pacing.patch
    refuses quiche 'patches/0002-pacing.patch adds or deletes src/own.rs'
}

# ---- make patches ----

test_an_export_without_edits_changes_nothing() {
    patches
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
    check || fail "patches-check"
}

test_an_edit_goes_to_the_last_patch() {
    edit src/path.rs 's/path line 7/edited/'
    backdate
    patches
    holds patches/0002-pacing.patch '+edited'
    [ "$(git status --porcelain)" = ' M patches/0002-pacing.patch' ] || fail "$(git status --porcelain)"
    [ -z "$(rewritten)" ] || fail "rewrote $(rewritten)"
    check || fail "patches-check"
}

test_an_edit_goes_to_the_chosen_patch_and_later_ones_follow() {
    edit src/lib.rs 's/^mod clock;$/mod clock;\nmod rand;/'
    PATCH=0001 patches
    holds patches/0001-clock.patch '+mod rand;'
    holds patches/0002-pacing.patch '@@ -19,7 +19,7 @@ lib line 16'
    lacks patches/0002-pacing.patch '+mod rand;'
    check || fail "patches-check"
}

test_an_edit_of_a_later_patch_does_not_fit_into_an_earlier_one() {
    edit src/lib.rs 's/lib line 20, paced/lib line 20, well paced/'
    export PATCH=0001
    refuses patches 'the edit of quiche/src/lib.rs does not fit into 0001-clock.patch'
    unset PATCH
    git diff --quiet patches || fail "patches/ changed"
    patches
    holds patches/0002-pacing.patch '+lib line 20, well paced'
}

test_a_reverted_hook_leaves_its_patch() {
    edit src/lib.rs 's/lib line 20, paced/lib line 20/'
    patches
    lacks patches/0002-pacing.patch '+lib line 20, paced'
    quiche
    lacks quiche/src/lib.rs 'lib line 20, paced'
}

test_a_new_patch_takes_the_edits_and_our_new_files() {
    edit src/path.rs 's/path line 7/mod search;/'
    echo search >quiche/src/search.rs
    NEW=0003-slow-start patches
    holds patches/series 0003-slow-start.patch
    holds patches/0003-slow-start.patch 'Subject: slow start'
    holds patches/0003-slow-start.patch 'Adds: src/search.rs'
    holds patches/0003-slow-start.patch '+mod search;'
    git add .
    if check; then fail "the TODO passed"; fi
    sed 's/TODO: why./Because./; s/TODO/none/' patches/0003-slow-start.patch >"$work/patch"
    cp "$work/patch" patches/0003-slow-start.patch
    quiche
    check || fail "patches-check"
    git --git-dir=.git/fork show series:src/search.rs | grep -q search || fail "not in the history"
    if git --git-dir=.git/fork cat-file -e series~:src/search.rs 2>/dev/null; then fail "too early"; fi
}

test_a_new_patch_needs_an_edit_and_the_next_number() {
    export NEW=0003-x
    refuses patches 'NEW=0003-x: no file of upstream in quiche/ is edited'
    edit src/path.rs 's/path line 7/edited/'
    export NEW=0007-x
    refuses patches 'NEW=0007-x: the next patch is named 0003-subject'
    unset NEW
    export PATCH=0009
    refuses patches 'PATCH=0009: no patch of patches/series begins so'
    unset PATCH
}

test_exports_some_files_only() {
    edit src/path.rs 's/path line 7/edited/'
    edit src/lib.rs 's/lib line 28/edited too/'
    FILES=src/path.rs patches
    holds patches/0002-pacing.patch '+edited'
    lacks patches/0002-pacing.patch '+edited too'
    holds quiche/src/lib.rs 'edited too'
    patches
    holds patches/0002-pacing.patch '+edited too'
}

test_an_edit_is_merged_with_patches_that_a_pull_changed() {
    edit src/lib.rs 's/lib line 28/edited/'
    sed 's/lib line 20, paced/lib line 20, pulled/' patches/0002-pacing.patch >"$work/patch"
    cp "$work/patch" patches/0002-pacing.patch
    refuses quiche 'make patches keeps them'
    patches
    holds patches/0002-pacing.patch '+edited'
    holds quiche/src/lib.rs edited
    holds quiche/src/lib.rs 'lib line 20, pulled'
    check || fail "patches-check"
}

# ---- make patches-check ----

test_check_sees_what_export_would_change() {
    sed 's/@@ -18,7 +18,7/@@ -17,7 +17,7/' patches/0002-pacing.patch >"$work/patch"
    cp "$work/patch" patches/0002-pacing.patch
    quiche
    refuses check 'patches/0002-pacing.patch is not as make patches writes it'
    patches
    check || fail "patches-check"
}

test_check_sees_unexported_edits() {
    edit src/lib.rs 's/lib line 28/edited/'
    refuses check 'quiche/src/lib.rs has edits that patches/ lacks'
}

test_check_accounts_for_every_file_of_ours() {
    touch quiche/src/new.rs
    git add quiche/src/new.rs
    refuses check 'quiche/src/new.rs is in no patch'
    git rm -qf quiche/src/new.rs quiche/src/clock.rs
    refuses check 'Adds: src/clock.rs, but git does not track'
}

test_check_sees_a_tracked_file_of_upstream() {
    git add -f quiche/README.md
    refuses check 'quiche/README.md is a file of upstream, and tracked'
}

test_check_sees_a_file_added_twice() {
    sed 's/^Upstream-Status.*/&\nAdds: src\/clock.rs/' patches/0002-pacing.patch >"$work/patch"
    cp "$work/patch" patches/0002-pacing.patch
    refuses check 'quiche/src/clock.rs is in the Adds: of two patches'
}

test_check_sees_a_patch_outside_the_series() {
    touch patches/0009-stray.patch
    refuses check 'patches/0009-stray.patch is not named in patches/series'
}

test_check_reads_headers() {
    sed '/^Spec:/d' patches/0002-pacing.patch >"$work/patch"
    cp "$work/patch" patches/0002-pacing.patch
    refuses check 'patches/0002-pacing.patch has no line Spec:'
}

# ---- run ----

name=set-up
make_release
(make_clone) || fail "no state to start from"
count=0
for name in $(sed -n 's/^\(test_[a-z0-9_]*\)().*/\1/p' "$here/test-fork.sh" | grep -e "${1:-.}"); do
    rm -rf "$work/clone" "$work/second"
    cp -Rp "$work/start" "$work/clone"
    cd "$work/clone"
    # Not `( … ) ||`: that would switch `set -e` off inside.
    set +e
    (set -e; $name)
    status=$?
    set -e
    [ $status -eq 0 ] || fail "stopped"
    count=$((count + 1))
done
echo "test-fork: $count tests passed"
