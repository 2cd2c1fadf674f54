# Steps of fleet-demo.sh, which sources it: CLAIMS claims (10,000) from the stores of both nodes, while the
# primary is killed, node A is cut off, the primary stands still, and A is left alone with it.

claims=${CLAIMS:-10000}
servers="172.31.246.21, 172.31.246.22, 172.31.246.23"

claim_from() { # NODE CONTAINER SEED
    docker exec "$2" claim-load run --store redis://127.0.0.1 --node "$1" --seed "$3" \
        --rate 100 --claims 1 --until /tmp/enough >"$work/claims-$1" 2>"$work/claims-$1.log"
}
granted() { # NODE…
    for node in "$@"; do
        grep -c '"granted":{' "$work/claims-$node" || true
    done | awk '{ sum += $1 } END { print sum }'
}
# Does each node get 50 claims more?
grants_go_on() { # NODE…
    for node in "$@"; do
        goal=$(($(granted "$node") + 50))
        until_true 60 has_granted $goal "$node" || return 1
    done
}
has_granted() { [ "$(granted "$2")" -ge "$1" ]; } # COUNT NODE
container_of() { eval "echo \$redis_${1#172.31.246.2}"; } # ADDRESS
is_replica() { info "$1" role:slave; }
has_two_replicas() { info "$(container_of "$(primary)")" connected_slaves:2; }
# Rules in the network of a container, whose own image need not have the right to set them.
in_network_of() { # CONTAINER COMMAND…
    network=container:$1
    shift
    docker run --rm --interactive --cap-add NET_ADMIN --network "$network" quiche-resume-fleet "$@"
}
cut() { # CONTAINER '' or != ADDRESSES: packets to and from them, or all others, get lost
    in_network_of "$1" nft -f - <<RULES
table ip cut {
    set those { type ipv4_addr; elements = { $3 } }
    chain out { type filter hook output priority 0; oif != lo ip daddr $2 @those drop; }
    chain in { type filter hook input priority 0; iif != lo ip saddr $2 @those drop; }
}
RULES
}
mend() { in_network_of "$1" nft delete table ip cut; } # CONTAINER
# When servers became primaries, by their own logs.
promotions() {
    for each in $redis_1 $redis_2 $redis_3; do
        docker logs --since "$claims_began" "$each" 2>/dev/null |
            sed -n 's/^[0-9]*:[A-Z] \(.*\) \* MASTER MODE enabled.*/\1/p'
    done | while read -r time; do
        date -u -d "$time" +%Y-%m-%dT%H:%M:%S.%3NZ
    done
}

claims_began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
claim_from a "$node_a" 1 &
load_a=$!
claim_from b "$node_b" 2 &
load_b=$!
check "a node gets no claims" grants_go_on a b

killed=$(primary)
docker kill "$(container_of "$killed")" >/dev/null
check "there is no other primary" until_true 60 has_other_primary "$killed"
check "claims do not go on" grants_go_on a b
docker start "$(container_of "$killed")" >/dev/null
check "it is no replica" until_true 60 is_replica "$(container_of "$killed")"
check "there are not two replicas" until_true 60 has_two_replicas
step 10 "both nodes claim, and go on after the death of the primary"

cut "$node_a" '' "$servers"
sleep 3
before=$(granted a)
check "B stops" grants_go_on b
sleep 3
check "A is not cut off" [ "$(granted a)" = "$before" ]
mend "$node_a"
check "claims do not go on" grants_go_on a b
step 11 "node A is cut off from the store: B goes on, and A when it is back"

frozen=$(primary)
container=$(container_of "$frozen")
check "Sentinel does not see all" until_true 60 sentinels_agree
docker kill --signal STOP "$container" >/dev/null
check "there is no other primary" until_true 60 has_other_primary "$frozen"
check "claims do not go on" grants_go_on a b
docker kill --signal CONT "$container" >/dev/null
check "it is no replica" until_true 60 is_replica "$container"
check "claims do not go on" grants_go_on a b
check "there are not two replicas" until_true 60 has_two_replicas
step 12 "the primary gets SIGSTOP, and wakes beside another one"

alone=$(primary)
container=$(container_of "$alone")
check "Sentinel does not see all" until_true 60 sentinels_agree
cut "$container" '!=' 172.31.246.11
check "there is no other primary" until_true 60 has_other_primary "$alone"
check "claims of B do not go on" grants_go_on b
mend "$container"
check "it is no replica" until_true 60 is_replica "$container"
check "claims do not go on" grants_go_on a b
step 13 "A alone reaches the primary, until Sentinel makes another one the primary"

enough() { [ "$(granted a b)" -ge "$claims" ]; }
check "there are not $claims claims" until_true 300 enough
docker exec "$node_a" touch /tmp/enough
docker exec "$node_b" touch /tmp/enough
check "the load of A has failed: $(cat "$work/claims-a.log")" wait $load_a
check "the load of B has failed: $(cat "$work/claims-b.log")" wait $load_b
set --
for time in $(promotions); do
    set -- "$@" --failover "$time"
done
# A busy machine may see one more.
check "there were only $(($# / 2)) failovers" [ $# -ge 6 ]
docker cp "$work/claims-a" "$node_a:/tmp/claims-a"
docker cp "$work/claims-b" "$node_a:/tmp/claims-b"
check "two claims of an endpoint were live at a time" docker exec "$node_a" claim-load check "$@" /tmp/claims-a /tmp/claims-b
docker exec "$node_a" claim-load check "$@" /tmp/claims-a /tmp/claims-b | sed 's/^/        /' || true
step 14 "$(granted a b) claims granted: none lives while another one of its endpoint does, but across a failover"
