# Debian packages: sourced by the scripts that need them.

die() {
    echo "error: $*" >&2
    exit 1
}

# Installs packages as root; otherwise prints the command to run.
install_packages() { # PACKAGE…
    if ! command -v apt-get >/dev/null; then
        die "these tools are missing, install them with your package manager (Debian's names): $*"
    elif [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=sudo
    else
        die "packages are missing, run: sudo apt-get install -y --no-install-recommends $*"
    fi
    echo "installing $*" >&2
    $as_root apt-get update -qq || die "apt-get update failed"
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$@" >&2 ||
        die "apt-get install failed for: $*"
}

# Unpacks a package without installing it: that needs no root, and starts no service.
unpack_package() { # PACKAGE FOLDER
    mkdir -p "$2"
    (
        cd "$2"
        apt-get download -qq "$1" 2>/dev/null ||
            { [ "$(id -u)" -eq 0 ] && apt-get update -qq && apt-get download -qq "$1"; } ||
            exit 1
        dpkg-deb -x "$1"_*.deb .
    ) >&2
}

# Ends a script that lacks something, which CI does not allow.
skip() { # NAME REASON
    echo "$1: $2" >&2
    [ -z "${REQUIRE_ALL:-}" ] || exit 1
    exit 0
}
