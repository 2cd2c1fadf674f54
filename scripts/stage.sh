# The installed files of edge-server and its companions: sourced by the scripts that pack them.
#
# PROGRAMS is the folder of the built programs, target/release by default. For another architecture than
# this machine's, ARCH names it as Debian does, STRIP and OBJCOPY are its tools, and GENERATORS is a
# folder with the same programs for this machine, which print their manual pages.

programs="edge-server path-store edge-client"
built=${PROGRAMS:-${CARGO_TARGET_DIR:-target}/release}
generators=${GENERATORS:-$built}
arch=${ARCH:-$(dpkg --print-architecture 2>/dev/null || uname -m)}
version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
# The same commit makes the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# Puts stripped programs below FOLDER/usr/bin, and their debug files below DEBUG.
stage_programs() { # FOLDER DEBUG
    mkdir -p "$1/usr/bin"
    for program in $programs; do
        [ -x "$built/$program" ] || die "$built/$program is missing; run make build, or set PROGRAMS"
        id=$(LC_ALL=C readelf -n "$built/$program" | sed -n 's/.*Build ID: //p')
        rest=${id#??}
        symbols=$2/usr/lib/debug/.build-id/${id%"$rest"}/$rest.debug
        mkdir -p "${symbols%/*}"
        "${OBJCOPY:-objcopy}" --only-keep-debug --compress-debug-sections "$built/$program" "$symbols"
        "${STRIP:-strip}" --strip-unneeded --remove-section=.comment -o "$1/usr/bin/$program" "$built/$program"
        chmod 755 "$1/usr/bin/$program"
        chmod 644 "$symbols"
    done
}

# Manual pages and completions, as the programs themselves print them.
stage_manual() { # FOLDER
    share=$1/usr/share
    mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
        "$share/fish/vendor_completions.d"
    for program in $programs; do
        "$generators/$program" --generate man >"$share/man/man1/$program.1"
        gzip -9n "$share/man/man1/$program.1"
        "$generators/$program" --generate bash >"$share/bash-completion/completions/$program"
        "$generators/$program" --generate zsh >"$share/zsh/vendor-completions/_$program"
        "$generators/$program" --generate fish >"$share/fish/vendor_completions.d/$program.fish"
    done
}

# Unit, user, folders, log rotation, configuration and pages.
stage_files() { # FOLDER
    install -Dm 644 "packages/systemd/edge@.service" "$1/lib/systemd/system/edge@.service"
    install -Dm 644 packages/systemd/edge.sysusers "$1/usr/lib/sysusers.d/edge.conf"
    install -Dm 644 packages/systemd/edge.tmpfiles "$1/usr/lib/tmpfiles.d/edge.conf"
    install -Dm 644 packages/logrotate/edge "$1/etc/logrotate.d/edge"
    install -Dm 644 packages/edge.toml "$1/etc/edge/edge.toml"
    install -Dm 644 packages/www/index.html "$1/usr/share/edge-server/www/index.html"
    doc=$1/usr/share/doc/edge-server
    install -Dm 644 -t "$doc" docs/edge-server/*.md docs/path-store.md
    install -Dm 644 -t "$doc/prometheus" docs/prometheus/edge-server.rules.yml
    install -Dm 644 -t "$doc/grafana" docs/grafana/edge-server.json
}

# The list of components, CycloneDX, from the lock file: what the programs are built from.
stage_components() { # FOLDER
    install -d "$1/usr/share/doc/edge-server"
    cargo tree --locked --edges normal,build --target "${CARGO_TARGET:-all}" --prefix none --format '{p}' \
        -p edge-server -p path-store -p edge-client 2>/dev/null | sed 's/ (.*//; s/ v/ /' | grep . | LC_ALL=C sort -u |
        awk -v version="$version" -f scripts/components.awk Cargo.lock - >"$1/usr/share/doc/edge-server/components.cdx.json"
}
