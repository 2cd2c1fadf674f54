#!/bin/sh
# make testbed: downloads over an emulated path between containers, by the parameters of
# docker/testbed/.env or of ENV_FILE, with report and lines in RESULTS (./results). The bottleneck is
# HTB and netem where the kernel has them, and link-emulator elsewhere; BOTTLENECK=link-emulator or
# netem names one. PROGRAMS=target/release has the programs.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/docker.sh
built=${PROGRAMS:-${CARGO_TARGET_DIR:-target}/release}
docker info >/dev/null 2>&1 || skip testbed "skipped: no Docker engine"
find_compose testbed
RESULTS=${RESULTS:-$PWD/results}
env_file=${ENV_FILE:-docker/testbed/.env}
mkdir -p "$RESULTS" target/docker-testbed
RESULTS=$(cd "$RESULTS" && pwd)
results=$RESULTS
OWNER=$(id -u):$(id -g)
export RESULTS OWNER
for program in edge-server edge-client link-emulator path-store speed-test; do
    strip -o "target/docker-testbed/$program" "$built/$program"
done
docker build --quiet --file docker/testbed/Dockerfile --tag quiche-resume-testbed . >/dev/null

has_qdiscs() { # in a network namespace of its own: nothing of the host changes
    docker run --rm --cap-add NET_ADMIN --network none quiche-resume-testbed sh -c \
        'tc qdisc add dev lo root handle 1: htb && tc qdisc add dev lo parent 1: netem delay 1ms' 2>/dev/null
}
if [ -z "${BOTTLENECK:-}" ]; then
    BOTTLENECK=link-emulator
    ! has_qdiscs || BOTTLENECK=netem
fi
case $BOTTLENECK in
netem) said="the bottleneck is HTB and netem of Linux $(uname -r)" ;;
*) said="the bottleneck is link-emulator, in user space, not netem: results of netem may differ" ;;
esac
echo "$said" >&2

# Options of the environment win over the file.
setting() { # NAME
    eval "given=\${$1:-}"
    [ -n "$given" ] || given=$(sed -n "s/^$1=\(.*\)/\1/p" "$env_file" | tr -d '"')
    echo "$given"
}
set -- --project-directory docker/testbed --file docker/testbed/compose.yml --env-file "$env_file" \
    --project-name quiche-resume-testbed
clients=172.31.242.0/24
[ "$BOTTLENECK" != netem ] || {
    set -- "$@" --file docker/testbed/netem.yml
    clients=172.31.241.0/24
}
trap '$compose "$@" down --volumes >/dev/null 2>&1' EXIT

saved_cwnd=$(setting SAVED_CWND)
measure() { # RTT COMPOSE'S OPTIONS…
    RTT=$1
    export RTT
    shift
    # With nothing saved.
    $compose "$@" down --volumes >/dev/null 2>&1 || true
    $compose "$@" up --detach bottleneck >&2
    [ -z "$saved_cwnd" ] || $compose "$@" exec -T server path-store --store /tmp/paths.db put $clients \
        --sender 172.31.242.2 --cwnd "$saved_cwnd" --rtt "$RTT" >&2
    $compose "$@" run --rm client || {
        $compose "$@" logs >&2
        return 1
    }
    # The report does not know what was between client and server.
    echo "$said: $(setting RATE) Mbit/s, $RTT ms, buffer $(setting BUFFER) bytes, loss $(setting LOSS)${saved_cwnd:+, saved at first: $saved_cwnd bytes}" |
        tee "$RESULTS/bottleneck.txt"
    sed -i "s|<h1>.*</h1>|&\n<p><strong>$(cat "$RESULTS/bottleneck.txt")</strong></p>|" "$RESULTS/speed-test.html"
}

rtts=$(setting RTTS)
if [ -z "$rtts" ]; then
    measure "$(setting RTT)" "$@"
else
    for rtt in $rtts; do
        RESULTS=$results/$rtt-ms
        mkdir -p "$RESULTS"
        measure "$rtt" "$@"
    done
fi
