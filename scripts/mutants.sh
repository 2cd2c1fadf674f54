#!/bin/sh
# make mutants: mutation testing of the fork's recovery code (cargo-mutants), in a
# copy: changes one operator, constant or function body at a time and checks that a
# test fails. Mutants that survive a module's own quick tests run against all tests of
# recovery. FILE=pacing.rs selects one file. Equivalent mutants are listed in
# .cargo/mutants.toml, with the reason. The copy, its build and the lists of mutants
# are in target/mutants.
set -eu
cd "$(dirname "$0")/.."
command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants
. scripts/boringssl.sh
. scripts/fork/trees.sh
root=$PWD
work=${CARGO_TARGET_DIR:-$PWD/target}/mutants
tree=$work/tree
QUICK_SECONDS_MAX=60
ALL_SECONDS_MAX=180

# Our own code of quiche/src/recovery, and the tests that run first.
modules() {
    cat <<'END'
pacing pacing.rs pacing/window_use.rs : recovery::pacing flow_control_ends_growth
path_state path_state/mod.rs path_state/memory.rs path_state/remote_endpoint.rs path_state/store.rs : recovery::path_state
careful_resume careful_resume/mod.rs careful_resume/jump_decision.rs careful_resume/after_jump.rs careful_resume/config.rs careful_resume/current_rtt.rs careful_resume/delivery.rs careful_resume/events.rs careful_resume/growth_limit.rs careful_resume/hystart.rs careful_resume/jump_record.rs careful_resume/legacy.rs careful_resume/normal.rs careful_resume/observer.rs careful_resume/phase.rs careful_resume/qlog.rs careful_resume/reconnaissance.rs careful_resume/safe_retreat.rs careful_resume/state.rs careful_resume/unvalidated.rs careful_resume/validating.rs : recovery::careful_resume recovery::unchanged_tests slow_start_ends_at_the_ceiling exit_ --skip property_tests --skip connection::tests
connection careful_resume/connection.rs : recovery::careful_resume::connection
overshoot overshoot/mod.rs overshoot/doubling.rs overshoot/history.rs overshoot/path.rs overshoot/room.rs overshoot/hooks.rs : recovery::overshoot recovery::slow_start::path_tests soft_growth
search search.rs : recovery::search
slow_start slow_start/mod.rs slow_start/exit.rs slow_start/hooks.rs slow_start/qlog.rs : recovery::slow_start
abandoned_path abandoned_path.rs : abandoned_path
END
}

# Builds of the quick rounds are fast rather than optimized, and separate from other
# builds.
export CARGO_TARGET_DIR="$work/build" CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0

copy_sources() {
    rm -rf "$tree"
    mkdir -p "$tree"
    tar -cf - --exclude=./target --exclude=./results --exclude=./.git . | tar -xf - -C "$tree"
    lend_boringssl "$tree"
    cd "$tree"
    # Leaves out upstream's tests outside recovery, which take longest to build.
    find quiche/src -name '*.rs' ! -path '*/recovery/*' | while read -r file; do
        awk '
        /^#\[cfg\(test\)\]$/ {
            attribute = $0
            getline
            if ($0 == "mod tests;") next
            if ($0 == "mod tests {") { while (getline > 0 && $0 != "}"); next }
            print attribute
        }
        { print }' "$file" >"$work/stripped.rs"
        cmp -s "$work/stripped.rs" "$file" || cat "$work/stripped.rs" >"$file"
    done
}

round() { # MODULE SECONDS_MAX OPTION… -- ARGUMENT OF THE TESTS…
    out=$work/$1 timeout=$2
    shift 2
    cargo mutants --in-place --output "$out" -p quiche --cargo-arg=--lib --features ffi,internal,qlog --timeout "$timeout" --colors never \
        --build-timeout 600 --baseline skip "$@"
}

test_mutants() { # MODULE FILE… : TEST…
    module=$1
    shift
    files=
    while [ "$1" != : ]; do
        case $1 in *"${FILE:-}") files="$files --file **/recovery/**/$1" ;; esac
        shift
    done
    shift
    if [ -z "$files" ]; then return 0; fi
    rm -rf "${work:?}/$module"
    mkdir "$work/$module"
    # shellcheck disable=SC2086
    if round "$module" "$QUICK_SECONDS_MAX" $files -- -- "$@"; then return 0; fi
    if [ -s "$work/$module/mutants.out/missed.txt" ]; then
        echo "mutants: once more, against every test of the recovery's, what those of $module let pass" >&2
        # shellcheck disable=SC2086
        if (
            export CARGO_PROFILE_DEV_OPT_LEVEL=1
            round "$module" "$ALL_SECONDS_MAX" --iterate $files -- -- recovery::
        ); then return 0; fi
    fi
    status=1
}

if ! modules | tr ' ' '\n' | grep -q "${FILE:-}\$"; then
    echo "error: FILE=$FILE: mutated are" $(modules | tr ' ' '\n' | grep '\.rs$') >&2
    exit 1
fi
mkdir -p "$work"
copy_sources
# The first build includes BoringSSL, which would exceed a mutant's timeout.
cargo test -p quiche --lib --features ffi,internal,qlog --no-run

set -f
status=0
modules >"$work/modules"
while read -r line <&3; do
    # shellcheck disable=SC2086
    test_mutants $line
done 3<"$work/modules"
exit $status
