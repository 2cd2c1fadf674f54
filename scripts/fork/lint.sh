# Rules for each patch of the series (sourced).

# Limit on the lines that a patch adds to and removes from upstream's files: a hook has a
# few lines at each place, and logic belongs in a file of ours. The largest patches have
# 25 places.
HOOK_LINES_MAX=120

complain() {
    echo "error: $*" >>"$tmp/complaints"
}

# Checks that the header has a reason and the trailers, and no TODO.
check_header() { # PATCH
    patch_header "patches/$1" >"$tmp/header"
    head -n 1 "$tmp/header" | grep -q '^Subject: .' || complain "patches/$1 does not begin with Subject:"
    for trailer in Spec Upstream-Status Tested-by; do
        grep -q "^$trailer: *[^ ]" "$tmp/header" || complain "patches/$1 has no line $trailer:"
    done
    sed 1d "$tmp/header" | grep -v '^[A-Z][A-Za-z-]*: ' | grep -q . || complain "patches/$1 does not say why it is there"
    if grep -q TODO "$tmp/header"; then complain "patches/$1 still has a TODO in its header"; fi
    sed -n 's/^Tested-by: *//p' "$tmp/header" | tr -s ', ' '\n\n' | grep . >"$tmp/tests" || true
    while read -r path; do
        git ls-files --error-unmatch "$path" >/dev/null 2>&1 || complain "patches/$1 says Tested-by: $path, which git does not track"
    done <"$tmp/tests"
}

# Checks that patches are numbered in their order, from 0001.
check_numbers() {
    series patches | awk '{ wanted = sprintf("%04d-", NR) } index($0, wanted) != 1 { print $0, wanted }' >"$tmp/numbers"
    while read -r patch wanted; do
        complain "patches/series has $patch where ${wanted}… belongs: rename the file, and its line there"
    done <"$tmp/numbers"
}

check_hooks() { # PATCH
    lines=$(sed '1,/^--- /d' "patches/$1" | grep -v '^---\|^+++' | grep -c '^[+-]' || true)
    [ "$lines" -le "$HOOK_LINES_MAX" ] ||
        complain "patches/$1 changes $lines lines of upstream's files, $HOOK_LINES_MAX is the most: move logic to a file of ours"
    # The package has both files; upstream's repository has the latter only.
    if grep -qx -- '--- a/Cargo.toml' "patches/$1" && ! grep -qx -- '--- a/Cargo.toml.orig' "patches/$1"; then
        complain "patches/$1 changes Cargo.toml alone: change quiche/Cargo.toml.orig as well, make export LAYOUT=repo takes it from there"
    fi
}

# Checks hooks and our own files.
check_whitespace() { # SERIES-TIP
    fork_git rev-list --reverse "$1" >"$tmp/commits"
    fork_git diff-tree --check "$(head -n 1 "$tmp/commits")" "$1" >"$tmp/whitespace" || true
    sed -n 's/^\([^+].*\)$/quiche\/\1/p' "$tmp/whitespace" >"$tmp/places"
    while read -r place; do complain "$place"; done <"$tmp/places"
}
