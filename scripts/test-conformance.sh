#!/bin/sh
# Tests of conformance-check.sh, on our own page with one error, and of
# conformance-faults.sh, on a tree of one file with a fake cargo.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
unset ROW CARGO_TARGET_DIR

fail() {
    echo "FAILED $name: $*" >&2
    sed 's/^/    /' "$work/out" >&2
    exit 1
}

says() { # TEXT
    grep -qF -- "$1" "$work/out" || fail "expected: $1"
}

# ---- conformance-check.sh ----

make_page() {
    rm -rf "$work/page"
    mkdir -p "$work/page/quiche" "$work/page/scripts"
    ln -s "$here/../apps" "$work/page/apps"
    ln -s "$here/../quiche/src" "$work/page/quiche/src"
    cp "$here/../quiche/CONFORMANCE.md" "$work/page/quiche"
    cp "$here/conformance-faults.txt" "$work/page/scripts"
}

check() {
    CONFORMANCE_ROOT="$work/page" sh "$here/conformance-check.sh" >"$work/out" 2>&1
}

edit() { # FILE SED-SCRIPT
    sed "$2" "$work/page/$1" >"$work/edit"
    if cmp -s "$work/edit" "$work/page/$1"; then fail "$2 changes nothing"; fi
    cp "$work/edit" "$work/page/$1"
}

page_is_wrong() { # SED-SCRIPT TEXT
    make_page
    edit quiche/CONFORMANCE.md "$1"
    if check; then fail "passed after $1"; fi
    says "$2"
}

test_our_page_passes() {
    make_page
    check || fail "does not pass"
}

test_a_name_must_exist() {
    page_is_wrong '/^| C12 /s/unvalidated.rs::leave`/unvalidated.rs::leav`/' \
        'row C12 names the function careful_resume/unvalidated.rs::leav, which does not exist'
    page_is_wrong '/^| C12 /s/::unused_jump_ends_at_the_pipe_size/::a_jump/' \
        'row C12 names the test careful_resume/tests.rs::a_jump, which does not exist'
    page_is_wrong '/^| C12 /s,careful_resume/unvalidated.rs::leave,careful_resume/module.rs::leave,' \
        'row C12 names the function careful_resume/module.rs::leave, which does not exist'
}

test_a_function_is_no_test() {
    page_is_wrong '/^| C12 /s,careful_resume/tests.rs::unused_jump_ends_at_the_pipe_size,careful_resume/test_sender.rs::reconnoitre,' \
        'row C12 names the test careful_resume/test_sender.rs::reconnoitre, which does not exist'
}

test_every_row_is_there_once() {
    page_is_wrong '/^| D4 /d' 'has 0 rows D4'
    page_is_wrong '/^| D4 /p' 'has 2 rows D4'
    page_is_wrong '/^| D4 /s/$/ |/' 'row D4 has 6 columns'
}

test_a_row_with_a_test_has_a_fault() {
    make_page
    edit scripts/conformance-faults.txt '/^D4 /d'
    if check; then fail "passed"; fi
    says 'no fault for row D4'
}

test_a_fault_belongs_to_a_row_and_its_test() {
    make_page
    edit scripts/conformance-faults.txt '/^D4 /s/::path_that_takes_the_jump_validates_it/::path_change_ends_or_retreats/'
    if check; then fail "passed"; fi
    says 'the fault of row D4 expects careful_resume/tests.rs::path_change_ends_or_retreats to fail'
}

# ---- conformance-faults.sh ----

make_tree() { # FAULT-TABLE
    rm -rf "$work/tree" "$work/bin"
    mkdir -p "$work/tree/quiche/src/recovery" "$work/tree/apps" "$work/tree/tools" "$work/tree/scripts" "$work/bin"
    touch "$work/tree/Cargo.toml" "$work/tree/Cargo.lock"
    printf 'fn sum() {\n    // Adds.\n    a + b\n}\n' >"$work/tree/quiche/src/recovery/sum.rs"
    printf '%s\n' "$@" >"$work/tree/scripts/conformance-faults.txt"
    cat >"$work/bin/cargo" <<'END'
#!/bin/sh
if grep -q 'a + b$' quiche/src/recovery/sum.rs; then
    echo 'test sum::tests::adds ... ok'
elif grep -q 'a - b$' quiche/src/recovery/sum.rs; then
    echo 'test sum::tests::adds ... FAILED'
    exit 101
else
    echo 'error: expected an expression'
    exit 101
fi
END
    chmod +x "$work/bin/cargo"
}

faults() {
    PATH="$work/bin:$PATH" CONFORMANCE_ROOT="$work/tree" \
        sh "$here/conformance-faults.sh" >"$work/out" 2>&1
}

test_a_caught_fault_is_well_and_the_sources_stay() {
    make_tree 'C1 sum.rs sum.rs::adds' '-a + b' '+    a - b'
    faults || fail "not caught"
    says 'C1   caught'
    says '1 faults, 0 not caught'
    cmp -s "$work/tree/quiche/src/recovery/sum.rs" "$work/tree/target/faults/tree/quiche/src/recovery/sum.rs" ||
        fail "the fault is still there"
}

test_a_survivor_is_an_error() {
    make_tree 'C1 sum.rs sum.rs::adds' '-// Adds.' '+    // Subtracts.' '' 'C2 sum.rs sum.rs::adds' '-a + b' '+a - b'
    if faults; then fail "passed"; fi
    says 'C1   SURVIVED'
    says 'C2   caught'
    says '2 faults, 1 not caught'
}

test_a_fault_that_does_not_build_proves_nothing() {
    make_tree 'C1 sum.rs sum.rs::adds' '-a + b' '+a +'
    if faults; then fail "passed"; fi
    says 'C1   unbuilt'
}

test_old_lines_must_be_there_once() {
    make_tree 'C1 sum.rs sum.rs::adds' '-a * b' '+a - b'
    if faults; then fail "passed"; fi
    says 'conformance-faults.txt:1: the old lines of C1 are not in sum.rs exactly once'
    echo '    a + b' >>"$work/tree/quiche/src/recovery/sum.rs"
    sed 's/a \* b/a + b/' "$work/tree/scripts/conformance-faults.txt" >"$work/edit"
    cp "$work/edit" "$work/tree/scripts/conformance-faults.txt"
    if faults; then fail "passed"; fi
    says 'exactly once'
}

test_a_test_must_pass_without_the_fault_and_exist() {
    make_tree 'C1 sum.rs sum.rs::adds' '-a - b' '+a + b'
    sed 's/a + b/a - b/' "$work/tree/quiche/src/recovery/sum.rs" >"$work/edit"
    cp "$work/edit" "$work/tree/quiche/src/recovery/sum.rs"
    if faults; then fail "passed"; fi
    says 'without any fault, these tests fail'

    make_tree 'C1 sum.rs sum.rs::subtracts' '-a + b' '+a - b'
    if faults; then fail "passed"; fi
    says 'has no test subtracts'
}

test_one_row_is_done_alone() {
    make_tree 'C1 sum.rs sum.rs::adds' '-a + b' '+a - b' '' 'C12 sum.rs sum.rs::adds' '-a + b' '+a - b'
    ROW=C1 faults || fail "not caught"
    says '1 faults, 0 not caught'
    if ROW=C3 faults; then fail "passed"; fi
    says 'ROW=C3: scripts/conformance-faults.txt has no fault of that row'
}

# ---- run ----

count=0
for name in $(sed -n 's/^\(test_[a-z0-9_]*\)().*/\1/p' "$here/test-conformance.sh" | grep -e "${1:-.}"); do
    : >"$work/out"
    # Not `( … ) ||`: that would switch `set -e` off inside.
    set +e
    (set -e; $name)
    status=$?
    set -e
    [ $status -eq 0 ] || fail "stopped"
    count=$((count + 1))
done
echo "test-conformance: $count tests passed"
