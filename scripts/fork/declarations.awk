# Reduces a patch to the lines by which it declares test modules. -v tests= has the paths of
# their files; -v modules= names the file that gets the modules' names. Apply the result with
# git apply --recount.

BEGIN {
    count = split(tests, paths, " ")
    for (i = 1; i <= count; i++) {
        sub(/.*\//, "", paths[i])
        is_test[paths[i]]
    }
}

function end_hunk() {
    if (kept) {
        printf "%s%s", file, hunk
        file = ""
    }
    hunk = held = ""
    kept = 0
}

# The file of the module that a line declares, which #[path] may give.
function module_file(line) {
    if (match(held, /path = "[^"]*"/)) {
        name = substr(held, RSTART + 8, RLENGTH - 9)
        sub(/.*\//, "", name)
        return name
    }
    return module_name(line) ".rs"
}

function module_name(line) {
    sub(/;.*/, "", line)
    sub(/.*mod /, "", line)
    return line
}

/^--- / { end_hunk(); file = $0 "\n"; next }
/^\+\+\+ / { file = file $0 "\n"; next }
/^@@ / { end_hunk(); hunk = $0 "\n"; next }
hunk == "" { next }
/^-/ { hunk = hunk " " substr($0, 2) "\n"; next }
/^\+ *#\[/ { held = held $0 "\n"; next }
/^\+.*mod [a-z0-9_]+;/ && module_file($0) in is_test {
    hunk = hunk held $0 "\n"
    held = ""
    kept = 1
    print module_name($0) >modules
    next
}
{ held = "" }
/^\+/ { next }
{ hunk = hunk $0 "\n" }
END { end_hunk() }
