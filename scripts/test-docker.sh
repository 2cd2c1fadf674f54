#!/bin/sh
# make test-docker: the image of edge-server, built from programs that are built already, on a base that
# debootstrap makes: its size, its user, a read-only root, its health check, options by variables, and a
# volume that a second container takes over. Starts dockerd if there is none that runs. Needs root.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/docker.sh
added_bytes_max=60000000
target=${CARGO_TARGET_DIR:-$PWD/target}
programs=${PROGRAMS:-$target/release}
image=edge-server:test
work=$(mktemp -d)

stop() {
    docker rm -f -v edge-test >/dev/null 2>&1 || true
    docker volume rm edge-test >/dev/null 2>&1 || true
    stop_engine
    rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM

start_engine test-docker "$work"
import_base "$work/log"
IMAGE=$image PROGRAMS=$programs sh scripts/docker-image.sh >"$work/log" 2>&1 || die "docker-image: $(tail -5 "$work/log")"

bytes() {
    docker image inspect --format '{{.Size}}' "$1"
}
added=$(($(bytes $image) - $(bytes debian:bookworm-slim)))
echo "$((added / 1000000)) MB above the base"
case $programs in
*/release) [ $added -le $added_bytes_max ] || die "that is more than $((added_bytes_max / 1000000)) MB" ;;
esac
docker run --rm --entrypoint cat $image /usr/share/doc/edge-server/components.cdx.json >"$work/components" && grep -q '"name": "quiche"' "$work/components" ||
    die "there is no list of components"
[ "$(docker run --rm --entrypoint id $image -u)" != 0 ] || die "the server runs as root"

start() { # OPTIONS…
    docker run --detach --name edge-test --read-only --cap-drop ALL --security-opt no-new-privileges \
        --volume edge-test:/var/lib/edge "$@" $image >/dev/null
    for _ in $(seq 300); do
        state=$(docker inspect --format '{{.State.Health.Status}} {{.State.Status}}' edge-test)
        case $state in
        healthy*) return ;;
        *exited) break ;;
        esac
        sleep 0.2
    done
    die "it does not become healthy ($state): $(docker logs edge-test 2>&1 | tail -3)"
}
start --env EDGE_SERVER_SPEEDTEST=on
docker exec edge-test edge-server probe --insecure https://localhost/bytes/5 >/dev/null || die "it does not serve"
docker stop edge-test >/dev/null
[ "$(docker inspect --format '{{.State.ExitCode}}' edge-test)" = 0 ] || die "it does not stop in time"
docker rm edge-test >/dev/null
# The next one has the same volume.
start --env EDGE_SERVER_LISTEN=127.0.0.1:8443
docker exec edge-test edge-server probe --insecure https://localhost:8443/ >/dev/null || die "a variable has no effect"
docker exec edge-test test -s /var/lib/edge/paths.db || die "there is no store"
said=$(docker run --rm --env EDGE_SERVER_WORKERS=none $image 2>&1) && die "an invalid variable is no error"
[ "$(echo "$said" | wc -l)" = 1 ] && echo "$said" | grep -q EDGE_SERVER_WORKERS || die "an invalid variable: $said"
echo "the image runs read-only, as its own user, and is healthy"
