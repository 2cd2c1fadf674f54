#!/bin/sh
# make fuzz: random input that looks for code which no input before it has reached
# (cargo-fuzz), for TIME seconds (60) a target; TARGET=packets runs only that one.
# What a target has learnt is kept in target/fuzz/corpus, and tried first the next time.
# Input that breaks something is kept in target/fuzz/found, with the command that
# repeats it.
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
    echo "$known" | grep -qx "$target" || die "TARGET=$target is none of:" $known
done

# Without a sanitizer no nightly toolchain is needed; our own code is safe Rust.
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
