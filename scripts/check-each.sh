#!/bin/sh
# make check-each: builds the fork and runs its tests after every patch of the
# series, with qlog and without. Skips steps that have passed and are unchanged.
# --compile compiles, including the applications, and runs the tests, with qlog, only at the
# end of each topic but the last, which make test covers. A fix adds no interface: between
# them, the fork is compiled in one form, and the applications are not.
#   TOPIC=20-careful-resume   only after the patches of that topic
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/topics.sh
. scripts/fork/upstream.sh
. scripts/fork/hooks.sh
. scripts/fork/chain.sh
. scripts/boringssl.sh
. scripts/fork/trees.sh

FEATURES=internal,ffi

# After an interrupted build, rustc's incremental data can make the next one fail to
# link, which would be blamed on a step.
export CARGO_INCREMENTAL=0

# Runs cargo at this step; a warning is an error. Unused code is allowed before the
# last patch, since a later one may use it.
step_cargo() { # WHAT COMMAND ARGUMENT…
    what=$1 command=$2
    shift 2
    (cd "$tree" && cargo "$command" --message-format short "$@" 8>&-) >"$tmp/said" 2>&1 || stop_at "$what"
    grep -E '^[^ ]+:[0-9]+:[0-9]+: warning: ' "$tmp/said" >"$tmp/warnings" || return 0
    if [ "$name" != "$last" ]; then
        grep -Ev ' (is|are) never (used|read|constructed)$' "$tmp/warnings" >"$tmp/said" || return 0
    fi
    stop_at "$what, which warns"
}

stop_at() { # WHAT
    cat "$tmp/said" >&2
    echo "$tree is left at this step; build there with CARGO_TARGET_DIR=$CARGO_TARGET_DIR" >&2
    case $name in
    *.patch) ;;
    *) die "$name itself fails in $1: look at Cargo.lock, and at the toolchain" ;;
    esac
    die "patches/$name is the first that fails in $1: what it lacks is in a later patch, or in none." \
        "Edit quiche/, then make patches PATCH=$(patch_id "$name") FILES='src/…'"
}

check_fork() {
    if [ -n "$compile" ]; then
        step_cargo 'cargo check' check --tests -p quiche --features "$FEATURES,qlog"
        ! is_between_fixes || return 0
        step_cargo 'cargo check without qlog' check -p quiche --features "$FEATURES"
        ! is_tip || test_with_qlog
        return 0
    fi
    test_with_qlog
    test_without_qlog
}

is_tip() {
    echo "$tips" | grep -qxF "$name"
}

is_between_fixes() {
    [ "$(topic_kind "${name%%/*}")" = fix ] && ! is_tip
}

# Runs all tests, upstream's and ours.
test_with_qlog() {
    step_once 'cargo test' test -p quiche --features "$FEATURES,qlog"
}

# The fork's pages contain the same examples.
test_without_qlog() {
    step_once 'cargo test without qlog' test --tests -p quiche --features "$FEATURES"
}

# As step_cargo, unless this has passed with the same sources.
step_once() { # WHAT COMMAND ARGUMENT…
    key="$(tree_git rev-parse HEAD:quiche) $(git hash-object Cargo.lock) $(rustc --version) $1"
    if grep -qxF "$key" "$fork/passed" 2>/dev/null; then return; fi
    step_cargo "$@"
    echo "$key" >>"$fork/passed"
}

check_applications() {
    if is_between_fixes; then return; fi
    step_cargo 'cargo check of the applications' check --workspace
}

each_step() { # TIP COMMAND
    open_tree "$root/target/steps" "$fork"
    for commit in $(fork_git rev-list --reverse "$1"); do
        name=$(fork_git log -1 --format=%s "$commit")
        [ -z "${TOPIC:-}" ] || [ "${name%%/*}" = "$TOPIC" ] || continue
        tree_at "$commit"
        lend_boringssl "$tree"
        "$2"
        echo "$name: passed" >&2
    done
}

last=$(step_names | tail -n 1)
tips=$(for topic in $(topics); do series patches | grep "^$topic/" | tail -n 1; done | sed '$d')
compile=
if [ "${1:-}" = --compile ]; then compile=1; fi
tree_lock "$root/target/steps"
fork_lock
choose_topic
refuse_unexported_edits
hooks=$(build_hooks patches)
steps=$(build_workspaces "$(build_series "$hooks")")
fork_git update-ref refs/heads/steps "$steps"
workspaces=$(build_workspaces "$hooks" all)
fork_git update-ref refs/heads/workspaces "$workspaces"
exec 9>&-

each_step "$steps" check_fork
if [ -n "$compile" ]; then each_step "$workspaces" check_applications; fi
