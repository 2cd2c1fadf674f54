"""Many files that are requested by Zipf's law: what they cost, and the memory of the server."""

import random
import statistics
import sys
from itertools import accumulate

import peers
from bench import make_certificate

FILE_BYTES = 10 << 10
PER_FOLDER = 1000
SEED = 1

# Breslau et al., INFOCOM 1999: 0.64 to 0.83 for web requests.
EXPONENT = 0.8

# Sizes of the cache. Without one is first.
CACHES = [0, 16 << 20, 256 << 20]


def make_files(root, count):
    """Makes files without blocks: what counts is how many there are."""
    for number in range(count):
        path = root / path_of(number)[1:]
        if number % PER_FOLDER == 0:
            path.parent.mkdir()
            print(f"many files: {number} of {count}", file=sys.stderr)
        with path.open("wb") as file:
            file.truncate(FILE_BYTES)


def path_of(number):
    return f"/{number // PER_FOLDER}/{number}.bin"


def write_requests(file, count, requests):
    """Writes the paths of requests for `count` files. Returns how many files they are."""
    chance = random.Random(SEED)
    weights = list(accumulate((rank + 1) ** -EXPONENT for rank in range(count)))
    chosen = chance.choices(range(count), cum_weights=weights, k=requests)
    # The files that are asked for most are not neighbours.
    names = list(range(count))
    chance.shuffle(names)
    file.write_text("".join(f"{path_of(names[rank])}\n" for rank in chosen))
    return len(set(chosen))


def measure_many_files(client, options, folder):
    """Prints costs and memory. Yields the exceeded limits."""
    cert, key = make_certificate(folder)
    root, paths = folder / "many", folder / "paths"
    root.mkdir()
    make_files(root, options.files)
    requests = int(400_000 * options.size)
    different = write_requests(paths, options.files, requests)
    site = peers.Site(root, cert, key, folder, options.port)
    print(f"\n| {requests} requests for {different} of {options.files} files | us | MiB after it | MiB over no cache |")
    print("|---|---|---|---|")
    load = ["--requests", str(requests), "--streams", "20", "--paths", str(paths)]
    base = None
    for cache in CACHES:
        costs, memory = [], []
        for number in range(max(options.rounds // 4, 1)):
            print(f"many files, cache of {cache} bytes: round {number + 1}", file=sys.stderr)
            with peers.edge_server(site, options.release, cache=cache) as server:
                client.wait_for(server, path_of(0))
                before = server.cpu_seconds()
                summary = client.run(server.url("/"), load)
                costs.append((server.cpu_seconds() - before) / requests * 1e6)
                memory.append(server.resident_bytes())
            if summary["bytes"] != requests * FILE_BYTES:
                sys.exit(f"error: edge-server sent {summary['bytes']} bytes instead of {requests * FILE_BYTES}")
        resident = statistics.median(memory)
        base = resident if base is None else base
        over = resident - base
        print(
            f"| cache of {cache >> 20} MiB | {statistics.median(costs):.2f} | {resident / 2**20:.1f} | {over / 2**20:.1f} |",
            flush=True,
        )
        if over > 1.5 * cache + (8 << 20):
            yield f"many files: a cache of {cache} bytes takes {over} bytes of memory"
