#!/bin/sh
# make conformance-faults: plants each fault of conformance-faults.txt in a copy
# of the sources and checks that the test of its row passes without it and fails
# with it. ROW=C12 selects one row. --fits only checks that each fault can be
# planted. The copy and its build are in target/faults.
set -eu
faults=$(cd "$(dirname "$0")" && pwd -P)/faults.sh
cd "${CONFORMANCE_ROOT:-$(dirname "$0")/..}"
name=conformance-faults
. "$faults"
. "$(dirname "$faults")/boringssl.sh"
. "$(dirname "$faults")/fork/trees.sh"
TEST_SECONDS_MAX=900

# Prints cargo's arguments for the package and target of a test.
target_of() { # PATH::NAME
    package=$(echo "$1" | cut -d / -f 2)
    case $1 in
    apps/path-store/src/*) echo "-p $package --lib" ;;
    apps/*/src/*) echo "-p $package --bin $package" ;;
    # A file, or a folder with its main.rs.
    apps/*/tests/*) echo "-p $package --test $(echo "$1" | cut -d / -f 4 | sed 's/\.rs::.*//')" ;;
    *) echo "-p quiche --features ffi,internal,qlog --lib" ;;
    esac
}

run_tests() { # TARGET LOG NAME…
    target=$1 log=$2
    shift 2
    # shellcheck disable=SC2086
    (cd "$tree" && timeout "$TEST_SECONDS_MAX" cargo test $target -- "$@") >"$log" 2>&1
}

ran() { # NAME RESULT LOG
    grep -q "^test .*\\b$1\\b.* \\.\\.\\. $2" "$3"
}

check_without_faults() {
    awk '{ print $4 }' "$work/list" | sort -u | while read -r test; do
        echo "$(target_of "$test")|${test##*::}"
    done >"$work/tests"
    cut -d '|' -f 1 "$work/tests" | sort -u | while read -r target; do
        names=$(awk -F '|' -v target="$target" '$1 == target { print $2 }' "$work/tests")
        # shellcheck disable=SC2086
        run_tests "$target" "$logs/without.log" $names ||
            die "without any fault, these tests fail: cargo test $target ($logs/without.log)"
        for test in $names; do
            ran "$test" ok "$logs/without.log" || die "cargo test $target has no test $test"
        done
    done
}

# Prints the result in one word: caught, SURVIVED, hung, …
verdict() { # LINE ROW FILE TEST
    file=$(file_of "$3") test=${4##*::} log=$logs/$2-$1.log status=0
    plant "$1" "$file" || {
        echo "gone"
        return
    }
    run_tests "$(target_of "$4")" "$log" "$test" || status=$?
    restore "$file"
    if [ $status -eq 0 ]; then
        echo "SURVIVED"
    elif ran "$test" FAILED "$log"; then
        echo "caught"
    elif [ $status -eq 124 ]; then
        echo "hung"
    else
        echo "unbuilt"
    fi
}

prepare_faults
if [ "${1:-}" = --fits ]; then exit 0; fi
lend_boringssl "$tree"
check_without_faults
try_faults
