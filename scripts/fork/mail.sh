# Series as mail patches for `git am`, in the layout of the released package or of
# upstream's repository (sourced).

# Makes the series in the layout of upstream's repository: under quiche/, with the
# original manifest, which the package has as Cargo.toml.orig. Prints the tip.
move_to_repository() { # TIP
    commit=
    number=0
    for step in $(fork_git rev-list --reverse "$1"); do
        rm -f "$tmp/index"
        scratch_git read-tree --prefix=quiche/ "$step"
        manifest=$(scratch_git ls-files -s quiche/Cargo.toml.orig | cut -d' ' -f1,2 | tr ' ' ,)
        if [ -n "$manifest" ]; then
            scratch_git rm -q --cached quiche/Cargo.toml.orig
            scratch_git update-index --add --cacheinfo "$manifest,quiche/Cargo.toml"
        fi
        fork_git log -1 --format=%B "$step" >"$tmp/message"
        commit=$(fork_commit "$number" "$tmp/message" "$(scratch_git write-tree)" "$commit")
        number=$((number + 1))
    done
    echo "$commit"
}

# Writes the commits after BASE to OUT, one mail each, and checks that they reproduce
# the tree.
write_mails() { # BASE TIP OUT
    fork_git format-patch -q -o "$3" --zero-commit --no-signature --full-index --binary \
        --no-renames --no-ext-diff --no-color -U3 --src-prefix=a/ --dst-prefix=b/ "$1..$2"
    # A patch whose hooks are in the release, and which adds nothing.
    find "$3" -type f -size 0 -exec rm {} +
    rm -rf "$tmp/am"
    plain_git clone -q --shared --no-checkout "$fork" "$tmp/am"
    (
        cd "$tmp/am"
        plain_git checkout -q --detach "$1"
        plain_git -c user.name=t -c user.email=t@invalid am -q --keep-cr "$3"/*.patch >"$tmp/am.said" 2>&1 &&
            [ "$(plain_git rev-parse 'HEAD^{tree}')" = "$(plain_git rev-parse "$2^{tree}")" ]
    ) || die "git am does not give the series back: $(head -n 1 "$tmp/am.said")"
    rm -rf "$tmp/am"
}
