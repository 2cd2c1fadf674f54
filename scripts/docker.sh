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

# Starts an engine below FOLDER if none runs, and sets engine to its process, for stop_engine.
start_engine() { # NAME FOLDER
    engine=
    command -v docker >/dev/null || skip "$1" "skipped: no Docker engine"
    ! docker info >/dev/null 2>&1 || return 0
    command -v dockerd >/dev/null && [ "$(id -u)" -eq 0 ] || skip "$1" "skipped: no Docker engine"
    export DOCKER_HOST="unix://$2/docker.sock"
    dockerd --data-root "$2/data" --exec-root "$2/exec" --pidfile "$2/pid" -H "$DOCKER_HOST" >"$2/dockerd.log" 2>&1 &
    engine=$!
    for _ in $(seq 150); do
        docker info >/dev/null 2>&1 && return
        kill -0 $engine 2>/dev/null || skip "$1" "skipped: no Docker engine: $(tail -1 "$2/dockerd.log")"
        sleep 0.2
    done
    die "dockerd does not respond: $(tail -1 "$2/dockerd.log")"
}

stop_engine() {
    [ -n "${engine:-}" ] || return 0
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
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
