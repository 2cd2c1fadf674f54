# Faults planted in a copy of the sources, for conformance-faults.sh and sim-faults.sh.
# Each fault of scripts/$name.txt is a line with its row, its file and a third word,
# then whole lines that occur once in the file (-), and their replacement (+). ROW=…
# selects one row. Sourced with $name set, in the root, by a script that defines a
# function `verdict`.

root=$PWD
table=$PWD/scripts/$name.txt
work=${CARGO_TARGET_DIR:-$PWD/target}/faults
tree=$work/tree
logs=$work/logs
# The copy is independent of later edits in the working copy.
originals=$work/originals

# Builds are fast rather than optimized, and separate from other builds.
export CARGO_TARGET_DIR="$work/build" CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0

die() {
    echo "error: $*" >&2
    exit 1
}

# Names in the table are relative to the fork's recovery module.
file_of() { # PATH[::NAME]
    case $1 in
    apps/*) echo "${1%%::*}" ;;
    *) echo "quiche/src/recovery/${1%%::*}" ;;
    esac
}

copy_sources() {
    rm -rf "$tree" "$originals" "$logs"
    mkdir -p "$tree" "$originals" "$logs"
    tar -cf - --exclude=./target --exclude=./results --exclude=./.git . | tar -xf - -C "$tree"
    # The last build may have included one of these files with its fault.
    for file in $(faulty_files); do
        mkdir -p "$originals/$(dirname "$file")"
        cp "$tree/$file" "$originals/$file"
        touch "$tree/$file"
    done
}

faulty_files() {
    awk '$1 ~ /^[A-H][0-9]+$/ { print $2 }' "$table" | sort -u | while read -r file; do file_of "$file"; done
}

restore() { # FILE
    cat "$originals/$1" >"$tree/$1"
}

# Prints a line for each fault: its line in the table, row, file, third word.
list_faults() {
    awk -v row="${ROW:-}" '
        $1 ~ /^[A-H][0-9]+$/ && (row == "" || row == $1) { print NR, $1, $2, $3 }' "$table"
}

# Replaces the old lines, which must occur exactly once, by the new ones. Ignores
# leading blanks.
plant() { # LINE FILE
    awk -v line="$1" '
        function stripped(text) { sub(/^[ \t]+/, "", text); return text }
        NR == FNR {
            if (FNR <= line || done) next
            if (/^-/) old[++olds] = stripped(substr($0, 2))
            else if (/^\+/) new[++news] = substr($0, 2)
            else done = 1
            next
        }
        { text[FNR] = $0; bare[FNR] = stripped($0); last = FNR }
        END {
            for (i = 1; i + olds - 1 <= last; i++) {
                for (k = 1; k <= olds && bare[i + k - 1] == old[k]; k++);
                if (k > olds) { at = i; found++ }
            }
            if (!olds || found != 1) exit 1
            for (i = 1; i < at; i++) print text[i]
            for (k = 1; k <= news; k++) print new[k]
            for (i = at + olds; i <= last; i++) print text[i]
        }' "$table" "$originals/$2" >"$work/planted" || return 1
    cat "$work/planted" >"$tree/$2"
}

# Writes $work/list if every fault can be planted.
prepare_faults() {
    mkdir -p "$work"
    list_faults >"$work/list"
    [ -s "$work/list" ] || die "ROW=${ROW:-}: scripts/$name.txt has no fault of that row"
    copy_sources
    while read -r line row file _; do
        plant "$line" "$(file_of "$file")" ||
            die "scripts/$name.txt:$line: the old lines of $row are not in $file exactly once"
        restore "$(file_of "$file")"
    done <"$work/list"
}

# Calls `verdict LINE ROW FILE WORD` for each fault, which prints one word.
try_faults() {
    : >"$work/verdicts"
    while read -r line row file word <&3; do
        started=$(date +%s)
        verdict=$(verdict "$line" "$row" "$file" "$word")
        printf '%-4s %-9s %4d s  %s\n' "$row" "$verdict" "$(($(date +%s) - started))" "$word" | tee -a "$work/verdicts"
    done 3<"$work/list"

    bad=$(awk '$2 != "caught"' "$work/verdicts" | wc -l)
    echo "$name: $(wc -l <"$work/verdicts") faults, $bad not caught"
    [ "$bad" -eq 0 ] || die "a fault that nothing catches, or that does not build: see above, and $logs"
}
