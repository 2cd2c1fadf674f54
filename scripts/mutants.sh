#!/bin/sh
# make mutants: changes the fork's recovery code by one operator, constant or
# function body at a time (cargo-mutants), in a copy, and sees that a test fails.
# What our quick tests let pass runs against all of the recovery's. FILE=pacing.rs
# does that file. Mutants that change nothing are in .cargo/mutants.toml, with the
# reason. The copy, its build and the lists of mutants are in target/mutants.
set -eu
cd "$(dirname "$0")/.."
command -v cargo-mutants >/dev/null || {
    echo "error: cargo-mutants is missing: cargo install --locked cargo-mutants" >&2
    exit 1
}
work=${CARGO_TARGET_DIR:-$PWD/target}/mutants
tree=$work/tree
# Of quiche/src/recovery; in each, our own code.
FILES='pacing.rs path_state/mod.rs path_state/memory.rs path_state/remote_endpoint.rs path_state/store.rs
    resume/mod.rs resume/admit.rs resume/connection.rs resume/hystart.rs resume/legacy.rs resume/observer.rs resume/phase.rs
    resume/qlog.rs search.rs slow_start/mod.rs slow_start/exit.rs slow_start/hooks.rs slow_start/qlog.rs left_path.rs'
QUICK_SECONDS_MAX=60
ALL_SECONDS_MAX=600

# Fast to build rather than fast to run, and apart from everybody's builds.
export CARGO_TARGET_DIR="$work/build" CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0

set --
for file in $FILES; do
    case $file in *"${FILE:-}") set -- "$@" --file "**/$file" ;; esac
done
[ $# -gt 0 ] || {
    echo "error: FILE=$FILE: mutated are $(echo $FILES), in quiche/src/recovery" >&2
    exit 1
}

rm -rf "$tree"
mkdir -p "$tree"
tar -cf - .cargo Cargo.toml Cargo.lock quiche apps tools | tar -xf - -C "$tree"
cd "$tree"
# Upstream's tests of the connection, which take longest to build, are not asked.
sed '/^#\[cfg(test)\]$/{N;/\nmod tests;$/d;}' quiche/src/lib.rs >"$work/lib.rs"
cat "$work/lib.rs" >quiche/src/lib.rs

round() { # SECONDS_MAX OPTION… -- ARGUMENT OF THE TESTS…
    timeout=$1
    shift
    cargo mutants --in-place --output "$work" -p quiche --cargo-arg=--lib --features ffi,internal,qlog --timeout "$timeout" --colors never \
        --build-timeout 600 --baseline skip "$@"
}

# The first build takes BoringSSL's time, which no mutant is given.
cargo test -p quiche --lib --features ffi,internal,qlog --no-run

rm -rf "$work/mutants.out" "$work/mutants.out.old"
if round "$QUICK_SECONDS_MAX" "$@" -- -- recovery::resume recovery::pacing recovery::path_state recovery::search recovery::slow_start left_path \
    --skip property_tests --skip connection::tests; then exit 0; fi
[ -s "$work/mutants.out/missed.txt" ] || exit 1
echo "mutants: once more, against every test, what these let pass" >&2
round "$ALL_SECONDS_MAX" --iterate "$@" -- -- recovery::
