#!/bin/sh
# make docker-image: the image of edge-server, IMAGE (edge-server:VERSION). It is built in Docker; with
# PROGRAMS=target/release it takes programs that are built already, for a Debian no older than that of
# the image.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/stage.sh
docker info >/dev/null 2>&1 || skip docker-image "skipped: no Docker engine"
image=${IMAGE:-edge-server:$version}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
set -- --file docker/edge/Dockerfile --tag "$image" --build-arg "VERSION=$version" --build-arg "REVISION=$revision"
if [ -n "${PROGRAMS:-}" ]; then
    OUT=target/docker sh scripts/docker-stage.sh
    set -- "$@" --target prebuilt
else
    # Without BuildKit, Docker builds that stage, too.
    mkdir -p target/docker
fi
docker build "$@" . >&2
docker image inspect --format '{{.Id}} {{.Size}}' "$image"
