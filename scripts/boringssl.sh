# BoringSSL for other workspaces: sourced in the repository's root. BoringSSL takes minutes
# to build, so that workspaces with the same version use the working copy's build.

lend_boringssl() { # FOLDER
    [ -f "$1/Cargo.lock" ] || return 0
    version=$(boring_version "$1/Cargo.lock")
    lent=$PWD/target/boringssl-$version
    [ -d "$lent" ] || copy_boringssl || return 0
    export BORING_BSSL_PATH="$lent"
}

boring_version() { # LOCK-FILE
    awk '{ gsub("\"", "") } $1 == "name" { mine = $3 == "boring-sys" } mine && $1 == "version" { print $3 }' "$1"
}

# The newest build has the version of the working copy's Cargo.lock.
copy_boringssl() {
    [ "$(boring_version Cargo.lock)" = "$version" ] || return 1
    # shellcheck disable=SC2012
    built=$(ls -t target/debug/build/boring-sys-*/out/build/libssl.a 2>/dev/null | head -n 1)
    [ -n "$built" ] || return 1
    built=${built%/build/libssl.a}
    rm -rf "$lent.next"
    mkdir "$lent.next" "$lent.next/lib"
    cp "$built/build/libssl.a" "$built/build/libcrypto.a" "$lent.next/lib"
    cp -R "$built/boringssl/include" "$lent.next"
    mv "$lent.next" "$lent"
}
