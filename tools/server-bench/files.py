"""CPU cost of small and large files: `make bench-files`.

Each server runs on one core, and its client on another: edge-client over HTTP/3, h2load
over HTTP/2. Every round measures all subjects of a load, in random order, so that other
activity of the machine affects all of them. Exits with 1 if a limit is exceeded."""

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import peers
from bench import CLIENT_CORE, GIB, Client, Server, check_cores, make_certificate, ratio
from zipf import measure_many_files

SMALL_BYTES = 1000
BROWSER_CODINGS = "accept-encoding: gzip, deflate, br, zstd"
H2LOAD_RESULT = re.compile(r"requests: (\d+) total, .* (\d+) succeeded, .*\n.*\ntraffic: .* \((\d+)\) data")


@dataclass
class Subject:
    """A server under a load: how to start it, and what to request."""

    name: str
    server: Server
    path: str
    http2: bool = False
    options: tuple = ()
    http11: bool = False

    @property
    def over_tcp(self):
        return self.http2 or self.http11


@dataclass
class Load:
    """Requests for one object of a subject."""

    name: str
    unit: str
    bytes: int
    requests: int
    streams: int

    def cost(self, cpu_seconds):
        if self.unit == "s/GiB":
            return cpu_seconds / (self.requests * self.bytes / GIB)
        return cpu_seconds / self.requests * 1e6


@dataclass
class Limit:
    """Largest ratio of a subject's cost to another's, or largest difference in µs."""

    load: str
    subject: str
    other: str
    ratio: float = None
    difference: float = None

    def judge(self, rounds):
        """Returns the measured value and whether it is within the limit."""
        if self.ratio is not None:
            measured = ratio(rounds, self.subject, self.other)
            return f"{measured:.2f} of {self.other}, limit {self.ratio}", measured <= self.ratio
        measured = statistics.median(costs[self.subject] - costs[self.other] for costs in rounds)
        return f"{measured:+.2f} us over {self.other}, limit {self.difference}", measured <= self.difference


LIMITS = [
    Limit("small over HTTP/3", "file", "from memory", ratio=1.5),
    Limit("small over HTTP/3", "file, Accept-Encoding of a browser", "from memory", ratio=1.7),
    Limit("small over HTTP/3", "file, access log", "file", difference=1),
    Limit("small over HTTP/2", "edge-server", "nginx", ratio=1.3),
    Limit("large over HTTP/2", "edge-server", "nginx", ratio=1.3),
]


def request(client, subject, load):
    """Sends the requests of a load. Returns how many bytes of content came."""
    url = subject.server.url(subject.path)
    if not subject.over_tcp:
        requests = ["--requests", str(load.requests), "--streams", str(load.streams), "--connect-timeout", "2"]
        return client.run(url, [*requests, *subject.options])["bytes"]
    # Over HTTP/1.1, each request at a time has a connection.
    clients, streams = (load.streams, 1) if subject.http11 else (1, load.streams)
    return h2load(subject, url, ["-n", load.requests, "-c", clients, "-m", streams, *subject.options])


def h2load(subject, url, options):
    """Runs h2load. Returns how many bytes of content came."""
    # A window of a gigabyte, as that of edge-client does not bound a download, either.
    options = ["-w", "30", "-W", "30", *(["--h1"] if subject.http11 else []), *options]
    command = ["taskset", "-c", CLIENT_CORE, "h2load", *options, url]
    completed = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    result = H2LOAD_RESULT.search(completed.stdout)
    if completed.returncode != 0 or not result or result[1] != result[2]:
        raise RuntimeError(f"h2load: {completed.stderr.strip() or completed.stdout.strip()}")
    return int(result[3])


def measure(client, subject, load):
    """Returns the cost of a load to the server of a subject, which is started for it."""
    with subject.server as server:
        client.wait_until_it_serves(server, lambda: request(client, subject, Load("", "us", load.bytes, 1, 1)))
        before = server.cpu_seconds()
        received = request(client, subject, load)
        spent = server.cpu_seconds() - before
    if received != load.requests * load.bytes:
        sys.exit(f"error: {subject.name} sent {received} bytes instead of {load.requests * load.bytes}")
    return load.cost(spent)


def measure_rounds(count, load, subjects, measure_one):
    """Returns what each subject costs, by round. The order is random."""
    rounds = []
    for number in range(count):
        print(f"{load.name}: round {number + 1} of {count}", file=sys.stderr)
        costs = dict.fromkeys(subject.name for subject in subjects)
        for subject in random.sample(subjects, len(subjects)):
            costs[subject.name] = measure_one(subject, load)
        rounds.append(costs)
    return rounds


def write_object(path, length):
    with path.open("wb") as file:
        # Written, so that nobody reads a hole.
        for _ in range(length >> 16):
            file.write(bytes(1 << 16))
    return length >> 16 << 16


def plan(options, folder):
    """Returns the loads, each with its subjects."""
    cert, key = make_certificate(folder)
    root = folder / "root"
    root.mkdir()
    (root / "small.html").write_bytes(b"x" * SMALL_BYTES)
    large = write_object(root / "large.bin", int(256 * 2**20 * options.size))
    site = peers.Site(root, cert, key, folder, options.port)
    ours = peers.edge_server(site, options.release)
    with_log = peers.edge_server(site, options.release, "--access-log", folder / "access.log")
    caddy = peers.caddy(site)
    browser = ("--header", BROWSER_CODINGS)
    small = Load("small over HTTP/3", "us", SMALL_BYTES, int(40_000 * options.size), 20)
    large3 = Load("large over HTTP/3", "s/GiB", large, 4, 1)
    http2 = [("edge-server", ours), ("nginx", peers.nginx(site)), ("h2o", peers.h2o(site)), ("Caddy", caddy)]
    return [
        (
            small,
            [
                Subject("from memory", ours, f"/bytes/{SMALL_BYTES}"),
                Subject("file", ours, "/small.html"),
                Subject("file, Accept-Encoding of a browser", ours, "/small.html", options=browser),
                Subject("file, access log", with_log, "/small.html"),
                Subject("Caddy", caddy, "/small.html"),
            ],
        ),
        (
            large3,
            [
                Subject("from memory", ours, f"/bytes/{large3.bytes}"),
                Subject("file", ours, "/large.bin"),
                Subject("Caddy", caddy, "/large.bin"),
            ],
        ),
        (
            Load("small over HTTP/2", "us", SMALL_BYTES, small.requests, 20),
            [Subject(name, server, "/small.html", http2=True) for name, server in http2],
        ),
        (
            Load("large over HTTP/2", "s/GiB", large3.bytes, 4, 1),
            [Subject(name, server, "/large.bin", http2=True) for name, server in http2],
        ),
    ]


def report(load, rounds, limits=LIMITS):
    """Prints the table of a load. Yields the exceeded limits."""
    first = next(iter(rounds[0]))
    print(f"\n| {load.name} | {load.unit} | ratio to {first} |\n|---|---|---|")
    for name in rounds[0]:
        cost = statistics.median(costs[name] for costs in rounds)
        print(f"| {name} | {cost:.2f} | {ratio(rounds, name, first):.2f} |")
    for limit in limits:
        if limit.load == load.name:
            measured, is_met = limit.judge(rounds)
            print(f"\n{limit.subject}: {measured}", flush=True)
            if not is_met:
                yield f"{load.name}: {limit.subject}: {measured}"


def main():
    parser = argparse.ArgumentParser(description="Compare what files cost edge-server and other servers")
    parser.add_argument("--release", type=Path, required=True, help="folder of the release programs")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--size", type=float, default=1, help="scale of the loads; 0.1 for a trial")
    parser.add_argument("--files", type=int, default=1_000_000, help="files of 10 KiB that are requested by Zipf's law")
    parser.add_argument("--port", type=int, default=44340)
    parser.add_argument("--only", help="run only loads whose names contain this")
    options = parser.parse_args()
    check_cores()
    peers.check()

    client = Client(options.release / "edge-client")
    exceeded = []
    with tempfile.TemporaryDirectory(prefix="bench-files-") as folder:
        for load, subjects in plan(options, Path(folder)):
            if options.only and options.only not in load.name:
                continue
            exceeded += report(load, measure_rounds(options.rounds, load, subjects, partial(measure, client)))
        if not options.only or options.only in "many files":
            exceeded += measure_many_files(client, options, Path(folder))
    for line in exceeded:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(1 if exceeded else 0)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"error: {error}")
