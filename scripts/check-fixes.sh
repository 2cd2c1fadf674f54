#!/bin/sh
# make check-fixes: checks that each fix works alone, and that its tests need it. On the
# release with the fixes of its Depends: only, the tests that its Tests: names in
# quiche/src must pass with the patch. With no more of the patch than the declarations of
# these tests, at least one must fail. Skips fixes that have passed and are unchanged.
#   PATCH=10-fixes/03   only that patch
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/fork/depends.sh
. scripts/fork/lint.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh

FEATURES=internal,ffi,qlog
# Two builds for each fix, which differ by a few functions.
export CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0

# Commits the workspace with $patch, and with its test declarations only. Prints both
# commits, and the modules of the tests.
make_pair() {
    cp "$tmp/closure/$number" "$tmp/wanted"
    echo "$number" >>"$tmp/wanted"
    awk 'NR == FNR { wanted[$1]; next } FNR in wanted' "$tmp/wanted" "$tmp/order" >"$tmp/names"
    while read -r name; do patch_adds "patches/$name"; done <"$tmp/names" >"$tmp/added"
    applies "$tmp/wanted" || die "patches/$patch does not apply to the release: $(apply_error); see make patches-check"
    with=$(workspace_commit)

    tests=$(patch_tests "patches/$patch" | sed -n 's,^quiche/src/,,p' | paste -sd ' ' -)
    : >"$tmp/modules"
    awk -v tests="$tests" -v modules="$tmp/modules" -f scripts/fork/declarations.awk "patches/$patch" >"$tmp/declarations"
    declared=$(wc -l <"$tmp/modules" | tr -d ' ')
    [ "$declared" -gt 0 ] && [ "$declared" -eq "$(echo "$tests" | wc -w | tr -d ' ')" ] ||
        die "patches/$patch must name files of quiche/src in Tests:, and declare each as a module"
    applies "$tmp/closure/$number"
    scratch_git apply --cached --recount --whitespace=nowarn "$tmp/declarations"
    echo "$with $(workspace_commit) $(sed 's/$/::/' "$tmp/modules" | paste -sd ' ' -)"
}

# Commits the workspace with the files of ours in $tmp/added and the upstream files of the
# scratch index.
workspace_commit() {
    quiche=$(tree_with "$(scratch_git write-tree)" "$tmp/added")
    echo "$patch" >"$tmp/message"
    fork_commit "$number" "$tmp/message" "$(workspace_tree "$outside" "$quiche")"
}

# Compiles the tests of $patch at a commit, and runs them. Fails if one of them fails, and
# sets $passed and $failed to the numbers of tests.
run_tests() { # COMMIT WITH-OR-WITHOUT
    tree_at "$1"
    lend_boringssl "$tree"
    # After an interrupted build, rustc's incremental data can make the next one fail.
    fix_cargo --no-run || { rm -rf "$CARGO_TARGET_DIR/debug/incremental" && fix_cargo --no-run; } ||
        stop "does not compile $2 it"
    status=0
    # shellcheck disable=SC2086
    fix_cargo -- $modules || status=1
    result=$(sed -n 's/^test result: [^.]*[.] \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$tmp/said")
    passed=${result% *} failed=${result#* }
    return $status
}

fix_cargo() { # ARGUMENT…
    (cd "$tree" && cargo test -p quiche --lib --features "$FEATURES" "$@" 8>&-) >"$tmp/said" 2>&1 </dev/null
}

stop() { # WHAT
    cat "$tmp/said" >&2
    echo "$tree is left as it was; build there with CARGO_TARGET_DIR=$CARGO_TARGET_DIR" >&2
    die "patches/$patch: its test $1, on the release with only what Depends: names"
}

check_fix() { # WITH WITHOUT
    key="fix $patch $(tree_git rev-parse "$1:quiche" "$2:quiche" | paste -sd ' ' -) $(git hash-object Cargo.lock) $(rustc --version)"
    if ! grep -qxF "$key" "$fork/passed" 2>/dev/null; then
        run_tests "$1" with || stop "fails with it"
        [ "${passed:-0}" -gt 0 ] || stop "does not exist: no test is in $modules"
        if run_tests "$2" without; then stop "passes without it"; fi
        echo "$patch: ${passed:-0} of $((${passed:-0} + ${failed:-0})) tests pass without it" >&2
        echo "$key" >>"$fork/passed"
    fi
    echo "$patch: passed" >&2
}

chosen=
if [ -n "${PATCH:-}" ]; then
    chosen=$(patch_number PATCH "$PATCH")
    series patches | sed -n "${chosen}p" | grep -q '^10-fixes/' || die "PATCH=$PATCH: no patch of 10-fixes begins so"
fi
tree_lock "$root/target/fixes"
fork_lock
refuse_unexported_edits
: >"$tmp/complaints"
: >"$tmp/pairs"
order_patches patches
outside=$(outside_tree)
number=0
for patch in $(series patches); do
    number=$((number + 1))
    case $patch in 10-fixes/*) ;; *) continue ;; esac
    with_needs $(declared_depends) >"$tmp/closure/$number"
    [ ! -s "$tmp/complaints" ] || { cat "$tmp/complaints" >&2 && exit 1; }
    [ "$number" -eq "${chosen:-$number}" ] || continue
    pair=$(make_pair)
    echo "$patch $pair" >>"$tmp/pairs"
done
[ -s "$tmp/pairs" ] || die "patches/series has no patch of 10-fixes"
open_tree "$root/target/fixes" "$fork"
exec 9>&-
while read -r patch with without modules; do check_fix "$with" "$without"; done <"$tmp/pairs"
