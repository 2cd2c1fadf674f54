#!/bin/sh
# Balancer of new connections, over QUIC and TCP, between the servers that are ready: packets go to a node
# by connection tracking, and keep their source address.
#
#   balancer.sh run        NODES="a=ADDRESS b=ADDRESS"
#   balancer.sh out NAME   no new connections for a node; those that it has stay
#   balancer.sh in NAME
set -eu
state=/run/balancer
mkdir -p $state

ready() { # prints ADDRESS…
    for node in $NODES; do
        [ ! -e "$state/out-${node%%=*}" ] || continue
        ! edge-server probe --timeout 1 "http://${node#*=}:9100/readyz" >/dev/null 2>&1 || echo "${node#*=}"
    done
}

apply() { # ADDRESS…
    action=drop
    [ $# -eq 0 ] || {
        map= i=0
        for address in "$@"; do
            map="$map${map:+, }$i : $address"
            i=$((i + 1))
        done
        action="dnat to numgen inc mod $# map { $map }"
    }
    nft -f - <<RULES
table ip balancer
delete table ip balancer
table ip balancer {
    chain in {
        type nat hook prerouting priority dstnat;
        fib daddr type local meta l4proto { tcp, udp } th dport 443 $action
    }
}
RULES
}

run() {
    trap 'exit 0' TERM INT
    applied=none
    while :; do
        now=$(ready | tr '\n' ' ')
        if [ "$now" != "$applied" ]; then
            # shellcheck disable=SC2086
            apply $now
            applied=$now
            echo "nodes: ${now:-none}"
        fi
        sleep 0.3
    done
}

takes_connections() { # NAME
    for node in $NODES; do
        [ "${node%%=*}" = "$1" ] || continue
        ! nft list table ip balancer | grep -qwF "${node#*=}" || return 0
    done
    return 1
}

case $1 in
run) run ;;
out)
    touch "$state/out-$2"
    while takes_connections "$2"; do sleep 0.1; done
    ;;
in)
    rm -f "$state/out-$2"
    until takes_connections "$2"; do sleep 0.1; done
    ;;
esac
