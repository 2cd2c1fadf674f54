"""First downloads over long paths by several clients: `make interop-paths`.

Ends with 1 if a cell failed."""

import argparse
import itertools
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from cell import Bench, Cell, ServerSpec
from clients import HERE, download_clients
from link import PathSpec
from material import Material
from run import chosen
from table import summary, table

PATHS = "20/700 50/600 100/600 500/100 1000/50"
BUFFERS_BDP = "0.5 1 3"
LARGE = "/large.bin"
OURS = "edge-server"


def words(read, what):
    """A reader of an option's words, for argparse."""

    def read_all(text):
        try:
            return [read(word) for word in text.split()]
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' has a word that is not {what}") from None

    return read_all


def server_spec(text):
    try:
        return ServerSpec.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=PROGRAM OPTION…") from None


def buffer_bdp(word):
    if not 0 < (buffer := float(word)) <= 100:
        raise ValueError(word)
    return buffer


def read_options(arguments=None):
    parser = argparse.ArgumentParser(description="First downloads over long paths")
    parser.add_argument("--target", type=Path, required=True, help="cargo's target folder")
    parser.add_argument("--profile", choices=("debug", "release"), default="release", help="of our programs")
    parser.add_argument("--clients", type=str.split, default="", help="which to run (all)")
    parser.add_argument("--paths", type=words(PathSpec.parse, "RATE/RTT, as in 50/600"), default=PATHS)
    parser.add_argument("--buffers", type=words(buffer_bdp, "a buffer in BDP"), default=BUFFERS_BDP)
    parser.add_argument("--runs", type=int, default=1, help="downloads of each cell; the table has medians (1)")
    parser.add_argument(
        "--server",
        type=server_spec,
        action="append",
        default=[],
        metavar="NAME=PROGRAM OPTION…",
        help="another edge-server, or ours with options, to compare with; repeatable",
    )
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the table (results)")
    options = parser.parse_args(arguments)
    names = [OURS, *(spec.name for spec in options.server)]
    if len(set(names)) < len(names):
        parser.error(f"argument --server: each server needs a name of its own, not {OURS}")
    if options.runs < 1:
        parser.error("argument --runs: at least 1")
    options.clients = options.clients or []
    options.target = options.target.resolve()
    return options


def plan(options, clients):
    """The cells, the shortest first."""
    cells = itertools.product(options.paths, options.buffers, (client.name for client in clients))
    return sorted((Cell(*cell) for cell in cells), key=lambda cell: cell.path.about_s(cell.size_bytes))


def measure_goodputs(bench, clients, server):
    """Finds out what each client takes without a link, so that it is known which cells it limits."""
    for client in clients:
        outcome = bench.measure_goodput(client, server, LARGE)
        said = f"{bench.goodputs_mbps[client.name]:g} Mbit/s" if outcome.ok else f"FAILED: {outcome.detail}"
        print(f"{client.name} without a link: {said}", flush=True)


def run_cells(bench, cells, clients, servers, options):
    """Yields the results, as they come. Servers take turns, so that what happens on this
    machine meanwhile happens to all of them."""
    by_name = {client.name: client for client in clients}
    count = len(cells) * options.runs * len(servers)
    todo = itertools.product(cells, range(1, options.runs + 1), servers)
    for number, (cell, run, server) in enumerate(todo, 1):
        result = bench.run(cell, by_name[cell.client], server, run)
        title = f"[{number}/{count}] {cell}" + (f", {server.name}" if len(servers) > 1 else "")
        print(f"{title}: {summary(result)}", flush=True)
        yield result


def ensure_programs(programs):
    for program in programs:
        if not shutil.which(program):
            sys.exit(f"error: {program} is missing; ours are built by `make build`")


def main():
    options = read_options()
    clients = chosen(options.clients, download_clients(options.target, options.profile))
    ours = options.target / options.profile
    servers = [ServerSpec(OURS, (str(ours / "edge-server"),)), *options.server]
    emulator = str(ours / "link-emulator")
    ensure_programs([emulator, *(spec.command[0] for spec in servers), *(c.command[0] for c in clients)])
    # What was started is ended also then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options.out.mkdir(parents=True, exist_ok=True)
    results = []
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        bench = Bench(emulator, Material(folder, HERE / "chromium/page.html"))
        measure_goodputs(bench, clients, servers[0])
        cells = plan(options, clients)
        with open(options.out / "interop-paths.jsonl", "w") as lines:
            for result in run_cells(bench, cells, clients, servers, options):
                results.append(result)
                print(json.dumps(result.record()), file=lines, flush=True)
    text = table(results, [server.name for server in servers])
    (options.out / "interop-paths.txt").write_text(f"{text}\n")
    print(f"\n{text}")
    sys.exit(1 if any(result.failure() for result in results) else 0)


if __name__ == "__main__":
    main()
