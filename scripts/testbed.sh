#!/bin/sh
# make testbed: downloads over an emulated path between containers, by the parameters of
# docker/testbed/.env or of ENV_FILE, with report and lines in RESULTS (./results). The bottleneck is
# link-emulator, not netem. PROGRAMS=target/release has the programs.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
built=${PROGRAMS:-${CARGO_TARGET_DIR:-target}/release}
docker info >/dev/null 2>&1 || skip testbed "skipped: no Docker engine"
if docker compose version >/dev/null 2>&1; then
    compose="docker compose"
elif command -v docker-compose >/dev/null; then
    compose=docker-compose
else
    skip testbed "docker-compose is missing, run: sudo apt-get install -y docker-compose"
fi
RESULTS=${RESULTS:-$PWD/results}
mkdir -p "$RESULTS" target/docker-testbed
RESULTS=$(cd "$RESULTS" && pwd)
OWNER=$(id -u):$(id -g)
export RESULTS OWNER
for program in edge-server edge-client link-emulator speed-test; do
    strip -o "target/docker-testbed/$program" "$built/$program"
done
docker build --quiet --file docker/testbed/Dockerfile --tag quiche-resume-testbed . >/dev/null
set -- --project-directory docker/testbed --file docker/testbed/compose.yml --env-file "${ENV_FILE:-docker/testbed/.env}" \
    --project-name quiche-resume-testbed
trap '$compose "$@" down --volumes >/dev/null 2>&1' EXIT
echo "the bottleneck is link-emulator, in user space, not netem" >&2
$compose "$@" up --detach bottleneck >&2
status=0
$compose "$@" run --rm client || status=$?
[ $status -eq 0 ] || $compose "$@" logs >&2
exit $status
