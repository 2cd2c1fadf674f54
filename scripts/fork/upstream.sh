# Release of upstream, from patches/UPSTREAM to a commit (sourced).

# Prints the path of the release's .crate in cargo's cache, if it exists and has the
# given sha256.
cached_crate() { # NAME-VERSION [SHA256]
    for crate in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/"$1.crate"; do
        [ -f "$crate" ] || continue
        [ -n "${2:-}" ] || { echo "$crate"; return; }
        found=$(git_sha256 "$crate")
        [ "$found" = "$2" ] ||
            die "$crate has sha256 $found, patches/UPSTREAM says $2: correct the pin, or delete that file if it is damaged"
        echo "$crate"
        return
    done
}

git_sha256() { # FILE
    if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# Prints the path of the release's .crate, downloading it if necessary.
fetched_crate() { # NAME VERSION [SHA256]
    crate=$(cached_crate "$1-$2" "${3:-}")
    if [ -z "$crate" ]; then
        echo "downloading $1 $2" >&2
        # Outside the workspace, since cargo refuses one with a missing member. Only `info`
        # downloads a package without its dependencies.
        (cd "$tmp" && cargo info -q "$1@$2") >"$tmp/info" 2>&1 ||
            die "cargo cannot download $1 $2: $(tail -n 1 "$tmp/info")"
        crate=$(cached_crate "$1-$2" "${3:-}")
        [ -n "$crate" ] || die "cargo left no $1-$2.crate in ${CARGO_HOME:-$HOME/.cargo}/registry/cache"
    fi
    echo "$crate"
}

# Prints the commit of the release, downloading it if this clone lacks it.
upstream_commit() {
    name=$(upstream_field name)
    version=$(upstream_field version)
    sha256=$(upstream_field sha256)
    fork_git rev-parse -q --verify "refs/upstream/$sha256" && return

    crate=$(fetched_crate "$name" "$version" "$sha256")
    rm -rf "$tmp/crate"
    mkdir "$tmp/crate"
    tar -xzf "$crate" -C "$tmp/crate"
    # Written by cargo package; not a file of the project.
    rm -f "$tmp/crate/$name-$version/.cargo_vcs_info.json"
    rm -f "$tmp/index"
    scratch_git --work-tree="$tmp/crate/$name-$version" -C "$tmp/crate/$name-$version" \
        -c core.fileMode=true add -A -f .
    printf '%s %s\n\nThe release on crates.io, sha256 %s.\n' "$name" "$version" "$sha256" >"$tmp/message"
    commit=$(fork_commit 0 "$tmp/message" "$(scratch_git write-tree)")
    fork_git update-ref "refs/upstream/$sha256" "$commit"
    echo "$commit"
}
