#!/bin/sh
# Tests of scripts/setup.sh, with fakes of the tools that it looks for.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LIBCLANG_PATH=/nowhere # libclang is not looked for

for tool in sh sed awk sort cat dirname git make gcc g++ pkg-config redis-server; do
    mkdir -p "$work/base"
    ln -s "$(command -v "$tool" || command -v true)" "$work/base/$tool"
done
mkdir -p "$work/repo/scripts"
cp "$here/setup.sh" "$here/packages.sh" "$work/repo/scripts"
echo 'rust-version = "1.88"' >"$work/repo/Cargo.toml"

tool() { # NAME SHELL-LINES
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# Starts a case: a user who is not root, with all tools.
begin() {
    rm -rf "$work/bin" "$work/log"
    mkdir "$work/bin"
    tool id 'echo 1000'
    tool cmake true
    tool cargo 'echo "cargo 1.95.0 (x 2026-01-01)"'
}

setup() { PATH="$work/bin:$work/base" sh "$work/repo/scripts/setup.sh" >"$work/out" 2>&1; }

expect() { # TEXT
    grep -qF -- "$1" "$work/out" || { echo "FAILED: expected $1, got $(cat "$work/out")" >&2; exit 1; }
}

begin # nothing missing: silent
setup
[ ! -s "$work/out" ] || expect nothing

begin # something missing, and no right to install it
rm "$work/bin/cmake"
tool apt-get 'exit 9'
if setup; then expect failure; fi
expect 'run: sudo apt-get install -y --no-install-recommends cmake'

begin # root installs
rm "$work/bin/cmake"
tool id 'echo 0'
tool apt-get "echo \"\$*\" >>$work/log; case \$* in *cmake*) ln -s /bin/true $work/bin/cmake ;; esac"
ln -s /bin/ln "$work/bin/ln"
setup
grep -q 'install .*cmake' "$work/log"

begin # another system: the list of what is missing
rm "$work/bin/cmake"
if setup; then expect failure; fi
expect "(Debian's names): cmake"

begin # Rust too old, or missing
tool cargo 'echo "cargo 1.80.1 (x 2024-01-01)"'
if setup; then expect failure; fi
expect 'Rust 1.80.1 is too old, 1.88 is needed: rustup update stable'
rm "$work/bin/cargo"
if setup; then expect failure; fi
expect 'Rust is missing'

echo "test-setup: passed"
