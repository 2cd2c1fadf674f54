# Prints "FILE FILE" for each import between files of one crate, tests left out.
# Arguments: the crate's files. -v src=FOLDER of the crate.
function module_of(file) { # "" for the root, "a/b" for a/b.rs and a/b/mod.rs
    file = substr(file, length(src) + 2)
    sub(/\.rs$/, "", file)
    sub(/(^|\/)(mod|lib|main)$/, "", file)
    return file
}
function parent(module) {
    return sub(/\/[^\/]*$/, "", module) ? module : ""
}
# The file of the longest prefix of a path that is a module.
function file_at(path) {
    while (!(path in file_of) && path != "") path = parent(path)
    return file_of[path]
}
BEGIN {
    for (i = 1; i < ARGC; i++) {
        module = module_of(ARGV[i])
        # A crate with both has its modules in lib.rs.
        if (!(module in file_of) || ARGV[i] ~ /lib\.rs$/) file_of[module] = ARGV[i]
    }
}
FNR == 1 { in_tests = 0; of_tests = 0; split("", children) }
/^#\[cfg\((all\()?test/ { of_tests = 1; next }
of_tests && /^ *(pub )?mod .*\{$/ { in_tests = 1 }
!/^#\[/ { of_tests = 0 }
/^}/ { in_tests = 0 }
in_tests || /^ *\/\// { next }
/^(pub(\([a-z]*\))? )?mod [a-z0-9_]+;/ {
    child = $0
    gsub(/.*mod |;.*/, "", child)
    children[child]
    next
}
{
    here = module_of(FILENAME)
    line = $0
    while (match(line, /(^|[^a-zA-Z0-9_:])[a-z_][a-z0-9_]*(::[a-zA-Z_][a-zA-Z0-9_]*)+/)) {
        path = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/^[^a-z_]/, "", path)
        first = path
        sub(/::.*/, "", first)
        if (first !~ /^(crate|self|super)$/ && !(first in children)) continue
        from = here
        if (sub(/^crate::/, "", path)) from = ""
        while (sub(/^super::/, "", path)) from = parent(from)
        sub(/^self::/, "", path)
        gsub(/::/, "/", path)
        to = file_at(from == "" ? path : from "/" path)
        if (to != "" && to != FILENAME && !seen[FILENAME, to]++) print FILENAME, to
    }
}
