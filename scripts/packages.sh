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
