#!/bin/sh
# Tests of make quiche, make patches, make patches-check and make depends.
. "$(dirname "$0")/fork/testbed.sh"

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
    printf '10-fixes/01-clock.patch\n' >patches/series
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
    printf '10-fixes/01-clock.patch\n' >patches/series
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
    printf '10-fixes/01-clock.patch\n' >patches/series
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
    sed 's/lib line 21/lib line x/' patches/20-careful-resume/01-pacing.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/01-pacing.patch
    refuses quiche 'error: patches/20-careful-resume/01-pacing.patch does not apply: the lines it expects at src/lib.rs:18 are not there'
    rm patches/20-careful-resume/01-pacing.patch
    refuses quiche 'error: patches/series names 20-careful-resume/01-pacing.patch, which is not in patches/'
}

test_a_patch_cannot_add_a_file() {
    printf -- '--- /dev/null\n+++ b/src/own.rs\n@@ -0,0 +1 @@\n+own\n' >>patches/20-careful-resume/01-pacing.patch
    refuses quiche 'patches/20-careful-resume/01-pacing.patch adds or deletes src/own.rs'
}

# ---- make quiche TOPIC= ----

test_a_topic_is_written_with_the_topics_before() {
    TOPIC=10-fixes quiche
    says 'quiche/ is tiny 0.1.0 and 1 patches, up to 10-fixes'
    holds quiche/src/lib.rs 'mod clock;'
    lacks quiche/src/lib.rs 'lib line 20, paced'
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
    backdate
    TOPIC=10-fixes quiche
    [ -z "$(rewritten)" ] || fail "rewrote $(rewritten)"
    check || fail "patches-check"
    quiche
    holds quiche/src/lib.rs 'lib line 20, paced'
}

test_an_empty_topic_is_none_and_says_so() {
    TOPIC=10-fixes quiche
    TOPIC='' quiche
    holds quiche/src/lib.rs 'lib line 20, paced'
    TOPIC='' quiche
    says 'TOPIC= is empty: every topic, as without it; there are 10-fixes 20-careful-resume'
    quiche
    [ ! -s "$work/err" ] || fail "it says something"
}

test_a_topic_must_exist() {
    export TOPIC=30-options
    refuses quiche 'TOPIC=30-options: patches/series has the topics 10-fixes 20-careful-resume'
    holds quiche/src/lib.rs 'lib line 20, paced'
}

test_refuses_to_lose_an_edit_between_topics() {
    edit src/lib.rs 's/lib line 28/edited/'
    export TOPIC=10-fixes
    refuses quiche 'quiche/src/lib.rs has edits'
    holds quiche/src/lib.rs edited
    git checkout -q .
    TOPIC='' FORCE=1 quiche
    TOPIC=10-fixes quiche
    edit src/lib.rs 's/lib line 28/edited/'
    unset TOPIC
    refuses quiche 'quiche/src/lib.rs has edits'
    holds quiche/src/lib.rs edited
}

test_an_edit_of_a_topic_enters_it_and_later_topics_follow() {
    TOPIC=10-fixes quiche
    edit src/lib.rs 's/^mod clock;$/mod clock;\nmod rand;/'
    PATCH=10-fixes/01 patches
    holds patches/10-fixes/01-clock.patch '+mod rand;'
    holds patches/20-careful-resume/01-pacing.patch '@@ -19,7 +19,7 @@ lib line 16'
    holds quiche/src/lib.rs 'mod rand;'
    lacks quiche/src/lib.rs 'lib line 20, paced'
    check || fail "patches-check"
    quiche
    holds quiche/src/lib.rs 'mod rand;'
    holds quiche/src/lib.rs 'lib line 20, paced'
}

test_an_edit_of_a_topic_cannot_enter_a_later_one() {
    TOPIC=10-fixes quiche
    edit src/lib.rs 's/lib line 20/edited/'
    export PATCH=20-careful-resume/01
    refuses patches '20-careful-resume/01-pacing.patch comes after 10-fixes, with which quiche/ ends'
    unset PATCH
    export NEW=30-options/01-x
    refuses patches '30-options/01-x comes after 10-fixes, with which quiche/ ends'
    unset NEW
    refuses patches 'the edit of quiche/src/lib.rs does not fit into the topics after 10-fixes by itself'
    holds quiche/src/lib.rs edited
    git diff --quiet patches || fail "patches/ changed"
}

# ---- make patches ----

test_an_export_without_edits_changes_nothing() {
    patches
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
    check || fail "patches-check"
}

test_an_edit_goes_to_the_owner_of_its_lines() {
    edit src/lib.rs 's/^mod clock;$/mod clocks;/'
    patches
    holds "$work/err" 'into 10-fixes/01-clock.patch: quiche/src/lib.rs:6'
    holds patches/10-fixes/01-clock.patch '+mod clocks;'
    lacks patches/20-careful-resume/01-pacing.patch '+mod clocks;'
    holds quiche/src/lib.rs 'mod clocks;'
    check || fail "patches-check"
}

test_edits_of_several_patches_go_to_each_owner() {
    edit src/lib.rs 's/^mod clock;$/mod clock;\nmod rand;\nmod last;/'
    PATCH=10-fixes/01 patches
    edit src/lib.rs 's/^mod clock;$/mod clock;\nmod inside;/; /^mod rand;$/d; s/paced$/well paced/'
    patches
    holds patches/10-fixes/01-clock.patch '+mod inside;'
    lacks patches/10-fixes/01-clock.patch '+mod rand;'
    holds patches/20-careful-resume/01-pacing.patch '+lib line 20, well paced'
    lacks patches/20-careful-resume/01-pacing.patch '+mod inside;'
    holds quiche/src/lib.rs 'lib line 20, well paced'
    check || fail "patches-check"
}

test_an_edit_of_lines_without_an_owner_needs_a_patch() {
    edit src/path.rs 's/path line 7/edited/'
    refuses patches 'quiche/src/path.rs:7 changes lines of no patch: choose one with PATCH=, or add one with NEW='
    git diff --quiet patches || fail "patches/ changed"
    backdate
    PATCH=20-careful-resume/01 patches
    holds patches/20-careful-resume/01-pacing.patch '+edited'
    [ "$(git status --porcelain)" = ' M patches/20-careful-resume/01-pacing.patch' ] || fail "$(git status --porcelain)"
    [ -z "$(rewritten)" ] || fail "rewrote $(rewritten)"
    check || fail "patches-check"
}

# Lines at the edge of a hook may belong to it or to another one.
test_an_addition_beside_a_hook_needs_a_patch() {
    edit src/lib.rs 's/^mod clock;$/mod clock;\nmod rand;/'
    refuses patches 'quiche/src/lib.rs:6 adds lines of no patch: choose one with PATCH='
    PATCH=20-careful-resume/01 patches
    holds patches/20-careful-resume/01-pacing.patch '+mod rand;'
    edit src/lib.rs '1s/^/first\n/; $s/$/\nlast/'
    refuses patches 'quiche/src/lib.rs:0 adds lines of no patch'
    edit src/lib.rs 1d
    refuses patches 'quiche/src/lib.rs:32 adds lines of no patch'
}

test_one_change_of_lines_of_two_patches_is_refused() {
    edit src/lib.rs 's/^lib line 19$/lib line 19, next/'
    NEW=20-careful-resume/02-next patches
    edit src/lib.rs '/^lib line 19, next$/d; s/paced$/well paced/'
    refuses patches 'quiche/src/lib.rs:20 changes lines of 20-careful-resume/01-pacing.patch and 20-careful-resume/02-next.patch: change each apart'
    edit src/lib.rs 's/^lib line 18$/&, too/'
    refuses patches 'changes lines of upstream, 20-careful-resume/01-pacing.patch and 20-careful-resume/02-next.patch'
}

test_an_edit_of_other_patches_lines_is_refused() {
    edit src/path.rs 's/path line 7/edited/'
    NEW=30-options/01-edited patches
    edit src/path.rs 's/edited/edited again/'
    edit src/lib.rs 's/^mod clock;$/mod clocks;/'
    export PATCH=30-options/01
    refuses patches 'quiche/src/lib.rs:6 changes lines of 10-fixes/01-clock.patch, not of PATCH=30-options/01: make patches without PATCH= exports them there'
    git checkout -q patches/10-fixes
    lacks patches/30-options/01-edited.patch '+edited again'
    edit src/path.rs 's/path line 9/edited too/'
    FILES=src/path.rs patches
    FORCE=1 patches
    holds patches/30-options/01-edited.patch '+mod clocks;'
    holds patches/30-options/01-edited.patch '+edited again'
    holds patches/30-options/01-edited.patch '+edited too'
    holds patches/10-fixes/01-clock.patch '+mod clock;'
    holds quiche/src/lib.rs 'mod clocks;'
}

test_a_forced_export_of_some_files_keeps_the_other_edits() {
    edit src/path.rs 's/path line 7/edited/'
    edit src/lib.rs 's/^mod clock;$/mod clocks;/'
    FORCE=1 PATCH=20-careful-resume/01 FILES=src/lib.rs patches
    holds patches/20-careful-resume/01-pacing.patch '+mod clocks;'
    holds quiche/src/path.rs edited
}

test_a_new_patch_may_change_lines_of_others() {
    edit src/lib.rs 's/^mod clock;$/mod clocks;/'
    NEW=40-performance/01-clocks patches
    holds patches/40-performance/01-clocks.patch '-mod clock;'
    holds patches/10-fixes/01-clock.patch '+mod clock;'
}

test_an_edit_goes_to_the_chosen_patch_and_later_ones_follow() {
    edit src/lib.rs 's/^mod clock;$/mod clock;\nmod rand;/'
    PATCH=10-fixes/01 patches
    holds patches/10-fixes/01-clock.patch '+mod rand;'
    holds patches/20-careful-resume/01-pacing.patch '@@ -19,7 +19,7 @@ lib line 16'
    lacks patches/20-careful-resume/01-pacing.patch '+mod rand;'
    check || fail "patches-check"
}

test_an_edit_of_a_later_patch_does_not_fit_into_an_earlier_one() {
    edit src/lib.rs 's/lib line 20, paced/lib line 20, well paced/'
    export PATCH=10-fixes/01
    refuses patches 'changes lines of 20-careful-resume/01-pacing.patch, not of PATCH=10-fixes/01'
    FORCE=1 refuses patches 'the edit of quiche/src/lib.rs does not fit into 10-fixes/01-clock.patch'
    unset PATCH
    git diff --quiet patches || fail "patches/ changed"
    patches
    holds patches/20-careful-resume/01-pacing.patch '+lib line 20, well paced'
}

test_a_reverted_hook_leaves_its_patch() {
    edit src/lib.rs 's/lib line 20, paced/lib line 20/'
    patches
    lacks patches/20-careful-resume/01-pacing.patch '+lib line 20, paced'
    quiche
    lacks quiche/src/lib.rs 'lib line 20, paced'
}

test_a_new_patch_takes_the_edits_and_our_new_files() {
    edit src/path.rs 's/path line 7/mod search;/'
    echo search >quiche/src/search.rs
    NEW=20-careful-resume/02-slow-start patches
    holds patches/series 20-careful-resume/02-slow-start.patch
    holds patches/20-careful-resume/02-slow-start.patch 'Subject: slow start'
    holds patches/20-careful-resume/02-slow-start.patch 'Adds: src/search.rs'
    holds patches/20-careful-resume/02-slow-start.patch '+mod search;'
    git add .
    if check; then fail "the TODO passed"; fi
    holds patches/20-careful-resume/02-slow-start.patch 'Kind: feature'
    sed 's/TODO: why./Because./; s,^Tests: TODO,Tests: quiche/src/search.rs,; s/TODO/none/' patches/20-careful-resume/02-slow-start.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/02-slow-start.patch
    quiche
    check || fail "patches-check"
    git --git-dir=.git/fork show series:src/search.rs | grep -q search || fail "not in the history"
    if git --git-dir=.git/fork cat-file -e series~2:src/search.rs 2>/dev/null; then fail "too early"; fi
}

test_a_new_patch_needs_an_edit_and_the_next_number() {
    export NEW=20-careful-resume/02-x
    refuses patches 'NEW=20-careful-resume/02-x: no file of upstream in quiche/ is edited'
    unset NEW
    refuses_wrong_names
    edit src/path.rs 's/path line 7/edited/'
    refuses_wrong_names
}

refuses_wrong_names() {
    export NEW=20-careful-resume/07-x
    refuses patches 'NEW=20-careful-resume/07-x: the next patch is named 20-careful-resume/02-subject'
    export NEW=0003-x
    refuses patches 'NEW=0003-x: it begins with a topic, one of 10-fixes 20-careful-resume 30-options 40-performance'
    unset NEW
    export PATCH=20-careful-resume/09
    refuses patches 'PATCH=20-careful-resume/09: no patch of patches/series begins so'
    unset PATCH
    export FILES=src/none.rs
    refuses patches 'FILES: there is no quiche/src/none.rs'
    unset FILES
}

test_a_new_patch_enters_at_the_end_of_its_topic() {
    sed '1s/^/# the series\n/' patches/series >"$work/series"
    cp "$work/series" patches/series
    edit src/lib.rs 's/lib line 10/lib line 10\nmod fixed;/'
    NEW=10-fixes/02-fixed patches
    [ "$(paste -sd ' ' patches/series)" = '# the series 10-fixes/01-clock.patch 10-fixes/02-fixed.patch 20-careful-resume/01-pacing.patch' ] ||
        fail "$(cat patches/series)"
    holds patches/10-fixes/02-fixed.patch 'Kind: fix'
    holds patches/10-fixes/02-fixed.patch '+mod fixed;'
    holds patches/20-careful-resume/01-pacing.patch '@@ -19,7 +19,7 @@ lib line 16'
    lacks patches/20-careful-resume/01-pacing.patch '+mod fixed;'
    holds quiche/src/lib.rs 'mod fixed;'
    edit src/path.rs 's/path line 7/faster/'
    NEW=40-performance/01-faster patches
    holds patches/40-performance/01-faster.patch 'Figure: TODO'
    edit src/path.rs 's/path line 17/chosen/'
    NEW=30-options/01-chosen patches
    [ "$(tail -n 2 patches/series | paste -sd ' ' -)" = '30-options/01-chosen.patch 40-performance/01-faster.patch' ] ||
        fail "$(cat patches/series)"
    holds patches/30-options/01-chosen.patch '+chosen'
    holds patches/40-performance/01-faster.patch '+faster'
    lacks patches/40-performance/01-faster.patch '+chosen'
}

test_a_new_patch_cannot_enter_before_the_lines_it_changes() {
    edit src/lib.rs 's/lib line 20, paced/lib line 20, well paced/'
    export NEW=10-fixes/02-x
    refuses patches 'the edit of quiche/src/lib.rs does not fit into 10-fixes/02-x.patch by itself'
    [ -z "$(git status --porcelain)" ] || fail "$(git status --porcelain)"
}

test_exports_some_files_only() {
    edit src/path.rs 's/path line 7/edited/'
    edit src/lib.rs 's/lib line 28/edited too/'
    export PATCH=20-careful-resume/01
    FILES=src/path.rs patches
    holds patches/20-careful-resume/01-pacing.patch '+edited'
    lacks patches/20-careful-resume/01-pacing.patch '+edited too'
    holds quiche/src/lib.rs 'edited too'
    patches
    holds patches/20-careful-resume/01-pacing.patch '+edited too'
}

test_an_edit_is_merged_with_patches_that_a_pull_changed() {
    edit src/lib.rs 's/lib line 28/edited/'
    sed 's/lib line 20, paced/lib line 20, pulled/' patches/20-careful-resume/01-pacing.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/01-pacing.patch
    refuses quiche 'make patches keeps them'
    PATCH=20-careful-resume/01 patches
    holds patches/20-careful-resume/01-pacing.patch '+edited'
    holds quiche/src/lib.rs edited
    holds quiche/src/lib.rs 'lib line 20, pulled'
    check || fail "patches-check"
}

# ---- make patches-check ----

test_check_sees_what_export_would_change() {
    sed 's/@@ -18,7 +18,7/@@ -17,7 +17,7/' patches/20-careful-resume/01-pacing.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/01-pacing.patch
    quiche
    refuses check 'patches/20-careful-resume/01-pacing.patch is not as make patches writes it'
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
    sed 's/^Forwarded.*/&\nAdds: src\/clock.rs/' patches/20-careful-resume/01-pacing.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/01-pacing.patch
    refuses check 'quiche/src/clock.rs is in the Adds: of two patches'
}

test_check_sees_a_patch_outside_the_series() {
    touch patches/10-fixes/09-stray.patch
    refuses check 'patches/10-fixes/09-stray.patch is not named in patches/series'
}

# Edits a patch by hand, as its rules do not let make patches do.
spoil() { # SED-SCRIPT
    sed "$1" patches/20-careful-resume/01-pacing.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/01-pacing.patch
    quiche
}

test_check_reads_headers() {
    spoil '/^Spec:/d'
    refuses check 'patches/20-careful-resume/01-pacing.patch has no line Spec:'
}

test_check_wants_a_test_that_exists() {
    spoil '/^Tests:/d'
    refuses check 'patches/20-careful-resume/01-pacing.patch has no line Tests:'
    spoil 's,^Spec:.*,&\nTests: quiche/src/clock.rs\, quiche/src/gone.rs,'
    refuses check 'patches/20-careful-resume/01-pacing.patch says Tests: quiche/src/gone.rs, which git does not track'
}

test_check_wants_contiguous_numbers() {
    git mv patches/20-careful-resume/01-pacing.patch patches/20-careful-resume/03-pacing.patch
    sed 's/01-pacing/03-pacing/' patches/series >"$work/series"
    cp "$work/series" patches/series
    refuses check 'patches/series has 20-careful-resume/03-pacing.patch where 20-careful-resume/01-… belongs'
}

test_check_wants_topics_in_order() {
    printf '20-careful-resume/01-pacing.patch\n10-fixes/01-clock.patch\n' >patches/series
    quiche
    patches
    refuses check 'patches/series has 10-fixes after 20-careful-resume'
}

test_check_wants_the_patches_of_a_topic_together() {
    edit src/path.rs 's/path line 7/x/'
    NEW=10-fixes/02-x patches
    sed 's/TODO: why./Because./; s,^Tests: TODO,Tests: scripts/test-fork.sh,; s/TODO/none/' patches/10-fixes/02-x.patch >"$work/patch"
    cp "$work/patch" patches/10-fixes/02-x.patch
    check || fail "patches-check"
    printf '10-fixes/01-clock.patch\n20-careful-resume/01-pacing.patch\n10-fixes/02-x.patch\n' >patches/series
    quiche
    refuses check 'patches/series has 10-fixes after 20-careful-resume'
}

test_check_knows_the_topics() {
    git mv patches/20-careful-resume patches/25-more
    sed 's/20-careful-resume/25-more/' patches/series >"$work/series"
    cp "$work/series" patches/series
    refuses check 'patches/25-more is no topic, they are 10-fixes 20-careful-resume 30-options 40-performance'
}

test_check_wants_the_kind_of_the_topic() {
    spoil 's/^Kind:.*/Kind: fix/'
    refuses check 'patches/20-careful-resume/01-pacing.patch says Kind: fix, and 20-careful-resume has the kind feature'
}

test_check_wants_an_address_where_a_patch_was_forwarded() {
    spoil 's/^Forwarded:.*/Forwarded: soon/'
    refuses check 'patches/20-careful-resume/01-pacing.patch says in Forwarded: something else than no'
    spoil 's,^Forwarded:.*,Forwarded: https://github.com/cloudflare/quiche/pull/1,'
    check || fail "patches-check"
}

test_check_wants_a_figure_of_a_performance_patch() {
    edit src/path.rs 's/path line 7/x/'
    NEW=40-performance/01-x patches
    sed '/^Figure/d; s/TODO: why./Because./; s,^Tests: TODO,Tests: scripts/test-fork.sh,; s/TODO/none/' patches/40-performance/01-x.patch >"$work/unfinished"
    echo 'patch-cost:' >Makefile
    figure() { sed "s/^Forwarded.*/&\nFigure: $1/" "$work/unfinished" >patches/40-performance/01-x.patch; }
    cp "$work/unfinished" patches/40-performance/01-x.patch
    refuses check 'patches/40-performance/01-x.patch must have one line Figure:, with a number and the command that shows it'
    figure 'faster; make patch-cost PATCH=40-performance\/01'
    refuses check 'patches/40-performance/01-x.patch must have one line Figure:'
    figure '-3 %; make patch-cost PATCH=40-performance\/02'
    refuses check 'patches/40-performance/01-x.patch has the command of another patch in Figure:'
    figure '-3 %; make cost'
    refuses check 'patches/40-performance/01-x.patch says make cost in Figure:, which is not in the Makefile'
    figure '-3 %; make patch-cost PATCH=40-performance\/01'
    check || fail "patches-check"
}

test_check_compares_threads_with_the_page() {
    thread=https://github.com/cloudflare/quiche/issues/1
    spoil "s,^Forwarded:.*,&\nBug: $thread,"
    refuses check "the patch \"pacing\" says Bug: $thread, which its row in docs/adopting.md lacks"
    mkdir docs
    printf '| patch | thread |\n|---|---|\n| pacing | issues [1](%s) and [2](%s) |\n' "$thread" "${thread%1}2" >docs/adopting.md
    refuses check "docs/adopting.md has ${thread%1}2 in the row \"pacing\", and no patch with this subject says Bug: ${thread%1}2"
    spoil "s,^Bug:.*,&\nBug: ${thread%1}2,"
    check || fail "patches-check"
}

test_check_wants_a_short_subject() {
    spoil "1s/\$/$(printf '%055d' 0)/"
    refuses check 'patches/20-careful-resume/01-pacing.patch has a Subject: of 61 letters, 60 is the most'
}

# ---- Depends: ----

# Adds a patch to the last topic that changes a line next to that of another patch.
add_neighbour() { # DEPENDS
    edit src/lib.rs 's/lib line 21/lib line 21, next/'
    NEW=20-careful-resume/02-next patches
    sed "s/TODO: why./Because./; s,^Tests: TODO,Tests: scripts/test-fork.sh,; s,^Depends:.*,Depends: $1,; s/TODO/none/" \
        patches/20-careful-resume/02-next.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/02-next.patch
}

test_check_finds_a_dependency_that_is_not_declared() {
    add_neighbour none
    refuses check 'patches/20-careful-resume/02-next.patch does not apply to the release with only what its Depends: names: the lines it expects at src/lib.rs:19 are not there'
    sed 's,^Depends:.*,Depends: 10-fixes/01,' patches/20-careful-resume/02-next.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/02-next.patch
    refuses check 'patches/20-careful-resume/02-next.patch does not apply'
    sed 's,^Depends:.*,&\nDepends: 20-careful-resume/01,' patches/20-careful-resume/02-next.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/02-next.patch
    check || fail "patches-check"
}

test_check_follows_the_dependencies_of_dependencies() {
    add_neighbour 20-careful-resume/01
    edit src/lib.rs 's/lib line 22/lib line 22, last/'
    NEW=20-careful-resume/03-last patches
    sed 's/TODO: why./Because./; s,^Tests: TODO,Tests: scripts/test-fork.sh,; s,^Depends:.*,Depends: 20-careful-resume/02,; s/TODO/none/' \
        patches/20-careful-resume/03-last.patch >"$work/patch"
    cp "$work/patch" patches/20-careful-resume/03-last.patch
    check || fail "patches-check"
}

test_check_wants_dependencies_to_come_before() {
    spoil 's,^Depends:.*,Depends: 20-careful-resume/04,'
    refuses check 'patches/20-careful-resume/01-pacing.patch says Depends: 20-careful-resume/04, and no patch of patches/series begins so'
    spoil 's,^Depends:.*,Depends: 20-careful-resume/01,'
    refuses check 'patches/20-careful-resume/01-pacing.patch says Depends: 20-careful-resume/01, which is not before it'
    git checkout -q patches
    sed 's,^Depends:.*,Depends: 20-careful-resume/01,' patches/10-fixes/01-clock.patch >"$work/patch"
    cp "$work/patch" patches/10-fixes/01-clock.patch
    if check; then fail "it passed"; fi
    grep -q 'a fix needs nothing but fixes' "$work/err" || fail "no complaint"
}

test_dependencies_are_found_without_headers() {
    add_neighbour none
    mkdir "$work/plain"
    for patch in $(cat patches/series); do
        sed '1,/^$/{/^Subject/!d;}; /^[A-Z][a-z]*: /d' "patches/$patch" >"$work/plain/$(basename "$patch")"
    done
    mv "$work/plain/01-pacing.patch" "$work/plain/02-pacing.patch"
    mv "$work/plain/02-next.patch" "$work/plain/03-next.patch"
    ls "$work/plain" >"$work/names"
    mv "$work/names" "$work/plain/series"
    DIR="$work/plain" sh scripts/depends.sh >"$work/found"
    [ "$(paste -sd ' ' "$work/found")" = '01-clock.patch Depends: none 02-pacing.patch Depends: none 03-next.patch Depends: 02' ] ||
        fail "$(cat "$work/found")"
    sh scripts/depends.sh >"$work/found"
    holds "$work/found" 'Depends: 20-careful-resume/01'
    rm -r "$work/plain"
}

test_check_has_a_budget_of_lines() {
    seq -f 'hook %g' 121 >>quiche/src/path.rs
    PATCH=20-careful-resume/01 patches
    refuses check "patches/20-careful-resume/01-pacing.patch changes 123 lines of upstream's files, 120 is the most"
}

test_check_sees_white_space_at_the_end_of_a_line() {
    edit src/path.rs 's/path line 7/hook /'
    echo 'ours ' >quiche/src/clock.rs
    PATCH=20-careful-resume/01 patches
    if check; then fail "it passed"; fi
    holds "$work/err" 'error: quiche/src/path.rs:7: trailing whitespace.'
    holds "$work/err" 'error: quiche/src/clock.rs:1: trailing whitespace.'
}

test_check_wants_the_manifest_of_upstreams_repository_changed_as_well() {
    edit Cargo.toml 's/^version.*/&\nlinks = "x"/'
    PATCH=20-careful-resume/01 patches
    refuses check 'patches/20-careful-resume/01-pacing.patch changes Cargo.toml alone'
    edit Cargo.toml.orig 's/^version.*/&\nlinks = "x"/'
    PATCH=20-careful-resume/01 patches
    check || fail "patches-check"
}

run_tests "$@"
