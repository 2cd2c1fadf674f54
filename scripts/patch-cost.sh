#!/bin/sh
# make patch-cost: counts the instructions of scenarios of tools/same-packets, both
# endpoints and TLS included, before a patch and with it, for its Figure:.
#   PATCH=40-performance/05        the patch
#   SCENARIO='download handshake'  the scenarios, download by default
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh

tool=tools/same-packets
[ -n "${PATCH:-}" ] || die "make patch-cost needs a patch: PATCH=40-performance/05"
command -v valgrind >/dev/null || die "valgrind is missing: sudo apt-get install -y valgrind"
number=$(patch_number PATCH "$PATCH")
patch=$(series patches | sed -n "${number}p")

# Prints a scenario and a count on each line.
count() { # NUMBER of patches
    tree_at "$(step_commit "$1")"
    (
        lend_boringssl "$tree/$tool"
        cd "$tree/$tool"
        cargo build -q --release --locked --target-dir "$CARGO_TARGET_DIR" 8>&-
    ) >"$tmp/said" 2>&1 || {
        cat "$tmp/said" >&2
        die "cargo build fails in $tree/$tool, see above"
    }
    for scenario in ${SCENARIO:-download}; do
        # The variable keeps BoringSSL from the processor's random numbers.
        OPENSSL_ia32cap='~0x4000000000000000' valgrind --tool=callgrind --callgrind-out-file=/dev/null \
            "$CARGO_TARGET_DIR/release/same-packets" trace --side fork "$scenario" >/dev/null 2>"$tmp/said" 8>&- || {
            cat "$tmp/said" >&2
            die "the scenario $scenario fails, see above"
        }
        sed -n "s/.*Collected : /$scenario /p" "$tmp/said"
    done
}

open_steps
count "$((number - 1))" >"$tmp/before"
count "$number" >"$tmp/with"
awk -v patch="$patch" 'NR == FNR { before[$1] = $2; next } {
    printf "%s: %s instructions before %s, %s with it: %+.2f %%\n", $1, before[$1], patch, $2, 100 * ($2 / before[$1] - 1)
}' "$tmp/before" "$tmp/with"
