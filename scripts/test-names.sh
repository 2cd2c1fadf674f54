#!/bin/sh
# Tests of names-check.sh, on our own sources with one name too many.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

store=apps/path-store/src
tests=apps/path-store/tests

check() {
    NAMES_ROOT="$work" sh "$here/names-check.sh" >"$work/out" 2>&1
}

# Plants a line at the end of FILE. The check fails, and its one line has each TEXT.
planted() { # FILE LINE TEXT…
    file=$1
    printf '%s\n' "$2" >>"$work/$file"
    shift 2
    if check; then
        echo "FAILED: $file: passes" >&2
        exit 1
    fi
    for text; do
        [ "$(grep -cF -- "$text" "$work/out")" -eq 1 ] || {
            echo "FAILED: $file: expected once: $text" >&2
            cat "$work/out" >&2
            exit 1
        }
    done
    sed -i '$d' "$work/$file"
}

# Plants a line at the end of FILE, of which the check says nothing.
passes() { # FILE LINE
    printf '%s\n' "$2" >>"$work/$1"
    check || {
        echo "FAILED: $1: refused: $2" >&2
        cat "$work/out" >&2
        exit 1
    }
    sed -i '$d' "$work/$1"
}

cd "$here/.."
find apps/path-store apps/edge-server/src tools/link -name '*.rs' -o -name Cargo.toml | tar -cf - -T - | tar -xf - -C "$work"
check || {
    cat "$work/out" >&2
    exit 1
}

planted $store/backend.rs 'pub enum RedisStore {' "$store/backend.rs" "$store/redis/mod.rs"
planted $store/location.rs 'type BootClock = ();' "$store/boot_clock.rs" "$store/location.rs"
planted $tests/support/mod.rs '    pub(super) struct SqliteStore;' "$store/sqlite/mod.rs" "$tests/support/mod.rs"
planted $store/lib.rs 'fn f() { PathStateStore::mute() }' "$store/lib.rs" "mute is now suppressed"

# Another package may have the name, and so may a trait its associated type.
passes tools/link/src/lib.rs 'struct RedisStore;'
passes tools/link/src/lib.rs '    type Err = u8;'
passes $store/lib.rs '// Not mute any more.'
passes $store/lib.rs 'fn unmute() {}'
