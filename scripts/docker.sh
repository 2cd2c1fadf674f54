# Docker: sourced, behind packages.sh, by the scripts that use it.

# Sets compose, or ends the script NAME.
find_compose() { # NAME
    if docker compose version >/dev/null 2>&1; then
        compose="docker compose"
    elif command -v docker-compose >/dev/null; then
        compose=docker-compose
    else
        skip "$1" "docker-compose is missing, run: sudo apt-get install -y docker-compose"
    fi
}

# Ends the script NAME. CI allows that: its machine may forbid an engine.
skip_engine() { # NAME REASON
    echo "$1: skipped: no Docker engine${2:+: $2}" >&2
    exit 0
}

# Starts an engine below FOLDER if none runs, and sets engine to its process, for stop_engine.
start_engine() { # NAME FOLDER
    engine=
    command -v docker >/dev/null || skip_engine "$1"
    ! docker info >/dev/null 2>&1 || return 0
    command -v dockerd >/dev/null && [ "$(id -u)" -eq 0 ] || skip_engine "$1"
    export DOCKER_HOST="unix://$2/docker.sock"
    remember_network "$2"
    dockerd --data-root "$2/data" --exec-root "$2/exec" --pidfile "$2/pid" -H "$DOCKER_HOST" >"$2/dockerd.log" 2>&1 &
    engine=$!
    for _ in $(seq 150); do
        docker info >/dev/null 2>&1 && return
        kill -0 $engine 2>/dev/null || skip_engine "$1" "$(tail -1 "$2/dockerd.log")"
        sleep 0.2
    done
    die "dockerd does not respond: $(tail -1 "$2/dockerd.log")"
}

stop_engine() {
    [ -n "${engine:-}" ] || return 0
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    engine=
    restore_network
}

# What dockerd changes and leaves behind: a policy, forwarding, bridges, chains and rules.
remember_network() { # FOLDER
    network_before=$1/network
    for tables in iptables ip6tables; do
        ! command -v $tables >/dev/null || $tables -S FORWARD 2>/dev/null | sed -n "s/^-P FORWARD/$tables -P FORWARD/p"
    done >"$network_before"
    sysctl -e net.ipv4.ip_forward net.ipv6.conf.all.forwarding 2>/dev/null | sed 's/^\(.*\) = /sysctl -qw \1=/' >>"$network_before"
    # Another engine's.
    ! ip link show docker0 >/dev/null 2>&1 || echo had_bridge=yes >>"$network_before"
}

restore_network() {
    had_bridge=
    # shellcheck disable=SC1090
    . "$network_before" || true
    [ -z "$had_bridge" ] || return 0
    bridges='docker0|br-[0-9a-f]{12}'
    for tables in iptables ip6tables; do
        ! command -v $tables-save >/dev/null ||
            $tables-save | grep -vE "DOCKER|$bridges|172\.17\.0\.0/16" | $tables-restore 2>/dev/null || true
    done
    for bridge in $(ip -br link show type bridge | grep -oE "^($bridges)"); do
        ip link delete "$bridge"
    done
}

# No registry: the base that debootstrap makes in BASE gets the name that the Dockerfiles ask for.
import_base() { # LOG
    base=${BASE:-${CARGO_TARGET_DIR:-$PWD/target}/debian-bookworm}
    ! docker image inspect debian:bookworm-slim >/dev/null 2>&1 || return 0
    [ -e "$base/etc/debian_version" ] || {
        command -v debootstrap >/dev/null || install_packages debootstrap
        debootstrap --variant=minbase --include=libstdc++6,ca-certificates bookworm "$base" >"$1" 2>&1 ||
            die "debootstrap: $(tail -3 "$1")"
    }
    tar -C "$base" -c . | docker import - debian:bookworm-slim >/dev/null
}
