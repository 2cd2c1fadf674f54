# Update of Cargo.lock after a change of the release (sourced).

# Lets cargo add the dependencies of the release in quiche/ and remove unused ones. If
# upstream has changed the version of a dependency, changes it here too, unless our
# version already differed.
update_lock() { # OLD-RELEASE
    [ -f Cargo.lock ] || return 0
    git show HEAD:Cargo.lock | locked_packages >"$tmp/before"
    fork_git show "$1:Cargo.lock" | locked_packages >"$tmp/upstream.old"
    locked_packages <quiche/Cargo.lock >"$tmp/upstream.new"
    cargo update -q --workspace || die "cargo cannot lock what the release needs, see above; then the same command again"
    locked_packages <Cargo.lock >"$tmp/now"
    {
        comm -13 "$tmp/before" "$tmp/now"
        comm -23 "$tmp/upstream.old" "$tmp/upstream.new" | comm -12 - "$tmp/now"
    } >"$tmp/candidates"
    for name in $(release_dependencies | sort -u); do
        awk -v name="$name" '$1 == name { exit 1 }' "$tmp/candidates" && continue
        wanted=$(awk -v name="$name" '$1 == name { print $2 }' "$tmp/upstream.new")
        [ -z "$wanted" ] || follow "$name" "$wanted"
    done
}

# The version may have changed already, together with another.
follow() { # NAME VERSION
    locked_packages <Cargo.lock | grep -qxF "$1 $2" && return
    cargo update -q -p "$1" --precise "$2" ||
        echo "upstream tests with $1 $2, which Cargo.lock cannot have; see above" >&2
}

# Prints name and version of each package, one on each line.
locked_packages() {
    awk '{ gsub("\"", "") } $1 == "name" { name = $3 } $1 == "version" && name { print name, $3; name = "" }' | sort
}

release_dependencies() {
    awk -v release="$(upstream_field name)" '{ gsub("[\",]", "") } $1 == "name" { mine = $3 == release }
        mine && NF == 1 && $1 ~ /^[a-z]/ { print $1 }' Cargo.lock
}
