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
    length=$(sed -n '1s/^Subject: *//p' "$tmp/header" | awk '{ print length($0) }')
    [ "${length:-0}" -le 60 ] || complain "patches/$1 has a Subject: of $length letters, 60 is the most"
    for trailer in Kind Depends Spec Forwarded Tests; do
        grep -q "^$trailer: *[^ ]" "$tmp/header" || complain "patches/$1 has no line $trailer:"
    done
    sed 1d "$tmp/header" | grep -v '^[A-Z][A-Za-z-]*: ' | grep -q . || complain "patches/$1 does not say why it is there"
    if grep -q TODO "$tmp/header"; then complain "patches/$1 still has a TODO in its header"; fi
    kind=$(sed -n 's/^Kind: *//p' "$tmp/header")
    wanted=$(topic_kind "${1%%/*}")
    [ -z "$kind" ] || [ -z "$wanted" ] || [ "$kind" = "$wanted" ] ||
        complain "patches/$1 says Kind: $(echo $kind), and ${1%%/*} has the kind $wanted: correct the line, or move the patch"
    if sed -n 's/^Forwarded: *//p' "$tmp/header" | grep -Evqx 'no|https://[^ ]+'; then
        complain "patches/$1 says in Forwarded: something else than no, or the https:// address of an issue or a pull request"
    fi
    [ "$wanted" != performance ] || check_figure "$1"
    patch_tests "patches/$1" >"$tmp/tests"
    while read -r path; do
        git ls-files --error-unmatch "$path" >/dev/null 2>&1 || complain "patches/$1 says Tests: $path, which git does not track"
    done <"$tmp/tests"
}

# Checks that the header has one Figure:, a number and the command that shows it.
check_figure() { # PATCH
    sed -n 's/^Figure: *//p' "$tmp/header" >"$tmp/figure"
    if [ "$(wc -l <"$tmp/figure")" -ne 1 ] || ! grep -Eq '[0-9].*; (make|cargo) [^ ]' "$tmp/figure"; then
        complain "patches/$1 must have one line Figure:, with a number and the command that shows it, as -1.2 % …; make patch-cost PATCH=$(patch_id "$1")"
        return
    fi
    command=$(sed 's/.*; //' "$tmp/figure")
    case $command in
    *PATCH=*) echo "$command " | grep -qF "PATCH=$(patch_id "$1") " || complain "patches/$1 has the command of another patch in Figure:, $command" ;;
    esac
    target=$(echo "$command" | sed -n 's/^make \([^ ]*\).*/\1/p')
    [ -z "$target" ] || grep -q "^$target:" Makefile || complain "patches/$1 says make $target in Figure:, which is not in the Makefile"
}

# Checks that the Bug: lines and the table of docs/adopting.md name the same threads: the row
# with a patch's subject has all of its addresses, and no others.
check_threads() {
    for patch in $(series patches); do
        subject=$(sed -n '1s/^Subject: *//p' "patches/$patch")
        patch_header "patches/$patch" | sed -n "s/^Bug: *//p" |
            while read -r thread; do printf '%s\t%s\n' "$thread" "$subject"; done
    done | sort >"$tmp/threads"
    [ -f docs/adopting.md ] && page=docs/adopting.md || page=/dev/null
    awk -F ' *[|] *' '/^[|]/ {
        for (rest = $0; match(rest, /[(]https:[^)]*[)]/); rest = substr(rest, RSTART + RLENGTH))
            print substr(rest, RSTART + 1, RLENGTH - 2) "\t" $2
    }' "$page" | sort -u >"$tmp/rows"
    comm -23 "$tmp/threads" "$tmp/rows" >"$tmp/differences"
    while read -r thread subject; do
        complain "the patch \"$subject\" says Bug: $thread, which its row in docs/adopting.md lacks"
    done <"$tmp/differences"
    comm -13 "$tmp/threads" "$tmp/rows" >"$tmp/differences"
    while read -r thread subject; do
        complain "docs/adopting.md has $thread in the row \"$subject\", and no patch with this subject says Bug: $thread"
    done <"$tmp/differences"
}

# Checks that the topics are known and in order, and that each numbers its patches in
# their order, from 01.
check_numbers() {
    series patches | awk -F/ '{ wanted = sprintf("%s/%02d-", $1, ++count[$1]) } index($0, wanted) != 1 { print $0, wanted }' >"$tmp/numbers"
    while read -r patch wanted; do
        complain "patches/series has $patch where ${wanted}… belongs: rename the file, and its line there"
    done <"$tmp/numbers"
    before=
    for topic in $(topics); do
        [ -n "$(topic_kind "$topic")" ] ||
            complain "patches/$topic is no topic, they are $(echo "$TOPICS" | cut -d' ' -f1 | paste -sd ' ' -)"
        [ -z "$before" ] || [ "$(printf '%s\n%s\n' "$before" "$topic" | sort -u | tail -n 1)" != "$before" ] ||
            complain "patches/series has $topic after $before: a topic's patches are together, and topics in ascending order"
        before=$topic
    done
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
