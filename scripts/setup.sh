#!/bin/sh
# make setup: checks what a build needs beyond git, make and Rust. As root it installs
# missing Debian packages; otherwise it prints the command to run.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

# bindgen loads libclang and reads clang's own headers.
have_libclang() {
    if [ -n "${LIBCLANG_PATH:-}" ]; then return 0; fi
    for lib in /usr/lib/llvm-*/lib/libclang*.so* /usr/lib64/libclang.so* /usr/lib/libclang.so* \
        /Library/Developer/CommandLineTools/usr/lib/libclang.dylib; do
        [ -e "$lib" ] || continue
        for header in /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h \
            /usr/lib64/clang/*/include/stddef.h /Library/Developer/CommandLineTools/usr/lib/clang/*/include/stddef.h; do
            [ -e "$header" ] && return 0
        done
    done
    return 1
}

missing_packages() {
    while read -r command package; do
        command -v "$command" >/dev/null || printf '%s ' "$package"
    done <<END
git git
make make
cmake cmake
gcc gcc
g++ g++
pkg-config pkg-config
redis-server redis-server
END
    have_libclang || printf 'libclang-dev '
}

check_rust() {
    command -v cargo >/dev/null || die "Rust is missing: install it from https://rustup.rs, then run this again"
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(cargo --version | awk '{ print $2 }')
    printf '%s\n%s\n' "$wanted" "$found" | sort -V -C ||
        die "Rust $found is too old, $wanted is needed: rustup update stable"
}

packages=$(missing_packages)
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086
    install_packages $packages
    packages=$(missing_packages)
    [ -z "$packages" ] || die "installed, but still not found: $packages"
fi
check_rust
