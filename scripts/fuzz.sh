#!/bin/sh
# make fuzz: coverage-guided fuzzing (cargo-fuzz), for TIME seconds (60 by default) per
# target; TARGET=packets runs only that one. The corpus is kept in target/fuzz/corpus for
# the next run. Inputs that fail are kept in target/fuzz/found, with the command that
# reproduces them.
set -eu
cd "$(dirname "$0")/.."
work=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
known=$(sed -n 's,^path = "fuzz_targets/\(.*\)\.rs"$,\1,p' fuzz/Cargo.toml)
targets=${TARGET:-$known}
time=${TIME:-60}

die() {
    echo "error: $*" >&2
    exit 2
}

command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
case $time in
'' | *[!0-9]*) die "TIME=$time is no number of seconds" ;;
esac
for target in $targets; do
    echo "$known" | grep -qx "$target" || die "TARGET=$target is not one of:" $known
done

# A sanitizer would need a nightly toolchain; our own code is safe Rust.
fuzz() { # run|build TARGET [ARGUMENTS]
    action=$1
    target=$2
    shift 2
    cargo fuzz "$action" --sanitizer none --fuzz-dir fuzz --target-dir "$work" "$target" "$@"
}

status=0
for target in $targets; do
    corpus=$work/corpus/$target
    mkdir -p "$corpus" "$work/found/$target"
    seeds=fuzz/seeds/$target
    [ -d "$seeds" ] || seeds=
    fuzz run "$target" "$corpus" $seeds -- -max_total_time="$time" -timeout=20 -max_len=16384 \
        -print_final_stats=1 -artifact_prefix="$work/found/$target/" || {
        echo "error: $target fails; the input is in $work/found/$target: cargo fuzz run --sanitizer none --target-dir $work $target FILE" >&2
        status=1
    }
done
exit $status
