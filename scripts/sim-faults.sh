#!/bin/sh
# make sim-faults: plants each fault of sim-faults.txt in a copy of the sources and
# checks that the simulator names the invariant that it breaks. Without faults, the
# scenarios below pass. ROW=A2 selects one; --fits only checks that each fault can be
# planted. The copy and its build are in target/faults.
set -eu
cd "$(dirname "$0")/.."
name=sim-faults
. scripts/faults.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh
RUN_SECONDS_MAX=600

# The part of `sim run --all` that detects the five faults soonest.
scenarios="run paths changed dynamics --runs 1
    --only LEO-0.75MB --only LEO,flow.saved.rtt_ratio=1 --only one-subnet --only rtt-falls-in-the-jump"

simulate() { # LOG
    # shellcheck disable=SC2086
    (cd "$tree" && cargo build -q -p sim && timeout "$RUN_SECONDS_MAX" "$CARGO_TARGET_DIR/debug/sim" $scenarios) \
        >"$1.jsonl" 2>"$1"
}

# Prints the result in one word: caught, SURVIVED, hung, …
verdict() { # LINE ROW FILE WORD
    file=$(file_of "$3") log=$logs/$2.log status=0
    plant "$1" "$file"
    simulate "$log" || status=$?
    restore "$file"
    if [ $status -eq 0 ]; then
        echo "SURVIVED"
    elif grep -q "^sim: seed .*$4" "$log"; then
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
simulate "$logs/without.log" || die "without any fault: $(tail -n 1 "$logs/without.log") ($logs/without.log)"
try_faults
