#!/bin/sh
# The bottleneck of netem.yml: each direction leaves at RATE, half the RTT late. netem's limit counts the
# packets that are on their way besides those that wait in the buffer.
set -eu
rate=$1 rtt=$2 buffer=$3 loss=$4 # Mbit/s, ms, bytes, probability
packet_bytes=1378
for device in $(ip -o -4 addr show scope global | awk '{ print $2 }'); do
    limit=$(awk "BEGIN { print int(($buffer + $rate * $rtt * 1000 / 16) / $packet_bytes) + 1 }")
    tc qdisc add dev "$device" root handle 1: htb default 1
    tc class add dev "$device" parent 1: classid 1:1 htb rate "${rate}mbit" burst 15k
    tc qdisc add dev "$device" parent 1:1 netem delay $(awk "BEGIN { print $rtt / 2 }")ms loss "$(awk "BEGIN { print $loss * 100 }")%" limit "$limit"
done
trap 'exit 0' TERM INT
while :; do sleep 1; done
