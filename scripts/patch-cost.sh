#!/bin/sh
# make patch-cost: counts the instructions of scenarios of tools/same-packets, of both
# endpoints and the program, before a patch and with it, for its Figure:. A second count
# leaves out BoringSSL, which takes most of them.
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

# Prints a scenario, its instructions, and those outside of BoringSSL on each line.
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
        OPENSSL_ia32cap='~0x4000000000000000' valgrind --tool=callgrind --callgrind-out-file="$tmp/callgrind" \
            "$CARGO_TARGET_DIR/release/same-packets" trace --side fork "$scenario" >/dev/null 2>"$tmp/said" 8>&- || {
            cat "$tmp/said" >&2
            die "the scenario $scenario fails, see above"
        }
        # Names of Rust, and of the C library, which is an object of its own.
        callgrind_annotate --auto=no --threshold=100 "$tmp/callgrind" | awk -v scenario="$scenario" '
            !/^ *[0-9,]+ \(/ { next }
            { gsub(",", "", $1) }
            /PROGRAM TOTALS/ { all = $1; next }
            !/same-packets\]/ || (/::/ && !/bssl::|__gnu_cxx|OPENSSL/) { rest += $1 }
            END { printf "%s %.0f %.0f\n", scenario, all, rest }'
    done
}

open_steps
count "$((number - 1))" >"$tmp/before"
count "$number" >"$tmp/with"
awk -v patch="$patch" '
    function change(column) { return sprintf("%.0f before, %.0f with it: %+.2f %%", was[$1, column], $column, 100 * ($column / was[$1, column] - 1)) }
    NR == FNR { was[$1, 2] = $2; was[$1, 3] = $3; next }
    { print patch ": " $1 ": instructions " change(2) "; without BoringSSL " change(3) }
' "$tmp/before" "$tmp/with"
