# Paths, a git that ignores the user's configuration, and the reading of patches/
# (sourced by the scripts of the fork).
#
# The generated repository ($fork) lives in this clone's git directory:
#   index              state of quiche/ when it was last written, so that `diff-files`
#                      shows the edits that patches/ lacks
#   stamp              hash of the patches/ of that state, and the TOPIC of make quiche
#   replace            temporary copy of the files that replace patches/
#   rebase             the current rebase (scripts/rebase.sh)
#   refs/upstream/SHA  the release with that sha256, as one commit
#   refs/heads/hooks   the release, then a commit for each patch, upstream's files only
#   refs/heads/series  the same with our own files (scripts/series.sh)

set -eu
export LC_ALL=C
unset CDPATH

die() {
    echo "error: $*" >&2
    exit 1
}

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
# A git hook that calls these scripts sets GIT_DIR and similar variables.
# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars)
# The fork's history is kept in the clone's git directory.
fork=$(git rev-parse --git-path fork 2>&1) ||
    die "git does not take $root for a clone of this repository: $(echo "$fork" | head -n 1)"
case $fork in
/*) ;;
*) fork=$root/$fork ;;
esac
mkdir -p "$fork" quiche

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

# Runs git on the generated repository, inside quiche/.
fork_git() {
    plain_git -C "$root/quiche" --git-dir="$fork" --work-tree="$root/quiche" "$@"
}

plain_git() {
    GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 git "$@"
}

with_index() { # INDEX-FILE GIT-ARGUMENT…
    (
        export GIT_INDEX_FILE="$1"
        shift
        fork_git "$@"
    )
}

scratch_git() {
    with_index "$tmp/index" "$@"
}

# Allows one writer at a time; the lock ends with the process.
fork_lock() {
    exec 9>"$fork/lock"
    if command -v flock >/dev/null; then
        flock 9
        # Left by a killed git: this process holds the lock.
        rm -f "$fork"/*.lock "$fork"/refs/*/*.lock
    fi
    finish_replacing
    [ -f "$fork/info/attributes" ] && return
    plain_git init -q --bare --template= --object-format=sha1 "$fork"
    for setting in core.bare core.fileMode core.autocrlf; do
        plain_git --git-dir="$fork" config "$setting" false
    done
    mkdir -p "$fork/info"
    echo '* -text -ident -filter -working-tree-encoding' >"$fork/info/attributes"
}

# Stores a tree as a commit that only depends on its arguments; prints its id.
fork_commit() { # NUMBER MESSAGE-FILE TREE [PARENT]
    (
        export GIT_AUTHOR_NAME=quiche-resume GIT_AUTHOR_EMAIL=quiche-resume@invalid
        export GIT_COMMITTER_NAME=quiche-resume GIT_COMMITTER_EMAIL=quiche-resume@invalid
        export GIT_AUTHOR_DATE="$((1767225600 + $1)) +0000"
        export GIT_COMMITTER_DATE="$GIT_AUTHOR_DATE"
        fork_git commit-tree "$3" ${4:+-p "$4"} <"$2"
    )
}

upstream_field() { # name | version | sha256
    pin=${pin:-patches/UPSTREAM}
    [ -f "$pin" ] || die "$pin is missing"
    value=$(awk -v field="$1" '$1 == field { print $2 }' "$pin")
    [ -n "$value" ] || die "$pin has no line '$1 …'"
    echo "$value"
}

series() { # DIR
    if [ -f "$1/series" ]; then sed 's/#.*//' "$1/series" | awk 'NF { print $1 }'; fi
}

# Prints what is enough of a patch's name to choose it: the topic and the number.
patch_id() { # NAME
    case $1 in
    */*) number_on=${1#*/} && echo "${1%%/*}/${number_on%%-*}" ;;
    *) echo "${1%%-*}" ;;
    esac
}

# Prints the number in the series of the patch whose name begins with VALUE.
patch_number() { # VARIABLE VALUE
    series patches | awk -v name="${2%.patch}" 'index($0, name) == 1 { print NR, $0 }' >"$tmp/matches"
    case $(wc -l <"$tmp/matches" | tr -d ' ') in
    0) die "$1=$2: no patch of patches/series begins so" ;;
    1) cut -d' ' -f1 "$tmp/matches" ;;
    *) die "$1=$2: several patches begin so: $(cut -d' ' -f2 "$tmp/matches" | sed '4{s/.*/…/;q;}' | paste -sd ' ' -)" ;;
    esac
}

# Prints the lines above the first hunk.
patch_header() { # FILE
    sed '/^diff --git /,$d; /^--- /,$d' "$1"
}

patch_adds() { # FILE
    patch_header "$1" | sed -n 's/^Adds://p' | tr -s ' \t' '\n\n' | awk NF
}

patch_tests() { # FILE
    patch_header "$1" | sed -n 's/^Tests://p' | tr -s ', \t' '\n\n\n' | awk NF
}

patch_message() { # FILE
    patch_header "$1" | sed '1s/^Subject: *//'
}

# Prints the message without the tests that other trees do not have.
exported_message() { # FILE
    patch_message "$1" | sed -E '/^Tests: *(apps|crates|fuzz|scripts|tools)\//d'
}

# Prints a hash of patches/.
patches_stamp() {
    for patch in $(series patches); do
        [ -f "patches/$patch" ] || die "patches/series names $patch, which is not in patches/"
    done
    series patches | sed 's,^,patches/,' >"$tmp/stamp.list"
    # shellcheck disable=SC2046
    cat patches/UPSTREAM "$tmp/stamp.list" $(cat "$tmp/stamp.list") | git hash-object --stdin
}

# Replaces patches/ by the files in DIR, all or none: copies them to $fork first. The
# next run completes an interrupted one.
replace_patches() { # DIR
    rm -rf "$fork/replace" "$fork/replace.next"
    mkdir "$fork/replace.next"
    cp -R patches "$fork/replace.next/old"
    cp -R "$1" "$fork/replace.next/new"
    mv "$fork/replace.next" "$fork/replace"
    finish_replacing
}

finish_replacing() {
    [ -d "$fork/replace" ] || return 0
    for name in $(cd "$fork/replace/new" && find . -type f | sed 's,^\./,,' | sort); do
        file=$fork/replace/new/$name
        cmp -s "$file" "patches/$name" && continue
        if [ -f "patches/$name" ] && ! cmp -s "$fork/replace/old/$name" "patches/$name"; then
            die "patches/$name was changed after a run was cut short that had to replace it:" \
                "take what you need from $fork/replace, and delete that folder"
        fi
        mkdir -p "$(dirname "patches/$name")"
        cp "$file" "patches/$name.next"
        mv "patches/$name.next" "patches/$name"
        echo "patches/$name" >&2
    done
    rm -rf "$fork/replace"
}

# Prints upstream's files in quiche/ that differ from their last written state.
edited_files() { # [PATH…]
    fork_git update-index -q --refresh >/dev/null || true
    fork_git diff-files --name-only --diff-filter=M -- "$@"
}

own_files() { # [GIT-LS-FILES-OPTION…]: our files in quiche/ that patches must account for
    git ls-files "$@" quiche | sed 's,^quiche/,,' | grep -v '^[^/]*\.md$' || true
}
