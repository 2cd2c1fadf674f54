#!/bin/sh
# make workspace-check: checks that the exported series leaves upstream's workspace
# compiling. The workspace is put together from the packages that upstream publishes from
# it; its tools (apps, qlog-dancer) are not published.
. "$(dirname "$0")/fork/common.sh"
. scripts/fork/upstream.sh
. scripts/boringssl.sh

# The packages beside quiche that belong to the release of patches/UPSTREAM.
PACKAGES='octets 0.3.7
qlog 0.18.2
netlog 0.1.0
buffer-pool 0.2.1
datagram-socket 0.8.1
task-killswitch 0.2.1
h3i 0.7.0
tokio-quiche 0.20.1'

folder=$root/target/workspace-check
tree=$folder/tree

unpack() { # NAME VERSION
    crate=$(fetched_crate "$1" "$2")
    tar -xzf "$crate" -C "$tree"
    mv "$tree/$1-$2" "$tree/$1"
    rm -f "$tree/$1/.cargo_vcs_info.json" "$tree/$1/Cargo.lock"
}

# Refuses packages of another release: cargo would take quiche from crates.io for them.
check_versions() {
    printf '%s %s\n%s\n' "$(upstream_field name)" "$(upstream_field version)" "$PACKAGES" >"$tmp/versions"
    (cd "$tree" && awk '
        NR == FNR { version[$1] = $2; next }
        /^\[/ { name = ""; if (sub(/^\[(dev-)?dependencies\./, "")) { name = $0; sub(/\].*/, "", name) } }
        $1 == "version" && name in version {
            split($3, wanted, /[".]/)
            split(version[name], is, ".")
            package = FILENAME
            sub(/\/.*/, "", package)
            if (wanted[2] != is[1] || wanted[3] != is[2]) print package, $3, name
        }' "$tmp/versions" */Cargo.toml) >"$tmp/misfits"
    while read -r package wanted name; do
        die "$package requires $name $wanted, which does not belong to $(upstream_field name) $(upstream_field version):" \
            "write the packages of that release into $0"
    done <"$tmp/misfits"
}

# Prints what the repository's manifest of quiche inherits, from that of the package.
inherited() { # PACKAGE-MANIFEST
    echo '[workspace.package]'
    awk '$1 ~ /^(edition|license|repository|readme)$/ { print } /^keywords = \[/, /\]/ { print }
        /^categories = \[/, /\]/ { print }' "$1"
    echo '[workspace.lints]'
    echo '[workspace.dependencies]'
    awk '
        /^\[/ { name = ""; is_list = 0 }
        /^\[(dev-)?dependencies\./ { name = $1; sub(/^.*dependencies\./, "", name); sub(/\]$/, "", name) }
        name != "" && $1 == "version" { version[name] = $3; for (i = 4; i <= NF; i++) version[name] = version[name] " " $i }
        name != "" && $1 == "default-features" { bare[name] = 1 }
        END {
            for (name in version)
                print name " = { version = " version[name] (bare[name] ? ", default-features = false" : "") " }"
        }' "$1" | sort
}

write_manifest() {
    {
        echo '[workspace]'
        echo 'resolver = "2"'
        echo "members = [$(echo "quiche
$PACKAGES" | sed 's/\([^ ]*\).*/"\1"/' | paste -sd, -)]"
        inherited "$tree/quiche/Cargo.toml"
        echo '[patch.crates-io]'
        echo "quiche = { path = \"quiche\" }"
        echo "$PACKAGES" | sed 's/\([^ ]*\).*/\1 = { path = "\1" }/'
    } >"$tree/Cargo.toml"
}

rm -rf "$tree" "$folder/mails"
mkdir -p "$tree"
unpack "$(upstream_field name)" "$(upstream_field version)"
echo "$PACKAGES" | while read -r name version; do unpack "$name" "$version"; done
check_versions
LAYOUT=repo OUT=$folder/mails sh scripts/export.sh
write_manifest
mv "$tree/quiche/Cargo.toml.orig" "$tree/quiche/Cargo.toml"
find "$tree" -mindepth 2 -maxdepth 2 -name Cargo.toml.orig -exec rm {} +

plain_git -C "$tree" init -q
plain_git -C "$tree" add -A -f
plain_git -C "$tree" -c user.name=t -c user.email=t@invalid commit -qm packages
plain_git -C "$tree" -c user.name=t -c user.email=t@invalid am -q --keep-cr "$folder/mails"/*.patch
cp Cargo.lock "$tree"
lend_boringssl "$tree"
(cd "$tree" && CARGO_TARGET_DIR=$folder/build cargo check --workspace)
echo "workspace-check: upstream's workspace compiles with $(series patches | wc -l | tr -d ' ') patches" >&2
