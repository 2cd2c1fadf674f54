#!/bin/sh
# Tests of the commands that work on the whole series: check-each, check-fixes, bisect,
# same-packets, rebase, export, workspace-check, range-diff; cargo is a stand-in that reads
# quiche/src/lib.rs. RUN is a line for the shell.
# shellcheck disable=SC2016,SC2089,SC2090
. "$(dirname "$0")/fork/testbed.sh"

command_check_each() { sh scripts/check-each.sh "$@" 2>"$work/err"; }
command_check_fixes() { sh scripts/check-fixes.sh 2>"$work/err"; }
command_bisect() { BUILD=true sh scripts/bisect.sh >"$work/found" 2>"$work/err"; }
command_bisect_history() { BUILD=true sh scripts/bisect-history.sh >"$work/found" 2>"$work/err"; }
command_rebase() { sh scripts/rebase.sh 2>"$work/err"; }
command_export() { sh scripts/export.sh 2>"$work/err"; }
command_same_packets() { sh scripts/same-packets.sh >"$work/found" 2>"$work/err"; }
command_workspace_check() { sh scripts/workspace-check.sh 2>"$work/err"; }
command_patch_cost() { sh scripts/patch-cost.sh 2>"$work/err"; }
command_range_diff() { sh scripts/range-diff.sh >"$work/found" 2>"$work/err"; }

says_last() { # TEXT
    tail -n 1 "$work/err" | grep -qF -- "$1" || fail "expected at the end: $1"
}

mentions() { # TEXT
    grep -qF -- "$1" "$work/err" || fail "expected: $1"
}

found() { # LINE
    [ "$(cat "$work/found")" = "$1" ] || fail "found: $(cat "$work/found")"
}

hooks_of() { git --git-dir=.git/fork rev-parse "hooks^{tree}"; }

# ---- make patch-cost ----

test_patch_cost_knows_the_scenarios_before_it_builds() {
    use_cargo
    mkdir -p tools/same-packets/src
    echo 'of("download", |s| (), of("x-download-y"' >tools/same-packets/src/catalogue.rs
    export PATCH=20-careful-resume/01
    for name in nope 'download nope' download-y; do
        SCENARIO=$name
        export SCENARIO
        refuses command_patch_cost "SCENARIO=${name#* }: neither edge-server nor a scenario of tools/same-packets/src/catalogue.rs"
    done
    [ ! -s "$CARGO_LOG" ] || fail "$(cat "$CARGO_LOG")"
}

# ---- make check-each, make steps-check ----

test_check_each_runs_the_tests_of_every_step_with_qlog_and_without() {
    use_cargo
    command_check_each
    [ "$(cut -d' ' -f1,2 "$CARGO_LOG" | paste -sd, -)" = 'test 30,test 30,test 31,test 31,test 31,test 31' ] ||
        fail "$(cat "$CARGO_LOG")"
    [ "$(grep -c qlog "$CARGO_LOG")" -eq 3 ] || fail "$(cat "$CARGO_LOG")"
    holds "$work/err" '20-careful-resume/01-pacing.patch: passed'
}

test_check_each_repeats_only_what_changed() {
    use_cargo
    command_check_each
    : >"$CARGO_LOG"
    edit src/lib.rs 's/lib line 20, paced/lib line 20, well paced/'
    PATCH=20-careful-resume/01 patches
    command_check_each
    [ "$(wc -l <"$CARGO_LOG")" -eq 2 ] || fail "$(cat "$CARGO_LOG")"
}

test_check_each_stops_at_the_guilty_patch() {
    use_cargo
    edit src/lib.rs 's/^mod clock;$/&\nwill not compile/'
    PATCH=10-fixes/01 patches
    if command_check_each; then fail "it passed"; fi
    says_last 'error: patches/10-fixes/01-clock.patch is the first that fails in cargo test'
    says_last 'make patches PATCH=10-fixes/01'
    mentions 'error: no'
    edit src/lib.rs 's/will not compile/compiles without qlog/'
    PATCH=10-fixes/01 patches
    if command_check_each; then fail "it passed"; fi
    says_last 'patches/10-fixes/01-clock.patch is the first that fails in cargo test: '
}

test_steps_check_runs_the_tests_after_every_topic_but_the_last() {
    use_cargo
    command_check_each --compile
    [ "$(grep -n '^test' "$CARGO_LOG" | cut -d: -f1)" = 5 ] || fail "$(cat "$CARGO_LOG")"
    grep '^test' "$CARGO_LOG" | grep -q qlog || fail "$(cat "$CARGO_LOG")"
}

test_steps_check_takes_a_warning_for_an_error() {
    use_cargo
    edit src/lib.rs 's/lib line 28/will warn/'
    PATCH=20-careful-resume/01 patches
    if command_check_each --compile; then fail "it passed"; fi
    says_last 'patches/20-careful-resume/01-pacing.patch is the first that fails in cargo check without qlog, which warns'
}

test_an_unused_item_is_a_warning_in_the_last_patch_only() {
    use_cargo
    edit src/lib.rs 's/^mod clock;$/&\nunused/'
    PATCH=10-fixes/01 patches
    edit src/lib.rs '/^unused$/d'
    FORCE=1 PATCH=20-careful-resume/01 patches
    command_check_each --compile
    edit src/lib.rs 's/lib line 28/unused/'
    PATCH=20-careful-resume/01 patches
    if command_check_each --compile; then fail "it passed"; fi
    says_last 'patches/20-careful-resume/01-pacing.patch is the first that fails in cargo check without qlog, which warns'
}

test_steps_check_compiles_the_applications_too_each_time() {
    use_cargo
    command_check_each --compile
    command_check_each --compile
    [ "$(grep -c -- --workspace "$CARGO_LOG")" -eq 6 ] || fail "$(cat "$CARGO_LOG")"
}

test_each_step_has_the_files_of_ours_that_it_declares() {
    use_cargo
    command_check_each
    git --git-dir=.git/fork ls-tree -r --name-only steps~2 quiche | grep -qx quiche/src/lib.rs || fail "no lib.rs"
    if git --git-dir=.git/fork cat-file -e steps~2:quiche/src/clock.rs 2>/dev/null; then fail "too early"; fi
    git --git-dir=.git/fork cat-file -e steps~:quiche/src/clock.rs || fail "missing"
    # The applications use types of these files.
    git --git-dir=.git/fork cat-file -e workspaces~2:quiche/src/clock.rs || fail "missing"
}

test_check_each_runs_the_steps_of_one_topic() {
    use_cargo
    TOPIC=20-careful-resume command_check_each
    [ "$(wc -l <"$CARGO_LOG")" -eq 2 ] || fail "$(cat "$CARGO_LOG")"
    says '20-careful-resume/01-pacing.patch: passed'
    export TOPIC=50-x
    refuses command_check_each 'TOPIC=50-x: patches/series has the topics 10-fixes 20-careful-resume'
}

# ---- make check-fixes ----

# Adds 10-fixes/02 with a test module, and a cargo that runs its tests: one of two fails
# without the fix, unless TESTS_PASS is set.
make_fix() {
    use_cargo
    cat >"$work/bin/cargo" <<'END'
#!/bin/sh
echo "$*" >>"$CARGO_LOG"
grep -q 'mod fixed_tests;' quiche/src/path.rs && [ -f quiche/src/path/fixed_tests.rs ] || exit 101
case "$*" in *--no-run*) exit ;; esac
if [ -z "${TESTS_PASS:-}" ] && ! grep -q 'path line 20, fixed' quiche/src/path.rs; then
    echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'
    exit 101
fi
echo 'test result: ok. 2 passed; 0 failed; 0 ignored'
END
    mkdir quiche/src/path
    echo tests >quiche/src/path/fixed_tests.rs
    edit src/path.rs 's/path line 7$/&\n#[cfg(test)]\nmod fixed_tests;/; s/path line 20/&, fixed/'
    NEW=10-fixes/02-fixed patches
    sed 's,^Tests: TODO,Tests: quiche/src/path/fixed_tests.rs,; s/TODO/none/' patches/10-fixes/02-fixed.patch >"$work/patch"
    cp "$work/patch" patches/10-fixes/02-fixed.patch
    export PATCH=10-fixes/02
}

test_check_fixes_runs_the_tests_with_the_fix_and_without() {
    make_fix
    command_check_fixes
    mentions '10-fixes/02-fixed.patch: 1 of 2 tests pass without it'
    [ "$(grep -c -- '--no-run$' "$CARGO_LOG")" -eq 2 ] || fail "$(cat "$CARGO_LOG")"
    [ "$(grep -c -- '-- fixed_tests::$' "$CARGO_LOG")" -eq 2 ] || fail "$(cat "$CARGO_LOG")"
    # The fix does not depend on 10-fixes/01, which adds this file.
    [ ! -e target/fixes/tree/quiche/src/clock.rs ] || fail "clock.rs is there"
}

test_check_fixes_repeats_only_what_changed() {
    make_fix
    command_check_fixes
    : >"$CARGO_LOG"
    command_check_fixes
    says '10-fixes/02-fixed.patch: passed'
    [ ! -s "$CARGO_LOG" ] || fail "$(cat "$CARGO_LOG")"
    echo 'more tests' >>quiche/src/path/fixed_tests.rs
    command_check_fixes
    [ "$(wc -l <"$CARGO_LOG")" -eq 4 ] || fail "$(cat "$CARGO_LOG")"
}

test_check_fixes_refuses_a_fix_without_a_failing_test() {
    make_fix
    export TESTS_PASS=1
    if command_check_fixes; then fail "it passed"; fi
    says_last 'error: patches/10-fixes/02-fixed.patch: its test passes without it'
}

test_check_fixes_refuses_a_fix_whose_test_fails_with_it() {
    make_fix
    edit src/path.rs 's/path line 20, fixed/path line 20, mended/'
    PATCH=10-fixes/02 patches
    if command_check_fixes; then fail "it passed"; fi
    says_last 'error: patches/10-fixes/02-fixed.patch: its test fails with it'
}

test_check_fixes_wants_tests_that_the_patch_declares() {
    use_cargo
    export PATCH=10-fixes/01
    refuses command_check_fixes 'patches/10-fixes/01-clock.patch must name files of quiche/src in Tests:, and declare each as a module'
    export PATCH=20-careful-resume/01
    refuses command_check_fixes 'PATCH=20-careful-resume/01: no patch of 10-fixes begins so'
    export PATCH=10-fixes/1
    refuses command_check_fixes 'PATCH=10-fixes/1: no patch of patches/series begins so'
}

test_check_fixes_refuses_the_beginning_of_several_names() {
    make_fix
    export PATCH=10-fixes/0
    refuses command_check_fixes 'PATCH=10-fixes/0: several patches begin so: 10-fixes/01-clock.patch 10-fixes/02-fixed.patch'
    [ ! -s "$CARGO_LOG" ] || fail "$(cat "$CARGO_LOG")"
}

# ---- make bisect ----

test_bisect_finds_the_patch_by_the_exit_code() {
    export RUN='! grep -qx "mod clock;" quiche/src/lib.rs'
    command_bisect
    found 'first bad: patches/10-fixes/01-clock.patch'
    export RUN='! grep -q paced quiche/src/lib.rs'
    command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
}

test_bisect_finds_the_patch_by_a_number() {
    export RUN='echo "1 to $(grep -c . quiche/src/lib.rs)"' ABOVE=30
    command_bisect
    found 'first bad: patches/10-fixes/01-clock.patch'
    mentions 'bad, 31'
    export RUN='echo $((20 - $(grep -c paced quiche/src/lib.rs))).5' ABOVE='' BELOW=20
    command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
}

test_bisect_skips_a_step_whose_number_a_pipe_has_swallowed() {
    export RUN='(grep -q clock quiche/src/lib.rs || exit 125; cat quiche/src/lib.rs) | grep -o "line 20, paced\|line 19"' ABOVE=19
    command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
    mentions 'tiny 0.1.0: skipped, RUN printed no number'
}

test_bisect_skips_what_cannot_run_the_command() {
    export RUN='grep -q paced quiche/src/lib.rs || exit 125; exit 1'
    if command_bisect; then fail "it found something"; fi
    says_last 'no step but the last can run RUN'

    edit src/path.rs 's/path line 7/third/'
    NEW=20-careful-resume/02-third patches
    export RUN='if grep -q paced quiche/src/lib.rs && ! grep -q third quiche/src/path.rs; then exit 125; fi; ! grep -q third quiche/src/path.rs'
    if command_bisect; then fail "it is sure"; fi
    found 'first bad: patches/20-careful-resume/01-pacing.patch
first bad: patches/20-careful-resume/02-third.patch'
    # One step after the release that can run it is enough.
    export RUN='grep -q clock quiche/src/lib.rs || exit 125; ! grep -q third quiche/src/path.rs'
    command_bisect
    found 'first bad: patches/20-careful-resume/02-third.patch'
}

test_bisect_skips_what_does_not_build() {
    export RUN='! grep -q paced quiche/src/lib.rs' BUILD='grep -q clock quiche/src/lib.rs'
    sh scripts/bisect.sh >"$work/found" 2>"$work/err"
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
    mentions 'tiny 0.1.0: skipped, it does not build'
}

test_bisect_says_when_there_is_nothing_to_find() {
    export RUN=true
    if command_bisect; then fail "it found something"; fi
    says_last 'RUN does not fail'
    export RUN=false
    if command_bisect; then fail "it found something"; fi
    says_last 'no step is to blame: RUN fails already at'
    export RUN='echo nothing' ABOVE=3
    if command_bisect; then fail "it found something"; fi
    mentions 'RUN printed no number'
    export ABOVE=x
    refuses command_bisect "'x' is no number"
    unset RUN
    refuses command_bisect 'make bisect needs a command'
}

test_bisect_builds_no_step_before_the_known_good_patch() {
    edit src/path.rs 's/path line 7/third/'
    NEW=20-careful-resume/02-third patches
    use_cargo
    export RUN='! grep -q third quiche/src/path.rs' GOOD=10-fixes/01
    sh scripts/bisect.sh >"$work/found" 2>"$work/err"
    found 'first bad: patches/20-careful-resume/02-third.patch'
    [ "$(wc -l <"$CARGO_LOG")" -eq 2 ] || fail "$(cat "$CARGO_LOG")"
    export GOOD=20-careful-resume/02
    refuses command_bisect 'GOOD=20-careful-resume/02 is the last patch: nothing is left to search'
    export GOOD=20-careful-resume/0
    refuses command_bisect 'GOOD=20-careful-resume/0: several patches begin so'
    export GOOD=30
    refuses command_bisect 'GOOD=30: no patch of patches/series begins so'
    export GOOD=10-fixes/01 RUN=true
    if command_bisect; then fail "it found something"; fi
    says_last 'RUN does not fail'
}

test_bisect_checks_the_known_good_patch_if_the_next_one_is_found() {
    edit src/path.rs 's/path line 7/third/'
    NEW=20-careful-resume/02-third patches
    export RUN='! grep -q clock quiche/src/lib.rs' GOOD=10-fixes/01
    if command_bisect; then fail "it found something"; fi
    says_last 'GOOD=10-fixes/01: RUN fails already after 10-fixes/01-clock.patch: choose an earlier patch, or leave GOOD= out'
    [ ! -s "$work/found" ] || fail "found: $(cat "$work/found")"
    export RUN='! grep -q paced quiche/src/lib.rs'
    command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
    export RUN='grep -q paced quiche/src/lib.rs || exit 125; exit 1'
    if command_bisect; then fail "it found something"; fi
    says_last 'GOOD=10-fixes/01: RUN cannot run after 10-fixes/01-clock.patch'
}

test_bisect_builds_no_step_that_cannot_simulate() {
    use_cargo
    export RUN='! grep -q paced quiche/src/lib.rs # sim run'
    sh scripts/bisect.sh >"$work/found" 2>"$work/err"
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
    mentions 'RUN needs patches/10-fixes/01-clock.patch: earlier steps are not built'
    [ "$(cut -d' ' -f3- "$CARGO_LOG" | paste -sd, -)" = 'build --bin sim,build --bin sim' ] || fail "$(cat "$CARGO_LOG")"
}

test_bisect_builds_what_the_command_uses() {
    use_cargo
    while read -r want run; do
        : >"$CARGO_LOG"
        if RUN=$run sh scripts/bisect.sh >"$work/found" 2>"$work/err"; then fail "it found something"; fi
        [ "$(head -n 1 "$CARGO_LOG" | cut -d' ' -f3- | tr ' ' _)" = "$want" ] || fail "$run: $(cat "$CARGO_LOG")"
    done <<'END'
build_--workspace true
build_--bin_edge-server_--bin_edge-client true edge-server edge-client
build_--workspace true edge-server speed-test
build_--workspace sh -c true sim
build_--workspace cargo test -p quiche stream | grep -c passed
test_--no-run_-p_quiche_stream cargo test -p quiche stream
END
}

test_bisect_leaves_the_working_copy_alone() {
    backdate
    export RUN='echo x >>quiche/src/lib.rs; echo y >left; ! grep -q paced quiche/src/lib.rs'
    command_bisect
    command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
    [ -z "$(rewritten)" ] || fail "rewrote $(rewritten)"
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
}

test_bisect_takes_our_own_files_as_they_are() {
    echo 'not committed' >quiche/src/clock.rs
    export RUN='! grep -q committed quiche/src/clock.rs || ! grep -q paced quiche/src/lib.rs'
    command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
}

test_bisect_does_not_drop_what_was_edited_in_its_tree() {
    export RUN='! grep -q paced quiche/src/lib.rs'
    command_bisect
    echo 'tried out' >>target/steps/tree/quiche/src/path.rs
    refuses command_bisect 'has edits in quiche/src/path.rs'
    holds target/steps/tree/quiche/src/path.rs 'tried out'
    FORCE=1 command_bisect
    found 'first bad: patches/20-careful-resume/01-pacing.patch'
}

# ---- make bisect-history ----

test_bisect_history_finds_the_commit() {
    good=$(git rev-parse HEAD)
    for change in one two three four; do
        echo "$change" >>quiche/src/clock.rs
        git commit -qam "$change"
    done
    export RUN='grep -q paced quiche/src/lib.rs && ! grep -q three quiche/src/clock.rs' GOOD="$good"
    echo 'not committed' >>quiche/src/clock.rs
    command_bisect_history
    grep -q '^first bad: [0-9a-f]* three$' "$work/found" || fail "$(cat "$work/found")"
    holds quiche/src/clock.rs 'not committed'
    export GOOD=nothing
    refuses command_bisect_history 'GOOD=nothing is no commit of this repository'
    unset GOOD
    refuses command_bisect_history 'needs a commit where RUN does not fail'
}

# ---- make same-packets ----

# A cargo whose program prints a digest that depends on src/lib.rs.
use_comparison() {
    use_cargo
    mkdir -p tools/same-packets
    echo 'release = { version = "=0.1.0", package = "tiny" }' >tools/same-packets/Cargo.toml
    cat >"$work/bin/cargo" <<'END'
#!/bin/sh
while [ "$1" != --target-dir ]; do shift; done
mkdir -p "$2/debug"
cat >"$2/debug/same-packets" <<EOF
#!/bin/sh
echo "\$*" >>"$CARGO_LOG"
if [ "\$1" = digest ]; then echo "download $(cksum <../../quiche/src/lib.rs)"; fi
EOF
chmod 755 "$2/debug/same-packets"
END
}

test_same_packets_names_the_patches_that_change_a_scenario() {
    use_comparison
    edit src/path.rs 's/path line 7/third/'
    NEW=20-careful-resume/02-third patches
    PATCHES=1 command_same_packets
    found '10-fixes/01-clock.patch download
20-careful-resume/01-pacing.patch download'
    tail -n 1 "$CARGO_LOG" | grep -q '^check-table ' || fail "$(cat "$CARGO_LOG")"
}

test_same_packets_runs_the_release_once_for_all_topics() {
    use_comparison
    TIP=all COUNT=3 command_same_packets
    [ "$(sed -n 's/.*--random 3 .*--applied \([0-9]*\) .*/\1/p' "$CARGO_LOG" | paste -sd, -)" = 1,2 ] || fail "$(cat "$CARGO_LOG")"
    [ "$(sed 's/.*--release //' "$CARGO_LOG" | uniq | wc -l)" -eq 1 ] || fail "$(cat "$CARGO_LOG")"
    export PATCHES=1 TIP=all
    refuses command_same_packets 'PATCHES= and TIP= exclude each other'
}

# ---- make rebase ----

test_rebase_there_and_back_changes_nothing() {
    make_releases
    start=$(hooks_of)
    UPSTREAM=0.2.0 command_rebase
    says_last 'the series is on tiny 0.2.0'
    holds quiche/src/lib.rs 'lib line twelve'
    holds quiche/src/lib.rs 'lib line 20, paced'
    holds patches/UPSTREAM 'version 0.2.0'
    git commit -qam moved
    check || fail "patches-check"
    UPSTREAM=0.1.0 command_rebase
    [ "$(hooks_of)" = "$start" ] || fail "the tree differs"
    git diff --quiet HEAD~ || fail "$(git diff --stat HEAD~)"
}

test_rebase_moves_the_release_of_the_comparison() {
    make_releases
    use_cargo
    rm Cargo.lock
    mkdir -p tools/same-packets
    echo 'release = { version = "=0.1.0", package = "tiny" }' >tools/same-packets/Cargo.toml
    git add .
    git commit -qm comparison
    UPSTREAM=0.2.0 command_rebase
    holds tools/same-packets/Cargo.toml 'release = { version = "=0.2.0", package = "tiny" }'
    grep -q '^update .*--manifest-path tools/same-packets/Cargo.toml' "$CARGO_LOG" || fail "$(cat "$CARGO_LOG")"
}

test_rebase_stops_at_a_conflict_and_goes_on() {
    make_releases
    export UPSTREAM=0.3.0
    if command_rebase; then fail "no conflict"; fi
    mentions '"pacing" does not fit tiny 0.3.0 by itself, in src/lib.rs'
    mentions 'git add the files there, and here: make rebase UPSTREAM=0.3.0'
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
    if command_rebase; then fail "no conflict"; fi
    if UPSTREAM=0.2.0 command_rebase; then fail "two at a time"; fi
    says 'a rebase to 0.3.0 is under way'

    tree=.git/fork/rebase/tree
    grep -v '^<<<\|^>>>\|^===\|^|||\|^lib line 20$\|^lib line twenty$' "$tree/src/lib.rs" >"$work/resolved"
    cp "$work/resolved" "$tree/src/lib.rs"
    git -C "$tree" add src/lib.rs
    command_rebase
    holds patches/20-careful-resume/01-pacing.patch '-lib line twenty'
    holds patches/20-careful-resume/01-pacing.patch '+lib line 20, paced'
    holds quiche/src/lib.rs 'lib line 20, paced'
    check || fail "patches-check"
}

test_rebase_can_be_given_up() {
    make_releases
    if UPSTREAM=0.3.0 command_rebase; then fail "no conflict"; fi
    ABORT=1 command_rebase
    says_last 'the rebase to 0.3.0 is given up; the series stays on tiny 0.1.0'
    ABORT=1 command_rebase
    says_last 'no rebase is under way; the series is on tiny 0.1.0'
    UPSTREAM=0.2.0 command_rebase
    holds quiche/src/lib.rs 'lib line twelve'
}

test_rebase_names_a_patch_that_the_release_has_taken() {
    make_release 0.2.0 's/lib line 20$/lib line 20, paced/'
    UPSTREAM=0.2.0 command_rebase
    mentions 'patches/20-careful-resume/01-pacing.patch has no hook left'
    quiche
    check || fail "patches-check"
}

test_rebase_does_not_replace_what_is_not_committed() {
    make_releases
    echo >>patches/UPSTREAM
    export UPSTREAM=0.2.0
    refuses command_rebase 'patches/UPSTREAM is not committed, and would be replaced'
}

test_rebase_does_not_replace_what_was_changed_meanwhile() {
    make_releases
    export UPSTREAM=0.3.0
    if command_rebase; then fail "no conflict"; fi
    edit src/path.rs 's/path line 7/edited/'
    PATCH=20-careful-resume/01 patches
    git -C .git/fork/rebase/tree checkout -q --theirs src/lib.rs
    git -C .git/fork/rebase/tree add src/lib.rs
    refuses command_rebase 'patches/ has changed since the rebase began'
    holds patches/20-careful-resume/01-pacing.patch '+edited'
}

test_rebase_needs_a_release() {
    refuses command_rebase 'make rebase needs a release'
    if UPSTREAM=9.9.9 command_rebase; then fail "it exists"; fi
    says_last 'cargo cannot download tiny 9.9.9'
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
    UPSTREAM=0.1.0 command_rebase
    says 'the series is on tiny 0.1.0 already'
}

# ---- make export ----

apply_mails() { # TREE FOLDER
    git init -q "$1"
    (cd "$1" && git add -A -f && git commit -qm release && git am -q "$2"/*.patch)
}

test_export_gives_the_fork_back() {
    echo '#!/bin/sh' >quiche/src/tool.sh
    chmod 755 quiche/src/tool.sh
    printf 'no line end' >quiche/src/end.rs
    edit src/path.rs 's/path line 7/mod tool;/'
    NEW=20-careful-resume/02-tool patches
    LAYOUT=crate command_export
    cp -Rp "$work/tiny-0.1.0" "$work/taken"
    rm "$work/taken/.cargo_vcs_info.json"
    apply_mails "$work/taken" "$PWD/results/series-crate" 2>"$work/err"
    rm -rf "$work/taken/.git"
    diff -r --exclude=.gitignore quiche "$work/taken" >&2 || fail "the trees differ"
    [ -x "$work/taken/src/tool.sh" ] || fail "a mode was lost"
    rm -rf "$work/taken"
}

test_export_for_the_repository_changes_its_manifest() {
    edit Cargo.toml 's/^version.*/&\nlinks = "package"/'
    edit Cargo.toml.orig 's/^version.*/&\nlinks = "repository"/'
    PATCH=20-careful-resume/01 patches
    LAYOUT=repo OUT="$work/mails" command_export
    mkdir "$work/taken"
    cp -Rp "$work/tiny-0.1.0" "$work/taken/quiche"
    mv "$work/taken/quiche/Cargo.toml.orig" "$work/taken/quiche/Cargo.toml"
    apply_mails "$work/taken" "$work/mails" 2>"$work/err"
    holds "$work/taken/quiche/Cargo.toml" 'links = "repository"'
    holds "$work/taken/quiche/Cargo.toml" 'name.workspace = true'
    holds "$work/taken/quiche/src/lib.rs" 'lib line 20, paced'
    holds "$work/taken/quiche/src/clock.rs" clock
    rm -rf "$work/taken" "$work/mails"
}

test_export_replaces_its_own_mails_only() {
    export LAYOUT=crate
    command_export
    printf '10-fixes/01-clock.patch\n' >patches/series
    quiche
    command_export
    [ "$(find results/series-crate -name '*.patch' | wc -l)" -eq 2 ] || fail "an old mail is left"
    mkdir "$work/full"
    echo mine >"$work/full/0001-clock.patch"
    export OUT="$work/full"
    refuses command_export 'holds files that make export did not write'
    holds "$work/full/0001-clock.patch" mine
    rm -r "$work/full"
    export LAYOUT=tar
    refuses command_export 'LAYOUT=tar is unknown'
}

test_export_of_a_topic_applies_after_the_topics_before() {
    edit src/path.rs 's/path line 7/search/'
    NEW=20-careful-resume/02-search patches
    edit src/path.rs 's/path line 20/fast/'
    NEW=40-performance/01-fast patches
    LAYOUT=crate TOPIC=10-fixes command_export
    LAYOUT=crate TOPIC=20-careful-resume command_export
    says "2 mails in results/series-crate-20-careful-resume"
    cp -Rp "$work/tiny-0.1.0" "$work/taken"
    apply_mails "$work/taken" "$PWD/results/series-crate-10-fixes" 2>"$work/err"
    holds "$work/taken/src/lib.rs" 'mod clock;'
    holds "$work/taken/src/clock.rs" clock
    lacks "$work/taken/src/lib.rs" 'lib line 20, paced'
    git -C "$work/taken" am -q "$PWD"/results/series-crate-20-careful-resume/*.patch 2>"$work/err"
    TOPIC=20-careful-resume quiche
    for file in lib path clock; do
        cmp "quiche/src/$file.rs" "$work/taken/src/$file.rs" >&2 || fail "$file.rs differs"
    done
    rm -rf "$work/taken"
}

test_export_names_tests_that_its_tree_has() {
    sed 's,^Tests:.*,Tests: apps/server/tests/clock.rs\nTests: quiche/src/clock.rs\n&,' patches/10-fixes/01-clock.patch >"$work/patch"
    cp "$work/patch" patches/10-fixes/01-clock.patch
    LAYOUT=repo TOPIC=10-fixes OUT="$work/mails" command_export
    grep '^Tests:' "$work/mails/0001-clock.patch" >"$work/out"
    [ "$(cat "$work/out")" = 'Tests: quiche/src/clock.rs' ] || fail "the mail says $(cat "$work/out")"
    rm -r "$work/mails"
}

test_export_of_a_topic_for_the_repository() {
    LAYOUT=repo TOPIC=20-careful-resume OUT="$work/mails" command_export
    [ "$(find "$work/mails" -name '*.patch' | wc -l)" -eq 1 ] || fail "not one mail"
    holds "$work/mails/0001-pacing.patch" '+++ b/quiche/src/lib.rs'
    holds "$work/mails/0001-pacing.patch" '+lib line 20, paced'
    rm -r "$work/mails"
    export LAYOUT=crate TOPIC=40-performance
    refuses command_export 'TOPIC=40-performance: patches/series has the topics 10-fixes 20-careful-resume'
}

# ---- make workspace-check ----

# Adds the packages that the script names to cargo's cache: h3i requires a release.
make_packages() { # RELEASE
    sed -n "/^PACKAGES='/,/'\$/p" scripts/workspace-check.sh | sed "s/PACKAGES='//; s/'//" >"$work/packages"
    while read -r package version; do
        mkdir -p "$work/made/$package-$version"
        required=0.1
        if [ "$package" = h3i ]; then required=$1; fi
        printf '[dev-dependencies.tiny]\nversion = "%s"\n' "$required" >"$work/made/$package-$version/Cargo.toml"
        tar -czf "$CARGO_HOME/registry/cache/local/$package-$version.crate" -C "$work/made" "$package-$version"
    done <"$work/packages"
}

test_workspace_check_refuses_packages_of_another_release() {
    use_cargo
    make_packages 0.2.0
    refuses command_workspace_check 'h3i requires tiny "0.2.0", which does not belong to tiny 0.1.0: write the packages of that release'
    make_packages 0.1.4
    if command_workspace_check; then fail "it takes quiche for tiny"; fi
    if grep -q requires "$work/err"; then fail "it refuses 0.1.4"; fi
    rm -r "$work/made"
}

# ---- make range-diff ----

test_range_diff_shows_what_a_change_does_to_the_series() {
    git branch base
    edit src/lib.rs 's/lib line 20, paced/lib line 20, well paced/'
    PATCH=20-careful-resume/01 patches
    echo 'clock, too' >>quiche/src/clock.rs
    BASE=base command_range_diff
    grep -q '+lib line 20, well paced' "$work/found" || fail "$(cat "$work/found")"
    grep -q '+clock, too' "$work/found" || fail "$(cat "$work/found")"
    export BASE=nothing
    refuses command_range_diff 'BASE=nothing is no commit of this repository'
}

run_tests "$@"
