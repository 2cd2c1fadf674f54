# Testbed of the fork's scripts (sourced by their tests): a temporary clone with a small
# release, assertions, and the test run. Each test_* function of a script starts from
# the same state: two topics with a patch each, written to quiche/.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

export CARGO_HOME="$work/cargo" CARGO_NET_OFFLINE=true GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
unset FORCE TOPIC DIR NEW PATCH FILES RUN ABOVE BELOW BUILD GOOD BAD UPSTREAM ABORT LAYOUT OUT BASE COLOR
# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars)

# ---- the state every test starts from ----

# Adds a release to cargo's cache and unpacks it in $work; sets $sha256.
make_release() { # VERSION [SED-SCRIPT for src/lib.rs]
    mkdir -p "$work/tiny-$1/src" "$CARGO_HOME/registry/cache/local"
    (
        cd "$work/tiny-$1"
        echo '{}' >.cargo_vcs_info.json
        echo 'upstream readme' >README.md
        printf '[package]\nname = "tiny"\nversion = "%s"\n' "$1" >Cargo.toml
        printf '[package]\nname.workspace = true\nversion = "%s"\n' "$1" >Cargo.toml.orig
        echo 'exit' >run.sh
        chmod 755 run.sh
        seq -f 'lib line %g' 30 | sed "${2:-}" >src/lib.rs
        seq -f 'path line %g' 30 >src/path.rs
    )
    tar -czf "$CARGO_HOME/registry/cache/local/tiny-$1.crate" -C "$work" "tiny-$1"
    sha256=$(sha256sum "$CARGO_HOME/registry/cache/local/tiny-$1.crate" | cut -d' ' -f1)
}

# 0.2.0 changes lines above the hooks; 0.3.0 changes lines of a hook.
make_releases() {
    make_release 0.2.0 '1s/^/new\nnew\n/; s/lib line 12/lib line twelve/'
    make_release 0.3.0 's/lib line 20$/lib line twenty/'
}

header() { # SUBJECT KIND [OWN-FILE…]
    printf 'Subject: %s\n\nBecause.\n\nKind: %s\nDepends: none\nSpec: none\nForwarded: no\nTests: scripts/test-fork.sh\n' "$1" "$2"
    shift 2
    for path; do echo "Adds: $path"; done
}

make_clone() {
    git init -q "$work/start"
    cd "$work/start"
    mkdir -p quiche/src patches/10-fixes patches/20-careful-resume
    printf '/target\n/results\n' >.gitignore
    cp -R "$here" scripts
    printf 'name tiny\nversion 0.1.0\nsha256 %s\n' "$sha256" >patches/UPSTREAM
    echo '# ours' >quiche/FORK.md
    echo 'clock' >quiche/src/clock.rs
    printf '10-fixes/01-clock.patch\n20-careful-resume/01-pacing.patch\n' >patches/series
    header clock fix src/clock.rs >patches/10-fixes/01-clock.patch
    cat >>patches/10-fixes/01-clock.patch <<'END'

--- a/src/lib.rs
+++ b/src/lib.rs
@@ -3,4 +3,5 @@ lib line 2
 lib line 3
 lib line 4
 lib line 5
+mod clock;
 lib line 6
END
    header pacing feature >patches/20-careful-resume/01-pacing.patch
    cat >>patches/20-careful-resume/01-pacing.patch <<'END'

--- a/src/lib.rs
+++ b/src/lib.rs
@@ -18,7 +18,7 @@ lib line 16
 lib line 17
 lib line 18
 lib line 19
-lib line 20
+lib line 20, paced
 lib line 21
 lib line 22
 lib line 23
END
    quiche
    patches
    git add .
    git commit -qm start
}

# A fake cargo, which finds the errors to report in quiche/src/lib.rs.
use_cargo() {
    mkdir -p "$work/bin"
    cat >"$work/bin/cargo" <<'END'
#!/bin/sh
echo "$1 $(grep -c . quiche/src/lib.rs) $*" >>"$CARGO_LOG"
echo 'warning: `other` (build script) says so'
if grep -q "will not compile" quiche/src/lib.rs; then echo 'error: no'; exit 101; fi
case "$*" in
*qlog*) if grep -q "compiles without qlog" quiche/src/lib.rs; then exit 101; fi ;;
*)
    if grep -q "will warn" quiche/src/lib.rs; then echo 'quiche/src/lib.rs:28:1: warning: odd'; fi
    if grep -q "unused" quiche/src/lib.rs; then echo 'quiche/src/lib.rs:28:1: warning: function `f` is never used'; fi
    ;;
esac
END
    chmod 755 "$work/bin/cargo"
    echo '# lock' >Cargo.lock
    export PATH="$work/bin:$PATH" CARGO_LOG="$work/cargo.log"
    : >"$CARGO_LOG"
}

quiche() { sh scripts/quiche.sh 2>"$work/err"; }
patches() { sh scripts/patches.sh 2>"$work/err"; }
check() { sh scripts/patches-check.sh 2>"$work/err"; }

# ---- assertions ----

fail() {
    echo "FAILED $name: $*" >&2
    sed 's/^/    /' "$work/err" >&2
    exit 1
}

says() { # TEXT: the last command said so, in one line
    grep -qF -- "$1" "$work/err" || fail "expected: $1"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "expected one line"
}

refuses() { # COMMAND TEXT
    if "$1"; then fail "$1 succeeded"; fi
    says "$2"
}

holds() { # FILE LINE
    grep -qxF -- "$2" "$1" || fail "$1 lacks: $2"
}

lacks() { # FILE LINE
    if grep -qxF -- "$2" "$1"; then fail "$1 has: $2"; fi
}

edit() { # FILE SED-SCRIPT
    sed "$2" "quiche/$1" >"$work/edit"
    cat "$work/edit" >"quiche/$1"
}

backdate() {
    find quiche -type f -exec touch -t 202001010000 {} +
    touch -t 202001020000 "$work/mark"
}

rewritten() {
    find quiche -type f -newer "$work/mark" | sort | paste -sd ' ' -
}

# ---- run ----

# Runs the tests of this script, or those that match a pattern.
run_tests() { # [PATTERN]
    name=set-up
    make_release 0.1.0
    (make_clone) || fail "no state to start from"
    count=0
    for name in $(sed -n 's/^\(test_[a-z0-9_]*\)().*/\1/p' "$here/$(basename "$0")" | grep -e "${1:-.}"); do
        run_test
    done
    echo "$(basename "$0" .sh): $count tests passed"
}

run_test() {
    rm -rf "$work/clone" "$work/second"
    cp -Rp "$work/start" "$work/clone"
    cd "$work/clone"
    # Not `( … ) ||`: that would switch `set -e` off inside.
    set +e
    (set -e; $name)
    status=$?
    set -e
    [ $status -eq 0 ] || fail "stopped"
    count=$((count + 1))
}
