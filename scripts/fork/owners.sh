# Owners of the lines that an edit changes: the patches that introduced them (sourced).

# Writes to $tmp/hunks a line for each hunk of an edit of TIP: where it is, whether it
# changes or only adds lines, and their owners, as numbers in the series with commas
# between; 0 is upstream. An addition has an owner if it is between two lines of one patch.
find_owners() { # TIP EDITED-TREE
    fork_git rev-list --reverse "$1" >"$tmp/steps"
    fork_git diff-tree -p -r -U0 --no-renames --no-color --full-index "$1" "$2" >"$tmp/edit.u0"
    sed -n 's,^--- a/,,p' "$tmp/edit.u0" >"$tmp/paths"
    while read -r path; do
        fork_git blame --porcelain "$1" -- "$path" |
            awk -v path="$path" 'length($1) == 40 && $1 ~ /^[0-9a-f]+$/ { print path, $3, $1 }'
    done <"$tmp/paths" >"$tmp/blame"
    awk '
        FILENAME ~ /steps$/ { number[$1] = FNR - 1; next }
        FILENAME ~ /blame$/ { owner[$1, $2] = number[$3]; next }
        /^--- a\// { path = substr($0, 7) }
        /^Binary files / { print "quiche/" substr($3, 3), "changes", 0 }
        /^@@ / {
            split(substr($2, 2), old, ",")
            first = old[1]
            count = old[2] == "" ? 1 : old[2]
            owners = ""
            for (line = first; line < first + count; line++) {
                if (index("," owners ",", "," owner[path, line] ",") == 0)
                    owners = owners (owners == "" ? "" : ",") owner[path, line]
            }
            if (count == 0)
                owners = owner[path, first] == owner[path, first + 1] ? owner[path, first] + 0 : 0
            print "quiche/" path ":" first, count ? "changes" : "adds", owners
        }' "$tmp/steps" "$tmp/blame" "$tmp/edit.u0" >"$tmp/hunks"
}

# Prints the hunks of the edit that the patches up to NUMBER own.
hunks_up_to() { # NUMBER
    awk -v number="$1" '
        FILENAME ~ /hunks$/ { owner[FNR] = $3; next }
        /^diff / { header = ""; shift = 0; in_header = 1 }
        /^@@ / {
            in_header = 0
            keep = owner[++hunk] <= number
            if (keep) {
                printf "%s", header
                header = ""
                split(substr($2, 2), old, ",")
                split(substr($3, 2), new, ",")
                removed = old[2] == "" ? 1 : old[2]
                added = new[2] == "" ? 1 : new[2]
                printf "@@ -%d,%d +%d,%d @@\n", old[1], removed,
                    old[1] + shift + (removed == 0) - (added == 0), added
                shift += added - removed
                next
            }
        }
        in_header { header = header $0 "\n"; next }
        keep { print }' "$tmp/hunks" "$tmp/edit.u0"
}

# Prints the names of patches, given by numbers with commas between.
owner_names() { # NUMBERS
    for number in $(echo "$1" | tr , '\n' | sort -n); do
        if [ "$number" -eq 0 ]; then echo upstream; else sed -n "${number}p" "$tmp/names"; fi
    done | paste -sd , - | sed 's/,/, /g; s/\(.*\), /\1 and /'
}

# Refuses an edit with a hunk that does not have exactly one owner.
refuse_without_owner() {
    while read -r place what owners; do
        case $owners in
        0) die "$place $what lines of no patch: choose one with PATCH=, or add one with NEW=" ;;
        *,*)
            die "$place changes lines of $(owner_names "$owners"): change each apart, add a patch with NEW=," \
                "or choose one with PATCH= and FORCE=1"
            ;;
        esac
    done <"$tmp/hunks"
}

# Refuses an edit that changes lines which other patches introduced.
refuse_other_owners() { # NUMBER
    while read -r place what owners; do
        [ "$what" = changes ] || continue
        others=$(echo "$owners" | tr , '\n' | grep -vxE "0|$1" | paste -sd , -)
        [ -z "$others" ] || die "$place changes lines of $(owner_names "$others"), not of PATCH=$PATCH:" \
            "make patches without PATCH= exports them there; FORCE=1 changes them in $PATCH"
    done <"$tmp/hunks"
}
