# Bisection in a tree, from its ends to the result (sourced).

# Puts the programs that BUILD has built on the PATH of RUN.
bisect_settings() { # WHAT FOLDER
    [ -n "${RUN:-}" ] || die "$1 needs a command: RUN='sim run paths --only …', with ABOVE=1000 if a number decides"
    for limit in "${ABOVE:-0}" "${BELOW:-0}"; do
        echo "$limit" | grep -Eqx -- '-?[0-9]+([.][0-9]+)?' || die "'$limit' is no number, ABOVE= and BELOW= take one"
    done
    export RUN ABOVE="${ABOVE:-}" BELOW="${BELOW:-}" LOG="$2/log"
    export PREPARE="${PREPARE:-true}" BUILD="${BUILD:-$(build_for_run)}"
    export PATH="$2/build/debug:$PATH"
}

# Prints the command that builds what RUN uses.
build_for_run() {
    case $RUN in
    *[\|\;\&]*) ;;
    # Tests that do not compile are no failure of the command.
    'cargo test '*) echo "cargo test --no-run ${RUN#cargo test }" && return ;;
    esac
    programs=
    for word in $(echo "$RUN" | tr -cs 'A-Za-z0-9_-' ' '); do
        case $word in
        sim | edge-server | edge-client | path-store | link-emulator) programs="$programs --bin $word" ;;
        # These start other programs.
        speed-test | sh | make) programs= && break ;;
        esac
    done
    echo "cargo build${programs:- --workspace}"
}

run_step() { # COMMIT: sets $result to git's code for it
    tree_at "$1"
    lend_boringssl "$tree"
    result=0
    (cd "$tree" && sh "$root/scripts/fork/bisect-step.sh" 8>&-) || result=$?
    [ "$result" -lt 128 ] || exit "$result"
}

check_is_bad() { # COMMIT
    run_step "$1"
    case $result in
    0) die "nothing to find: at $(title "$1"), RUN does not fail" ;;
    125) die "RUN cannot run even at $(title "$1")" ;;
    esac
}

# Checks a commit that GOOD= names.
check_is_good() { # COMMIT
    run_step "$1"
    name=$(tree_git log -1 --format=%s "$1")
    case $result in
    0) ;;
    125) die "GOOD=$GOOD: RUN cannot run after $name: choose another patch, or leave GOOD= out" ;;
    *) die "GOOD=$GOOD: RUN fails already after $name: choose an earlier patch, or leave GOOD= out" ;;
    esac
}

# Checks that the newest commit fails and finds the oldest that succeeds: sets $good.
# The oldest commits may be unable to run the command.
check_ends() { # BAD-COMMIT COMMITS-FILE, the oldest first
    check_is_bad "$1"
    while read -r good; do
        run_step "$good"
        case $result in
        0) return ;;
        125) ;;
        *) die "no step is to blame: RUN fails already at $(title "$good"), the first that can run it" ;;
        esac
    done <"$2"
    die "no step but the last can run RUN"
}

# Prints the commits that may be the first bad one, usually a single one.
find_first_bad() { # BAD-COMMIT GOOD-COMMIT
    tree_git bisect start "$1" "$2" >"$tmp/bisect"
    # Adjacent commits need no run.
    grep -q 'first bad commit' "$tmp/bisect" ||
        (cd "$tree" && plain_git bisect run sh "$root/scripts/fork/bisect-step.sh" >"$tmp/bisect" 8>&-) || true
    tree_git bisect log >"$tmp/log"
    tree_git bisect reset HEAD >/dev/null 2>&1 || true
    sed -n 's/^# \(possible \)\{0,1\}first bad commit: \[\([0-9a-f]*\)\].*/\2/p' "$tmp/log" | sort -u >"$tmp/bad"
    [ -s "$tmp/bad" ] || die "the bisection stopped: $(tail -n 1 "$tmp/bisect")"
    cat "$tmp/bad"
}

title() { # COMMIT
    tree_git log -1 --format='%h %s' "$1"
}
