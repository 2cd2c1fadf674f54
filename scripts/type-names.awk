# Prints a complaint for each type name that a package defines more than once.
# Arguments: a list of the packages' folders, then Rust files as rustfmt writes them.
# Associated types and aliases inside blocks do not count.
function package_of(file) {
    while (sub(/\/[^\/]*$/, "", file)) if (file in packages) return file
    return ""
}
FNR == 1 {
    first_file = FILENAME == ARGV[1]
    package = package_of(FILENAME)
}
first_file { packages[$0]; next }
/^ *(pub(\([^)]*\))? )?(unsafe )?(struct|enum|union|trait) [A-Z]|^(pub(\([^)]*\))? )?type [A-Z]/ {
    name = $0
    sub(/^ *(pub(\([^)]*\))? )?(unsafe )?[a-z]+ /, "", name)
    sub(/[^A-Za-z0-9_].*/, "", name)
    if ((package, name) in first) print first[package, name] " and " FILENAME ":" FNR ": two types are named " name
    else first[package, name] = FILENAME ":" FNR
}
