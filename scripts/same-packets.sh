#!/bin/sh
# make same-packets: compares the datagrams of the fork, with all of our features off,
# with those of the release, by tools/same-packets. Scenarios that differ must be in its
# table of exceptions, others must not be.
#   TIP=all              at the end of each topic, instead of the state of quiche/
#   COUNT=1500 SEED=1    random scenarios beside those that have a name
#   PATCHES=1            after every patch: prints the patches that change a scenario, and
#                        compares them with the table
#   SCENARIO='a b'       only these
# With --test, runs the tests of the tool first.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh

tool=tools/same-packets
choice="--random ${COUNT:-0} --seed ${SEED:-1}"
for name in ${SCENARIO:-}; do choice="$choice --scenario $name"; done
table='--exceptions docs/unchanged.md --series patches/series'

[ "$(uname -s)" = Linux ] || die "same-packets needs Linux: it replaces functions of its C library"
grep -q "version = \"=$(upstream_field version)\"" "$tool/Cargo.toml" ||
    die "$tool/Cargo.toml does not have the release of patches/UPSTREAM, $(upstream_field version): correct it there, then cargo update --manifest-path $tool/Cargo.toml"

# Builds the tool in a tree, or tests it. Sets $program to its path.
build() { # TREE TARGET-FOLDER [test]
    (
        lend_boringssl "$1/$tool"
        cd "$1/$tool"
        cargo "${3:-build}" -q --locked --target-dir "$2" 8>&- 9>&-
    ) >"$tmp/said" 2>&1 || {
        cat "$tmp/said" >&2
        die "cargo ${3:-build} fails in $1/$tool, see above"
    }
    program=$2/debug/same-packets
}

# Compares the fork of the program just built, which has the first NUMBER patches. The
# release, the same for each, runs once.
compare() { # NUMBER
    # shellcheck disable=SC2086
    "$program" compare $choice $table --applied "$1" --release "$tmp/release"
}

# Builds the program with the first NUMBER patches.
build_step() { # NUMBER
    commit=$(step_commit "$1")
    name=$(tree_git log -1 --format=%s "$commit")
    tree_at "$commit"
    build "$tree" "$CARGO_TARGET_DIR"
}

compare_tips() {
    open_steps
    status=0
    for topic in $(topics); do
        last=$(topic_last "$topic")
        build_step "$last"
        echo "$topic:"
        compare "$last" || status=1
    done
    exit $status
}

# Names the patches that change a scenario, by the traces before and after each.
find_patches() {
    open_steps
    : >"$tmp/changes"
    count=$(series patches | wc -l)
    number=0
    while [ "$number" -le "$count" ]; do
        build_step "$number"
        # shellcheck disable=SC2086
        "$program" digest $choice >"$tmp/digests" 8>&-
        if [ "$number" -gt 0 ]; then
            awk -v patch="$name" 'NR == FNR { was[$1] = $2; next } was[$1] != $2 { print patch, $1 }' \
                "$tmp/before" "$tmp/digests" | tee -a "$tmp/changes"
        fi
        mv "$tmp/digests" "$tmp/before"
        number=$((number + 1))
    done
    # shellcheck disable=SC2086
    "$program" check-table "$tmp/changes" $choice $table
}

case ${TIP:-all} in all) ;; *) die "TIP=$TIP: it takes all" ;; esac
[ -z "${PATCHES:-}" ] || [ -z "${TIP:-}" ] || die "PATCHES= and TIP= exclude each other: use one of them"

if [ -n "${PATCHES:-}" ]; then
    find_patches
elif [ "${TIP:-}" = all ]; then
    compare_tips
else
    held=$(held_topic)
    if [ "${1:-}" = --test ]; then build "$root" "$root/target/same-packets" test; fi
    build "$root" "$root/target/same-packets"
    if [ -n "$held" ]; then compare "$(topic_last "$held")"; else compare "$(series patches | wc -l)"; fi
fi
