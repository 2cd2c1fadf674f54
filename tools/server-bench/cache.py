"""CPU cost and latency of cached responses: `make bench-cache`.

Each server runs on one core, and its client on another: edge-client over HTTP/3, h2load over
HTTP/2 and HTTP/1.1. nginx is the origin of all caches. Rounds, order and ratios are those of
`files.py`. Exits with 1 if a limit is exceeded, or a response did not come from the cache."""

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import files
import peers
from bench import Client, check_cores, make_certificate
from files import Limit, Load, Subject, h2load, measure_rounds, report, write_object

LARGE_BYTES = 20 << 20

# Requests at the origin in a round: the first one, and what an unlucky start has repeated.
ORIGIN_REQUESTS_MAX = 2

# Clients of the load under which latency is measured, each with one request at a time.
LATENCY_CLIENTS = 20

# Folder of files whose paths are as long as those of the origin's objects.
FILES = "/stored"

LIMITS = [
    Limit("small, cached, over HTTP/3", "cached", "file", ratio=1.15),
    Limit("large, cached, over HTTP/3", "cached", "file", ratio=1.15),
    Limit("small, cached, over HTTP/2", "edge-server", "nginx", ratio=1.3),
    Limit("large, cached, over HTTP/2", "edge-server", "nginx", ratio=1.3),
]


@dataclass
class LatencyLoad:
    """Requests that keep the server busy, of which the 99th percentile of the latency counts."""

    name: str
    bytes: int
    requests: int
    unit: str = "us"


class CacheBench:
    """Measures caches before an origin that counts its requests."""

    def __init__(self, client, folder):
        self.client, self.folder = client, folder

    def origin_requests(self):
        return sum(1 for _ in (self.folder / "origin.log").open())

    def counted(self, subject, measure):
        """Measures, and checks that a cache has answered."""
        before = self.origin_requests()
        result = measure()
        requests = self.origin_requests() - before
        if requests > (ORIGIN_REQUESTS_MAX if subject.path.startswith(peers.CACHED) else 0):
            sys.exit(f"error: {subject.name} sent {requests} requests to its origin")
        return result

    def cost(self, subject, load):
        return self.counted(subject, lambda: files.measure(self.client, subject, load))

    def latency(self, subject, load):
        return self.counted(subject, lambda: self.measure_latency(subject, load))

    def measure_latency(self, subject, load):
        """Returns the 99th percentile, in microseconds."""
        log = self.folder / "h2load.log"
        log.unlink(missing_ok=True)
        with subject.server as server:
            warm_up = Load("", "us", load.bytes, 1, 1)
            self.client.wait_until_it_serves(server, lambda: files.request(self.client, subject, warm_up))
            requests = ["-n", load.requests, "-c", LATENCY_CLIENTS, "--log-file", log]
            h2load(subject, server.url(subject.path), requests)
        times = sorted(int(line.split()[2]) for line in log.open())
        return times[math.ceil(len(times) * 0.99) - 1]


def plan(options, site):
    """Returns the loads, each with its subjects and whether it measures latency."""
    stored = site.root / FILES[1:]
    stored.mkdir()
    (stored / "small.html").write_bytes(b"x" * files.SMALL_BYTES)
    large_bytes = write_object(stored / "large.bin", LARGE_BYTES)
    ours = peers.edge_server_cache(site, options.release)
    nginx, varnish = peers.nginx_cache(site), peers.varnish(site)
    requests, downloads = int(40_000 * options.size), max(int(52 * options.size), 1)
    cached_small, cached_large = f"{peers.CACHED}/small.html", f"{peers.CACHED}/large.bin"

    def over_http3(path):
        return [Subject("file", ours, FILES + path), Subject("cached", ours, peers.CACHED + path)]

    def over_http2(path):
        return [Subject(name, server, path, http2=True) for name, server in [("edge-server", ours), ("nginx", nginx)]]

    def over_http11(path):
        caches = [("edge-server", ours), ("nginx", nginx), ("Varnish, without TLS", varnish)]
        return [Subject(name, server, path, http11=True) for name, server in caches]

    latency = LatencyLoad("99th percentile of latency over HTTP/2", files.SMALL_BYTES, int(40_000 * options.size))
    latency11 = LatencyLoad("99th percentile of latency over HTTP/1.1", latency.bytes, latency.requests)
    return [
        (Load("small, cached, over HTTP/3", "us", files.SMALL_BYTES, requests, 20), over_http3("/small.html")),
        (Load("large, cached, over HTTP/3", "s/GiB", large_bytes, downloads, 1), over_http3("/large.bin")),
        (Load("small, cached, over HTTP/2", "us", files.SMALL_BYTES, requests, 20), over_http2(cached_small)),
        (Load("large, cached, over HTTP/2", "s/GiB", large_bytes, downloads, 1), over_http2(cached_large)),
        (Load("small, cached, over HTTP/1.1", "us", files.SMALL_BYTES, requests, 20), over_http11(cached_small)),
        (Load("large, cached, over HTTP/1.1", "s/GiB", large_bytes, downloads, 1), over_http11(cached_large)),
        (latency, over_http2(cached_small)),
        (latency11, over_http11(cached_small)),
    ]


def main():
    parser = argparse.ArgumentParser(description="Compare what cached responses cost edge-server and other caches")
    parser.add_argument("--release", type=Path, required=True, help="folder of the release programs")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--size", type=float, default=1, help="scale of the loads; 0.1 for a trial")
    parser.add_argument("--port", type=int, default=44360, help="first of two ports")
    parser.add_argument("--only", help="run only loads whose names contain this")
    options = parser.parse_args()
    check_cores()
    peers.check(peers.CACHE_PACKAGES)

    exceeded = []
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as name:
        folder = Path(name)
        root = folder / "root"
        root.mkdir()
        site = peers.Site(root, *make_certificate(folder), folder, options.port)
        bench = CacheBench(Client(options.release / "edge-client"), folder)
        (folder / "origin.log").touch()
        with peers.nginx_origin(site):
            for load, subjects in plan(options, site):
                if options.only and options.only not in load.name:
                    continue
                measure = bench.latency if isinstance(load, LatencyLoad) else bench.cost
                exceeded += report(load, measure_rounds(options.rounds, load, subjects, measure), LIMITS)
    for line in exceeded:
        print(f"error: {line}", file=sys.stderr)
    sys.exit(1 if exceeded else 0)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"error: {error}")
