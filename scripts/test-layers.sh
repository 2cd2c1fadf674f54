#!/bin/sh
# Tests of layers-check.sh, on our own sources with one forbidden import, and of
# headlines-check.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

server=apps/edge-server/src
link=tools/link/src

# Appends a line to FILE, and checks that the check fails with one line with each TEXT.
planted() { # FILE LINE TEXT…
    file=$1
    printf '%s\n' "$2" >>"$work/$file"
    shift 2
    if LAYERS_ROOT="$work" sh "$here/layers-check.sh" >"$work/out" 2>&1; then
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

# Checks that headlines-check.sh refuses a file with this TEXT, with one line that has MESSAGE.
refused() { # TEXT MESSAGE
    printf '%s\n' "$1" >"$work/$server/planted.rs"
    if HEADLINES_ROOT="$work" sh "$here/headlines-check.sh" >"$work/out" 2>&1; then
        echo "FAILED: passes: $1" >&2
        exit 1
    fi
    [ "$(grep -cF -- "$server/planted.rs: $2" "$work/out")" -eq 1 ] || {
        echo "FAILED: expected once: $2" >&2
        cat "$work/out" >&2
        exit 1
    }
    rm "$work/$server/planted.rs"
}

cd "$here/.."
for crate in apps tools; do
    find "$crate" -path '*/src/*.rs'
done | tar -cf - -T - | tar -xf - -C "$work"
LAYERS_ROOT="$work" sh "$here/layers-check.sh"

planted $server/http/date.rs 'use crate::quic::random;' "upward import: $server/http/date.rs of $server/quic/random.rs"
planted $server/config/mod.rs 'const A: u8 = crate::net::route::A;' "upward import: $server/config/mod.rs of $server/net/route.rs"
planted $link/error.rs 'use crate::named::PacketNumbers;' "circle of imports" "$link/error.rs" "$link/named.rs"
planted $link/rate.rs 'use super::transmitter::Transmitter;' "$link/transmitter.rs"
mkdir "$work/$server/attic"
planted $server/attic/mod.rs 'use crate::config::Config;' "$server/attic/mod.rs is in a folder without a layer"

HEADLINES_ROOT="$work" sh "$here/headlines-check.sh"
refused 'use std::io;' 'begin with a line //! that names the subject'
refused '//! What a worker does.' 'begin with the term, not with a question word'
refused "$(printf '//! Worker.\n//!\n//! When it ends.')" 'begin with the term, not with a question word'
