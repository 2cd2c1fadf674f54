# Dependencies between the patches of a series: which earlier patches one needs to apply
# to the release, with unchanged context and at any line (sourced). Patches are numbers,
# their lines in $tmp/order; $tmp/closure/N has the patches that N needs, directly or not.

# Begins with the series DIR, before its first patch.
order_patches() { # DIR
    patches_dir=$(cd "$1" && pwd)
    series "$patches_dir" >"$tmp/order"
    mkdir -p "$tmp/closure"
    # The files to apply; a patch without hooks has an empty line.
    while read -r patch; do
        grep -lE '^--- ' "$patches_dir/$patch" || echo
    done <"$tmp/order" >"$tmp/order.files"
    release=$(upstream_commit)
}

patch_depends() { # FILE
    patch_header "$1" | sed -n 's/^Depends://p' | tr -s ' ,\t' '\n\n\n' | awk NF
}

# Prints patches and all that they need, in the order of the series.
with_needs() { # NUMBER…
    for needed; do
        echo "$needed"
        cat "$tmp/closure/$needed"
    done | sort -nu
}

# Applies the patches listed in a file to the release.
applies() { # NUMBERS-FILE
    scratch_git read-tree "$release"
    awk 'NR == FNR { wanted[$1]; next } FNR in wanted && NF' "$1" "$tmp/order.files" >"$tmp/files"
    [ -s "$tmp/files" ] || return 0
    # shellcheck disable=SC2046
    scratch_git apply --cached --whitespace=nowarn $(cat "$tmp/files") 2>"$tmp/apply"
}

# ---- what patches say ----

# Checks the Depends: of each patch of patches/: it must name all earlier patches that
# the patch needs.
check_depends() {
    order_patches patches
    number=0
    while read -r patch; do
        number=$((number + 1))
        with_needs $(declared_depends) >"$tmp/closure/$number"
        applies "$tmp/closure/$number" || continue # Said of one of them already.
        { cat "$tmp/closure/$number"; echo "$number"; } >"$tmp/wanted"
        applies "$tmp/wanted" ||
            complain "patches/$patch does not apply to the release with only what its Depends: names:" \
                "$(apply_error); make depends prints what it needs"
    done <"$tmp/order"
}

# Prints the numbers of the patches that the Depends: of $patch names.
declared_depends() {
    for dependency in $(patch_depends "patches/$patch"); do
        [ "$dependency" != none ] || continue
        awk -v name="$dependency" 'index($0, name) == 1 { print NR }' "$tmp/order" >"$tmp/matches"
        says="patches/$patch says Depends: $dependency"
        case $(wc -l <"$tmp/matches" | tr -d ' ') in
        0) complain "$says, and no patch of patches/series begins so" ;;
        1)
            if [ "$(cat "$tmp/matches")" -ge "$number" ]; then
                complain "$says, which is not before it in patches/series"
            else
                cat "$tmp/matches"
            fi
            ;;
        *) complain "$says, and several patches begin so" ;;
        esac
        case $patch in
        10-fixes/*)
            [ "${dependency%%/*}" = 10-fixes ] ||
                complain "$says, but a fix needs nothing but fixes: move one of the two"
            ;;
        esac
    done
}

# ---- what patches need ----

# Sets $tmp/closure/N and $tmp/direct/N for each patch of a series from its hunks alone.
# Starts from the earlier patches that change the same files, and drops each one without
# which the patch still applies, the latest first.
find_depends() { # DIR
    order_patches "$1"
    mkdir -p "$tmp/direct" "$tmp/changes"
    number=0
    while read -r patch; do
        number=$((number + 1))
        sed -n 's,^--- a/,,p' "$patches_dir/$patch" | sort >"$tmp/changes/$number"
        earlier_neighbours >"$tmp/direct/$number"
        needs_only $(cat "$tmp/direct/$number") ||
            die "$patch does not apply after the patches before it that change the same files: $(apply_error)"
        for candidate in $(sort -nr "$tmp/direct/$number"); do
            grep -vxF "$candidate" "$tmp/direct/$number" >"$tmp/rest" || true
            if needs_only $(cat "$tmp/rest"); then cp "$tmp/rest" "$tmp/direct/$number"; fi
        done
        with_needs $(cat "$tmp/direct/$number") >"$tmp/closure/$number"
    done <"$tmp/order"
}

earlier_neighbours() {
    earlier=1
    while [ "$earlier" -lt "$number" ]; do
        [ -z "$(comm -12 "$tmp/changes/$earlier" "$tmp/changes/$number")" ] || echo "$earlier"
        earlier=$((earlier + 1))
    done
}

# Does patch $number apply to the release with these and what they need?
needs_only() { # NUMBER…
    { with_needs "$@"; echo "$number"; } >"$tmp/wanted"
    applies "$tmp/wanted"
}
