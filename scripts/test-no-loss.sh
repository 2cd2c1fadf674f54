#!/bin/sh
# Tests that no command of the fork loses work: each runs with edits that patches/ lacks
# and with uncommitted changes, is interrupted, and runs on a full disk. LONG=1 interrupts and
# fills at many more moments.
. "$(dirname "$0")/fork/testbed.sh"

# Programs between two interruptions, and KB that are left on a disk.
if [ -n "${LONG:-}" ]; then step=12 rooms='0 8 40 100'; else step=60 rooms='8'; fi

COMMANDS='quiche topic patches patches-check series steps-check check-each bisect bisect-history rebase export range-diff'

# Prints the shell line of a command, which can succeed in the state of start_work.
line_of() { # COMMAND
    case $1 in
    topic) echo 'TOPIC=10-fixes sh scripts/quiche.sh' ;;
    steps-check) echo 'sh scripts/check-each.sh --compile' ;;
    bisect) echo "RUN='! grep -q paced quiche/src/lib.rs' BUILD=true sh scripts/bisect.sh" ;;
    bisect-history) echo "GOOD=base RUN='! grep -q second quiche/src/clock.rs' BUILD=true sh scripts/bisect-history.sh" ;;
    patches) echo 'PATCH=20-careful-resume/01 sh scripts/patches.sh' ;;
    rebase) echo 'UPSTREAM=0.2.0 sh scripts/rebase.sh' ;;
    export) echo 'LAYOUT=crate sh scripts/export.sh' ;;
    range-diff) echo 'BASE=base sh scripts/range-diff.sh' ;;
    *) echo "sh scripts/$1.sh" ;;
    esac
}

try() { # COMMAND
    sh -c "$(line_of "$1")" >"$work/out" 2>"$work/err"
}

# Makes a clone with some history in its initial state.
start_work() { # FOLDER
    rm -rf "$1"
    cp -Rp "$work/start" "$1"
    cd "$1"
    git branch base
    echo second >>quiche/src/clock.rs
    git commit -qam second
}

# Makes uncommitted changes of every kind.
do_work() {
    edit src/path.rs 's/path line 9/exported/'
    PATCH=20-careful-resume/01 patches
    echo 'ours' >>quiche/src/clock.rs
    echo 'new' >quiche/src/new.rs
    echo 'ours' >>scripts/series.sh
}

# Prints a hash of all files that a user could have written.
work_now() {
    { git status --porcelain -uall; git diff; cat quiche/src/*.rs; } | git hash-object --stdin
}

expect_edit() { # COMMAND
    grep -qx edited quiche/src/path.rs || fail "$1 lost an edit"
}

test_edits_that_patches_lacks() {
    make_releases
    use_cargo
    for command in $COMMANDS; do
        start_work "$work/clone"
        edit src/path.rs 's/path line 7/edited/'
        try "$command" || grep -q 'has edits that patches/ lacks: make patches keeps them' "$work/err" ||
            fail "$command does not say why it stops"
        expect_edit "$command"
        # The edit is still recognized.
        PATCH=10-fixes/01 patches
        grep -rqx -- '+edited' patches || fail "no patch has the edit after $command"
    done
}

test_what_is_not_committed() {
    make_releases
    use_cargo
    for command in $COMMANDS; do
        start_work "$work/clone"
        do_work
        before=$(work_now)
        try "$command" || true
        # quiche/ ends at the topic until then.
        if [ "$command" = topic ]; then quiche; fi
        [ "$(work_now)" = "$before" ] || fail "$command changed what was not committed"
    done
}

# ---- interrupted ----

# Programs that kill the whole run when their count is reached.
make_shims() {
    mkdir -p "$work/shims"
    for program in git cp mv rm; do
        real=$(command -v "$program")
        cat >"$work/shims/$program" <<END
#!/bin/sh
read -r left <"$work/left"
echo \$((left - 1)) >"$work/left"
[ "\$left" -gt 1 ] || kill -9 0
exec $real "\$@"
END
        chmod 755 "$work/shims/$program"
    done
}

# Runs a command and kills it before its COUNT-th program. Fails if the command ended
# before that.
cut_short() { # COMMAND COUNT
    echo "$2" >"$work/left"
    PATH="$work/shims:$PATH" setsid -w sh -c "$(line_of "$1")" >"$work/out" 2>"$work/err" || true
    [ "$(cat "$work/left")" -le 0 ]
}

test_a_run_that_is_cut_short_is_repeated() {
    make_releases
    use_cargo
    make_shims
    for command in $COMMANDS; do
        case $command in
        quiche | topic | patches | rebase) counts=$(seq 1 "$step" 200) ;;
        *) counts='5 40' ;;
        esac
        for count in $counts; do
            start_work "$work/clone"
            begin_work "$command"
            cut_short "$command" "$count" || break
            expect_edit_of "$command"
            FORCE='' try "$command" || FORCE=1 try_again "$command"
            expect_done "$command"
        done
    done
}

# A command that finds a partly written tree asks for FORCE=1.
try_again() { # COMMAND
    grep -q 'FORCE=1' "$work/err" || fail "$command cannot be repeated"
    case $command in quiche | topic | patches | rebase) fail "$command wants FORCE" ;; esac
    try "$1" || fail "$command cannot be repeated"
}

# Makes changes that the command processes or ignores.
begin_work() { # COMMAND
    case $1 in
    patches) edit src/path.rs 's/path line 7/edited/' ;;
    topic) edit src/path.rs 's/path line 7/edited/' ;;
    quiche)
        edit src/path.rs 's/path line 7/edited/'
        echo 10-fixes/01-clock.patch >patches/series
        ;;
    *) echo 'ours' >>quiche/src/clock.rs ;;
    esac
}

expect_edit_of() { # COMMAND
    case $1 in
    patches | quiche | topic) expect_edit "$1" ;;
    *) holds quiche/src/clock.rs ours ;;
    esac
}

# Checks the effect of the command.
expect_done() { # COMMAND
    case $1 in
    patches)
        holds patches/20-careful-resume/01-pacing.patch '+edited'
        check || fail "patches-check after patches"
        ;;
    quiche | topic)
        expect_edit "$1"
        lacks quiche/src/lib.rs 'lib line 20, paced'
        ;;
    rebase)
        holds patches/UPSTREAM 'version 0.2.0'
        holds quiche/src/lib.rs 'lib line twelve'
        check || fail "patches-check after rebase"
        ;;
    esac
    expect_edit_of "$1"
}

# ---- a full disk ----

# Mounts a disk of 8 MB at $work/disk, if permitted.
make_disk() {
    mkdir -p "$work/disk"
    mount -t tmpfs -o size=8m tmpfs "$work/disk" 2>/dev/null || return 1
    trap 'umount -l "$work/disk"; rm -rf "$work"' EXIT
}

# Fills the disk up to the given number of KB.
fill_disk() { # KB
    rm -f "$work/disk/filler"
    free=$(df -k --output=avail "$work/disk" | tail -n 1)
    dd if=/dev/zero of="$work/disk/filler" bs=1024 count=$((free - $1)) 2>/dev/null || true
}

# Runs a command with a limit of KB on the disk, or on the size of a file.
try_full() { # COMMAND KB
    status=0
    if [ -n "$disk" ]; then
        fill_disk "$2"
        try "$1" || status=$?
        rm "$work/disk/filler"
    else
        { (ulimit -f $(($2 * 2)) && try "$1"); } 2>/dev/null || status=$?
    fi
    return "$status"
}

try_each_with_little_room() { # FOLDER
    make_releases
    use_cargo
    for command in $COMMANDS; do
        for kb in $rooms; do
            start_work "$1"
            begin_work "$command"
            if try_full "$command" "$kb"; then break; fi
            expect_edit_of "$command"
            FORCE='' try "$command" || FORCE=1 try_again "$command"
            expect_done "$command"
        done
    done
    cd "$work"
}

# Interrupts git in the middle of a file.
test_files_that_cannot_be_written() {
    disk=
    try_each_with_little_room "$work/clone"
}

test_a_full_disk() {
    make_disk || { echo "$name: skipped, mounting a disk is not permitted here" >&2; return; }
    disk=1
    try_each_with_little_room "$work/disk/clone"
    umount "$work/disk"
    trap 'rm -rf "$work"' EXIT
}

run_tests "$@"
