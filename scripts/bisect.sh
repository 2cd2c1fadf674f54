#!/bin/sh
# make bisect: finds the first patch with which a command fails, or prints a number
# above or below a limit, in a tree of its own.
#   RUN='…'            the command; its PATH includes the built programs
#   ABOVE=n, BELOW=n   limits on the last number that it prints
#   GOOD=10-fixes/03   the command succeeds after this patch: no earlier step is built, and
#                      this one only if the next patch is found
#   BUILD='…'          the build command (by default, what RUN uses)
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh
. scripts/fork/bisect.sh

# Prints the file of ours without which RUN cannot run. Keep it in step with
# tools/sim/src/main.rs, which exits with 125 then.
needed_file() {
    case $RUN in
    *'sim fuzz'* | *'sim run'*careful-resume*) echo src/recovery/careful_resume/mod.rs ;;
    *'sim run'*) echo src/clock.rs ;;
    esac
}

# Prints the number of the patch that adds a file of ours, 0 if none does.
patch_that_adds() { # PATH
    number=0
    for patch in $(series patches); do
        number=$((number + 1))
        patch_adds "patches/$patch" | sed "s/^/$number /"
    done | awk -v path="$1" '$2 == path { found = $1 } END { print found + 0 }'
}

bisect_settings 'make bisect' "$root/target/steps"
known=
if [ -n "${GOOD:-}" ]; then known=$(patch_number GOOD "$GOOD"); fi
open_steps
tip=$(tail -n 1 "$tmp/steps")
if [ -n "$known" ]; then
    good=$(step_commit "$known")
    [ "$good" != "$tip" ] || die "GOOD=$GOOD is the last patch: nothing is left to search"
    check_is_bad "$tip"
else
    able=$(patch_that_adds "$(needed_file)")
    [ "$able" -eq 0 ] || echo "RUN needs patches/$(series patches | sed -n "${able}p"): earlier steps are not built" >&2
    sed -n "$((able + 1)),\$p" "$tmp/steps" | sed '$d' >"$tmp/able"
    check_ends "$tip" "$tmp/able"
fi
find_first_bad "$tip" "$good" >"$tmp/found"
# Any later patch was found by a step before it that succeeded.
if [ -n "$known" ] && grep -qxF "$(step_commit "$((known + 1))")" "$tmp/found"; then check_is_good "$good"; fi
while read -r commit; do
    echo "first bad: patches/$(tree_git log -1 --format=%s "$commit")"
done <"$tmp/found" | sort
[ "$(wc -l <"$tmp/found")" -eq 1 ] || die "the steps between could not run RUN: it is one of these patches"
