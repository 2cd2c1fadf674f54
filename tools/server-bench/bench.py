"""Servers, each on a core of its own, and what they cost: common to the benchmarks of servers."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER_CORE, CLIENT_CORE = "0", "1"
NANOSECONDS = 1e-9
GIB = 1 << 30
START_TRIES = 100

# Options for every server: the same key exchange, whatever each prefers.
COMMON_OPTIONS = ["--insecure", "--json", "--groups", "X25519"]


class Server:
    """Server process pinned to its core, for the duration of a `with`."""

    def __init__(self, name, command, port, path, scheme="https", core=SERVER_CORE):
        """`path` is in front of every path that is requested."""
        self.name, self.command, self.port, self.path = name, command, port, path
        self.scheme, self.core = scheme, core

    def __enter__(self):
        pinned = ["taskset", "-c", self.core, *map(str, self.command)]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(pinned, stdout=self.log, stderr=self.log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def url(self, path):
        return f"{self.scheme}://127.0.0.1:{self.port}{self.path}{path}"

    def cpu_seconds(self):
        """Returns the CPU time of all threads, and of the processes that it has started."""
        tasks = tasks_of(self.process.pid)
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) * NANOSECONDS

    def resident_bytes(self):
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()


def tasks_of(process):
    """Yields the folders of all threads of a process and of those that it has started."""
    for task in Path(f"/proc/{process}/task").iterdir():
        yield task
        for child in (task / "children").read_text().split():
            yield from tasks_of(child)


class Client:
    def __init__(self, program):
        self.program = program

    def run(self, url, options):
        command = ["taskset", "-c", CLIENT_CORE, str(self.program), url, *COMMON_OPTIONS, *options]
        completed = subprocess.run(command, capture_output=True, text=True)
        if completed.returncode != 0:
            raise RuntimeError(completed.stderr.strip() or completed.stdout.strip())
        return json.loads(completed.stdout)

    def wait_for(self, server, path="1"):
        """Requests an object until the server sends it."""
        options = ["--requests", "1", "--connect-timeout", "1"]
        self.wait_until_it_serves(server, lambda: self.run(server.url(path), options))

    def wait_until_it_serves(self, server, request):
        for _ in range(START_TRIES):
            try:
                return request()
            except RuntimeError as error:
                reason = error
                time.sleep(0.1)
        sys.exit(f"error: {server.name} does not respond: {reason}; its output: {server.output()}")


def ratio(rounds, name, other):
    """Returns the median ratio of the cost of `name` to that of `other` over the rounds."""
    return statistics.median(costs[name] / costs[other] for costs in rounds)


def make_certificate(folder):
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
    )
    return cert, key


def check_cores():
    if os.cpu_count() < 2:
        sys.exit("error: server and client need a core each, and this machine has one")
