# Writes CycloneDX from Cargo.lock, whose checksums it has, and a list of "name version".

FILENAME == "Cargo.lock" {
    gsub(/"/, "")
    if ($1 == "name") name = $3
    if ($1 == "version") release = $3
    if ($1 == "checksum") checksum[name, release] = $3
    next
}

FNR == 1 {
    print "{"
    print "  \"bomFormat\": \"CycloneDX\","
    print "  \"specVersion\": \"1.5\","
    print "  \"version\": 1,"
    printf "  \"metadata\": {\"component\": {\"type\": \"application\", \"name\": \"edge-server\", \"version\": \"%s\"}},\n", version
    printf "  \"components\": ["
}

{
    if (FNR > 1) printf ","
    printf "\n    {\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\"", $1, $2
    if (($1, $2) in checksum)
        printf ", \"purl\": \"pkg:cargo/%s@%s\", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"%s\"}]", $1, $2, checksum[$1, $2]
    printf "}"
}

END { print "\n  ]\n}" }
