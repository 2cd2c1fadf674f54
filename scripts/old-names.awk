# Prints a complaint for each old name in code, comments left out.
# Arguments: old-names.txt, then lines as grep prints them, FILE:LINE:CODE.
NR == FNR {
    if (!/^#/ && NF) {
        new[$1, $3] = $2
        folders[$1] = folders[$1] " " $3
    }
    next
}
{
    code = $0
    match(code, /^[^:]*:[0-9]*:/)
    place = substr(code, 1, RLENGTH - 1)
    code = substr(code, RLENGTH + 1)
    if (place ~ /\.patch:/ && code !~ /^\+/) next
    sub(/\/\/.*/, "", code)
    while (match(code, /[A-Za-z_][A-Za-z0-9_]*/)) {
        name = substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
        count = split(folders[name], folder, " ")
        for (i = 1; i <= count; i++)
            if (folder[i] == "." || index(place, folder[i] "/") == 1)
                print place ": " name " is now " new[name, folder[i]]
    }
}
