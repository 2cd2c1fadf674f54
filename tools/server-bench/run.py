"""CPU cost of edge-server and other HTTP/3 servers: `make bench-server`.

Each server runs on one core, and the common client (edge-client) on another. Rounds
measure all servers in turn, so that other activity of the machine affects all of them.
Exits with 1 if a limit is exceeded."""

import argparse
import random
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import GIB, Client, Server, check_cores, make_certificate, ratio

@dataclass
class Workload:
    """Requests of the client, and the unit by which CPU time is divided."""

    name: str
    unit: str
    bytes: int
    client: list
    units: float
    scale: float

    def cost(self, cpu_seconds):
        return cpu_seconds / self.units * self.scale


def workloads(size):
    """Returns the workloads; `size` scales them and is below 1 for a trial."""
    bulk = int(256 * 2**20 * size)
    fresh, requests = int(2000 * size), int(40000 * size)
    return [
        Workload("one download", "s/GiB", bulk, ["--requests", "4"], 4 * bulk / GIB, 1),
        Workload(
            "64 downloads at a time",
            "s/GiB",
            bulk // 16,
            ["--requests", "64", "--clients", "64"],
            4 * bulk / GIB,
            1,
        ),
        Workload(
            "new connection and small GET",
            "us",
            1000,
            ["--requests", str(fresh), "--clients", "8", "--per-connection", "1"],
            fresh,
            1e6,
        ),
        Workload(
            "request, 20 at a time",
            "us",
            1000,
            ["--requests", str(requests), "--streams", "20"],
            requests,
            1e6,
        ),
    ]


WITHOUT_ECN = "edge-server --ecn off"

# Largest ratio of edge-server's cost to another's; None stands for the best peer.
LIMITS = {
    "one download": {"pristine quiche": 0.6, "tokio-quiche": 0.6, "quinn + h3": 0.85, WITHOUT_ECN: 1.05},
    "64 downloads at a time": {WITHOUT_ECN: 1.05},
    "new connection and small GET": {None: 0.9, WITHOUT_ECN: 1.05},
    "request, 20 at a time": {None: 0.8, WITHOUT_ECN: 1.05},
}


def cost(client, server, load):
    """Runs a workload. Returns its cost to the server."""
    before = server.cpu_seconds()
    summary = client.run(server.url(load.bytes), load.client)
    expected = load.bytes * summary["requests"]
    if summary["bytes"] != expected:
        sys.exit(f"error: {server.name} sent {summary['bytes']} bytes instead of {expected}")
    return load.cost(server.cpu_seconds() - before)


def report(load, rounds):
    """Prints the table of a workload. Yields the exceeded limits."""
    ours, _, *peers = rounds[0]
    print(f"\n| {load.name} | {load.unit} | ratio of edge-server |\n|---|---|---|")
    for name in rounds[0]:
        cost = statistics.median(costs[name] for costs in rounds)
        print(f"| {name} | {cost:.2f} | {ratio(rounds, ours, name):.2f} |")
    best = min(peers, key=lambda name: statistics.median(costs[name] for costs in rounds))
    for name, limit in LIMITS.get(load.name, {}).items():
        measured = ratio(rounds, ours, name or best)
        if measured > limit:
            yield f"{load.name}: {measured:.2f} of the cost of {name or best}, above the limit of {limit}"


def servers(options, cert, key):
    at = [f"127.0.0.1:{options.port + n}" for n in range(5)]
    ours = [options.release / "edge-server", "--workers=1", "--speedtest", "--drain=0"]
    ours += ["--root", options.release]
    peers = options.peers / "release"
    tokio = options.tokio_quiche / "release/examples/async_http3_server"
    tls = ["--tls-cert-path", cert, "--tls-private-key-path", key]
    ours += ["--cert", cert, "--key", key, "--listen"]
    return [
        Server("edge-server", [*ours, at[0]], options.port, "/bytes/"),
        Server(WITHOUT_ECN, [*ours, at[4], "--ecn=off"], options.port + 4, "/bytes/"),
        Server("pristine quiche", [peers / "pristine", at[1], cert, key], options.port + 1, "/bytes/"),
        Server("tokio-quiche", [tokio, "--address", at[2], *tls], options.port + 2, "/stream-bytes/"),
        Server("quinn + h3", [peers / "quinn-h3", at[3], cert, key], options.port + 3, "/bytes/"),
    ]


def main():
    parser = argparse.ArgumentParser(description="Compare the CPU cost of edge-server with other servers")
    parser.add_argument("--release", type=Path, required=True, help="folder of the release programs")
    parser.add_argument("--peers", type=Path, required=True, help="target folder of the peers")
    parser.add_argument("--tokio-quiche", type=Path, required=True, help="target folder of tokio-quiche")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--size", type=float, default=1, help="scale of the workloads; 0.1 for a trial")
    parser.add_argument("--port", type=int, default=44330, help="first of five ports")
    parser.add_argument("--only", help="run only workloads whose names contain this")
    options = parser.parse_args()
    check_cores()

    client = Client(options.release / "edge-client")
    exceeded = []
    with tempfile.TemporaryDirectory(prefix="bench-server-") as folder:
        all_servers = servers(options, *make_certificate(Path(folder)))
        for load in workloads(options.size):
            if options.only and options.only not in load.name:
                continue
            rounds = []
            for number in range(options.rounds):
                print(f"{load.name}: round {number + 1} of {options.rounds}", file=sys.stderr)
                rounds.append(one_round(client, all_servers, load))
            exceeded += report(load, rounds)
    for line in exceeded:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(1 if exceeded else 0)


def one_round(client, all_servers, load):
    """Runs a workload once on each server. Each server is freshly started and runs alone. The
    order is random, so that no server always follows the same one."""
    costs = dict.fromkeys(server.name for server in all_servers)
    for server in random.sample(all_servers, len(all_servers)):
        with server:
            client.wait_for(server)
            costs[server.name] = cost(client, server, load)
    return costs


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"error: {error}")
