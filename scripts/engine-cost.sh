#!/bin/sh
# make engine-cost: measures the cost of Careful Resume and its pacing for a connection
# without saved parameters, and of ECN with both, in instructions of both endpoints for
# 100 MB, without those of BoringSSL and of the bench itself. Fails if one of the costs is
# above 1 % of the same transfer with everything off, or if the transfers differ in time,
# loss or ACKs, or by more than a packet in ten thousand (where the unpaced window ends).
# With ECN, time, packets and ACKs may differ by one in a thousand: the counts of marks
# leave less room for data. SIDES=server counts the server alone, which does all of the
# pacing and most of the observing.
set -eu
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || {
    echo "error: valgrind is missing: sudo apt-get install -y valgrind" >&2
    exit 1
}

bench=$(cargo bench -p speed-test --bench engine_cost --no-run --message-format=json "$@" |
    sed -n 's/.*"executable":"\([^"]*engine_cost[^"]*\)".*/\1/p' | tail -n 1)
toggles=$(printf -- '--toggle-collect=engine_cost::%s_side* ' ${SIDES:-client server})
out=target/engine-cost
mkdir -p "$out"

count() { # MODE: instructions, but those of BoringSSL
    # shellcheck disable=SC2086
    valgrind --tool=callgrind --collect-atstart=no $toggles --callgrind-out-file="$out/$1.callgrind" "$bench" "$1" \
        >"$out/$1.txt" 2>"$out/$1.log"
    callgrind_annotate --auto=no --threshold=100 "$out/$1.callgrind" >"$out/$1.functions" 2>/dev/null
    awk '/^ *[0-9,]+ \(/ && !/TOTALS|engine_cost.rs|boring-sys/ {
        gsub(",", "", $1); sum += $1
    } END { printf "%.0f\n", sum }' "$out/$1.functions"
}

for mode in off paced on ecn; do
    printf '%s|%s|%s\n' "$mode" "$(count "$mode")" "$(cat "$out/$mode.txt")"
done | awk -F '|' '
    {
        count[$1] = $2; print $1 ": " $2 " instructions, " $3
        split($3, word, " ")
        packets[$1] = word[1]; acks[$1] = word[3]; lost[$1] = word[5]; ms[$1] = word[7]
    }
    function more(mode) { return 100 * (count[mode] / count["off"] - 1) }
    function apart(number, mode) { return sqrt((number[mode] / number["off"] - 1) ^ 2) }
    function differs(mode, most) {
        return apart(packets, mode) > (most ? most : 1e-4) || lost[mode] != lost["off"] ||
            apart(acks, mode) > most || apart(ms, mode) > most
    }
    END {
        printf "pacing: %+.2f %%\n", more("paced")
        printf "pacing, and Careful Resume without saved parameters: %+.2f %%\n", more("on")
        printf "both, and ECN: %+.2f %%\n", more("ecn")
        exit more("on") > 1 || more("ecn") > 1 || differs("on", 0) || differs("ecn", 1e-3)
    }'
