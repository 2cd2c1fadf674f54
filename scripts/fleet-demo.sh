#!/bin/sh
# make fleet-demo: starts docker/fleet/compose.yml, walks through what two servers with one store of path
# state do, one line a step, and fails if a step does. KEEP=1 leaves the fleet running, CLAIMS=10000 says
# how many claims the last steps wait for. PROGRAMS=target/release has the programs.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/docker.sh
built=${PROGRAMS:-${CARGO_TARGET_DIR:-target}/release}
docker info >/dev/null 2>&1 || skip fleet-demo "skipped: no Docker engine"
find_compose fleet-demo
EDGE_IMAGE=edge-server:fleet
SECRETS=$PWD/target/fleet/secrets
export EDGE_IMAGE SECRETS
work=$(mktemp -d)
failed=0

mkdir -p target/fleet target/docker-fleet
# The server's user has no name here.
[ -s "$SECRETS" ] || { (umask 022; openssl rand -hex 32 >"$SECRETS"); }
for program in link-emulator claim-load; do
    strip -o "target/docker-fleet/$program" "$built/$program"
done
IMAGE=$EDGE_IMAGE PROGRAMS=$built sh scripts/docker-image.sh >"$work/log" 2>&1 || die "docker-image: $(tail -5 "$work/log")"
docker build --build-arg "EDGE=$EDGE_IMAGE" --file docker/fleet/Dockerfile --tag quiche-resume-fleet . >"$work/log" 2>&1 ||
    die "docker build: $(tail -5 "$work/log")"

fleet() {
    $compose --project-directory docker/fleet --file docker/fleet/compose.yml --project-name quiche-resume-fleet "$@"
}
finish() {
    [ -n "${KEEP:-}" ] || fleet down --volumes >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
fleet down --volumes >/dev/null 2>&1 || true
fleet up --detach >"$work/log" 2>&1 || die "docker-compose up: $(tail -5 "$work/log")"
for service in client balancer node-a node-b edge-a edge-b redis-1 redis-2 redis-3 sentinel-1 sentinel-2 sentinel-3 prometheus; do
    id=$(fleet ps -q $service)
    eval "$(echo $service | tr - _)=$id"
done

until_true() { # SECONDS COMMAND…
    end=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt $end ] || return 1
        sleep 0.2
    done
}

step() { # NUMBER TEXT: the checks before it have set wrong if one has failed
    if [ -z "$wrong" ]; then
        echo "ok   $1  $2"
    else
        echo "FAIL $1  $2:$wrong"
        failed=1
    fi
    wrong=
}
wrong=
check() { # TEXT COMMAND…
    text=$1
    shift
    "$@" >/dev/null 2>&1 || wrong="$wrong $text;"
}

# Downloads BYTES over the long path, with NAME in the access log.
download() { # NAME BYTES
    docker exec $client edge-client --insecure --connect 172.31.245.3:4433 --header "user-agent: $1" "https://fleet.test/bytes/$2" >"$work/$1" 2>&1
}
# Two downloads, of which the second begins when the first one's claim is decided.
pair() { # NAME NAME BYTES
    download "$1" "$3" &
    first=$!
    sleep 0.8
    download "$2" "$3" || wait $first || return 1
    wait $first
}
logged() { # NAME: node and line of the access log
    for node in a b; do
        eval "docker logs \$edge_$node" 2>/dev/null | grep -F "\"user_agent\":\"$1\"" | sed "s/^/$node /" || true
    done
}
line() { # NAME: as soon as it is there
    until_true 10 has_line "$1" || true
    logged "$1"
}
has_line() { [ -n "$(logged "$1")" ]; }
on_node() { case $(line "$1") in "$2 "*) ;; *) return 1 ;; esac; } # NAME NODE
jumped() { line "$1" | grep -q '"jump_bytes":[0-9]'; }
started_slowly() { line "$1" | grep -q '"jump_bytes":null'; }
jumps() { # NAME…
    for name in "$@"; do
        ! jumped "$name" || echo "$name"
    done | grep -c . || true
}
time_ms() { line "$1" | sed -n 's/.*"duration_ms":\([0-9]*\).*/\1/p'; }
both_ready() {
    docker exec $balancer nft list table ip balancer | grep -q '172.31.246.11, 1 : 172.31.246.12'
}
primary() {
    docker exec $sentinel_2 redis-cli -p 26379 sentinel get-master-addr-by-name paths | head -1
}
info() { # CONTAINER PATTERN
    docker exec "$1" redis-cli info replication | grep -q "$2"
}
sentinels_agree() { # that there are two replicas and two more of them
    for each in $sentinel_1 $sentinel_2 $sentinel_3; do
        docker exec "$each" redis-cli -p 26379 sentinel master paths | tr '\n' ' ' |
            grep -q 'num-slaves 2 num-other-sentinels 2' || return 1
    done
}
# Each connection asks the store. Two of them are one on each node, and leave the order of nodes as it is.
stores_work() {
    docker exec $client edge-client --insecure --connect 172.31.245.2:443 --repeat 2 https://fleet.test/bytes/1 || return 1
    sleep 0.5
    for node in a b; do
        eval "docker exec \$edge_$node edge-server admin /var/lib/edge/admin.sock metrics" >"$work/metrics"
        grep -q '^path_store_failing 0' "$work/metrics" || return 1
    done
}
saved() { # by what both nodes read
    for node in a b; do
        eval "docker exec \$edge_$node path-store --store redis://127.0.0.1 get 172.31.245.0/24" || return 1
    done
}

check "the servers are not ready" until_true 60 both_ready
check "Sentinel does not see all" until_true 60 sentinels_agree
check "the primary has not two replicas" until_true 60 info $redis_1 connected_slaves:2
check "a node does not reach the primary" until_true 60 stores_work
step 0 "two servers, a primary with two replicas and three Sentinels are up"
[ $failed -eq 0 ] || { fleet logs >&2; exit 1; }

check "it has failed" download one 5000000
check "it was not on A" on_node one a
check "it has jumped" started_slowly one
check "nothing is saved" until_true 10 saved
step 1 "the first download is on node A, and starts slowly: $(time_ms one) ms"

check "it has failed" download two 5000000
check "it was not on B" on_node two b
check "it has not jumped" jumped two
step 2 "the second is on node B, and jumps by what A has observed: $(time_ms two) ms"

check "one has failed" pair three-first three-second 10000000
check "the first has not jumped" jumped three-first
check "the second has jumped" started_slowly three-second
step 3 "of two downloads at a time on both nodes, the first jumps and the second does not"

# Small requests, each on a connection of its own, to both nodes while A restarts.
docker exec $client sh -c 'until [ -e /tmp/stop ]; do
    edge-client --insecure --connect 172.31.245.2:443 --requests 100 --clients 4 --per-connection 1 --json https://fleet.test/bytes/20000 || true
done' >"$work/load" 2>&1 &
load=$!
sleep 2
started=$(docker inspect --format '{{.State.StartedAt}}' $edge_a)
docker exec $balancer sh /etc/fleet/balancer.sh out a
docker stop --time 20 $edge_a >/dev/null
check "A has not ended in time" [ "$(docker inspect --format '{{.State.ExitCode}}' $edge_a)" = 0 ]
docker start $edge_a >/dev/null
check "A does not return" timeout 60 docker exec $balancer sh /etc/fleet/balancer.sh in a
sleep 2
docker exec $client touch /tmp/stop
wait $load || true
sum() { # KEY
    sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$work/load" | awk '{ sum += $1 } END { print sum + 0 }'
}
served() { # the requests that A has served since it started
    docker logs --since "$(docker inspect --format '{{.State.StartedAt}}' $edge_a)" $edge_a 2>/dev/null | grep -c '"/bytes/20000"'
}
check "A has not restarted" [ "$(docker inspect --format '{{.State.StartedAt}}' $edge_a)" != "$started" ]
check "there were no requests" [ "$(sum requests)" -gt 100 ]
check "$(sum failed) have failed" [ "$(sum failed)" = 0 ]
check "A serves no more" [ "$(served)" -gt 0 ]
step 4 "node A leaves, restarts and returns: $(sum failed) of $(sum requests) requests fail, and A serves $(served) after it"

# The primary dies. Pairs of downloads, one on each node, until one jumps again.
docker kill $redis_1 >/dev/null
check "one has failed" pair at-once-first at-once-second 10000000
n=$(jumps at-once-first at-once-second)
check "two have jumped" [ "$n" -le 1 ]
step 5 "the primary of the store is killed: both downloads complete, and $n of 2 jumps"

has_other_primary() { [ "$(primary)" != "$1" ]; } # ADDRESS
# Pairs until one has a jump; sets returned to its number. No pair may have two.
until_jump() { # NAME
    returned=
    for i in $(seq 10); do
        check "one has failed" pair "$1-$i-first" "$1-$i-second" 10000000
        n=$(jumps "$1-$i-first" "$1-$i-second")
        check "two have jumped at a time" [ "$n" -le 1 ]
        [ "$n" -eq 0 ] || { returned=$i; break; }
    done
    check "no jump has returned" [ -n "$returned" ]
}
check "there is no other primary" until_true 60 has_other_primary 172.31.246.21
check "a node does not reach the new primary" until_true 60 saved
until_jump killed
step 6 "Sentinel makes $(primary) the primary: pair ${returned:-none} of downloads has a jump again, by what was saved before"

docker start $redis_1 >/dev/null
check "it is no replica" until_true 60 info $redis_1 role:slave
check "the nodes lose the primary" saved
step 7 "the former primary returns as a replica"

# The new primary stands still, and wakes as a primary beside the next one.
frozen=$(primary)
eval "container=\$redis_${frozen#172.31.246.2}"
docker pause $container >/dev/null
check "there is no other primary" until_true 60 has_other_primary "$frozen"
until_jump frozen
docker unpause $container >/dev/null
until_jump woken
check "it is no replica" until_true 60 info $container role:slave
step 8 "a primary that stands still is replaced, and wakes: never two jumps at a time"

scraped() { # QUERY: prints how many results it has
    docker exec $prometheus promtool query instant http://127.0.0.1:9090 "$1" | grep -c '=>'
}
both_scraped() { [ "$(scraped 'up{job="edge-server"} == 1')" = 2 ]; }
check "it does not scrape both nodes" until_true 30 both_scraped
check "it knows no jumps" [ "$(scraped 'edge_server_resume_jumps_taken_total > 0')" -gt 0 ]
check "it has no rules" docker exec $prometheus promtool query instant http://127.0.0.1:9090 'prometheus_rule_group_rules > 0'
step 9 "Prometheus scrapes both nodes, with the alert rules"

. scripts/fleet-claims.sh

[ $failed -eq 0 ] || fleet logs --tail 50 >&2
exit $failed
