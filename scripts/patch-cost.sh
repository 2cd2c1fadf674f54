#!/bin/sh
# make patch-cost: counts instructions before a patch and with it, for its Figure:. A
# second count leaves out BoringSSL, which takes most of them.
#   PATCH=40-performance/05        the patch
#   SCENARIO='download handshake'  scenarios of tools/same-packets, download by default:
#                                  both endpoints and the program
#   SCENARIO=edge-server           edge-server from its start, with a download of 100 MB over
#                                  loopback: the counts vary by about a percent
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh

tool=tools/same-packets
[ -n "${PATCH:-}" ] || die "make patch-cost needs a patch: PATCH=40-performance/05"
# The catalogue has each name behind a parenthesis; building it takes minutes.
for scenario in ${SCENARIO:-download}; do
    case $scenario in
    edge-server | random-[0-9]*) ;;
    *) grep -qF "(\"$scenario\"" "$tool/src/catalogue.rs" ||
        die "SCENARIO=$scenario: neither edge-server nor a scenario of $tool/src/catalogue.rs" ;;
    esac
done
command -v valgrind >/dev/null || die "valgrind is missing: sudo apt-get install -y valgrind"
number=$(patch_number PATCH "$PATCH")
patch=$(series patches | sed -n "${number}p")

# Prints an error of a build or run, and ends.
fails() { # WHAT
    cat "$tmp/said" >&2
    die "$1 fails, see above"
}

# Prints a scenario, its instructions, and those outside of BoringSSL.
sum() { # SCENARIO PROGRAM
    # Names of Rust, and of the C library, which is an object of its own.
    callgrind_annotate --auto=no --threshold=100 "$tmp/callgrind" | awk -v scenario="$1" -v program="$2]" '
        !/^ *[0-9,]+ \(/ { next }
        { gsub(",", "", $1) }
        /PROGRAM TOTALS/ { all = $1; next }
        index($0, program) == 0 || (/::/ && !/bssl::|__gnu_cxx|OPENSSL/) { rest += $1 }
        END { printf "%s %.0f %.0f\n", scenario, all, rest }'
}

build() { # FOLDER ARGUMENTS
    folder=$1
    shift
    (
        lend_boringssl "$folder"
        cd "$folder"
        cargo build -q --release --locked --target-dir "$CARGO_TARGET_DIR" "$@" 8>&-
    ) >"$tmp/said" 2>&1 || fails "cargo build in $folder"
}

run_endpoints() { # SCENARIO
    build "$tree/$tool"
    # The variable keeps BoringSSL from the processor's random numbers.
    OPENSSL_ia32cap='~0x4000000000000000' valgrind --tool=callgrind --callgrind-out-file="$tmp/callgrind" \
        "$CARGO_TARGET_DIR/release/same-packets" trace --side fork "$1" >/dev/null 2>"$tmp/said" 8>&- ||
        fails "the scenario $1"
    sum "$1" same-packets
}

run_edge_server() {
    build "$tree" --bin edge-server --bin edge-client
    valgrind --tool=callgrind --callgrind-out-file="$tmp/callgrind" "$CARGO_TARGET_DIR/release/edge-server" \
        --listen 127.0.0.1:0 --workers 1 --root "$tmp" --speedtest >/dev/null 2>"$tmp/said" 8>&- &
    server=$!
    until address=$(grep -o 'listening on .*' "$tmp/said"); do
        kill -0 "$server" 2>/dev/null || fails edge-server
        sleep 0.2
    done
    "$CARGO_TARGET_DIR/release/edge-client" "https://${address#listening on }/bytes/100000000" --insecure \
        >/dev/null 2>"$tmp/client" || fails "the download"
    kill -TERM "$server"
    wait "$server" || fails edge-server
    sum edge-server edge-server
}

count() { # NUMBER of patches
    tree_at "$(step_commit "$1")"
    for scenario in ${SCENARIO:-download}; do
        case $scenario in
        edge-server) run_edge_server ;;
        *) run_endpoints "$scenario" ;;
        esac
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
