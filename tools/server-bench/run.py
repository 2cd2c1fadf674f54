"""What edge-server costs beside other HTTP/3 servers: `make bench-server`.

Each server has one core, one common client (edge-client's load) the other. They are
asked in turn, so that what else the machine does hits all alike. Ends with 1 when a
limit is not kept."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SERVER_CORE, CLIENT_CORE = "0", "1"
NANOSECONDS = 1e-9
GIB = 1 << 30
START_TRIES = 100

# What every server is asked with: groups of one cost, whatever each prefers.
SAME = ["--insecure", "--json", "--groups", "X25519"]


@dataclass
class Workload:
    """What the client asks, and what the server's CPU seconds are divided by."""

    name: str
    unit: str
    bytes: int
    client: list
    units: float
    scale: float

    def cost(self, cpu_seconds):
        return cpu_seconds / self.units * self.scale


def workloads(size):
    """`size` is 1 for figures that can be quoted, less for a trial."""
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


# The most that ours may cost, as a part of a peer's; None: of the best peer's.
LIMITS = {
    "one download": {"pristine quiche": 0.6, "tokio-quiche": 0.6, "quinn + h3": 0.85},
    "new connection and small GET": {None: 0.9},
    "request, 20 at a time": {None: 0.8},
}


class Server:
    """A server process on its core, until the end of the `with`."""

    def __init__(self, name, command, port, path):
        self.name, self.command, self.port, self.path = name, command, port, path

    def __enter__(self):
        pinned = ["taskset", "-c", SERVER_CORE, *map(str, self.command)]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(pinned, stdout=self.log, stderr=self.log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def url(self, size):
        return f"https://127.0.0.1:{self.port}{self.path}{size}"

    def cpu_seconds(self):
        """What all of its threads have run for."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) * NANOSECONDS

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()


class Client:
    def __init__(self, program):
        self.program = program

    def ask(self, url, options):
        command = ["taskset", "-c", CLIENT_CORE, str(self.program), url, *SAME, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())
        return json.loads(done.stdout)

    def wait_for(self, server):
        for _ in range(START_TRIES):
            try:
                return self.ask(server.url(1), ["--requests", "1", "--connect-timeout", "1"])
            except RuntimeError as error:
                reason = error
                time.sleep(0.1)
        sys.exit(f"error: {server.name} does not answer: {reason}; it said: {server.said()}")


def cost(client, server, load):
    """What a load costs a server."""
    before = server.cpu_seconds()
    answered = client.ask(server.url(load.bytes), load.client)
    expected = load.bytes * answered["requests"]
    if answered["bytes"] != expected:
        sys.exit(f"error: {server.name} sent {answered['bytes']} bytes instead of {expected}")
    return load.cost(server.cpu_seconds() - before)


def ratio(rounds, name, other):
    """The median over the rounds of what `name` costs, as a part of what `other` does."""
    return statistics.median(costs[name] / costs[other] for costs in rounds)


def report(load, rounds):
    """Prints a load's figures. Returns the limits that were not kept."""
    ours, *peers = rounds[0]
    print(f"\n| {load.name} | {load.unit} | ours as a part of it |\n|---|---|---|")
    for name in rounds[0]:
        cost = statistics.median(costs[name] for costs in rounds)
        print(f"| {name} | {cost:.2f} | {ratio(rounds, ours, name):.2f} |")
    best = min(peers, key=lambda name: statistics.median(costs[name] for costs in rounds))
    for name, limit in LIMITS.get(load.name, {}).items():
        found = ratio(rounds, ours, name or best)
        if found > limit:
            yield f"{load.name}: {found:.2f} of what {name or best} takes; at most {limit}"


def make_certificate(folder):
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        + ["-subj", "/CN=localhost", "-days", "2", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return cert, key


def servers(options, cert, key):
    at = [f"127.0.0.1:{options.port + n}" for n in range(4)]
    ours = [options.release / "edge-server", "--workers=1", "--speedtest", "--drain=0"]
    ours += ["--root", options.release]
    peers = options.peers / "release"
    tokio = options.tokio_quiche / "release/examples/async_http3_server"
    tls = ["--tls-cert-path", cert, "--tls-private-key-path", key]
    return [
        Server(
            "edge-server",
            [*ours, "--listen", at[0], "--cert", cert, "--key", key],
            options.port,
            "/bytes/",
        ),
        Server("pristine quiche", [peers / "pristine", at[1], cert, key], options.port + 1, "/bytes/"),
        Server("tokio-quiche", [tokio, "--address", at[2], *tls], options.port + 2, "/stream-bytes/"),
        Server("quinn + h3", [peers / "quinn-h3", at[3], cert, key], options.port + 3, "/bytes/"),
    ]


def main():
    parser = argparse.ArgumentParser(description="What edge-server costs beside other servers")
    parser.add_argument("--release", type=Path, required=True, help="our release programs")
    parser.add_argument("--peers", type=Path, required=True, help="the peers' target folder")
    parser.add_argument("--tokio-quiche", type=Path, required=True, help="tokio-quiche's target folder")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--size", type=float, default=1, help="of the loads; 0.1 is a trial")
    parser.add_argument("--port", type=int, default=44330, help="the first of four")
    parser.add_argument("--only", help="the loads whose names contain this")
    options = parser.parse_args()
    if os.cpu_count() < 2:
        sys.exit("error: server and client need a core each, and this machine has one")

    client = Client(options.release / "edge-client")
    missed = []
    with tempfile.TemporaryDirectory(prefix="bench-server-") as folder:
        all_servers = servers(options, *make_certificate(Path(folder)))
        for load in workloads(options.size):
            if options.only and options.only not in load.name:
                continue
            rounds = []
            for number in range(options.rounds):
                print(f"{load.name}: round {number + 1} of {options.rounds}", file=sys.stderr)
                rounds.append(one_round(client, all_servers, load))
            missed += report(load, rounds)
    for line in missed:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(1 if missed else 0)


def one_round(client, all_servers, load):
    """Each server alone, and fresh: nothing is left of earlier loads. In any order, so
    that nobody always comes after the same one."""
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
